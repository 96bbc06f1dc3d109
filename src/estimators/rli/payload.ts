/**
 * The payload of RLI, version 2. Flows are in ascending order of their hash (then of their key), each once.
 *
 *   u8      estimator: 0 rli, 1 rli-l
 *   u8      1 if flows have quantiles, else 0; plus 2 if the sums of all delays also include packets of flows that are not kept
 *   u16     2, the version (version 1 has 0 here and is refused: it lacks what intervals are based on)
 *   u32     fingerprint: CRC-32C of the seed (u64) and of the parameters' text: which packets were kept, and how
 *   varint  x 10: regular packets, answered, by one reference only, of those because the buffer was full, unanswered, of unselected flows, of flows that
 *           did not fit, references predicted from their neighbours, packets closer to the previous one than the drain rate allows, gaps with a busy link
 *   varint  x 6: references used, lost, duplicate, overtaken, forged, times that their sender restarted
 *   i64     sum of all delays, ns
 *   f64     x 5: sum of squares; min; max; errors (sum over gaps of (packets x miss)^2); misses (sum over packets of miss^2)
 *   f64     x 4: timestamps (sum over packets of the squared error of the references' times); bytes and ns of gaps with a busy link; drag (ns of
 *           transmission of references that packets came behind)
 *   zigzag  x 2: bytes of packets beyond those of their references; the same for packets next to references that found the queue empty
 *   varint  flows
 *   per flow:
 *     u64     flow hash
 *     u64     key: meta; bit 59 is set for IPv6
 *     u64     key: addrA; IPv6: addrB, addrC, addrD follow
 *     varint  packets, varint gaps between references that they lie in
 *     i64     sum of delays
 *     f64     sum of squares, f64 errors, f64 misses
 *     zigzag  x 2: bytes beyond the references', and in an empty queue, as above
 *     if there are quantiles: varint buckets, then per bucket, ascending, zigzag bucket (the first) or varint step to it, varint packets
 */

import { ByteReader, ByteWriter, crc32c } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import { entryAt } from "../../base/lists.ts";
import type { KnownFlows, SealedEpoch } from "../estimator.ts";
import { compareFlows, type FlowKeys, KEY_WORDS, readFlowKey, writeFlowKey } from "../flow-keys.ts";
import type { RliParameters } from "./parameters.ts";

const NAME = "rli payload";
const VERSION = 2;
const WITH_QUANTILES = 1;
const OF_ALL = 2;
export const PACKET_COUNTERS = [
  "packets",
  "answered",
  "oneSided",
  "spilled",
  "unanswered",
  "unselected",
  "shed",
  "checked",
  "hurried",
  "busy",
] as const;
const REFERENCE_COUNTERS = ["seen", "lost", "duplicate", "reordered", "forged", "restarts"] as const;
export const COUNTERS = [...PACKET_COUNTERS, ...REFERENCE_COUNTERS] as const;
export type Counters = Record<(typeof COUNTERS)[number], number>;

/** Delays summed over packets; `errors` is the expected square of the sum's error. */
export interface DelaySums {
  sum: bigint;
  squares: number;
  errors: number;
  /** Sum over packets of the expected square of each packet's error. */
  misses: number;
  /** Bytes of the packets beyond those of their references: the part of the answer that depends on the drain rate. */
  excess: number;
  /** The same for packets next to references as fast as the fastest one. */
  idle: number;
}

/** Values known only for the epoch as a whole. */
export interface EpochSums extends DelaySums {
  minimum: number;
  maximum: number;
  /** Sum over packets of the squared error of the references' times, as stated by their sender. */
  timestamps: number;
  /** Bytes and duration of gaps with a busy link. */
  busyBytes: number;
  busyNs: number;
  /** ns: transmission times of references that packets came behind. */
  drag: number;
}

/** Flows as columns, ascending by hash and key, each once. */
export interface RliFlows extends FlowKeys {
  count: number;
  packets: Float64Array;
  /** Gaps between references that the packets lie in. */
  gaps: Float64Array;
  sum: BigInt64Array;
  squares: Float64Array;
  errors: Float64Array;
  misses: Float64Array;
  excess: Float64Array;
  idle: Float64Array;
  /** Bucket (src/base/math/log-histogram.ts) and packets, ascending; null if none are kept. */
  buckets: [number, number][][] | null;
}

