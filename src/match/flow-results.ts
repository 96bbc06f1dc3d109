/**
 * Per-flow results, read from the matching kernel's records (kernels/flows/flow-records.ts): one flow at a time, and sums, rankings and selections over all
 * flows without an object per flow. A capture of ten seconds may contain a million flows.
 */
import {
  FlowFaultsLayout,
  FlowLayout,
  FlowMoreLayout,
  FlowSumsBytes,
  FlowSumsLayout,
  flowListsConstants,
  flowRecordsConstants,
  flowSumsConstants,
} from "../base/kernel-layout.ts";
import type { Kernels } from "../base/kernels.ts";
import type {
  BucketRun,
  CorrectedCount,
  DelaySums,
  EdgeCounts,
  FlowRanking,
  FlowResult,
  WaySums,
} from "./flow-result.ts";
import { flowTexts } from "./flow-texts.ts";
import type { RowForm } from "./row-form.ts";

/** Flows per kernel call: results stay in the cache, and V8 can switch to optimised code between two calls. */
const PIECE = 4096;
/** For up to this many flows, scanning all packets' buckets is quicker than sorting them all. */
const FEW_FLOWS = 1024;
const MEASURE = {
  packets: flowSumsConstants.BY_PACKETS,
  bytes: flowSumsConstants.BY_BYTES,
  mean: flowSumsConstants.BY_MEAN,
  max: flowSumsConstants.BY_MAX,
  lost: flowSumsConstants.BY_LOST,
} as const;
const EDGE_BITS: Record<keyof EdgeCounts, number> = {
  headBefore: flowSumsConstants.EDGE_HEAD_BEFORE,
  tailBefore: flowSumsConstants.EDGE_TAIL_BEFORE,
  headAfter: flowSumsConstants.EDGE_HEAD_AFTER,
  tailAfter: flowSumsConstants.EDGE_TAIL_AFTER,
};
/** Encodes a set of the captures' ends for the kernels. */
function edgeBits(edges: Record<keyof EdgeCounts, boolean>): number {
  const names = Object.keys(EDGE_BITS) as (keyof EdgeCounts)[];
  return names.reduce((bits, edge) => bits | (edges[edge] ? EDGE_BITS[edge] : 0), 0);
}
const { BUCKET_BIAS, LONGEST_LIST } = flowListsConstants;

export class FlowResults {
  readonly #kernels: Kernels;
  readonly #stats: number;
  readonly #cells: number;
  /** Flows whose buckets are all in their lists. */
  #settled: Set<number> = new Set();

  readonly #baseNs: number;

  /** `baseNs`: the base of the buckets for delays from BEFORE to AFTER; negated for the other direction. */
  constructor(kernels: Kernels, stats: number, cells: number, baseNs: number) {
    this.#baseNs = baseNs;
    this.#kernels = kernels;
    this.#stats = stats;
    this.#cells = cells;
  }

