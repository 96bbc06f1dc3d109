// State of the matcher (kernels/match/match.ts) apart from its flows: totals of either direction, intervals of send time, and the pairs of one call.

import { delayBlocksFree, delayBlocksNew } from "./delay-blocks";
import { edgeSampleFree, edgeSampleNew } from "./edge-sample";
import { fatesFree } from "./fates";
import { tableFree, tableNew } from "../flows/tables";
import { repeatsFree, repeatsNew, Repeats, ROW, rowCount } from "./repeats";
import { ringNew } from "./send-order";
import { logBytes, logFree, logNew } from "./log";

/** One direction's totals, followed by its dense histogram (16,384 u32). */
@unmanaged
export class Total {
  matched: u32;
  reordered: u32;
  extentMax: u32;
  pad: u32;
  extentSum: f64;
  first: f64; //      sums are relative to the first delay, so they neither overflow nor cancel
  sum: f64; //        of (d - first)
  squares: f64; //    of (d - first)^2
  minimum: f64;
  maximum: f64;
  jitter: f64;
  jitterCount: f64;
  ttlLower: u32; //   TTL at AFTER below / equal to / above the one at BEFORE
  ttlEqual: u32;
  ttlHigher: u32;
  negative: u32;
  firstSend: f64; //  smallest and largest send time of matched packets
  lastSend: f64;
  firstArrive: f64;
  lastArrive: f64;
}
export const TOTAL_BYTES: u32 = offsetof<Total>();
export const HISTOGRAM: u32 = 16384;
/** Index of bucket 0 in it. */
export const HISTOGRAM_MIDDLE: u32 = 8192;

/** One interval of send time; only intervals with packets have a record. */
@unmanaged
export class Interval {
  matched: u32;
  lost: u32;
  first: f64;
  sum: f64;
  squares: f64;
  minimum: f64;
  maximum: f64;
  index: f64; //      number of the interval, from 0 on
  ambiguous: u32; //  matched packets with unknown delay
  pad: u32;
}
export const INTERVAL_BYTES: u32 = offsetof<Interval>();

