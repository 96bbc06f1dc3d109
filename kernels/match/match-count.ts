// Adds the pairs of one call to flows (kernels/match/match-flows.ts), totals of either direction, intervals, and order of arrival. Each loop keeps few values
// in registers and touches few places in memory.

import { Batch } from "../decode/batch";
import { bucketOf } from "../sketches/cells";
import { delayBlocksTake } from "./delay-blocks";
import { edgeSampleTake } from "./edge-sample";
import { intervalOf } from "./intervals";
import { countFlows } from "./match-flows";
import {
  HISTOGRAM_MIDDLE, Interval, INTERVAL_BYTES, Match, OPENING_PAIRS, PAIR_BUCKET, PAIR_DELAY, PAIR_ORDER, PAIR_RAW, RECORDS, Total, TOTAL_BYTES,
} from "./match-state";
import { openingTake } from "./opening";

function extentOf(m: Match, order: u32): u32 {
  // RFC 4737: counted from the earliest arrival that had overtaken it. The orders of newest-so-far packets ascend: bisect among the last ones.
  const n = m.recordCount;
  let low: u32 = n > RECORDS ? n - RECORDS : 0;
  let high: u32 = n;
  while (low < high) {
    const mid = low + ((high - low) >> 1);
    if (<i32>(load<u32>(m.records + ((mid & (RECORDS - 1)) << 3)) - order) > 0) high = mid;
    else low = mid + 1;
  }
  if (low == n) return 1;
  return m.arrivals - load<u32>(m.records + ((low & (RECORDS - 1)) << 3), 4);
}

/** Initialises a record's sums, {first, sum, squares, minimum, maximum} from `p` on, with this delay. */
function beginSums(p: usize, first: f64): void {
  store<f64>(p, first);
  store<f64>(p, 0, 8);
  store<f64>(p, 0, 16);
  store<f64>(p, first, 24);
  store<f64>(p, first, 32);
}

/**
 * The third loop: totals of one direction, and for the forward one the intervals and the histogram. Sums are added delay by delay, so how rows are divided into
 * calls does not show in their last digits.
 */
function countTotal(m: Match, total: Total, pairs: u32, n: u32, forward: bool): void {
  if (n == 0) return;
  const rows = m.rows;
  const delays = pairs + rows * PAIR_DELAY;
  const histogram = forward ? m.recent + (HISTOGRAM_MIDDLE << 2) : m.reverse + TOTAL_BYTES + (HISTOGRAM_MIDDLE << 2);
  if (total.matched == 0) beginSums(changetype<usize>(total) + offsetof<Total>("first"), load<f64>(delays));
  const totalFirst = total.first;
  let totalSum = total.sum;
  let totalSquares = total.squares;
  let firstSend = total.firstSend;
  let lastSend = total.lastSend;
  let firstArrive = total.firstArrive;
  let lastArrive = total.lastArrive;
  let negative: u32 = 0;
  let i: u32 = 0;
  while (i < n) {
    const start = i;
    const at = forward ? intervalOf(m, load<f64>(pairs + (i << 3))) : 0;
    const from = forward ? m.intervalFrom : -Infinity;
    const to = forward ? m.intervalTo : Infinity;
    // Pairs of the other direction have no interval: record 0 is read for them, and left unchanged.
    const interval = changetype<Interval>(m.intervals + at * INTERVAL_BYTES);
    if (forward && interval.matched == 0) beginSums(changetype<usize>(interval) + offsetof<Interval>("first"), load<f64>(delays + (i << 3)));
    const first = interval.first;
    let sum = interval.sum;
    let squares = interval.squares;
    let minimum = load<f64>(delays + (i << 3));
    let maximum = minimum;
    do {
      const send = load<f64>(pairs + (i << 3));
      if (!(send >= from && send < to) && i != start) break;
      const arrive = send + load<f64>(pairs + rows * PAIR_RAW + (i << 3));
      const delay = load<f64>(delays + (i << 3));
      const h = histogram + (load<i32>(pairs + rows * PAIR_BUCKET + (i << 2)) << 2);
      const x = delay - totalFirst;
      totalSum += x;
      totalSquares += x * x;
      const y = delay - first;
      sum += y;
      squares += y * y;
      if (delay < minimum) minimum = delay;
      if (delay > maximum) maximum = delay;
      negative += delay < 0 ? 1 : 0;
      if (send < firstSend) firstSend = send;
      if (send > lastSend) lastSend = send;
      if (arrive < firstArrive) firstArrive = arrive;
      if (arrive > lastArrive) lastArrive = arrive;
      store<u32>(h, load<u32>(h) + 1);
      i++;
    } while (i < n);
    total.minimum = min<f64>(total.minimum, minimum);
    total.maximum = max<f64>(total.maximum, maximum);
    if (!forward) continue;
    interval.matched += i - start;
    interval.sum = sum;
    interval.squares = squares;
    interval.minimum = min<f64>(interval.minimum, minimum);
    interval.maximum = max<f64>(interval.maximum, maximum);
    m.recentLow = min<i32>(m.recentLow, bucketOf(minimum - m.base));
    m.recentHigh = max<i32>(m.recentHigh, bucketOf(maximum - m.base));
  }
  total.matched += n;
  total.sum = totalSum;
  total.squares = totalSquares;
  total.negative += negative;
  total.firstSend = firstSend;
  total.lastSend = lastSend;
  total.firstArrive = firstArrive;
  total.lastArrive = lastArrive;
}

/** Counts the order of arrival of forward pairs that AFTER's packets completed. */
function countOrder(m: Match): void {
  const orders = m.pairs + m.rows * PAIR_ORDER;
  const total = changetype<Total>(m.forward);
  const records = m.records;
  let nextOrder = m.nextOrder;
  let recordCount = m.recordCount;
  for (let i: u32 = 0; i < m.pairCount; i++) {
    const order = load<u32>(orders + (i << 2));
    m.arrivals++;
    if (<i32>(order - nextOrder) >= 0) {
      nextOrder = order + 1;
      const slot = records + ((recordCount & (RECORDS - 1)) << 3);
      store<u32>(slot, order);
      store<u32>(slot, m.arrivals, 4);
      recordCount++;
    } else {
      m.recordCount = recordCount;
      total.reordered++;
      const extent = extentOf(m, order);
      total.extentSum += <f64>extent;
      if (extent > total.extentMax) total.extentMax = extent;
    }
  }
  m.nextOrder = nextOrder;
  m.recordCount = recordCount;
}

/** Counts the partners that the first loop found. */
export function countPairs(m: Match, batch: Batch, side: u32, shift: f64): void {
  if (m.foundCount == 0) return;
  if (m.settling == 0 && m.opened < OPENING_PAIRS) openingTake(m, batch, side, shift);
  countFlows(m, batch, side, shift);
  countTotal(m, changetype<Total>(m.forward), m.pairs, m.pairCount, true);
  countTotal(m, changetype<Total>(m.reverse), m.backPairs, m.backPairCount, false);
  if (m.settling != 0) return;
  edgeSampleTake(m.sample, m.pairs, m.pairs + m.rows * PAIR_RAW, m.pairCount, m.window);
  edgeSampleTake(m.backSample, m.backPairs, m.backPairs + m.rows * PAIR_RAW, m.backPairCount, m.window);
  delayBlocksTake(m.blocks, m.pairs, m.pairs + m.rows * PAIR_DELAY, m.pairCount);
  delayBlocksTake(m.backBlocks, m.backPairs, m.backPairs + m.rows * PAIR_DELAY, m.backPairCount);
  if (side == 1) countOrder(m);
}