export interface RliSketch {
  leftOnly: boolean;
  quantiles: boolean;
  /** `total` and `answered` include all regular packets next to references, even if their flow was not kept. (Records of earlier versions: kept flows only.) */
  ofAll: boolean;
  fingerprint: number;
  counters: Counters;
  total: EpochSums;
  flows: RliFlows;
}

/** In the order of the payload. */
const FLOATS = [
  "squares",
  "minimum",
  "maximum",
  "errors",
  "misses",
  "timestamps",
  "busyBytes",
  "busyNs",
  "drag",
] as const satisfies readonly (keyof EpochSums)[];

function noSums(): EpochSums {
  const numbers = { squares: 0, minimum: 0, maximum: 0, errors: 0, misses: 0, excess: 0, idle: 0 };
  return { sum: 0n, ...numbers, timestamps: 0, busyBytes: 0, busyNs: 0, drag: 0 };
}

export function noCounters(): Counters {
  return Object.fromEntries(COUNTERS.map((name) => [name, 0])) as Counters;
}

export function fingerprint(seed: bigint, parameters: RliParameters): number {
  const out = new ByteWriter();
  out.u64(BigInt.asUintN(64, seed));
  const { line, drain, longest, session, port, select, rate, idle, max, buffer } = parameters;
  const { source, authenticated, every } = parameters;
  out.utf8([line, drain, longest, session, port, select, rate, idle, max, buffer].join());
  // Not present in records of earlier versions.
  if (source !== "" || authenticated || every > 0) out.utf8([source, authenticated, every].join());
  return crc32c(out.view());
}

export function emptyFlows(count: number, quantiles: boolean): RliFlows {
  return {
    count,
    hash: new Uint32Array(2 * count),
    keyWords: new Uint32Array(KEY_WORDS * count),
    packets: new Float64Array(count),
    gaps: new Float64Array(count),
    sum: new BigInt64Array(count),
    squares: new Float64Array(count),
    errors: new Float64Array(count),
    misses: new Float64Array(count),
    excess: new Float64Array(count),
    idle: new Float64Array(count),
    buckets: quantiles ? Array.from({ length: count }, () => []) : null,
  };
}

/** Flows must be sorted. */
export function encodeRli(sketch: RliSketch): Uint8Array {
  const out = new ByteWriter(128 + 64 * sketch.flows.count);
  out.u8(sketch.leftOnly ? 1 : 0);
  const { unselected, shed } = sketch.counters;
  out.u8((sketch.quantiles ? WITH_QUANTILES : 0) | (sketch.ofAll && unselected + shed > 0 ? OF_ALL : 0));
  out.u16(VERSION);
  out.u32(sketch.fingerprint);
  for (const name of COUNTERS) out.varint(sketch.counters[name]);
  const { total } = sketch;
  out.i64(total.sum);
  for (const name of FLOATS) out.f64(total[name]);
  out.zigzag(total.excess);
  out.zigzag(total.idle);
  const { flows } = sketch;
  out.varint(flows.count);
  for (let i = 0; i < flows.count; i++) {
    writeFlowKey(out, flows, i);
    out.varint(flows.packets[i]!);
    out.varint(flows.gaps[i]!);
    out.i64(flows.sum[i]!);
    out.f64(flows.squares[i]!);
    out.f64(flows.errors[i]!);
    out.f64(flows.misses[i]!);
    out.zigzag(flows.excess[i]!);
    out.zigzag(flows.idle[i]!);
    if (flows.buckets) encodeBuckets(out, entryAt(flows.buckets, i));
  }
  return out.finish();
}

function encodeBuckets(out: ByteWriter, buckets: readonly [number, number][]): void {
  out.varint(buckets.length);
  let before = 0;
  for (const [i, [bucket, count]] of buckets.entries()) {
    if (i === 0) out.zigzag(bucket);
    else out.varint(bucket - before);
    out.varint(count);
    before = bucket;
  }
}