  /** Writes rows of flows as text: see flow-texts.ts. */
  texts(
    ids: Uint32Array,
    form: RowForm,
    { reverse, edgesLost }: { reverse: boolean; edgesLost: FlowRanking["edgesLost"] },
  ): Generator<string | number> {
    this.#kernels.call.statsSettle(this.#stats);
    return flowTexts(this.#kernels, this.#stats, ids, form, { reverse, edges: edgeBits(edgesLost) });
  }

  get count(): number {
    return this.#kernels.call.statsCount(this.#stats) >>> 0;
  }

  /** Returns the base of the buckets for delays of this direction. */
  baseNs(way: 1 | 2): number {
    return way === 2 ? -this.#baseNs : this.#baseNs;
  }

  /** Number of packets of a flow with known delay. */
  matched(id: number): number {
    return this.#kernels.readU32(this.#kernels.call.statsFlow(this.#stats, id) + FlowLayout.matched);
  }

  direction(id: number): 0 | 1 | 2 {
    return this.#kernels.call.statsDirection(this.#stats, id) as 0 | 1 | 2;
  }

  turn(id: number, direction: 1 | 2): void {
    this.#kernels.call.statsTurn(this.#stats, id, direction);
  }

  flow(id: number): FlowResult {
    const kernels = this.#kernels;
    const { call } = kernels;
    const record = call.statsFlow(this.#stats, id) >>> 0;
    const second = call.statsMore(this.#stats, id) >>> 0;
    const faults = call.statsFaults(this.#stats, id) >>> 0;
    const word = (name: keyof typeof FlowLayout) => kernels.readU32(record + FlowLayout[name]);
    const real = (name: keyof typeof FlowLayout) => kernels.readF64(record + FlowLayout[name]);
    const fault = (name: keyof typeof FlowFaultsLayout) =>
      faults === 0 ? 0 : kernels.readU32(faults + FlowFaultsLayout[name]);
    const matched = word("matched");
    const [first, last] = [real("first"), real("last")];
    // The first record contains up to two delays, as first and last; from the third on there is a second record.
    const more = (name: keyof typeof FlowMoreLayout, two: number) =>
      matched > 2 ? kernels.readF64(second + FlowMoreLayout[name]) : two;
    const step = last - first;
    let delay: DelaySums | null = null;
    let negative = 0;
    if (matched > 0) {
      const mean = more("sum", step) / matched;
      delay = {
        count: matched,
        meanNs: first + mean,
        stdevNs: Math.sqrt(Math.max(0, more("squares", step * step) / matched - mean * mean)),
        minNs: more("minimum", Math.min(first, last)),
        maxNs: more("maximum", Math.max(first, last)),
      };
      negative =
        matched > 2
          ? kernels.readU32(second + FlowMoreLayout.negative)
          : (first < 0 ? 1 : 0) + (matched === 2 && last < 0 ? 1 : 0);
    }
    // Delays with an unknown place in the order of sending do not count for the jitter.
    const apart = second === 0 ? 0 : kernels.readU32(second + FlowMoreLayout.apart);
    const steps = Math.max(0, matched - 1 - apart);
    return {
      id,
      sent: word("sent"),
      received: word("received"),
      matched: matched + fault("ambiguous") + fault("merged"),
      lost: fault("lost"),
      appeared: fault("appeared"),
      duplicates: fault("duplicates"),
      headBefore: fault("headBefore"),
      tailBefore: fault("tailBefore"),
      headAfter: fault("headAfter"),
      tailAfter: fault("tailAfter"),
      direction: (word("more") >>> flowRecordsConstants.DIRECTION_SHIFT) as 0 | 1 | 2,
      reordered: fault("reordered"),
      ambiguous: fault("ambiguous"),
      linkLocal: fault("linkLocal"),
      mirrored: fault("mirrored"),
      merged: fault("merged"),
      undecided: fault("undecided"),
      negative,
      bytes: real("bytes"),
      delay,
      jitterNs: steps > 0 ? more("jitter", Math.abs(step)) / steps : null,
      jitterSteps: steps,
    };
  }

  /** Changes counts of a flow, after a second look at its packets. */
  correct(id: number, change: Partial<Record<CorrectedCount, number>>): void {
    const kernels = this.#kernels;
    const record = kernels.call.statsFlow(this.#stats, id) >>> 0;
    const faults = kernels.call.statsFaultsMade(this.#stats, id) >>> 0;
    for (const [name, by] of Object.entries(change) as [CorrectedCount, number][]) {
      const at =
        name === "sent" || name === "received" ? record + FlowLayout[name] : faults + FlowFaultsLayout[name];
      kernels.writeU32(at, Math.max(0, kernels.readU32(at) + by));
    }
  }

  /** Prepares the buckets of these flows: a few flows need not wait for all others. */
  settle(ids: Uint32Array): void {
    const kernels = this.#kernels;
    if (ids.length > FEW_FLOWS) return;
    const bytes = (this.count >>> 3) + 1;
    const wanted = kernels.alloc(bytes);
    const bits = kernels.u8.subarray(wanted, wanted + bytes).fill(0);
    for (const id of ids) bits[id >>> 3]! |= 1 << (id & 7);
    kernels.call.statsSettleSome(this.#stats, wanted);
    kernels.free(wanted);
    this.#settled = new Set(ids);
  }

  /** Does a little of the work that is needed in the end; returns false if there is none. */
  tidy(): boolean {
    return this.#kernels.call.statsTidy(this.#stats);
  }

  /** Returns the log buckets of a flow's delays; empty up to three delays, which min, max and mean determine. */
  buckets(id: number): BucketRun {
    const kernels = this.#kernels;
    const { call } = kernels;
    if (!this.#settled.has(id)) call.statsSettle(this.#stats);
    const record = call.statsMore(this.#stats, id) >>> 0;
    const state = record === 0 ? 0 : kernels.readU32(record + FlowMoreLayout.listState);
    const length = state & 0xffff;
    const list = record === 0 ? 0 : kernels.readU32(record + FlowMoreLayout.list);
    const baseNs = this.baseNs(this.direction(id) === 2 ? 2 : 1);
    const listed = new Uint16Array(kernels.memory.buffer, list, length).slice().sort();
    const poured = this.matched(id) > Math.max(length, LONGEST_LIST);
    if (!poured) return { baseNs, ...countsOf(listed) };
    const counts = new Map<number, number>();
    const add = (bucket: number, n: number) => counts.set(bucket, (counts.get(bucket) ?? 0) + n);
    for (const entry of listed) add(entry - BUCKET_BIAS, 1);
    const from: number = call.bucketOfNs(kernels.readF64(record + FlowMoreLayout.minimum) - baseNs);
    const to: number = call.bucketOfNs(kernels.readF64(record + FlowMoreLayout.maximum) - baseNs);
    for (let bucket = from; bucket <= to; bucket++) {
      const n: number = call.cellsCount(this.#cells, id, bucket);
      if (n > 0) add(bucket, n);
    }
    const buckets = Int32Array.from(counts.keys()).sort();
    return { baseNs, buckets, counts: Uint32Array.from(buckets, (b) => counts.get(b) ?? 0) };
  }

  /**
   * Returns sums over all flows, forward and reverse (all are forward unless `twoWay`), and the flows with unmatched packets at the captures' ends but no
   * matched one. One pass over the records for both: they may exceed any cache.
   */
  survey(twoWay: boolean): { forward: WaySums; reverse: WaySums; edgesOnly: number[] } {
    const kernels = this.#kernels;
    const out = kernels.alloc(2 * FlowSumsBytes);
    const ids = kernels.alloc(PIECE * 4);
    const edgesOnly: number[] = [];
    kernels.f64.fill(0, out >>> 3, (out + 2 * FlowSumsBytes) >>> 3);
    this.#pieces((from, to) => {
      kernels.call.statsSums(this.#stats, from, to, twoWay ? 1 : 0, out);
      const n = kernels.call.statsEdgesOnly(this.#stats, from, to, ids) >>> 0;
      for (const id of kernels.u32.subarray(ids >>> 2, (ids >>> 2) + n)) edgesOnly.push(id);
    });
    const sums = (way: number): WaySums => {
      const v = (name: keyof typeof FlowSumsLayout) =>
        kernels.readF64(out + way * FlowSumsBytes + FlowSumsLayout[name]);
      return {
        sent: v("sent"),
        received: v("received"),
        matched: v("matched") + v("ambiguous") + v("merged"),
        lost: v("lost"),
        appeared: v("appeared"),
        duplicates: v("duplicates"),
        ambiguous: v("ambiguous"),
        linkLocal: v("linkLocal"),
        mirrored: v("mirrored"),
        merged: v("merged"),
        undecided: v("undecided"),
        headBefore: v("headBefore"),
        tailBefore: v("tailBefore"),
        headAfter: v("headAfter"),
        tailAfter: v("tailAfter"),
        withMatch: {
          headBefore: v("matchedHeadBefore"),
          tailBefore: v("matchedTailBefore"),
          headAfter: v("matchedHeadAfter"),
          tailAfter: v("matchedTailAfter"),
        },
      };
    };
    const result = { forward: sums(0), reverse: sums(1), edgesOnly };
    kernels.free(out);
    kernels.free(ids);
    return result;
  }

  /** Returns the first flows of a direction, largest first; equal ones in order of appearance. */
  choose({ way, twoWay, by, edgesLost, top }: FlowRanking): number[] {
    const kernels = this.#kernels;
    // Without two directions all flows are of the first.
    if (!twoWay && way === 2) return [];
    const edges = edgeBits(edgesLost);
    const out = kernels.alloc(PIECE * 16);
    const { count } = this;
    let kept: Ranked = { ids: [], values: [] };
    let minimum = Number.NEGATIVE_INFINITY;
    const cut = () => {
      kept = ranked(kept, count, top);
      if (kept.ids.length === top) minimum = kept.values.at(-1) ?? Number.POSITIVE_INFINITY;
    };
    this.#pieces((from, to) => {
      // A later flow with an equal value ranks behind those kept.
      const above = kept.ids.length >= top ? minimum : Number.NaN;
      const n: number = kernels.call.statsMeasure(
        this.#stats,
        from,
        to,
        MEASURE[by],
        twoWay ? way : 0,
        edges,
        above,
        out,
      );
      const { f64 } = kernels;
      const at = out >>> 3;
      for (let i = 0; i < n; i++) {
        kept.ids.push(f64[at + 2 * i]!);
        kept.values.push(f64[at + 2 * i + 1]!);
      }
      if (kept.ids.length > 2 * top) cut();
    });
    cut();
    kernels.free(out);
    return kept.ids;
  }

  #pieces(work: (from: number, to: number) => void): void {
    const { count } = this;
    for (let from = 0; from < count; from += PIECE) work(from, Math.min(count, from + PIECE));
  }
}

/** Returns the buckets of a sorted list, and their counts. */
function countsOf(listed: Uint16Array): Omit<BucketRun, "baseNs"> {
  const buckets = new Int32Array(listed.length);
  const counts = new Uint32Array(listed.length);
  let n = 0;
  for (let i = 0; i < listed.length; i++) {
    const bucket = listed[i]! - BUCKET_BIAS;
    if (n > 0 && buckets[n - 1] === bucket) counts[n - 1]!++;
    else {
      buckets[n] = bucket;
      counts[n++] = 1;
    }
  }
  return { buckets: buckets.slice(0, n), counts: counts.slice(0, n) };
}

/** Flows and their values for ranking. */
interface Ranked {
  ids: number[];
  values: number[];
}

/** Sorts by value, largest first, equal ones in order of appearance; keeps at most `top`. `count`: greater than all ids. */
function ranked({ ids, values }: Ranked, count: number, top: number): Ranked {
  let maximum = 0;
  let whole = true;
  for (const value of values) {
    maximum = Math.max(maximum, value);
    whole &&= value >= 0 && Number.isInteger(value);
  }
  const n = Math.min(top, ids.length);
  if (whole && (maximum + 1) * count < Number.MAX_SAFE_INTEGER) {
    // Value and id in one number, which typed arrays sort without a comparator.
    const keys = new Float64Array(ids.length);
    for (let i = 0; i < keys.length; i++) keys[i] = (maximum - values[i]!) * count + ids[i]!;
    keys.sort();
    const first: Ranked = { ids: [], values: [] };
    for (let i = 0; i < n; i++) {
      const below = Math.floor(keys[i]! / count);
      first.ids.push(keys[i]! - below * count);
      first.values.push(maximum - below);
    }
    return first;
  }
  const order = ids.map((_, i) => i);
  order.sort((a, b) => (values[a] === values[b] ? 0 : values[b]! - values[a]!) || ids[a]! - ids[b]!);
  order.length = n;
  return { ids: order.map((i) => ids[i]!), values: order.map((i) => values[i]!) };
}
