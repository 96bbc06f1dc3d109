/**
 * Checks that both ends count the same stream. Loss removes packets; it never makes a row hold more packets at the receiver than at the sender. Packets that
 * only the receiver counts (foreign packets, duplicates, packets in flight at the epoch's edge, packets rewritten on the way) show in
 * - rows with more packets at the receiver than at the sender: proof, packet by packet;
 * - the spread of the rows' differences: with l packets lost and f foreign per row, the difference has mean l - f and variance l + f (Skellam), so f =
 *   (variance - mean)/2;
 * - rows with equal counts and different digests.
 * Without digests, a lost and a foreign packet in one row cancel, and the row looks usable although its times are not of the same packets. `fooled` is the
 * expected number of such rows.
 */
import { countOf, formatCount } from "../../base/quantity.ts";
import type { LdaRows } from "./payload.ts";

export interface StreamCheck {
  /** Estimated number of packets seen only at the receiver, of all packets; at least the proven number. 0 if there is no sign of any. */
  foreign: number;
  /** Rows with equal counts but different digests. */
  swapped: number;
  /** Usable rows expected to hold different packets at the two ends, if rows have no digests. */
  fooled: number;
  /** Rows that hold packets at either end. */
  filled: number;
  /** The losses estimated by each bank (lost packets over its sampling), if the banks contradict each other by more than chance allows. */
  contradiction: string | null;
}

/** Standard errors that count as a sign. Foreign packets: one false alarm in 700 epochs. Contradicting banks: far beyond chance. */
const SIGN = 3;
const CONTRADICTION = 6;

export function checkStream(
  sender: LdaRows,
  receiver: LdaRows,
  sampling: readonly number[],
  missing: number,
): StreamCheck {
  let proven = 0;
  let swapped = 0;
  let filled = 0;
  let weight = 0;
  let weighted = 0;
  const spreads: { mean: number; foreign: number; error: number }[] = [];
  for (let bank = 0; bank < sender.banks; bank++) {
    const p = sampling[bank]!;
    let sum = 0;
    let squares = 0;
    for (let row = 0; row < sender.rows; row++) {
      const i = bank * sender.rows + row;
      const before = sender.count[i]!;
      const after = receiver.count[i]!;
      const d = before - after;
      sum += d;
      squares += d * d;
      if (d < 0) proven -= d;
      if (before > 0 || after > 0) filled++;
      if (d === 0 && sender.digest && receiver.digest && sender.digest[i] !== receiver.digest[i]) swapped++;
    }
    const mean = sum / sender.rows;
    const variance = (squares - sum * mean) / (sender.rows - 1);
    // Standard error for the variance of a Poisson-like count. The term of 1 packet per bank keeps it above 0 if nothing differs.
    const error = Math.sqrt((variance + 2 * variance * variance + 1 / sender.rows) / sender.rows) / 2;
    const foreign = (variance - mean) / 2;
    spreads.push({ mean, foreign, error });
    const total = (sender.rows * foreign) / p;
    const precision = (p / (sender.rows * error)) ** 2;
    weighted += precision * total;
    weight += precision;
  }
  const share = sampling.reduce((s, p) => s + p, 0);
  const estimate = weighted / weight;
  const certain = proven > 0 || swapped > 0 || missing < 0;
  const sign = certain || estimate * Math.sqrt(weight) > SIGN;
  const minimum = Math.max((proven + swapped) / share, -missing);
  const foreign = sign ? Math.max(minimum, estimate) : 0;
  let fooled = 0;
  if (!sender.digest && foreign > 0) {
    for (const [bank, { mean }] of spreads.entries()) {
      const f = (foreign * sampling[bank]!) / sender.rows;
      const l = Math.max(0, mean + f);
      fooled += sender.rows * cancelling(l, f);
    }
  }
  return {
    foreign: Math.round(foreign),
    swapped,
    fooled,
    filled,
    contradiction: contradictionOf(sender, receiver, sampling, missing, foreign),
  };
}

/** P(as many lost as foreign, at least one of each), Poisson with means l and f. */
function cancelling(l: number, f: number): number {
  let term = Math.exp(-l - f);
  let sum = 0;
  for (let k = 1; k < 200; k++) {
    term *= (l * f) / (k * k);
    sum += term;
    if (term < 1e-12 * sum) break;
  }
  return sum;
}

function contradictionOf(
  sender: LdaRows,
  receiver: LdaRows,
  sampling: readonly number[],
  missing: number,
  foreign: number,
): string | null {
  for (const [bank, p] of sampling.entries()) {
    let lost = 0;
    for (let i = bank * sender.rows; i < (bank + 1) * sender.rows; i++)
      lost += sender.count[i]! - receiver.count[i]!;
    const noise = Math.sqrt(p * (1 - p) * (Math.abs(missing) + 2 * foreign) + 1);
    if (Math.abs(lost - p * missing) > CONTRADICTION * noise) {
      return `bank ${bank + 1} lacks ${countOf(lost, "packet")}, expected ${formatCount(p * missing)} of the ${formatCount(missing)} missing`;
    }
  }
  return null;
}
