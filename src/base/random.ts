/**
 * A seeded, deterministic source of random numbers: xoshiro128** (Blackman and Vigna, version 1.1), 32-bit integers only.
 *
 * The same seed gives the same numbers on every machine. A number and a string are different seeds, even 1 and "1". `fork(label)` returns a separate stream
 * that depends on the seed and the label alone, not on how much was drawn: adding a draw in one place changes nothing elsewhere. The same label gives the same
 * stream each time.
 * Not for secrets.
 */
import { hashBytes64, mix64Into } from "./hash.ts";
import { lgamma } from "./math/special.ts";

const TWO_32 = 4294967296;
// Different first halves of the seed keep numbers, strings and forks apart.
const NUMBER_DOMAIN = 0x6e756d62;
const STRING_DOMAIN = 0x74657874;

export class Random {
  #a = 0;
  #b = 0;
  #c = 0;
  #d = 0;
  // The state that forks are derived from.
  #seedHi = 0;
  #seedLo = 0;
  // The polar method produces normals in pairs; the second one is kept here.
  #spare = 0;
  #hasSpare = false;

  constructor(seed: number | string) {
    if (typeof seed === "string") this.#seed(hashBytes64(encoder.encode(seed), STRING_DOMAIN, 0));
    else {
      if (!Number.isFinite(seed)) throw new RangeError(`${seed} is not a seed`);
      // Hash all 64 bits of the double, so that 0.1 and 2^40 are seeds as good as 1. Adding 0 turns -0 into 0.
      const bits = new Uint8Array(new Float64Array([seed + 0]).buffer);
      this.#seed(hashBytes64(bits, NUMBER_DOMAIN, 0));
    }
  }

  /** Returns a generator in a given state, as the reference implementation has it: four uint32, not all zero. */
  static fromState(a: number, b: number, c: number, d: number): Random {
    if ((a | b | c | d) === 0) throw new RangeError("a state of four zeros stays there for ever");
    const words = Uint32Array.of(a, b, c, d);
    const random = new Random(0);
    [random.#seedHi, random.#seedLo] = hashBytes64(new Uint8Array(words.buffer), 0, 0);
    random.#a = a | 0;
    random.#b = b | 0;
    random.#c = c | 0;
    random.#d = d | 0;
    return random;
  }

  /** Returns an independent, named stream; see the file header. */
  fork(label: string): Random {
    const child = new Random(0);
    child.#seed(hashBytes64(encoder.encode(label), this.#seedHi, this.#seedLo));
    return child;
  }

  uint32(): number {
    const b = this.#b;
    const scrambled = Math.imul(b, 5);
    const result = Math.imul((scrambled << 7) | (scrambled >>> 25), 9);
    const c = this.#c ^ this.#a;
    const d = this.#d ^ b;
    this.#b = b ^ c;
    this.#a ^= d;
    this.#c = c ^ (b << 9);
    this.#d = (d << 11) | (d >>> 21);
    return result >>> 0;
  }

  /** Returns a uniform number in [0, 1), a multiple of 2^-53. */
  float(): number {
    const high = this.uint32() >>> 5;
    return (high * 67108864 + (this.uint32() >>> 6)) / 9007199254740992;
  }

  /** Returns a uniform integer from 0 to n - 1 without bias, for n up to 2^53. */
  below(n: number): number {
    if (!(n >= 1 && n <= 9007199254740992 && Number.isInteger(n))) {
      throw new RangeError(`cannot draw below ${n}`);
    }
    if (n === 1) return 0;
    // Draw as many bits as n - 1 has until the value is below n: fewer than two draws on average.
    if (n <= TWO_32) {
      const shift = Math.clz32(n - 1);
      for (;;) {
        const value = this.uint32() >>> shift;
        if (value < n) return value;
      }
    }
    const shift = Math.clz32(Math.floor((n - 1) / TWO_32));
    for (;;) {
      const value = (this.uint32() >>> shift) * TWO_32 + this.uint32();
      if (value < n) return value;
    }
  }

  bernoulli(p: number): boolean {
    return this.float() < p;
  }

  /** Returns a normal variate with mean 0 and standard deviation 1 (Marsaglia's polar method). */
  normal(): number {
    if (this.#hasSpare) {
      this.#hasSpare = false;
      return this.#spare;
    }
    for (;;) {
      const x = 2 * this.float() - 1;
      const y = 2 * this.float() - 1;
      const s = x * x + y * y;
      if (s >= 1 || s === 0) continue;
      const factor = Math.sqrt((-2 * Math.log(s)) / s);
      this.#spare = y * factor;
      this.#hasSpare = true;
      return x * factor;
    }
  }

  lognormal(mu: number, sigma: number): number {
    return Math.exp(mu + sigma * this.normal());
  }

  exponential(mean: number): number {
    // 1 - float() is in (0, 1]: the logarithm is finite.
    return -mean * Math.log(1 - this.float());
  }

  /** P(X > x) = (scale / x)^shape for x >= scale; the mean is infinite for shape <= 1. */
  pareto(shape: number, scale: number): number {
    checkPositive("pareto shape", shape);
    return scale * Math.exp(this.exponential(1) / shape);
  }

  /** P(X > x) = exp(-(x / scale)^shape). */
  weibull(shape: number, scale: number): number {
    checkPositive("weibull shape", shape);
    return scale * Math.exp(Math.log(this.exponential(1)) / shape);
  }

  /** Returns the number of trials up to and including the first success: 1, 2, 3 … with mean 1 / p. */
  geometric(p: number): number {
    if (!(p > 0 && p <= 1)) throw new RangeError(`a geometric draw needs a probability in (0, 1], not ${p}`);
    if (p === 1) return 1;
    return 1 + Math.floor(Math.log(1 - this.float()) / Math.log1p(-p));
  }

  poisson(mean: number): number {
    if (!(mean >= 0 && mean < 1e15))
      throw new RangeError(`a poisson draw needs a mean of 0 to 1e15, not ${mean}`);
    return mean < 12 ? this.#poissonByInversion(mean) : this.#poissonByRejection(mean);
  }

  /** Shuffles in place (Fisher and Yates); every order is equally likely. */
  shuffle<T extends { readonly length: number; [index: number]: unknown }>(array: T): T {
    for (let i = array.length - 1; i > 0; i--) {
      const j = this.below(i + 1);
      const kept = array[i];
      array[i] = array[j];
      array[j] = kept;
    }
    return array;
  }

  #poissonByInversion(mean: number): number {
    let term = Math.exp(-mean);
    let left = this.float();
    let k = 0;
    // The terms add up to 1 only within rounding: the limit, 20 standard deviations out, keeps the loop from running on.
    while (left >= term && k < 120) {
      left -= term;
      term *= mean / ++k;
    }
    return k;
  }

