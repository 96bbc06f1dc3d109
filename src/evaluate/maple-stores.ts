/**
 * Runs every MAPLE store on traces of the reference traffic: bits, failures, and errors of packets and of aggregates. This is the table of
 * docs/estimators/maple.md.
 */
import type { Kernels } from "../base/kernels.ts";
import { Random } from "../base/random.ts";
import { histogramOf } from "../estimators/maple/cell-table.ts";
import { epochCentres, pairedCentres } from "../estimators/maple/centres/epoch-centres.ts";
import { CentrePipeline, type Strategy } from "../estimators/maple/centres/pipeline.ts";
import {
  ask,
  askAbsent,
  askAcross,
  type FilledStore,
  fill,
  groupErrors,
  subFlows,
} from "./maple-questions.ts";
import { mean, quantile, type Trace, type TraceEpoch } from "./reference-trace.ts";

export const PLAIN_STORE = { codeBits: 0, hashes: 0, f: 0, theta: 0, seed: 99n };

/** Columns of a row. */
export const STORE_COLUMNS = [
  "bit/packet",
  "failure %",
  "false %",
  "packet median %",
  "p90 %",
  "flow %",
  "host %",
  "prefix %",
  "sub-flow %",
  "mean abs µs",
  "false positives %",
  "left out %",
] as const;

/** Returns the columns by store, averaged over the epochs. Centres are learnt in the first two epochs. */
export function storeAccuracy(kernels: Kernels, trace: Trace): Map<string, number[]> {
  const results = new Map<string, number[][]>();
  const note = (name: string, values: number[]) => results.set(name, [...(results.get(name) ?? []), values]);
  for (const strategy of ["log", "kmedians", "hybrid"] as Strategy[])
    judgeFilters(kernels, trace, strategy, note);
  for (const [i, epoch] of trace.epochs.entries()) if (i >= 2) judgeRibbons(kernels, trace, i, epoch, note);
  return new Map(
    [...results].map(([name, rows]) => [
      name,
      (rows[0] ?? []).map((_, column) => mean(rows.map((row) => row[column] ?? Number.NaN))),
    ]),
  );
}

type Note = (name: string, values: number[]) => void;

/** Returns the columns of a row: the quality of an epoch's answers. */
function columns(
  kernels: Kernels,
  filled: FilledStore,
  epoch: TraceEpoch,
  before: TraceEpoch,
  estimateNs: Float64Array,
): number[] {
  const { failure, falseRate, leftOut } = ask(kernels, filled);
  const errors = relativeErrors(epoch, estimateNs);
  const groups = (keyOf: (i: number) => number | bigint) =>
    100 * quantile(groupErrors(epoch, estimateNs, keyOf), 0.5);
  return [
    filled.store.bits / epoch.count,
    100 * failure,
    100 * falseRate,
    100 * quantile(errors, 0.5),
    100 * quantile(errors, 0.9),
    groups((i) => epoch.flowHash[i]!),
    groups((i) => epoch.source[i]!),
    groups((i) => epoch.source[i]! >>> 16),
    groups(subFlows(epoch)),
    mean(absoluteErrors(epoch, estimateNs)) / 1000,
    100 * askAbsent(kernels, filled, before.digest),
    100 * leftOut,
  ];
}

/** Evaluates SVBF and, with hybrid centres, COMB and PBF, at 12.8 bits per packet. */
function judgeFilters(kernels: Kernels, trace: Trace, strategy: Strategy, note: Note): void {
  // As in the paper: PBF divides its memory by the shares of a single epoch, two before.
  const pipeline = new CentrePipeline({ strategy, k: 50, random: new Random(7), memory: 0 });
  const kept: FilledStore[] = [];
  const kinds = strategy === "hybrid" ? (["svbf", "comb", "pbf"] as const) : (["svbf"] as const);
  for (const [i, epoch] of trace.epochs.entries()) {
    const before = trace.epochs[i - 1];
    for (const kind of i >= 2 && before ? kinds : []) {
      const geometry =
        kind === "comb"
          ? { ...PLAIN_STORE, kind, hashes: 3, f: 8, theta: 3 }
          : { ...PLAIN_STORE, kind, hashes: 9 };
      const filled = fill(kernels, epoch, pipeline.current, geometry, 12.8);
      const { estimateNs } = ask(kernels, filled);
      note(`${kind}, ${strategy} centres`, columns(kernels, filled, epoch, before as TraceEpoch, estimateNs));
      if (strategy === "hybrid")
        note(`  ${kind} (p85 µs)`, [quantile(absoluteErrors(epoch, estimateNs), 0.85) / 1000]);
      if (strategy === "hybrid" && kind === "svbf") judgeWrongEpochs(kernels, kept, filled, epoch, note);
      else filled.free();
    }
    pipeline.observe(epoch.delayNs);
    pipeline.endEpoch();
  }
  for (const old of kept) old.free();
}