/** Throws if the payload was not made with these parameters (and this seed, if given). */
export function decodeRli(sealed: SealedEpoch, parameters: RliParameters, seed?: bigint): RliSketch {
  const reader = new ByteReader(sealed.payload, { file: NAME });
  const bad = (message: string) => new FormatError("bad-record", NAME, reader.offset, message);
  const leftOnly = reader.u8();
  const flags = reader.u8();
  const quantiles = (flags & WITH_QUANTILES) !== 0;
  const version = reader.u16();
  if (version === 0) throw bad("of version 1, which lacks what intervals are computed from");
  if (version !== VERSION) throw bad(`of version ${version}, which is not known`);
  if (leftOnly !== (parameters.estimator === "rli-l" ? 1 : 0)) throw bad("made by the other estimator");
  if (flags > (WITH_QUANTILES | OF_ALL) || quantiles !== parameters.quantiles)
    throw bad("quantiles where none are due, or none");
  const print = reader.u32();
  if (seed !== undefined && print !== fingerprint(seed, parameters))
    throw bad("made with another seed or other parameters");
  const { counters, total } = decodeTotals(reader, bad);
  const left = counters.unselected + counters.shed;
  const ofAll = left === 0 || (flags & OF_ALL) !== 0;
  if (counters.answered + counters.unanswered + (ofAll ? 0 : left) !== counters.packets)
    throw bad("packets do not add up");
  const count = reader.varint();
  // A flow takes at least 60 bytes.
  if (count > reader.remaining / 60) throw bad(`${count} flows do not fit into the remaining bytes`);
  const flows = emptyFlows(count, quantiles);
  let packets = 0;
  for (let i = 0; i < count; i++) {
    decodeFlow(reader, flows, i, bad);
    if (i > 0 && compareFlows(flows, i - 1, flows, i) >= 0) throw bad("flows are out of order");
    packets += flows.packets[i]!;
  }
  reader.expectEnd();
  const kept = counters.answered - (ofAll ? left : 0);
  if (packets > counters.answered || packets < kept) throw bad("the flows' packets do not add up");
  if (counters.packets > sealed.packets)
    throw bad(`${counters.packets} regular packets of ${sealed.packets} seen`);
  return {
    leftOnly: leftOnly === 1,
    quantiles,
    ofAll,
    fingerprint: print,
    counters,
    total,
    flows,
  };
}

function decodeTotals(
  reader: ByteReader,
  bad: (text: string) => FormatError,
): { counters: Counters; total: EpochSums } {
  const counters = noCounters();
  for (const name of COUNTERS) counters[name] = reader.varint();
  const total = noSums();
  total.sum = reader.i64();
  for (const name of FLOATS) total[name] = reader.f64();
  total.excess = reader.zigzag();
  total.idle = reader.zigzag();
  const { squares, errors, misses, timestamps, busyBytes, busyNs, drag, minimum, maximum } = total;
  if (![squares, errors, misses, timestamps, busyBytes, busyNs, drag].every((x) => x >= 0 && x < Infinity))
    throw bad("sums of squares are not numbers from 0 on");
  if (counters.answered > 0 && !(Number.isFinite(minimum) && minimum <= maximum && Number.isFinite(maximum)))
    throw bad("minimum and maximum delay are out of order");
  return { counters, total };
}

function decodeFlow(
  reader: ByteReader,
  flows: RliFlows,
  i: number,
  bad: (text: string) => FormatError,
): void {
  readFlowKey(reader, flows, i);
  const packets = reader.varint();
  const gaps = reader.varint();
  if (packets === 0 || gaps === 0 || gaps > packets) throw bad("a flow's packets and gaps do not fit");
  flows.packets[i] = packets;
  flows.gaps[i] = gaps;
  flows.sum[i] = reader.i64();
  const squares = reader.f64();
  const errors = reader.f64();
  const misses = reader.f64();
  if (![squares, errors, misses].every((x) => x >= 0 && x < Infinity))
    throw bad("a flow's sums are not numbers from 0 on");
  flows.squares[i] = squares;
  flows.errors[i] = errors;
  flows.misses[i] = misses;
  flows.excess[i] = reader.zigzag();
  flows.idle[i] = reader.zigzag();
  if (!flows.buckets) return;
  const buckets = entryAt(flows.buckets, i);
  const n = reader.varint();
  if (n > reader.remaining / 2) throw bad(`${n} buckets do not fit into the remaining bytes`);
  let total = 0;
  for (let k = 0; k < n; k++) {
    const before = buckets.at(-1)?.[0];
    const step = before === undefined ? reader.zigzag() : reader.varint();
    const bucket = (before ?? 0) + step;
    const inside = reader.varint();
    if ((k > 0 && step === 0) || inside === 0 || Math.abs(bucket) > 8000)
      throw bad("buckets are out of order");
    buckets.push([bucket, inside]);
    total += inside;
  }
  if (total !== packets) throw bad("a flow's buckets do not add up");
}

