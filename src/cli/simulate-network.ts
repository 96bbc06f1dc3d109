/** `hoptime simulate --network FILE --to WHERE`: writes the records of a whole network's taps, and the true values. */
import { closeSync, openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { writeFailure } from "../base/directory.ts";
import { UsageError } from "../base/errors.ts";
import { countOf, formatCount } from "../base/quantity.ts";
import { type EpochTruth, runNetwork } from "../evaluate/network-run.ts";
import { type NetworkLink, readNetwork } from "../network/traffic/network-file.ts";
import { DirectorySink } from "../observe/directory-sink.ts";
import { planTaps } from "../observe/plan.ts";
import type { RecordSink } from "../observe/record-sink.ts";
import { HttpSink } from "../transport/http/http-sink.ts";
import { NatsSink } from "../transport/nats/nats-sink.ts";
import { isNatsUrl } from "../transport/nats/nats-url.ts";
import type { SpooledSinkCounts } from "../transport/spooled-sink.ts";
import { printJson, printText } from "./output.ts";
import { scratchDirectory } from "./scratch.ts";
import { endedBySignal, endingSignal } from "./signals.ts";

export interface NetworkFlags {
  to?: string;
  truth?: string;
  epoch?: number;
  estimators?: string;
  rate?: number;
  duration?: number;
  seed: number;
  json?: boolean;
}

const DEFAULT_PPS = 200;
/** Limit of the data waiting to be sent; a slow collector delays the simulation only when this is full. */
const SPOOL_BYTES = 2e9;
/** If no record is accepted for this long, the rest is given up. */
const STALLED_MS = 60_000;
const POLL_MS = 50;

export async function simulateNetwork(file: string, flags: NetworkFlags): Promise<void> {
  const { to } = flags;
  if (to === undefined)
    throw new UsageError(
      "bad-option",
      "--network needs --to",
      "a directory, http://HOST:PORT or nats://HOST:PORT",
    );
  const network = readNetwork(file, flags.rate ?? DEFAULT_PPS);
  const epochNs = BigInt(Math.round(flags.epoch ?? 1e9));
  const durationS = (flags.duration ?? 60e9) / 1e9;
  const { taps } = { taps: planTaps({ estimators: (flags.estimators ?? "lda").split(","), parameters: {} }) };
  const truth = flags.truth === undefined ? null : new TruthFile(flags.truth);
  const signal = endingSignal();
  const spool = scratchDirectory("hoptime-network-");
  const startedMs = performance.now();
  try {
    const sink = await openSink(to, spool.path);
    // The simulated time ends now, so that no record is late.
    const now = BigInt(Date.now()) * 1_000_000n;
    const originNs = now - (now % epochNs) - BigInt(Math.ceil(durationS)) * 1_000_000_000n;
    const run = await runNetwork({
      ...{ network, taps, epochNs, durationS, seed: flags.seed, originNs, sink, signal },
      onEpochs: (link, epochs) => truth?.add(link, epochs),
      onProgress: (links, of, { records }) =>
        process.stderr.write(
          `${formatCount(links)} of ${countOf(of, "segment")} simulated, ${countOf(records, "record")} so far\n`,
        ),
    });
    if ("counts" in sink) await whenSent(sink, signal);
    await sink.close();
    const seconds = (performance.now() - startedMs) / 1000;
    const report = {
      ...{
        format: "hoptime.network-run/1",
        network: network.name,
        points: network.points.length,
        segments: network.links.length,
      },
      ...{ ...run, seconds, originNs: `${originNs}`, durationS, to },
      ...{ complete: !signal.aborted },
      ...("counts" in sink ? { collector: sink.counts } : {}),
    };
    if (flags.json) await printJson(report);
    else await printText(text(report));
    process.exitCode = endedBySignal() ?? 0;
    if ("counts" in sink) checkSent(to, sink);
  } finally {
    truth?.close();
    spool.remove();
  }
}

/** Waits until all records are sent, because a simulation is faster than a collector; gives up if no record is accepted for a while. */
export async function whenSent(
  sink: { readonly counts: SpooledSinkCounts },
  signal: AbortSignal,
  stalledMs = STALLED_MS,
): Promise<void> {
  let [waiting, sinceMs] = [sink.counts.waiting, performance.now()];
  while (sink.counts.waiting > 0 && !signal.aborted && performance.now() - sinceMs < stalledMs) {
    if (sink.counts.waiting < waiting) [waiting, sinceMs] = [sink.counts.waiting, performance.now()];
    await sleep(POLL_MS, undefined, { signal }).catch(() => undefined);
  }
}

function checkSent(to: string, { counts, refusals }: Pick<HttpSink, "counts" | "refusals">): void {
  const { waiting, refused, dropped } = counts;
  if (waiting + refused + dropped === 0) return;
  throw new UsageError(
    "not-writable",
    `${to}: ${countOf(waiting, "record")} were not sent in time, ${formatCount(refused)} refused, ${formatCount(dropped)} dropped`,
    refusals[0] ?? "is the collector running, and is its disk full?",
  );
}

async function openSink(to: string, spoolDirectory: string): Promise<RecordSink | HttpSink | NatsSink> {
  const far = { url: to, spoolDirectory, maxSpoolBytes: SPOOL_BYTES };
  if (isNatsUrl(to)) return await NatsSink.open(far);
  if (/^https?:/.test(to)) return await HttpSink.open(far);
  return new DirectorySink({ directory: to, point: "" });
}

/** Writes one line of JSON per link and epoch. */
class TruthFile {
  readonly #path: string;
  readonly #file: number;

  constructor(path: string) {
    this.#path = path;
    this.#file = this.#tried(() => openSync(path, "w"));
  }

  add({ from, to }: NetworkLink, epochs: readonly EpochTruth[]): void {
    const lines = epochs.map(
      ({ startNs, endNs, sent, lost, meanNs, withinMeanNs }) =>
        `${JSON.stringify({ from, to, startNs: `${startNs}`, endNs: `${endNs}`, sent, lost, meanNs, withinMeanNs })}\n`,
    );
    this.#tried(() => writeSync(this.#file, lines.join("")));
  }

  close(): void {
    closeSync(this.#file);
  }

  #tried<T>(work: () => T): T {
    try {
      return work();
    } catch (cause) {
      throw writeFailure(this.#path, cause);
    }
  }
}

function text(report: {
  points: number;
  segments: number;
  packets: number;
  records: number;
  bytes: number;
  seconds: number;
  durationS: number;
  to: string;
  complete: boolean;
}): string {
  const { points, segments, packets, records, bytes, seconds, durationS, to, complete } = report;
  const early = complete ? "" : "ended early, what was simulated until then: ";
  return `${early}${countOf(points, "point")}, ${countOf(segments, "segment")}, ${durationS} s: ${countOf(packets, "packet")}, ${countOf(records, "record")} (${formatCount(Math.round(bytes / 1e6))} MB) to ${to} in ${seconds.toFixed(1)} s\n`;
}
