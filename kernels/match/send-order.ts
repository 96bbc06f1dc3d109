// Jitter in the order of sending (RFC 3393: the difference of the delays of consecutive packets of a flow, as sent). Packets mostly arrive as they were sent,
// and then it is a running sum. A late one was sent between two that are already counted: their difference is replaced by its own two. To find them the last
// pairs are kept, each with a link to the previous one of its flow.
//
//   pair: link u32 | order u32 | delay f64
//   link: number of the flow's previous pair (31 bits). For a flow's first three pairs: FIRST | which one << 29 | the flow's id, because most flows have
//         no room yet to store which was their last
//   order: four times the position in the order of sending, with LATE if one that was sent later had arrived, LEFT_OUT if it is not in the sum
//
// A packet that comes after more than 131,072 others is beyond the kept pairs: it is left out of the jitter, as if lost. So is one for which more than 2,048 of
// its own flow would have to be examined: repeated packets (kernels/match/repeat-settled.ts) come after all others, and each would examine all of them.

export const RING: u32 = 1 << 17;
const PAIR: u32 = 16;
const FIRST: u32 = 0x80000000;
const NUMBER: u32 = 0x7fffffff;
export const LATE: u32 = 1;
const LEFT_OUT: u32 = 2;
const FLAGS: u32 = LATE | LEFT_OUT;
const MOST_STEPS: u32 = 2048;
/** Stored as a flow's next order: the positions of its pairs are unknown, but they came in order (kernels/match/residue.ts). */
export const UNPLACED: u32 = 1;

/** Position in the order of a side, from the index of a row there: leaves room for LATE, and never equals UNPLACED. */
// @ts-ignore: decorator
@inline
export function placeOf(number: u32): u32 {
  return number << 2;
}

export function ringNew(): u32 {
  return <u32>heap.alloc(RING * PAIR);
}

// @ts-ignore: decorator
@inline
function pairAt(ring: u32, number: u32): u32 {
  return ring + (number & (RING - 1)) * PAIR;
}

/** Keeps pair `number` of flow `id`, the flow's pair `nth` from 0 on; `before`: the number of the previous one. */
// @ts-ignore: decorator
@inline
export function ringPut(ring: u32, number: u32, id: u32, nth: u32, before: u32, order: u32, delay: f64): void {
  const p = pairAt(ring, number);
  store<u32>(p, nth < 3 ? FIRST | (nth << 29) | id : before & NUMBER);
  store<u32>(p, order, 4);
  store<f64>(p, delay, 8);
}

/** Returns the number of the flow's pair before pair `number`; `number` itself if there is none; number - RING if it is no longer kept. */
function pairBefore(ring: u32, number: u32, newest: u32): u32 {
  const link = load<u32>(pairAt(ring, number));
  if ((link & FIRST) == 0) {
    const back = (number - link) & NUMBER;
    return newest - number + back >= RING ? number - RING : number - back;
  }
  const nth = (link >> 29) & 3;
  if (nth == 0) return number;
  const wanted = link - (1 << 29);
  for (let back: u32 = 1; newest - number + back < RING && back <= number; back++) {
    if (load<u32>(pairAt(ring, number - back)) == wanted) return number - back;
  }
  return number - RING;
}

/** Returns by how much the late pair `number` changes the sum of differences of its flow; NaN if that is no longer known. */
export function lateStep(ring: u32, number: u32): f64 {
  const step = stepOf(ring, number);
  if (isNaN(step)) store<u32>(pairAt(ring, number), load<u32>(pairAt(ring, number), 4) | LEFT_OUT, 4);
  return step;
}

function stepOf(ring: u32, number: u32): f64 {
  const order = load<u32>(pairAt(ring, number), 4) & ~FLAGS;
  const delay = load<f64>(pairAt(ring, number), 8);
  let previous: f64 = NaN;
  let following: f64 = NaN;
  let previousOrder: u32 = 0;
  let followingOrder: u32 = 0;
  let at = number;
  for (let steps: u32 = 0; ; steps++) {
    const before = pairBefore(ring, at, number);
    if (before == at) break;
    if (before == at - RING || steps == MOST_STEPS) return NaN;
    at = before;
    const word = load<u32>(pairAt(ring, at), 4);
    if ((word & LEFT_OUT) != 0) {
      // The search for the previous pair failed: so does this one.
      if (steps == 0) return NaN;
      continue;
    }
    const other = word & ~FLAGS;
    const value = load<f64>(pairAt(ring, at), 8);
    if (<i32>(other - order) > 0) {
      // Of pairs with equal order, which came directly one after the other, the first.
      if (isNaN(following) || <i32>(other - followingOrder) <= 0) {
        following = value;
        followingOrder = other;
      }
      continue;
    }
    if (isNaN(previous) || <i32>(other - previousOrder) > 0) {
      previous = value;
      previousOrder = other;
    }
    // Everything that had arrived before it was sent before it.
    if ((word & LATE) == 0) break;
  }
  const left = isNaN(previous) ? 0 : abs<f64>(delay - previous);
  const right = isNaN(following) ? 0 : abs<f64>(delay - following);
  const between = isNaN(previous) || isNaN(following) ? 0 : abs<f64>(following - previous);
  return left + right - between;
}
