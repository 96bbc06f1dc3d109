// Sums, orders and choices over flows (kernels/flows/flow-records.ts), for the TypeScript side, which wants no object per flow.

import { directionOf, FAULTY, Flow, FlowFaults, faultsOrNone, flowIn, FlowMore, flowSegments, FlowStats, moreOrNone, SECOND } from "./flow-records";

/** Sums over the flows of one way. */
@unmanaged
export class FlowSums {
  sent: f64;
  received: f64;
  matched: f64;
  lost: f64;
  appeared: f64;
  duplicates: f64;
  headBefore: f64;
  tailBefore: f64;
  headAfter: f64;
  tailAfter: f64;
  matchedHeadBefore: f64; // the same of flows that have partners
  matchedTailBefore: f64;
  matchedHeadAfter: f64;
  matchedTailAfter: f64;
  ambiguous: f64;
  linkLocal: f64;
  mirrored: f64;
  merged: f64;
  undecided: f64;
}

/** The second record of a flow that has one. */
// @ts-ignore: decorator
@inline
function moreIn(stats: FlowStats, flow: Flow): FlowMore {
  return changetype<FlowMore>(<usize>moreOrNone(stats, flow));
}

/** The address of a flow's faults, or 0. */
// @ts-ignore: decorator
@inline
function faultsIn(stats: FlowStats, flow: Flow): u32 {
  return (flow.more & FAULTY) == 0 ? 0 : faultsOrNone(stats, moreIn(stats, flow));
}

/** Adds flows [from, to) to the FlowSums at `out`: forward ones to the first, those of direction 2 to a second behind it where `twoWay`. */
export function statsSums(p: usize, from: u32, to: u32, twoWay: u32, out: usize): void {
  const stats = changetype<FlowStats>(p);
  const segments = flowSegments(stats);
  for (let id = from; id < to; id++) {
    const flow = flowIn(segments, id);
    const sums = changetype<FlowSums>(twoWay != 0 && directionOf(flow) == 2 ? out + offsetof<FlowSums>() : out);
    sums.sent += <f64>flow.sent;
    sums.received += <f64>flow.received;
    sums.matched += <f64>flow.matched;
    const found = faultsIn(stats, flow);
    if (found == 0) continue;
    const faults = changetype<FlowFaults>(<usize>found);
    sums.lost += <f64>faults.lost;
    sums.appeared += <f64>faults.appeared;
    sums.duplicates += <f64>faults.duplicates;
    sums.ambiguous += <f64>faults.ambiguous;
    sums.linkLocal += <f64>faults.linkLocal;
    sums.mirrored += <f64>faults.mirrored;
    sums.merged += <f64>faults.merged;
    sums.undecided += <f64>faults.undecided;
    sums.headBefore += <f64>faults.headBefore;
    sums.tailBefore += <f64>faults.tailBefore;
    sums.headAfter += <f64>faults.headAfter;
    sums.tailAfter += <f64>faults.tailAfter;
    if (flow.matched == 0) continue;
    sums.matchedHeadBefore += <f64>faults.headBefore;
    sums.matchedTailBefore += <f64>faults.tailBefore;
    sums.matchedHeadAfter += <f64>faults.headAfter;
    sums.matchedTailAfter += <f64>faults.tailAfter;
  }
}

// What flows are put in order by.
export const BY_PACKETS: u32 = 0;
export const BY_BYTES: u32 = 1;
export const BY_MEAN: u32 = 2;
export const BY_MAX: u32 = 3;
export const BY_LOST: u32 = 4;

// Which unmatched packets at the captures' ends count as lost.
export const EDGE_HEAD_BEFORE: u32 = 1;
export const EDGE_TAIL_BEFORE: u32 = 2;
export const EDGE_HEAD_AFTER: u32 = 4;
export const EDGE_TAIL_AFTER: u32 = 8;

/**
 * Flows of [from, to) of one way (1 or 2; 0: all flows) that are above `least` in what they are put in order by (NaN: all of
 * them): {number, value} as f64 each. Returns how many. -Infinity where there is no answer. `edges`: EDGE_*.
 */
export function statsMeasure(
  p: usize, from: u32, to: u32, by: u32, way: u32, edges: u32, minimum: f64, out: usize,
): u32 {
  let kept: u32 = 0;
  const stats = changetype<FlowStats>(p);
  const segments = flowSegments(stats);
  for (let id = from; id < to; id++) {
    const flow = flowIn(segments, id);
    const reverse: bool = way != 0 && directionOf(flow) == 2;
    const n = flow.matched;
    let v: f64 = 0;
    // Parts of packets that were counted with others are no flow.
    if (reverse != (way == 2) || (flow.sent | flow.received) == 0) continue;
    if (by == BY_PACKETS) v = <f64>max<u32>(flow.sent, flow.received);
    else if (by == BY_BYTES) v = flow.bytes;
    else if (by == BY_LOST) {
      const found = faultsIn(stats, flow);
      if (found != 0) {
        const f = changetype<FlowFaults>(<usize>found);
        if (reverse) {
          v = <f64>f.appeared + ((edges & EDGE_HEAD_AFTER) != 0 ? <f64>f.headAfter : 0) + ((edges & EDGE_TAIL_AFTER) != 0 ? <f64>f.tailAfter : 0);
        } else v = <f64>f.lost + ((edges & EDGE_HEAD_BEFORE) != 0 ? <f64>f.headBefore : 0) + ((edges & EDGE_TAIL_BEFORE) != 0 ? <f64>f.tailBefore : 0);
      }
    } else if (n == 0) v = -Infinity;
    else if (by == BY_MEAN) v = n > 2 ? flow.first + moreIn(stats, flow).sum / <f64>n : flow.first + (flow.last - flow.first) / <f64>n;
    else if (by == BY_MAX) v = n > 2 ? moreIn(stats, flow).maximum : max<f64>(flow.first, flow.last);
    if (v <= minimum) continue;
    store<f64>(out + (kept << 4), <f64>id);
    store<f64>(out + (kept << 4), v, 8);
    kept++;
  }
  return kept;
}

/** Numbers of the flows of [from, to) that have unmatched packets at the captures' ends and no matched one; returns how many. */
export function statsEdgesOnly(p: usize, from: u32, to: u32, out: usize): u32 {
  const stats = changetype<FlowStats>(p);
  const segments = flowSegments(stats);
  let n: u32 = 0;
  for (let id = from; id < to; id++) {
    const flow = flowIn(segments, id);
    const found = flow.matched != 0 ? 0 : faultsIn(stats, flow);
    if (found == 0) continue;
    const faults = changetype<FlowFaults>(<usize>found);
    if ((faults.headBefore | faults.tailBefore | faults.headAfter | faults.tailAfter) == 0) continue;
    store<u32>(out + (n << 2), id);
    n++;
  }
  return n;
}

export function statsDirection(p: usize, id: u32): u32 {
  return directionOf(flowIn(flowSegments(changetype<FlowStats>(p)), id));
}
export function statsTurn(p: usize, id: u32, direction: u32): void {
  const flow = flowIn(flowSegments(changetype<FlowStats>(p)), id);
  flow.more = (flow.more & (SECOND | FAULTY)) | (direction << 30);
}
