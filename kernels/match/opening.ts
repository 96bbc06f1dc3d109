// The first pairs: they are taken before anything shows how long packets take, so there may be false ones among them (a packet, and an equal one that
// was sent before or after it). A pair is marked where a packet like it is met again; what that means is decided by src/compare/opening.ts, and another
// pass over the captures expects differences of the timestamps as the others have shown them.
//
//   pair: digest u64 | time at BEFORE f64 | difference of the timestamps (after - before) f64 | met again u32 | flow u32

import { Batch } from "../decode/batch";
import { Match, OPENING_PAIR, OPENING_PAIRS } from "./match-state";

/** Packets that are looked for among them at most: copies may be many. */
const MAX_LOOKS: u32 = 4096;

/** The partners found in a call. */
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
  }
}

/** A packet like one that has its partner. */
export function openingMeet(m: Match, digest: u64): void {
  if (m.openingLooks == MAX_LOOKS) return;
  m.openingLooks++;
  for (let i: u32 = 0; i < m.opened; i++) {
    const p = m.opening + i * OPENING_PAIR;
    if (load<u64>(p) == digest) store<u32>(p, 1, 24);
  }
}

export function matchOpening(p: usize): usize {
  return changetype<Match>(p).opening;
}
export function matchOpened(p: usize): u32 {
  return changetype<Match>(p).opened;
}