function addBuckets(a: readonly [number, number][], b: readonly [number, number][]): [number, number][] {
  const counts = new Map(a);
  for (const [bucket, n] of b) counts.set(bucket, (counts.get(bucket) ?? 0) + n);
  return [...counts].sort((x, y) => x[0] - y[0]);
}

/** Merges lists into one sorted list: adds up records of the same flow, drops flows without packets. */
export function joinFlows(lists: readonly RliFlows[]): RliFlows {
  const all = lists.flatMap((list) => Array.from({ length: list.count }, (_, i) => ({ list, i })));
  const kept = all.filter(({ list, i }) => list.packets[i]! > 0);
  kept.sort((x, y) => compareFlows(x.list, x.i, y.list, y.i));
  const out = emptyFlows(
    kept.length,
    lists.some((l) => l.buckets !== null),
  );
  let n = 0;
  for (const { list, i } of kept) {
    if (n > 0 && compareFlows(out, n - 1, list, i) === 0) addFlow(out, n - 1, list, i);
    else {
      out.hash.set(list.hash.subarray(2 * i, 2 * i + 2), 2 * n);
      out.keyWords.set(list.keyWords.subarray(KEY_WORDS * i, KEY_WORDS * (i + 1)), KEY_WORDS * n);
      addFlow(out, n++, list, i);
    }
  }
  out.count = n;
  return out;
}

function addFlow(to: RliFlows, n: number, from: RliFlows, i: number): void {
  to.packets[n]! += from.packets[i]!;
  to.gaps[n]! += from.gaps[i]!;
  to.sum[n]! += from.sum[i]!;
  to.squares[n]! += from.squares[i]!;
  to.errors[n]! += from.errors[i]!;
  to.misses[n]! += from.misses[i]!;
  to.excess[n]! += from.excess[i]!;
  to.idle[n]! += from.idle[i]!;
  if (to.buckets && from.buckets)
    to.buckets[n] = addBuckets(entryAt(to.buckets, n), entryAt(from.buckets, i));
}

function addNumbers(a: EpochSums, b: EpochSums): EpochSums {
  const out = noSums();
  for (const name of [...FLOATS, "excess", "idle"] as const) out[name] = a[name] + b[name];
  return out;
}

/** Merges parts of a stream that follow each other in time, or taps with different references. */
export function mergeRli(a: RliSketch, b: RliSketch): RliSketch {
  if (a.fingerprint !== b.fingerprint) {
    throw new FormatError("bad-record", NAME, 4, "the two were made with different seeds or parameters");
  }
  if (a.ofAll !== b.ofAll) {
    const message = "one has the sums of all packets, the other of those in its table";
    throw new FormatError("bad-record", NAME, 1, message);
  }
  const counters = noCounters();
  for (const name of COUNTERS) counters[name] = a.counters[name] + b.counters[name];
  const empty = a.counters.answered === 0 || b.counters.answered === 0;
  const { minimum, maximum } = a.counters.answered === 0 ? b.total : a.total;
  return {
    ...a,
    counters,
    total: {
      ...addNumbers(a.total, b.total),
      sum: BigInt.asIntN(64, a.total.sum + b.total.sum),
      minimum: empty ? minimum : Math.min(a.total.minimum, b.total.minimum),
      maximum: empty ? maximum : Math.max(a.total.maximum, b.total.maximum),
    },
    flows: joinFlows([a.flows, b.flows]),
  };
}

/** Returns the flows in the form that other estimators' decoders need; complete only if none were left out. */
export function knownFlows({ flows, counters }: RliSketch): KnownFlows {
  const { count } = flows;
  return {
    count,
    hash: flows.hash.subarray(0, 2 * count),
    keyWords: flows.keyWords.subarray(0, KEY_WORDS * count),
    packets: flows.packets.subarray(0, count),
    bytes: new Float64Array(count).fill(Number.NaN),
    complete: counters.unanswered + counters.unselected + counters.shed === 0,
  };
}
