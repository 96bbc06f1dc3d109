// Writes flows of a comparison as text, row after row by a template: a byte below 128 is followed by that many bytes to copy, a byte above stands for a value
// (FIELD_*). src/compare/flows.ts takes 20 µs to describe a flow as an object; this takes one or two. Unusual flows (without a match or without ports,
// ambiguous packets) are left to it: the output stops before them. The owner is src/match/flow-texts.ts.

import { META_IPV6, META_PORTS } from "../decode/batch";
import { baseOf, FAULTY, Flow, FlowFaults, flowIn, FlowMore, flowSegments, FlowStats, faultsOrNone, moreOrNone, wideOf } from "../flows/flow-records";
import { EDGE_HEAD_AFTER, EDGE_HEAD_BEFORE, EDGE_TAIL_AFTER, EDGE_TAIL_BEFORE } from "../flows/flow-sums";
import { putIpv4, putIpv6 } from "./address";
import { putCommunityId } from "./community-id";
import { putInteger, putNumber } from "./number";
import { bucketMiddle, bucketOfRank, clearBuckets, countBuckets, QUANTILES_BYTES, rankOf } from "./quantiles";

export const FIELD_SRC: u32 = 128;
export const FIELD_DST: u32 = 129;
export const FIELD_PROTO: u32 = 130;
export const FIELD_SPORT: u32 = 131;
export const FIELD_DPORT: u32 = 132;
export const FIELD_COMMUNITY_ID: u32 = 133;
export const FIELD_SENT: u32 = 134;
export const FIELD_RECEIVED: u32 = 135;
export const FIELD_MATCHED: u32 = 136;
export const FIELD_LOST: u32 = 137;
export const FIELD_APPEARED: u32 = 138;
export const FIELD_DUPLICATES: u32 = 139;
export const FIELD_REORDERED: u32 = 140;
export const FIELD_BYTES: u32 = 141;
export const FIELD_COUNT: u32 = 142;
export const FIELD_MEAN: u32 = 143;
export const FIELD_STDEV: u32 = 144;
export const FIELD_MIN: u32 = 145;
export const FIELD_MAX: u32 = 146;
export const FIELD_P50: u32 = 147;
export const FIELD_P90: u32 = 148;
export const FIELD_P99: u32 = 149;
export const FIELD_P999: u32 = 150;
export const FIELD_JITTER: u32 = 151;

/** Maximum bytes of the values of a row, with each field once. */
export const ROW_VALUES_BYTES: u32 = 1024;

@unmanaged
export class FlowRows {
  stats: u32; //     FlowStats
  powers: u32; //    of ten (kernels/text/number.ts)
  template: u32;
  templateBytes: u32;
  none: u32; //      text of a value that is not there, up to 8 bytes
  noneBytes: u32;
  reverse: u32; //   1: seen from the other end
  edges: u32; //     EDGE_*: which unmatched packets at the captures' ends count as lost or appeared
  counts: u32; //    of buckets; made here
  end: u32; //       where the last call ended to write
}

export function flowRowsNew(): usize {
  const p = heap.alloc(offsetof<FlowRows>());
  memory.fill(p, 0, offsetof<FlowRows>());
  const r = changetype<FlowRows>(p);
  r.counts = <u32>heap.alloc(QUANTILES_BYTES);
  memory.fill(r.counts, 0, QUANTILES_BYTES);
  return p;
}

export function flowRowsFree(p: usize): void {
  heap.free(changetype<FlowRows>(p).counts);
  heap.free(p);
}

// The current flow.
let faults: u32 = 0;
let minimum: f64 = 0;
let maximum: f64 = 0;
let mean: f64 = 0;
let deviation: f64 = 0;
let steps: i32 = 0;
let jitter: f64 = 0;
let p50: f64 = 0;
let p90: f64 = 0;
let p99: f64 = 0;
let p999: f64 = 0;