  // Transformed rejection with squeeze (Hörmann 1993, PTRS), valid from a mean of 10.
  #poissonByRejection(mean: number): number {
    const b = 0.931 + 2.53 * Math.sqrt(mean);
    const a = -0.059 + 0.02483 * b;
    const inverseAlpha = 1.1239 + 1.1328 / (b - 3.4);
    const squeeze = 0.9277 - 3.6224 / (b - 2);
    const logMean = Math.log(mean);
    for (;;) {
      const u = this.float() - 0.5;
      const v = 1 - this.float();
      const us = 0.5 - Math.abs(u);
      const k = Math.floor(((2 * a) / us + b) * u + mean + 0.43);
      if (us >= 0.07 && v <= squeeze) return k;
      if (k < 0 || (us < 0.013 && v > us)) continue;
      const accepted = Math.log((v * inverseAlpha) / (a / (us * us) + b));
      if (accepted <= k * logMean - mean - lgamma(k + 1)) return k;
    }
  }

  #seed([hi, lo]: [number, number]): void {
    this.#seedHi = hi;
    this.#seedLo = lo;
    // mix64 of two different inputs: as a bijection it cannot give zero for both, so the four words are not all zero.
    const out = new Uint32Array(2);
    mix64Into(hi ^ 0x243f6a88, lo ^ 0x85a308d3, out);
    this.#a = out[0]! | 0;
    this.#b = out[1]! | 0;
    mix64Into(hi ^ 0x13198a2e, lo ^ 0x03707344, out);
    this.#c = out[0]! | 0;
    this.#d = out[1]! | 0;
  }
}

const encoder = new TextEncoder();

function checkPositive(name: string, value: number): void {
  if (!(value > 0)) throw new RangeError(`${name} must be above zero, not ${value}`);
}
