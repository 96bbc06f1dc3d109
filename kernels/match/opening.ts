// The first pairs: they are found before the usual delay is known, so some may be false (a packet, and an identical one sent earlier or later). A pair is
// marked if an identical packet is seen again; src/compare/opening.ts decides what that means, and another pass over the captures expects the differences that
// the others showed.
//
//   pair: digest u64 | time at BEFORE f64 | difference of the timestamps (after - before) f64 | met again u32 | flow u32 |
//   difference with the identical packet that was met first f64, NaN if unknown

import { Batch } from "../decode/batch";
import { Match, OPENING_PAIR, OPENING_PAIRS } from "./match-state";

/** Maximum number of searches among them: copies may be many. */
const MAX_LOOKS: u32 = 4096;

/** Records the partners found in a call. */
export function openingTake(m: Match, batch: Batch, side: u32, shift: f64): void {
  const n = min<u32>(m.foundCount, OPENING_PAIRS - m.opened);
  for (let k: u32 = 0; k < n; k++) {
    const e = load<u32>(m.found + (k << 4));
    const rowTime = load<f64>(batch.time + (load<u32>(m.found + (k << 4), 8) << 3)) + shift;
    const entryTime = load<f64>(e, 8);
    const p = m.opening + m.opened++ * OPENING_PAIR;
    store<u64>(p, load<u64>(e));
    store<f64>(p, side == 1 ? entryTime : rowTime, 8);
    store<f64>(p, side == 1 ? rowTime - entryTime : entryTime - rowTime, 16);
    store<u32>(p, 0, 24);
    store<u32>(p, load<u32>(e, 16), 28);
    store<f64>(p, NaN, 32);
  }
}

/** Marks pairs of packets identical to this one, which one side has at `time` (NaN if several). */
export function openingMeet(m: Match, digest: u64, side: u32, time: f64): void {
  if (m.openingLooks == MAX_LOOKS) return;
  m.openingLooks++;
  for (let i: u32 = 0; i < m.opened; i++) {
    const p = m.opening + i * OPENING_PAIR;
    if (load<u64>(p) != digest) continue;
    if (load<u32>(p, 24) == 0) store<f64>(p, side == 1 ? time - load<f64>(p, 8) : load<f64>(p, 8) + load<f64>(p, 16) - time, 32);
    store<u32>(p, 1, 24);
  }
}

export function matchOpening(p: usize): usize {
  return changetype<Match>(p).opening;
}
export function matchOpened(p: usize): u32 {
  return changetype<Match>(p).opened;
}