/** Computes the sums exactly as FlowResults.flow does, to the last digit. */
function readDelays(flow: Flow, more: FlowMore): void {
  const n = <f64>flow.matched;
  const step = flow.last - flow.first;
  const many = flow.matched > 2;
  const apart = (many ? more.sum : step) / n;
  mean = flow.first + apart;
  deviation = sqrt<f64>(max<f64>(0, (many ? more.squares : step * step) / n - apart * apart));
  minimum = many ? more.minimum : min<f64>(flow.first, flow.last);
  maximum = many ? more.maximum : max<f64>(flow.first, flow.last);
  // Delays with an unknown place in the sending order do not count in the jitter.
  steps = <i32>flow.matched - 1 - <i32>more.apart;
  jitter = (many ? more.jitter : abs<f64>(step)) / <f64>steps;
}

/** Returns the delay of a rank among up to three delays, which follow from minimum, maximum and mean. */
function smallDelay(n: u32, rank: u32): f64 {
  if (rank == 1) return minimum;
  if (rank == n) return maximum;
  return min<f64>(maximum, max<f64>(minimum, Math.round(mean * 3 - minimum - maximum)));
}

// @ts-ignore: decorator
@inline
function quantile(r: FlowRows, n: u32, more: FlowMore, base: f64, share: f64): f64 {
  const rank = rankOf(share, n);
  return n <= 3 ? smallDelay(n, rank) : min<f64>(maximum, max<f64>(minimum, base + bucketMiddle(bucketOfRank(r.counts, rank, more, base))));
}

function readQuantiles(r: FlowRows, stats: FlowStats, id: u32, flow: Flow, more: FlowMore): void {
  const n = flow.matched;
  const base = baseOf(stats, flow);
  if (n > 3) countBuckets(r.counts, stats.cells, id, n, more, base);
  p50 = quantile(r, n, more, base, 0.5);
  p90 = quantile(r, n, more, base, 0.9);
  p99 = quantile(r, n, more, base, 0.99);
  p999 = quantile(r, n, more, base, 0.999);
  if (n > 3) clearBuckets(r.counts, n, more, base);
}

function putAddress(at: u32, stats: FlowStats, flow: Flow, source: bool): u32 {
  if ((flow.meta & META_IPV6) == 0) return putIpv4(at, source ? <u32>(flow.addrA >> 32) : <u32>flow.addrA);
  const wide = wideOf(stats, flow);
  return source ? putIpv6(at, flow.addrA, load<u64>(wide)) : putIpv6(at, load<u64>(wide, 8), load<u64>(wide, 16));
}

function putId(at: u32, stats: FlowStats, flow: Flow): u32 {
  const proto = <u32>(flow.meta >> 32) & 0xff;
  const ports = <u32>flow.meta;
  if ((flow.meta & META_IPV6) == 0) return putCommunityId(at, 0, flow.addrA >> 32, 0, flow.addrA & 0xffffffff, proto, ports, false);
  const wide = wideOf(stats, flow);
  return putCommunityId(at, flow.addrA, load<u64>(wide), load<u64>(wide, 8), load<u64>(wide, 16), proto, ports, true);
}

/** Returns the packets that only one of the points saw: those inside the other capture, and those at its ends if these count. */
function onlySeen(r: FlowRows, before: bool): u64 {
  if (faults == 0) return 0;
  const f = changetype<FlowFaults>(<usize>faults);
  const head: u32 = before ? f.headBefore : f.headAfter;
  const tail: u32 = before ? f.tailBefore : f.tailAfter;
  const headCounts = (r.edges & (before ? EDGE_HEAD_BEFORE : EDGE_HEAD_AFTER)) != 0;
  const tailCounts = (r.edges & (before ? EDGE_TAIL_BEFORE : EDGE_TAIL_AFTER)) != 0;
  return <u64>(before ? f.lost : f.appeared) + <u64>(headCounts ? head : 0) + <u64>(tailCounts ? tail : 0);
}

