// Intervals of send time: records of those with packets, found by a hash table; the delays of the current one are counted separately.

import { Cells, cellsAddMany } from "../sketches/cells";
import { HISTOGRAM, HISTOGRAM_MIDDLE, Interval, INTERVAL_BYTES, Match, TOTAL_BYTES } from "./match-state";

function intervalsGrow(m: Match): void {
  const old = m.intervalRoom;
  const room = old << 1;
  const fresh = heap.alloc(room * INTERVAL_BYTES);
  memory.copy(fresh, m.intervals, old * INTERVAL_BYTES);
  memory.fill(fresh + old * INTERVAL_BYTES, 0, old * INTERVAL_BYTES);
  heap.free(m.intervals);
  heap.free(m.intervalSlots);
  m.intervalSlots = 0;
  m.intervals = <u32>fresh;
  m.intervalRoom = room;
  m.intervalSlots = <u32>heap.alloc(room << 3);
  memory.fill(m.intervalSlots, 0, room << 3);
  for (let i: u32 = 0; i < m.intervalCount; i++) {
    store<u32>(intervalSlot(m, changetype<Interval>(m.intervals + i * INTERVAL_BYTES).index), i + 1);
  }
}

/** Returns the table slot for the record of interval `index`. */
function intervalSlot(m: Match, index: f64): u32 {
  const mask = (m.intervalRoom << 1) - 1;
  let at = <u32>((reinterpret<u64>(index) * 0x9e3779b97f4a7c15) >> 32) & mask;
  let i = load<u32>(m.intervalSlots + (at << 2));
  while (i != 0 && changetype<Interval>(m.intervals + (i - 1) * INTERVAL_BYTES).index != index) {
    at = (at + 1) & mask;
    i = load<u32>(m.intervalSlots + (at << 2));
  }
  return m.intervalSlots + (at << 2);
}

/** Returns the interval record of a send time; times before the first interval count there. */
export function intervalAt(m: Match, time: f64): u32 {
  const index = max<f64>(0, Math.floor((time - m.epochStart) / m.epoch));
  let slot = intervalSlot(m, index);
  const known = load<u32>(slot);
  if (known != 0) return known - 1;
  if (m.intervalCount == m.intervalRoom) {
    intervalsGrow(m);
    slot = intervalSlot(m, index);
  }
  const i = m.intervalCount++;
  changetype<Interval>(m.intervals + i * INTERVAL_BYTES).index = index;
  store<u32>(slot, i + 1);
  return i;
}

export const NO_INTERVAL: u32 = 0xffffffff;
/** Returns the existing record of a send time, or NO_INTERVAL. */
export function intervalKnown(m: Match, time: f64): u32 {
  return load<u32>(intervalSlot(m, max<f64>(0, Math.floor((time - m.epochStart) / m.epoch)))) - 1;
}

function intervalFind(m: Match, time: f64): u32 {
  settleRecent(m);
  const i = intervalAt(m, time);
  m.interval = i;
  m.intervalFrom = m.epochStart + changetype<Interval>(m.intervals + i * INTERVAL_BYTES).index * m.epoch;
  m.intervalTo = m.intervalFrom + m.epoch;
  return i;
}

/** The same for forward pairs: if it is not the current interval, it becomes that. */
// @ts-ignore: decorator
@inline
export function intervalOf(m: Match, time: f64): u32 {
  return time >= m.intervalFrom && time < m.intervalTo ? m.interval : intervalFind(m, time);
}

/** Moves the counts of the current interval to the cells and the total. */
export function settleRecent(m: Match): void {
  const total = m.forward + TOTAL_BYTES + (HISTOGRAM_MIDDLE << 2);
  const recent = m.recent + (HISTOGRAM_MIDDLE << 2);
  const cells = changetype<Cells>(m.intervalCells);
  for (let bucket = m.recentLow; bucket <= m.recentHigh; bucket++) {
    const n = load<u32>(recent + (bucket << 2));
    if (n == 0) continue;
    store<u32>(recent + (bucket << 2), 0);
    store<u32>(total + (bucket << 2), load<u32>(total + (bucket << 2)) + n);
    cellsAddMany(cells, m.interval, bucket, n);
  }
  m.recentLow = HISTOGRAM;
  m.recentHigh = -HISTOGRAM;
}
