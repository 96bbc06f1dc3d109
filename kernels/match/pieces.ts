// Clock steps: from some time on a different value is subtracted from the differences. Pieces are by time at BEFORE, which advances even if AFTER's clock goes
// back. The start of a piece is known only as precisely as the envelope of the differences shows (src/clock/steps.ts): near it a packet belongs to the piece
// that makes its delay the more usual one.
//
//   piece: from f64 | more than before the first piece f64

import { bucketOf } from "../sketches/cells";
import { Match, PAIR_BUCKET, PAIR_DELAY, PAIR_RAW } from "./match-state";

const PIECE: u32 = 16;

/** Subtracts the clock steps from the last n pairs of a direction. */
export function correctPieces(m: Match, forward: bool, n: u32): void {
  const pairs = forward ? m.pairs : m.backPairs;
  const rows = m.rows;
  const begin = (forward ? m.pairCount : m.backPairCount) - n;
  for (let i = begin; i < begin + n; i++) {
    const at = pairs + (i << 3);
    const more = pieceAt(m, load<f64>(at), load<f64>(at + rows * PAIR_RAW), forward);
    if (more == 0) continue;
    const delay = load<f64>(at + rows * PAIR_DELAY) + (forward ? -more : more);
    store<f64>(at + rows * PAIR_DELAY, delay);
    store<i32>(pairs + rows * PAIR_BUCKET + (i << 2), bucketOf(forward ? delay - m.base : delay + m.base));
  }
}

/** For a packet that passed BEFORE at `send`: its piece, or that and the previous one. */
let pieceOwn: f64 = 0;
let pieceBefore: f64 = 0;

function findPieces(m: Match, send: f64): void {
  let k = m.pieceCount;
  let from: f64 = 0;
  while (k > 0) {
    from = load<f64>(m.pieces + (k - 1) * PIECE);
    // Pieces that may have begun: includes the first one after the packet if it is not far away.
    if (from <= send + m.pieceGuard) break;
    k--;
  }
  pieceOwn = k == 0 ? 0 : load<f64>(m.pieces + (k - 1) * PIECE, 8);
  pieceBefore = k == 0 || send - from > m.pieceGuard ? pieceOwn : k > 1 ? load<f64>(m.pieces + (k - 2) * PIECE, 8) : 0;
}

/** Bounds of what may be subtracted from the difference of a packet that passed BEFORE at `send`, in addition to the line. */
export function pieceAtLeast(m: Match, send: f64): f64 {
  findPieces(m, send);
  return min<f64>(pieceOwn, pieceBefore);
}
export function pieceAtMost(m: Match, send: f64): f64 {
  findPieces(m, send);
  return max<f64>(pieceOwn, pieceBefore);
}

/** Returns what is subtracted from the difference of a packet that passed BEFORE at `send`, in addition to the line. */
export function pieceAt(m: Match, send: f64, raw: f64, forward: bool): f64 {
  if (m.pieceCount == 0) return 0;
  findPieces(m, send);
  if (pieceOwn == pieceBefore) return pieceOwn;
  const d = raw - m.offset - m.slope * (send + raw - m.pivot);
  const usual = forward ? m.usual : m.backUsual;
  return abs<f64>(d - pieceOwn - usual) < abs<f64>(d - pieceBefore - usual) ? pieceOwn : pieceBefore;
}

/** Returns when the piece of a packet that passed BEFORE at `send` ends; Infinity for the last one. */
export function pieceEnd(m: Match, send: f64): f64 {
  for (let k: u32 = 0; k < m.pieceCount; k++) {
    const from = load<f64>(m.pieces + k * PIECE);
    if (from > send) return from;
  }
  return Infinity;
}

/** Allocates n pieces, which the owner writes. */
export function matchPieces(p: usize, n: u32): usize {
  const m = changetype<Match>(p);
  m.pieces = <u32>heap.alloc(max<u32>(1, n) * PIECE);
  m.pieceCount = n;
  return m.pieces;
}