function putKeyOrCount(at: u32, field: u32, r: FlowRows, stats: FlowStats, flow: Flow): u32 {
  const f = changetype<FlowFaults>(<usize>faults);
  const reverse = r.reverse != 0;
  if (field == FIELD_SRC) return putAddress(at, stats, flow, true);
  if (field == FIELD_DST) return putAddress(at, stats, flow, false);
  if (field == FIELD_PROTO) return putInteger(at, (flow.meta >> 32) & 0xff);
  if (field == FIELD_SPORT) return putInteger(at, (flow.meta >> 16) & 0xffff);
  if (field == FIELD_DPORT) return putInteger(at, flow.meta & 0xffff);
  if (field == FIELD_COMMUNITY_ID) return putId(at, stats, flow);
  if (field == FIELD_SENT) return putInteger(at, reverse ? flow.received : flow.sent);
  if (field == FIELD_RECEIVED) return putInteger(at, reverse ? flow.sent : flow.received);
  if (field == FIELD_MATCHED) return putInteger(at, <u64>flow.matched + <u64>(faults == 0 ? 0 : f.merged));
  if (field == FIELD_LOST) return putInteger(at, onlySeen(r, !reverse));
  if (field == FIELD_APPEARED) return putInteger(at, onlySeen(r, reverse));
  if (field == FIELD_DUPLICATES) return putInteger(at, faults == 0 ? 0 : f.duplicates);
  if (reverse) return putNone(at, r);
  return putInteger(at, faults == 0 ? 0 : f.reordered);
}

function putNone(at: u32, r: FlowRows): u32 {
  memory.copy(at, r.none, r.noneBytes);
  return at + r.noneBytes;
}

function putDelay(at: u32, field: u32, r: FlowRows, flow: Flow): u32 {
  const powers = r.powers;
  if (field == FIELD_COUNT) return putInteger(at, flow.matched);
  if (field == FIELD_BYTES) return putNumber(at, flow.bytes, powers);
  if (field == FIELD_MEAN) return putNumber(at, mean, powers);
  if (field == FIELD_STDEV) return putNumber(at, deviation, powers);
  if (field == FIELD_MIN) return putNumber(at, minimum, powers);
  if (field == FIELD_MAX) return putNumber(at, maximum, powers);
  if (field == FIELD_P50) return putNumber(at, p50, powers);
  if (field == FIELD_P90) return putNumber(at, p90, powers);
  if (field == FIELD_P99) return putNumber(at, p99, powers);
  if (field == FIELD_P999) return putNumber(at, p999, powers);
  return steps <= 0 ? putNone(at, r) : putNumber(at, jitter, powers);
}

/** Returns whether the flow's row can be written here. */
function isPlain(stats: FlowStats, flow: Flow): bool {
  const proto = <u32>(flow.meta >> 32) & 0xff;
  if (flow.matched == 0 || (flow.meta & META_PORTS) == 0 || (proto != 6 && proto != 17 && proto != 132)) return false;
  const more = changetype<FlowMore>(<usize>moreOrNone(stats, flow));
  faults = (flow.more & FAULTY) == 0 ? 0 : faultsOrNone(stats, more);
  return faults == 0 || changetype<FlowFaults>(<usize>faults).ambiguous == 0;
}

/** Writes the row of one flow; returns 0 for an unusual flow. */
function putRow(start: u32, r: FlowRows, stats: FlowStats, id: u32): u32 {
  const flow = flowIn(flowSegments(stats), id);
  if (!isPlain(stats, flow)) return 0;
  const more = changetype<FlowMore>(<usize>moreOrNone(stats, flow));
  readDelays(flow, more);
  readQuantiles(r, stats, id, flow, more);
  let at = start;
  for (let i: u32 = 0; i < r.templateBytes; i++) {
    const c = <u32>load<u8>(r.template + i);
    if (c < 128) {
      // Copy eight bytes at a time; the surplus is overwritten.
      for (let k: u32 = 0; k < c; k += 8) store<u64>(at + k, load<u64>(r.template + i + 1 + k));
      at += c;
      i += c;
    } else {
      at = c < FIELD_BYTES ? putKeyOrCount(at, c, r, stats, flow) : putDelay(at, c, r, flow);
      if (at == 0) return 0;
    }
  }
  return at;
}

/** Writes the rows of the `n` flows with numbers at `ids` to `out`, until one is unusual or `room` bytes are used; returns how many. */
export function flowRowsWrite(p: usize, ids: u32, n: u32, out: u32, room: u32): u32 {
  const r = changetype<FlowRows>(p);
  const stats = changetype<FlowStats>(<usize>r.stats);
  const last = out + room - r.templateBytes - ROW_VALUES_BYTES;
  let at = out;
  let k: u32 = 0;
  for (; k < n && at <= last; k++) {
    const end = putRow(at, r, stats, load<u32>(ids + (k << 2)));
    if (end == 0) break;
    at = end;
  }
  r.end = at;
  return k;
}