/** src/match/matcher.ts writes the settings: window, epoch, epochStart, threshold, offset, slope, pivot, slack, now (a time before the first packet). */
@unmanaged
export class Match {
  before: u32; //     Log of packets seen at BEFORE
  after: u32; //      Log of packets seen at AFTER without a partner
  stats: u32; //      FlowStats
  intervalCells: u32;
  intervals: u32; //  address of the interval records
  intervalCount: u32; // records in use
  intervalRoom: u32;
  interval: u32; //   the last one requested, and its time
  forward: u32; //    Total
  reverse: u32; //    Total
  found: u32; //      partners found in this call: {entry u32, its position u32, row u32, the row's position u32}
  foundCount: u32;
  pairs: u32; //      forward pairs of the last call, in columns of `rows`: see PAIR_*
  pairCount: u32;
  backPairs: u32; //  the same for the other direction
  backPairCount: u32;
  rows: u32;
  scratch: u32; //    a u32 per row
  arrivals: u32; //   matched arrivals so far, for the reordering extent
  records: u32; //    ring of {order u32, arrival u32}: packets that were the newest so far on arrival
  recordCount: u32;
  nextOrder: u32;
  ambiguous: u32;
  recent: u32; //     dense histogram of the current interval's forward delays, not yet in the cells and the total
  recentLow: i32; //  range of buckets in use
  recentHigh: i32;
  intervalFrom: f64;
  intervalTo: f64;
  threshold: f64; //  a flow whose first difference is at least this goes from BEFORE to AFTER
  window: f64;
  slack: f64; //      how far one side may be read ahead of the other
  now: f64;
  epoch: f64; //      interval length, ns
  epochStart: f64; // time of the first interval's start
  slope: f64; //      clock correction: d - offset - slope * (time at AFTER - pivot)
  offset: f64;
  back: f64; //       subtracted from delays of the other direction
  pivot: f64;
  ended: u32; //      bit 0: BEFORE has ended, bit 1: AFTER has
  touched: u32;
  searches: u32; //   number of searches in the last call for AFTER
  intervalSlots: u32; // hash table over 2 * intervalRoom: index of the record + 1, or 0
  firstSeen0: f64; // first and latest row of either side
  firstSeen1: f64;
  lastSeen0: f64;
  lastSeen1: f64;
  fates: u32; //      Fates if every packet is recorded (kernels/match/fates.ts), else 0
  onlyBefore: f64; // classified as lost, appeared
  onlyAfter: f64;
  seen0: f64; //      rows of BEFORE
  copied0: f64; //    its rows that are copies, at the source, of a packet with a partner
  copied1: f64; //    the same of AFTER
  repeats: u32; //    Repeats
  nat: u32; //        1: keys differ at the two points; flows are named by their key at BEFORE
  mapped: u32; //     by flow id: 1 + id of the same flow under AFTER's key
  mappedRoom: u32;
  named: u32; //      by flow id under AFTER's key: 1 + its id under BEFORE's key
  namedRoom: u32;
  alone: u32; //      Table of packets without a partner (kernels/match/residue.ts)
  odd: u32; //        recent pairs deferred because their difference is far from all others
  settling: u32; //   SETTLED or PLACES_UNKNOWN while pairs are counted that were not found in arrival order, else 0
  repeated0: u32; //  rows of either side that are identical to another one
  repeated1: u32;
  deferred: u32; //   Table of packets near the ends that are judged when all pairs are known (kernels/match/judge.ts)
  sample: u32; //     EdgeSample of forward pairs, and of the others
  backSample: u32;
  blocks: u32; //     DelayBlocks of forward pairs, and of the others
  backBlocks: u32;
  ring: u32; //       the last pairs, for late ones (kernels/match/send-order.ts)
  ringNext: u32;
  pieces: u32; //     clock steps (kernels/match/pieces.ts), and their number
  pieceCount: u32;
  calm: u32; //       pairs since the last odd one, minus those that cancelled one
  met: u32; //        packets identical to an earlier one
  wentBack0: u32; //  1: the clock of BEFORE was set back
  wentBack1: u32; //  the same for AFTER
  slow: u32; //       late pairs that were put off
  final0: f64; //     the last row of either side: not the latest if its clock was set back
  final1: f64;
  initial0: f64; //   the first row of either side: not the earliest if its clock was set back; NaN before it
  initial1: f64;
  opening: u32; //    the first pairs (kernels/match/opening.ts)
  opened: u32;
  openingLooks: u32;
  regretted: u32; //  partners of this call that were deferred afterwards (kernels/match/certain.ts)
  expectUntil: f64; // up to this time differences are expected within these bounds
  expectLow: f64;
  expectHigh: f64;
  gapLow: f64; //     but not within this range
  gapHigh: f64;
  thereLow: f64; //   and within these in the direction of their flow, if it is known; infinite without expectation
  thereHigh: f64;
  backLow: f64;
  backHigh: f64;
  pieceGuard: f64; // uncertainty of the time at which a piece begins
  usual: f64; //      usual differences without offset, drift and pieces, per direction
  backUsual: f64;
  base: f64; //       base of the buckets, if the clocks differ by more than any delay: a forward delay is base + bucket value, a reverse one bucket value - base
  late: u32; //       Table of unambiguous pairs of repeated packets (kernels/match/repeat-settled.ts)
}

/** Pairs of repeated packets with their positions in the order of sending; and pairs without. */
export const SETTLED: u32 = 1;
export const PLACES_UNKNOWN: u32 = 2;

// Columns of pairs, as multiples of `rows`.
export const PAIR_SEND: u32 = 0; //    f64, time at BEFORE
export const PAIR_RAW: u32 = 8; //     f64, difference of the timestamps
export const PAIR_DELAY: u32 = 16; //  f64, corrected, in its own direction
export const PAIR_BUCKET: u32 = 24; // i32
export const PAIR_ORDER: u32 = 28; //  u32, position of the packet at BEFORE
export const PAIR_FLOW: u32 = 32; //   u32, the flow's id | change of its TTL << 30: 1 lower at AFTER, 2 higher
export const PAIR_BYTES: u32 = 36;

