/**
 * Exact count, sum and sum of squares of packets' delays: the payload of the baselines that keep nothing else.
 *
 *   u32  fingerprint
 *   varint  packets that count
 *   i64  sum of delays, ns
 *   u64  x 2: sum of squares, lower and upper half
 */
import { ByteReader, ByteWriter } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import { studentQuantile } from "../../base/math/special.ts";
import type { Interval, NoAnswer, SealedEpoch } from "../estimator.ts";
import { deviationInterval } from "./sample-statistics.ts";

/** Longer delays (73 minutes) are rejected; squares of shorter ones are added without rounding. */
export const LONGEST_NS = 2 ** 42;
/** Assumed excess kurtosis of the probes' delays: no fourth powers are kept. */
const SKEWED_KURTOSIS = 18;
const HALF = 2 ** 21;
const MASK = (1n << 64n) - 1n;

export class DelaySums {
  count = 0;
  sum = 0n;
  squares = 0n;

  /** Adds delays in pieces of up to 2,048, so that partial sums stay below 2^53. */
  addAll(delays: ArrayLike<number>, take: (i: number) => boolean, from: number, to: number): void {
    for (let start = from; start < to; start += 2048)
      this.#add(delays, take, start, Math.min(to, start + 2048));
  }

  #add(delays: ArrayLike<number>, take: (i: number) => boolean, from: number, to: number): void {
    let [count, sum, high, mixed, low] = [0, 0, 0, 0, 0];
    for (let i = from; i < to; i++) {
      const delay = Math.round(delays[i]!);
      if (!(Math.abs(delay) < LONGEST_NS) || !take(i)) continue;
      const size = Math.abs(delay);
      const a = Math.floor(size / HALF);
      const b = size - a * HALF;
      count++;
      sum += delay;
      high += a * a;
      mixed += a * b;
      low += b * b;
    }
    this.count += count;
    this.sum += BigInt(sum);
    this.squares += (BigInt(high) << 42n) + (BigInt(mixed) << 22n) + BigInt(low);
  }

  encode(fingerprint: number): Uint8Array {
    const out = new ByteWriter(40);
    out.u32(fingerprint);
    out.varint(this.count);
    out.i64(BigInt.asIntN(64, this.sum));
    out.u64(this.squares & MASK);
    out.u64(this.squares >> 64n);
    return out.finish();
  }

  static decode(
    name: string,
    sealed: SealedEpoch,
    fingerprint?: number,
  ): { sums: DelaySums; fingerprint: number } {
    const reader = new ByteReader(sealed.payload, { file: name });
    const print = reader.u32();
    if (fingerprint !== undefined && print !== fingerprint)
      throw new FormatError("bad-record", name, 0, "made with another seed or other parameters");
    const sums = new DelaySums();
    sums.count = reader.varint();
    sums.sum = reader.i64();
    sums.squares = reader.u64() | (reader.u64() << 64n);
    reader.expectEnd();
    if (sums.count > sealed.packets)
      throw new FormatError("bad-record", name, 4, `${sums.count} delays of ${sealed.packets} packets`);
    return { sums, fingerprint: print };
  }

  static merge(name: string, a: SealedEpoch, b: SealedEpoch): SealedEpoch {
    const x = DelaySums.decode(name, a);
    const y = DelaySums.decode(name, b);
    if (x.fingerprint !== y.fingerprint)
      throw new FormatError("bad-record", name, 0, "the two were made with different seeds or parameters");
    const both = new DelaySums();
    both.count = x.sums.count + y.sums.count;
    both.sum = x.sums.sum + y.sums.sum;
    both.squares = x.sums.squares + y.sums.squares;
    return { payload: both.encode(x.fingerprint), packets: a.packets + b.packets };
  }

  /** Returns mean and variance, or null if nothing was counted. */
  moments(): { mean: number; variance: number } | null {
    if (this.count === 0) return null;
    const n = BigInt(this.count);
    const mean = Number(this.sum) / this.count;
    // Exact before the division, because n * squares - sum^2 cancels heavily.
    const spread = n * this.squares - this.sum * this.sum;
    return { mean, variance: Math.max(0, Number(spread)) / this.count / this.count };
  }

  /** Treats the delays as a sample of all packets. */
  describe(confidence: number, none: NoAnswer): { mean: Interval | NoAnswer; stdev: Interval | NoAnswer } {
    const moments = this.moments();
    if (!moments || this.count < 2) return { mean: none, stdev: none };
    const { mean } = moments;
    const deviation = Math.sqrt((moments.variance * this.count) / (this.count - 1));
    const t = studentQuantile(0.5 + confidence / 2, this.count - 1);
    const half = (t * deviation) / Math.sqrt(this.count);
    return {
      mean: { valueNs: mean, lowNs: mean - half, highNs: mean + half },
      stdev: deviationInterval(deviation ** 2, this.count, SKEWED_KURTOSIS, confidence),
    };
  }
}
