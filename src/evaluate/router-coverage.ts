/**
 * Measures how often the intervals contain the true value behind a router with an overflowing queue: per epoch and over the whole question, for the segment and
 * for flows.
 */
import { Kernels } from "../base/kernels.ts";
import { quantileSorted } from "../base/math/regression.ts";
import type { RecordStore } from "../collect/record-store.ts";
import type { CutPlan } from "../epoch/cutter.ts";
import { findEstimator } from "../estimators/table.ts";
import type { AnswerLatency } from "../query/segment/answer.ts";
import { askArchive } from "../query/segment/ask.ts";
import { RECEIVER, SENDER } from "../simulate/scenario.ts";
import {
  flowText,
  observeRouter,
  type RouterPacket,
  type RouterTraffic,
  routerTimeNs,
} from "./overflowing-router.ts";

export interface RouterCase {
  name: string;
  traffic: (seed: number) => RouterTraffic;
  cut: CutPlan;
  /** By estimator. */
  parameters?: Record<string, string>;
}

const aligned = (ms: number): CutPlan => ({ mode: "aligned", lengthNs: BigInt(ms) * 1_000_000n });
const DURATION_S = 8;
const FEW = [3, 3, 3, 1];
const ONE_LARGE = [6, 1, 1, 1, 0.5, 0.5];
const burst = (seed: number) => ({ seed, durationS: DURATION_S, atOnce: 60 + ((37 * seed) % 60) });
const few = (seed: number) => ({ ...burst(seed), shares: FEW });

const MANY_SMALL = [3, 3, 2, ...Array.from({ length: 20 }, () => 0.05)];
const calm = { atOnce: 30, quiet: 0.8, busy: 1.2, queueBytes: 200_000, bucketBytes: 0, loss: 0.15 };
const rarely = { ...calm, bucketBytes: 16_000 };
/** Overloaded most of the time: all packets are slow, except during the queue's short breaks. */
const busy = { quiet: 0.3, busy: 1.6, burstMs: 1200, everyMs: 1700 };

export const ROUTER_CASES: readonly RouterCase[] = [
  { name: "few flows", traffic: few, cut: aligned(500) },
  { name: "one large flow", traffic: (seed) => ({ ...burst(seed), shares: ONE_LARGE }), cut: aligned(500) },
  { name: "small flows too", traffic: (seed) => ({ ...burst(seed), shares: MANY_SMALL }), cut: aligned(500) },
  {
    name: "busy, small flows too",
    traffic: (seed) => ({ ...burst(seed), ...busy, shares: MANY_SMALL }),
    cut: aligned(500),
  },
  { name: "delimited", traffic: few, cut: { mode: "delimited", every: 400 } },
  { name: "one flow, 100 ms", traffic: (seed) => ({ ...burst(seed), shares: [1] }), cut: aligned(100) },
  { name: "rarely slow", traffic: (seed) => ({ ...few(seed), ...rarely }), cut: aligned(500) },
  { name: "loss at random", traffic: (seed) => ({ ...few(seed), ...calm }), cut: aligned(500) },
];

export interface RouterRow {
  estimator: string;
  what: string;
  asked: number;
  answered: number;
  inside: number;
  below: number;
  above: number;
  width: number | null;
  /** Median of |value - truth| / truth. */
  error: number | null;
}

interface Options {
  seeds: readonly number[];
  estimators: readonly string[];
  onMiss?: (text: string) => void;
}

class Tallies {
  readonly rows = new Map<string, RouterRow & { widths: number[]; errors: number[] }>();
  readonly #onMiss: ((text: string) => void) | undefined;

  constructor(onMiss: Options["onMiss"]) {
    this.#onMiss = onMiss;
  }

  judge(
    estimator: string,
    what: string,
    latency: AnswerLatency | null | undefined,
    truth: number,
    at: string,
  ) {
    const name = `${estimator} ${what}`;
    let row = this.rows.get(name);
    if (!row) {
      const none = { asked: 0, answered: 0, inside: 0, below: 0, above: 0, width: null, error: null };
      row = { estimator, what, ...none, widths: [], errors: [] };
      this.rows.set(name, row);
    }
    row.asked++;
    if (!latency) return;
    row.answered++;
    row.widths.push((latency.highNs - latency.lowNs) / Math.abs(truth));
    row.errors.push(Math.abs(latency.meanNs - truth) / Math.abs(truth));
    if (truth > latency.highNs + 1) row.below++;
    else if (truth < latency.lowNs - 1) row.above++;
    else row.inside++;
    if (truth > latency.highNs + 1 || truth < latency.lowNs - 1)
      this.#onMiss?.(
        `${at} ${estimator} ${what}: truth ${ms(truth)}, answer ${ms(latency.meanNs)} [${ms(latency.lowNs)}, ${ms(latency.highNs)}]`,
      );
  }
}

