// Seeded random numbers of the simulator: xoshiro256++ with an independent stream per purpose, so that changing the loss model does not change the traffic. All
// arithmetic, including mathematical functions, is WebAssembly's, so results are the same bit for bit on every machine.

@unmanaged
export class Rng {
  s0: u64;
  s1: u64;
  s2: u64;
  s3: u64;
  spare: f64; // the second normal variate of a pair, NaN when there is none
}
export const RNG_BYTES: usize = 40;

// @ts-ignore: decorator
@inline
function splitmix(x: u64): u64 {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

export function rngInit(p: usize, seed: u64, stream: u64): void {
  const r = changetype<Rng>(p);
  let x = splitmix(seed + 0x9e3779b97f4a7c15) ^ splitmix(stream * 0xd1b54a32d192ed03 + 0x8cb92ba72f3d8dd7);
  x += 0x9e3779b97f4a7c15;
  r.s0 = splitmix(x);
  x += 0x9e3779b97f4a7c15;
  r.s1 = splitmix(x);
  x += 0x9e3779b97f4a7c15;
  r.s2 = splitmix(x);
  x += 0x9e3779b97f4a7c15;
  r.s3 = splitmix(x);
  r.spare = NaN;
}

// @ts-ignore: decorator
@inline
export function next64(r: Rng): u64 {
  const s0 = r.s0;
  const s1 = r.s1;
  const s3 = r.s3;
  const out = rotl<u64>(s0 + s3, 23) + s0;
  const t = s1 << 17;
  let s2 = r.s2 ^ s0;
  const n3 = s3 ^ s1;
  r.s1 = s1 ^ s2;
  r.s0 = s0 ^ n3;
  s2 ^= t;
  r.s2 = s2;
  r.s3 = rotl<u64>(n3, 45);
  return out;
}

/** Uniform in [0, 1). */
// @ts-ignore: decorator
@inline
export function uniform(r: Rng): f64 {
  return <f64>(next64(r) >> 11) * 1.1102230246251565e-16;
}

/** Uniform in (0, 1]: safe for a logarithm. */
// @ts-ignore: decorator
@inline
export function positive(r: Rng): f64 {
  return <f64>((next64(r) >> 11) + 1) * 1.1102230246251565e-16;
}

/** Uniform integer in [0, n). */
// @ts-ignore: decorator
@inline
export function below(r: Rng, n: u32): u32 {
  return <u32>(((next64(r) >> 32) * <u64>n) >> 32);
}

/** Exponential with mean 1. */
// @ts-ignore: decorator
@inline
export function exponential(r: Rng): f64 {
  return -Math.log(positive(r));
}

/** Standard normal: Marsaglia's polar method. */
export function normal(r: Rng): f64 {
  const spare = r.spare;
  if (spare == spare) {
    r.spare = NaN;
    return spare;
  }
  let x: f64;
  let y: f64;
  let s: f64;
  do {
    x = 2 * uniform(r) - 1;
    y = 2 * uniform(r) - 1;
    s = x * x + y * y;
  } while (s >= 1 || s == 0);
  const f = Math.sqrt((-2 * Math.log(s)) / s);
  r.spare = y * f;
  return x * f;
}
