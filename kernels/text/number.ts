// Writes numbers as JavaScript does: the shortest digits that read back as the same double, and of those the nearest. R. Giulietti, "The Schubfach way to
// render doubles" (2020), for the magnitudes that delays have. Output is ASCII; every function returns the position behind its output.
//
// The caller provides the powers of ten (src/match/flow-texts.ts): for k from POWER_FIRST on, 126 bits of 10^-k, rounded up, as two u64 of 63 bits, the upper
// first.

/** First exponent k, and number of powers. */
export const POWER_FIRST: i32 = -24;
export const POWER_COUNT: u32 = 28;
const LOW_63: u64 = 0x7fffffffffffffff;
/** Numbers outside [SMALLEST, LARGEST) are not written: JavaScript uses exponents for them, or there are no powers for them. */
const SMALLEST: f64 = 1e-6;
const LARGEST: f64 = 9007199254740992;

/** 00 to 99, two bytes each; filled when the first number is written. */
const PAIRS = memory.data(200);
let paired: bool = false;

function makePairs(): void {
  for (let i: u32 = 0; i < 100; i++) store<u16>(PAIRS + (i << 1), <u16>(((48 + (i % 10)) << 8) | (48 + i / 10)));
  paired = true;
}

// @ts-ignore: decorator
@inline
function digitsOf(value: u32): u32 {
  if (value < 10000) return value < 100 ? (value < 10 ? 1 : 2) : value < 1000 ? 3 : 4;
  if (value < 100000000) return value < 1000000 ? (value < 100000 ? 5 : 6) : value < 10000000 ? 7 : 8;
  return value < 1000000000 ? 9 : 10;
}

/** Writes the last n digits. */
// @ts-ignore: decorator
@inline
function putDigits(at: u32, value: u32, n: u32): u32 {
  let p = at + n;
  let left = value;
  while (p - at >= 2) {
    p -= 2;
    const rest = left / 100;
    store<u16>(p, load<u16>(PAIRS + ((left - 100 * rest) << 1)));
    left = rest;
  }
  if (p != at) store<u8>(at, <u8>left + 48);
  return at + n;
}

/** Writes an integer. */
export function putInteger(at: u32, value: u64): u32 {
  if (value < 10) {
    store<u8>(at, <u8>value + 48);
    return at + 1;
  }
  if (!paired) makePairs();
  if (value <= 0xffffffff) return putDigits(at, <u32>value, digitsOf(<u32>value));
  const upper = value / 1000000000;
  return putDigits(putInteger(at, upper), <u32>(value - 1000000000 * upper), 9);
}

// @ts-ignore: decorator
@inline
function high64(a: u64, b: u64): u64 {
  const a0 = a & 0xffffffff;
  const a1 = a >> 32;
  const b0 = b & 0xffffffff;
  const b1 = b >> 32;
  const low = a0 * b0;
  const middle = a1 * b0 + (low >> 32);
  const other = a0 * b1 + (middle & 0xffffffff);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

/** Returns the product with 126 bits of a power of ten; all bits behind the point are joined into one that is set if any of them is ("round to odd"). */
// @ts-ignore: decorator
@inline
function scaled(upper: u64, lower: u64, c: u64): u64 {
  const x = high64(lower, c);
  const y = upper * c;
  const z = (y >> 1) + x;
  return (high64(upper, c) + (z >> 63)) | (((z & LOW_63) + LOW_63) >> 63);
}

/** Writes a number that is 0, or at least a millionth and below 2^53. For other numbers it returns 0 and writes nothing. */
export function putNumber(start: u32, value: f64, powers: u32): u32 {
  let at = start;
  let v = value;
  if (v < 0) {
    store<u8>(at++, 45);
    v = -v;
  }
  if (!(v < LARGEST)) return 0;
  const whole = <u64>v;
  if (<f64>whole == v) return whole == 0 ? putInteger(start, 0) : putInteger(at, whole);
  if (v < SMALLEST) return 0;
  const bits = reinterpret<u64>(v);
  const fraction = bits & 0x000fffffffffffff;
  const c = fraction | 0x0010000000000000;
  const q = <i64>(bits >> 52) - 1075;
  // The neighbour below a power of two is nearer than the one above.
  const even = fraction != 0;
  const k = (q * 661971961083 - (even ? 0 : 274743187321)) >> 41;
  const h = <u64>(q + ((-k * 913124641741) >> 38) + 2);
  const power = powers + ((<u32>k - <u32>POWER_FIRST) << 4);
  const upper = load<u64>(power);
  const lower = load<u64>(power, 8);
  const odd = c & 1;
  const middle = scaled(upper, lower, (c << 2) << h);
  const low = scaled(upper, lower, ((c << 2) - (even ? 2 : 1)) << h) + odd;
  const high = scaled(upper, lower, ((c << 2) + 2) << h);
  return putDecimal(at, shortest(middle, low, high, odd), <i32>k);
}

/** Returns the number with the fewest digits between `low` and `high`; all three are in quarters. */
// @ts-ignore: decorator
@inline
function shortest(middle: u64, low: u64, high: u64, odd: u64): u64 {
  const s = middle >> 2;
  const ten = s - (s % 10);
  const down = low <= ten << 2;
  const up = ((ten + 10) << 2) + odd <= high;
  if (down != up) return down ? ten : ten + 10;
  const here = low <= s << 2;
  const next = ((s + 1) << 2) + odd <= high;
  if (here != next) return here ? s : s + 1;
  const half = (s << 2) + 2;
  return middle < half || (middle == half && (s & 1) == 0) ? s : s + 1;
}

/** Writes value * 10^k, k < 0, without trailing zeros. */
function putDecimal(start: u32, value: u64, k: i32): u32 {
  let v = value;
  let places = -k;
  while (v % 10000 == 0) {
    v /= 10000;
    places -= 4;
  }
  while (v % 10 == 0) {
    v /= 10;
    places--;
  }
  if (places <= 0) {
    let at = putInteger(start, v);
    for (; places < 0; places++) store<u8>(at++, 48);
    return at;
  }
  // Write the digits a little further on to count them, then move them around the point.
  const end = putInteger(start + 12, v);
  const n = <i32>(end - start - 12);
  let from = start + 12;
  let at = start;
  let before = n - places;
  if (before <= 0) store<u8>(at++, 48);
  for (; before > 0; before--) store<u8>(at++, load<u8>(from++));
  store<u8>(at++, 46);
  for (let zeros = places - n; zeros > 0; zeros--) store<u8>(at++, 48);
  while (from < end) store<u8>(at++, load<u8>(from++));
  return at;
}

/** Writes a single number to `out`, which has room for 64 bytes. Returns the length, or 0 if the number cannot be written. */
export function numberText(value: f64, powers: u32, out: u32): u32 {
  const end = putNumber(out, value, powers);
  return end == 0 ? 0 : end - out;
}