export const OPENING_PAIRS: u32 = 512;
export const OPENING_PAIR: u32 = 40;
export const RECORDS: u32 = 65536;

function totalNew(): u32 {
  const p = heap.alloc(TOTAL_BYTES + HISTOGRAM * 4);
  memory.fill(p, 0, TOTAL_BYTES + HISTOGRAM * 4);
  const t = changetype<Total>(p);
  t.firstSend = Infinity;
  t.firstArrive = Infinity;
  t.lastSend = -Infinity;
  t.lastArrive = -Infinity;
  return <u32>p;
}

export function matchNew(stats: usize, intervalCells: usize, rows: u32): usize {
  const p = heap.alloc(offsetof<Match>());
  memory.fill(p, 0, offsetof<Match>());
  const m = changetype<Match>(p);
  m.stats = <u32>stats;
  m.intervalCells = <u32>intervalCells;
  m.before = logNew();
  m.after = logNew();
  m.intervalRoom = 256;
  m.intervals = <u32>heap.alloc(256 * INTERVAL_BYTES);
  memory.fill(m.intervals, 0, 256 * INTERVAL_BYTES);
  m.intervalSlots = <u32>heap.alloc(512 * 4);
  memory.fill(m.intervalSlots, 0, 512 * 4);
  m.forward = totalNew();
  m.reverse = totalNew();
  m.rows = rows;
  m.found = <u32>heap.alloc(rows * 16);
  m.scratch = <u32>heap.alloc(rows * 4);
  m.pairs = <u32>heap.alloc(rows * PAIR_BYTES);
  m.backPairs = <u32>heap.alloc(rows * PAIR_BYTES);
  m.recent = <u32>heap.alloc(HISTOGRAM * 4);
  memory.fill(m.recent, 0, HISTOGRAM * 4);
  m.recentLow = HISTOGRAM;
  m.recentHigh = -1;
  m.records = <u32>heap.alloc(RECORDS * 8);
  m.repeats = repeatsNew();
  m.alone = tableNew(24);
  m.deferred = tableNew(24);
  m.late = tableNew(24);
  m.sample = edgeSampleNew();
  m.backSample = edgeSampleNew();
  m.blocks = delayBlocksNew();
  m.backBlocks = delayBlocksNew();
  m.ring = ringNew();
  m.opening = <u32>heap.alloc(OPENING_PAIRS * OPENING_PAIR);
  m.expectUntil = -Infinity;
  m.thereLow = -Infinity;
  m.thereHigh = Infinity;
  m.backLow = -Infinity;
  m.backHigh = Infinity;
  m.firstSeen0 = Infinity;
  m.firstSeen1 = Infinity;
  m.lastSeen0 = -Infinity;
  m.lastSeen1 = -Infinity;
  m.final0 = Infinity;
  m.final1 = Infinity;
  m.initial0 = NaN;
  m.initial1 = NaN;
  return p;
}

/** Bytes of kernel memory used for waiting packets. */
export function matchTableBytes(p: usize): f64 {
  const m = changetype<Match>(p);
  return logBytes(m.before) + logBytes(m.after) + <f64>rowCount(changetype<Repeats>(m.repeats)) * ROW;
}

export function matchFree(p: usize): void {
  const m = changetype<Match>(p);
  logFree(m.before);
  logFree(m.after);
  heap.free(m.intervals);
  heap.free(m.intervalSlots);
  heap.free(m.forward);
  heap.free(m.reverse);
  heap.free(m.pairs);
  heap.free(m.backPairs);
  heap.free(m.found);
  heap.free(m.scratch);
  heap.free(m.recent);
  heap.free(m.records);
  fatesFree(m.fates);
  repeatsFree(m.repeats);
  tableFree(m.alone);
  tableFree(m.deferred);
  tableFree(m.late);
  edgeSampleFree(m.sample);
  edgeSampleFree(m.backSample);
  delayBlocksFree(m.blocks);
  delayBlocksFree(m.backBlocks);
  heap.free(m.ring);
  heap.free(m.opening);
  if (m.pieces != 0) heap.free(m.pieces);
  if (m.mapped != 0) heap.free(m.mapped);
  if (m.named != 0) heap.free(m.named);
  heap.free(p);
}
