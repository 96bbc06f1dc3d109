/** `hoptime demo --live`: a simulated network in real time with its taps, a collector, and the collector's results as they come. */
import { join } from "node:path";
import { UsageError } from "../base/errors.ts";
import { later } from "../base/time.ts";
import { INCIDENT_SETTINGS } from "../network/incidents/incident.ts";
import { observeSimulated, type SimulatedTapsOptions, simulatedPoints } from "../observe/simulated-taps.ts";
import { SegmentBoard } from "../present/text/segment-board.ts";
import type { AlertRule } from "../server/alerts/alert.ts";
import { parseCondition } from "../server/alerts/condition.ts";
import { startServer } from "../server/server.ts";
import type { Scenario } from "../simulate/scenario.ts";
import { listenEvents } from "../transport/http/events.ts";
import { BoardScreen } from "./board-screen.ts";
import { printJson, printText } from "./output.ts";
import { scratchDirectory } from "./scratch.ts";
import { endingSignal } from "./signals.ts";

export interface LiveDemoFlags {
  listen: string;
  for?: number;
  json?: boolean;
}

const NAMES = { sender: "r1", receiver: "r5" };
const EPOCH_NS = 1_000_000_000;
/** Maximum duration. */
const LONGEST_S = 86_400;
/**
 * For a limited time, the link between r2 and r3 is overloaded by cross traffic. The incident is shorter than the normal time before it, which sets the
 * baseline.
 */
const INCIDENT = { startS: 18, durationS: 14 };

function scenario(): Scenario {
  const sizes = { share1500: 0.4, share576: 0.2 };
  const queue = (rateMbit: number, propagationMs: number, capacityPackets = 200) => ({
    kind: "queue" as const,
    rateBps: rateMbit * 1e6,
    propagationNs: propagationMs * 1e6,
    capacityPackets,
  });
  return {
    traffic: { kind: "population", ratePps: 2000, durationS: LONGEST_S, flows: 120, sizes },
    path: [
      { ...queue(25, 0.8), point: "r2" },
      {
        ...queue(20, 1.5, 100),
        cross: { kind: "population", ratePps: 1500, ...INCIDENT, flows: 50, sizes },
        point: "r3",
      },
      { ...queue(30, 2.5), point: "r4" },
      queue(50, 0.6),
    ],
  };
}

/** Rules, so that the page's Alerts are not empty. */
const alert = (name: string, when: string, forS: bigint): AlertRule => ({
  ...{ name, when, condition: parseCondition(when), clear: null, segment: null, estimator: null, to: [] },
  ...{ forNs: forS * 1_000_000_000n, clearAfterNs: 5_000_000_000n },
});
const ALERTS = [alert("slow", "mean > 10ms", 3n), alert("incident", "incident", 0n)];

const INTRODUCTION = `A simulated path r1 → r2 → r3 → r4 → r5 in real time, 2,000 packets/s. A tap at each router sends its records
to a collector. From ${INCIDENT.startS} s to ${INCIDENT.startS + INCIDENT.durationS} s the link r2 → r3 gets more traffic than it can carry.
Packets in flight at the end of an epoch show as a loss of some tenths of a percent, because epochs are cut by the clock.
`;

export async function runLiveDemo(flags: LiveDemoFlags): Promise<void> {
  const ending = new AbortController();
  const signal = AbortSignal.any([endingSignal(), ending.signal]);
  const timer = flags.for === undefined ? null : setTimeout(() => ending.abort(), flags.for / 1e6);
  const scratch = scratchDirectory("hoptime-demo-");
  const network = { scenario: scenario(), names: NAMES };
  const points = simulatedPoints(network);
  try {
    const server = await startServer({
      ...{ data: join(scratch.path, "collector"), listen: flags.listen, latenessNs: 5_000_000_000n },
      network: {
        paths: [{ name: "r1 to r5", points, estimator: "lda" }],
        incidents: { ...INCIDENT_SETTINGS, settleEpochs: 16, openAfter: 3, closeAfter: 5 },
      },
      alerts: { rules: ALERTS, notify: [] },
    });
    try {
      const { url } = server;
      await begin(url, points, flags);
      const taps = observeSimulated(tapOptions(network, url, scratch.path, signal));
      // A failing tap stops the others; its error is reported.
      taps.catch(() => ending.abort());
      await show(url, flags, signal);
      await taps;
    } finally {
      await server.close();
    }
  } finally {
    if (timer) clearTimeout(timer);
    ending.abort();
    scratch.remove();
  }
}

async function begin(url: string, points: readonly string[], flags: LiveDemoFlags): Promise<void> {
  const hints = `page       ${url}/#/overview?last=2m\nAPI        ${url}/docs\nquery      hoptime query ${url} --between r2 r3\n           hoptime top ${url}\nCtrl-C ends.\n\n`;
  if (flags.json) await printJson({ format: "hoptime.demo/1", event: "started", url, points });
  else await printText(`${INTRODUCTION}\n${hints}`);
}

function tapOptions(
  network: Pick<SimulatedTapsOptions, "scenario" | "names">,
  url: string,
  scratch: string,
  signal: AbortSignal,
): SimulatedTapsOptions {
  return {
    ...network,
    ...{ directory: url, estimators: ["lda", "lds", "maple"], key: "5tuple" },
    parameters: { lds: "columns=1000", maple: "identity=both,index=true" },
    cut: { mode: "aligned", lengthNs: BigInt(EPOCH_NS) },
    originNs: BigInt(Date.now()) * 1_000_000n,
    collector: (point) => ({ spoolDirectory: join(scratch, "spool", point) }),
    signal,
  };
}

/** Results of an epoch normally arrive a second or two after its end; beyond this limit, the machine is too busy. */
const BEHIND_MS = 5000;

function behindText(board: SegmentBoard): string | null {
  const newestNs = board.rows.map((r) => BigInt(r.endNs)).reduce(later, 0n);
  const behindMs = Date.now() - Number(newestNs / 1_000_000n);
  if (newestNs === 0n || behindMs < BEHIND_MS) return null;
  return `results are ${Math.round(behindMs / 1000)} s late: this machine is overloaded`;
}

async function show(url: string, flags: LiveDemoFlags, signal: AbortSignal): Promise<void> {
  const board = new SegmentBoard("lda");
  const screen = flags.json ? null : new BoardScreen(board, () => behindText(board));
  try {
    for await (const { type, data } of listenEvents({ url }, { signal })) {
      if (screen) await screen.take(type, data);
      else if (type === "epoch" || type === "incident")
        await printJson({ format: "hoptime.demo/1", event: type, ...(data as object) });
    }
  } finally {
    await screen?.close();
  }
  if (signal.reason instanceof UsageError) throw signal.reason;
}