/**
 * Evaluates the answers if zero, one or two earlier epochs are asked as well. Only epochs with two predecessors count, so that all three cases are over the
 * same packets. Keeps the last three stores.
 */
function judgeWrongEpochs(
  kernels: Kernels,
  kept: FilledStore[],
  filled: FilledStore,
  epoch: TraceEpoch,
  note: Note,
): void {
  kept.unshift(filled);
  for (let wrong = 0; kept.length >= 3 && wrong < 3; wrong++) {
    const errors = absoluteErrors(epoch, askAcross(kernels, kept.slice(0, wrong + 1), epoch));
    note(
      `  ${wrong} wrong epochs (p50, p75, p95 µs)`,
      [0.5, 0.75, 0.95].map((q) => quantile(errors, q) / 1000),
    );
  }
  for (const old of kept.splice(3)) old.free();
}

/** Centres, bits, and whether the transmission time is subtracted from the stored delays. */
const RIBBONS = [
  [32, 5, true],
  [64, 6, false],
  [50, 9, false],
  [64, 10, false],
  [400, 12, false],
] as const;

function judgeRibbons(kernels: Kernels, trace: Trace, i: number, epoch: TraceEpoch, note: Note): void {
  const before = trace.epochs[i - 1] as TraceEpoch;
  const mixed = mixedStore(kernels, epoch, trace.rateBps);
  const name = "mixed k = 64, 0.905 bits fewer, size-aware";
  note(name, columns(kernels, mixed.filled, epoch, before, mixed.estimateNs));
  mixed.filled.free();
  const transmission = transmissionNs(epoch, trace.rateBps);
  for (const [k, bits, sized] of RIBBONS) {
    const stored = sized ? epoch.delayNs.map((d, j) => d - transmission[j]!) : epoch.delayNs;
    const centres = withDelays(kernels, stored, (at) =>
      epochCentres(histogramOf(kernels, at, epoch.count), k, { scale: "log", s0Ns: 200 }),
    );
    const filled = fill(
      kernels,
      epoch,
      centres,
      { ...PLAIN_STORE, kind: "ribbon", codeBits: bits },
      0,
      stored,
    );
    const { estimateNs } = ask(kernels, filled);
    const whole = sized ? estimateNs.map((v, j) => v + transmission[j]!) : estimateNs;
    const title = `ribbon k = ${k} in ${bits} bits${sized ? ", size-aware" : ""}`;
    note(title, columns(kernels, filled, epoch, before, whole));
    filled.free();
  }
}

/** Stores queueing delays in mixed ribbons of 64 centres; the caller frees the store. */
export function mixedStore(
  kernels: Kernels,
  epoch: TraceEpoch,
  rateBps: number,
): { filled: FilledStore; estimateNs: Float64Array } {
  const transmission = transmissionNs(epoch, rateBps);
  const stored = epoch.delayNs.map((d, i) => d - transmission[i]!);
  const centres = withDelays(kernels, stored, (at) =>
    pairedCentres(histogramOf(kernels, at, epoch.count), 64, 300),
  );
  const filled = fill(kernels, epoch, centres, { ...PLAIN_STORE, kind: "mixed", codeBits: 6 }, 0.905, stored);
  const { estimateNs } = ask(kernels, filled);
  return { filled, estimateNs: estimateNs.map((x, i) => x + transmission[i]!) };
}

function transmissionNs(epoch: TraceEpoch, rateBps: number): Float64Array {
  return Float64Array.from(epoch.wireLength, (l) => Math.round((8e9 * l) / rateBps));
}

/** Calls `use` with the delays in kernel memory. */
function withDelays<T>(kernels: Kernels, delays: Float64Array, use: (address: number) => T): T {
  const at = kernels.alloc(8 * delays.length);
  try {
    kernels.f64.set(delays, at >>> 3);
    return use(at);
  } finally {
    kernels.free(at);
  }
}

export function absoluteErrors(epoch: TraceEpoch, estimateNs: Float64Array): Float64Array {
  return Float64Array.from(estimateNs, (v, i) => Math.abs(v - epoch.delayNs[i]!)).filter(
    (v) => !Number.isNaN(v),
  );
}

export function relativeErrors(epoch: TraceEpoch, estimateNs: Float64Array): Float64Array {
  return Float64Array.from(estimateNs, (v, i) => Math.abs(v - epoch.delayNs[i]!) / epoch.delayNs[i]!).filter(
    (v) => !Number.isNaN(v),
  );
}