const ms = (ns: number) => (ns / 1e6).toFixed(3);

export async function measureRouter(one: RouterCase, options: Options): Promise<RouterRow[]> {
  const tallies = new Tallies(options.onMiss);
  const kernels = new Kernels();
  for (const seed of options.seeds) {
    const named = options.estimators.map((e) => (one.parameters?.[e] ? `${e}:${one.parameters[e]}` : e));
    const run = await observeRouter(kernels, one.traffic(seed), one.cut, ["flows", ...named]);
    const arrived = run.packets.filter((p) => p.arrivedNs !== null);
    for (const listed of [false, true]) {
      const question = { between: [SENDER, RECEIVER] as const, estimators: options.estimators };
      const { estimates, groups } = askArchive(
        listed ? run.records : withoutLists(run.records),
        { ...question, ...(listed ? { top: 100 } : {}) },
        { kernels },
      );
      for (const [name, { latency, series }] of Object.entries(estimates)) {
        const estimator = listed ? `${name}, listed` : name;
        // A list of flows makes no difference to estimators that do not answer for flows.
        if (listed && !findEstimator(name).answers.includes("flow")) continue;
        tallies.judge(estimator, "whole", latency, meanOf(arrived), `${seed}`);
        for (const row of series)
          if (!row.edge) judgeEpoch(tallies, estimator, row, arrived, one.cut.mode === "aligned", seed);
      }
      for (const group of groups) {
        const own = arrived.filter((p) => flowText(p.flow) === group.text);
        const share = own.length / arrived.length;
        const what = share >= 0.5 ? "flow >= 50 %" : share >= 0.05 ? "flow >= 5 %" : "flow < 5 %";
        if (own.length > 0)
          tallies.judge(group.estimator, what, group.latency, meanOf(own), `${seed} ${group.text}`);
      }
    }
  }
  return [...tallies.rows.values()].map(({ widths, errors, ...row }) => ({
    ...row,
    width: middle(widths),
    error: middle(errors),
  }));
}

function withoutLists(records: RecordStore): RecordStore {
  const hidden = Object.create(records) as RecordStore;
  hidden.list = (selection) => {
    const { entries, ...rest } = records.list(selection);
    return { ...rest, entries: entries.filter((e) => e.estimator !== "flows") };
  };
  for (const name of ["points", "readHead", "readRecord", "sizeOf"] as const)
    Object.assign(hidden, { [name]: (records[name] as (...args: never[]) => unknown).bind(records) });
  return hidden;
}

function middle(values: number[]): number | null {
  return quantileSorted(
    values.sort((a, b) => a - b),
    0.5,
  );
}

function judgeEpoch(
  tallies: Tallies,
  estimator: string,
  row: { startNs: string; endNs: string; latency: AnswerLatency | null },
  arrived: readonly RouterPacket[],
  aligned: boolean,
  seed: number,
): void {
  const [from, to] = [
    Number(BigInt(row.startNs) - routerTimeNs(0)),
    Number(BigInt(row.endNs) - routerTimeNs(0)),
  ];
  const within = (ns: number) => ns >= from && ns < to;
  const at = `${seed} ${from / 1e6}`;
  const sent = arrived.filter((p) => within(p.sentNs));
  const both = sent.filter((p) => within(p.arrivedNs ?? 0));
  if (both.length < 20) return;
  // Epochs cut by packets contain the packets of the sender's epoch.
  if (!aligned) {
    tallies.judge(estimator, "epoch", row.latency, meanOf(sent), at);
    return;
  }
  const inEpoch = arrived.filter((p) => within(p.arrivedNs ?? 0));
  tallies.judge(estimator, "epoch, arrived", row.latency, meanOf(inEpoch), at);
  tallies.judge(estimator, "epoch, within", row.latency, meanOf(both), at);
}

function meanOf(packets: readonly RouterPacket[]): number {
  let sum = 0;
  for (const { arrivedNs, sentNs } of packets) sum += (arrivedNs ?? 0) - sentNs;
  return sum / packets.length;
}

export function routerTable(name: string, rows: readonly RouterRow[]): string {
  const percent = (x: number | null) => (x === null ? "–" : `${(100 * x).toFixed(1)} %`);
  const lines = rows.map(
    (r) =>
      `| ${r.estimator} | ${r.what} | ${r.answered} of ${r.asked} | ${percent(r.inside / Math.max(1, r.answered))} | ${r.below} / ${r.above} | ${percent(r.width)} | ${percent(r.error)} |`,
  );
  return `\n${name}\n\n| estimator | of | answered | inside | too low / too high | width | error |\n|---|---|---|---|---|---|---|\n${lines.join("\n")}\n`;
}
