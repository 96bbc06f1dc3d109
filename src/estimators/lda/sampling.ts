/**
 * The share of the packets that each bank samples (sections III-B.3, III-B.4, III-D and IV-B).
 *
 * A bank of m rows that samples with probability p sees pL of L losses. A row stays usable with probability e^(-pL/m), so R received packets give an effective
 * sample of p R e^(-pL/m). That is largest at p = m/L: alpha = 1 in p = alpha m/(L + 1). The paper's alpha = 0.5 maximises its lower bound (2), not the sample.
 */
import { UsageError } from "../../base/errors.ts";

/** Loss rates that banks are tuned to, by number of banks (section IV-B). One bank has no usual rate; it must be given. */
export const PRESET_LOSS: Readonly<Record<number, readonly number[]>> = {
  2: [0.005, 0.1],
  3: [0.001, 0.01, 0.1],
  4: [0.001, 0.01, 0.05, 0.1],
};
/** Total counters of all banks if `rows` is not given, as in the paper's evaluation. */
export const DEFAULT_COUNTERS = 1024;
export const MAX_BANKS = 16;
/** Without a known packet rate: sampling by leading zero bits, 0 in the first bank and this many in the last. */
const LAST_ZERO_BITS = 12;
const TWO_32 = 2 ** 32;

/** Returns sampling probabilities for banks tuned to these loss rates, at this many packets per epoch. They are scaled down if their sum exceeds 1. */
export function tunedSampling(
  packets: number,
  loss: readonly number[],
  rows: number,
  alpha: number,
): number[] {
  const wanted = loss.map((rate) => Math.min(1, (alpha * rows) / (packets * rate + 1)));
  const sum = wanted.reduce((s, p) => s + p, 0);
  return sum > 1 ? wanted.map((p) => p / sum) : wanted;
}

/**
 * Returns sampling probabilities for unknown packets and loss. Every packet is in one bank. Each bank samples a power of 1/2 less than the previous one (1/16
 * with four banks), so that some bank suits any number of losses up to thousands per row of the first.
 */
export function leadingZeroSampling(banks: number): number[] {
  const bits = (bank: number) => (banks === 1 ? 0 : Math.round((LAST_ZERO_BITS * bank) / (banks - 1)));
  return Array.from({ length: banks }, (_, bank) => {
    const own = 2 ** -bits(bank);
    return bank + 1 < banks ? own - 2 ** -bits(bank + 1) : own;
  });
}

/** Returns the packets expected in usable rows. */
export function expectedSample(
  sampling: readonly number[],
  rows: number,
  received: number,
  lost: number,
): number {
  return sampling.reduce((sum, p) => sum + p * received * Math.exp((-p * lost) / rows), 0);
}

export interface HashRanges {
  /** Bank j takes hashes in [from[j], from[j - 1]), bank 0 up to `limit`; of 2^32. */
  from: bigint[];
  limit: bigint;
}

/** The last bank has the lowest hashes. For powers of 1/2 this is the paper's choice by leading zeros. */
export function hashRanges(sampling: readonly number[]): HashRanges {
  const from: bigint[] = [];
  let above = 0;
  for (let bank = sampling.length - 1; bank >= 0; bank--) {
    from[bank] = BigInt(Math.round(above * TWO_32));
    above += sampling[bank]!;
  }
  return { from, limit: BigInt(Math.min(TWO_32, Math.round(above * TWO_32))) };
}

export function checkSampling(sampling: readonly number[]): void {
  const sum = sampling.reduce((s, p) => s + p, 0);
  if (sampling.some((p) => !(p > 0 && p <= 1)) || sum > 1 + 1e-9) {
    throw new UsageError(
      "bad-parameter",
      `sampling=${sampling.join("/")} are not probabilities of disjoint samples`,
      "each above 0, all together at most 1, such as 0.12/0.0078",
      { parameter: "lda" },
    );
  }
}
