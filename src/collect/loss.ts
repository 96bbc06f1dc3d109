/**
 * Loss over several epochs. Summing what estimators say for each would count packets twice that are in flight at an aligned cut: lost in the
 * epoch in which they were sent, foreign in the next. With S sent and R received in all, and L the sum of the epochs' losses, L - (S - R) packets
 * were taken for foreign. At a cut between two epochs, rate x |delay| packets are in flight (Little), where the delay is that at the cut: several times the mean at some, and nothing at
 * others. Those that are missing before a cut and appear behind it, up to six times what the mean delay makes, were in flight; what is above that is foreign for good:
 *
 *   lost = S - R + max(0, L - (S - R) - sum over inner cuts of min(missing before, appeared behind, 6 x rate x |delay|))
 *
 * The delay is the apparent one: a clock's offset moves packets over the cut just the same. Where an estimator counts (its loss is sent - received)
 * this is the plain sum. Where epochs are cut by packets, those that overtook a delimiter, or were overtaken by it, are missing on one side of the cut and appear
 * on the other: as many of them as both neighbours can tell of were not lost. Behind the last aligned epoch of the sender its last packets still arrive: as far as the
 * receiver counted packets there, what is missing in that epoch was not lost. An aligned epoch that received more than was sent in it has no loss of its own, but what it has too
 * many the one before has too few: it counts with them, or a queue that empties over a cut would pass for loss.
 */
import type { CutMode } from "../epoch/record.ts";
import { isNoAnswer, type SegmentEstimate } from "../estimators/estimator.ts";

interface Neighbour {
  endNs: bigint;
  lengthNs: number;
  received: number;
  meanNs: number | null;
  /** Packets that are missing, and that appeared at the receiver only. */
  lost: number;
  appeared: number;
}

export class LossTotal {
  #lost: number | null = null;
  #apart = 0;
  #inFlight = 0;
  #before: Neighbour | null = null;
  /** Packets of aligned epochs that the receiver alone has, by their start. */
  readonly #receiverOnly = new Map<bigint, number>();

  /** Epochs come in order of time. */
  add(segment: SegmentEstimate, epoch: { mode: CutMode; startNs: bigint; endNs: bigint }): void {
    const { sent, received, mean } = segment;
    const follows = epoch.mode !== "control" && this.#before?.endNs === epoch.startNs;
    const tooMany = follows && sent !== null && received !== null && received > sent;
    const lost = segment.lost ?? (tooMany ? sent - received : null);
    if (lost === null) {
      this.#before = null;
      return;
    }
    this.#lost = (this.#lost ?? 0) + lost;
    if (sent === null || received === null) return;
    this.#apart += lost - (sent - received);
    const { startNs, endNs, mode } = epoch;
    const meanNs = isNoAnswer(mean) ? null : mean.valueNs;
    const apart = { lost: Math.max(0, lost), appeared: Math.max(0, lost - (sent - received)) };
    const now = { endNs, lengthNs: Number(endNs - startNs), received, meanNs, ...apart };
    const before = this.#before;
    if (before && before.endNs === startNs && mode !== "control")
      this.#inFlight += mode === "aligned" ? inFlight(before, now) : overtaken(before, now);
    this.#before = now;
  }

  /** An aligned epoch that the receiver alone has. */
  addReceiverOnly(startNs: bigint, packets: number): void {
    this.#receiverOnly.set(startNs, packets);
  }

  get lost(): number | null {
    if (this.#lost === null) return null;
    const atCuts = Math.min(Math.max(0, this.#apart), this.#inFlight);
    const lost = Math.round(this.#lost - atCuts - this.#behind());
    return lost < 0 ? null : lost;
  }

  /** Packets behind the last epoch that were sent in it: as many as it lacks, and as came into it from the one before. */
  #behind(): number {
    const last = this.#before;
    const late = last ? (this.#receiverOnly.get(last.endNs) ?? 0) : 0;
    if (!last || late === 0) return 0;
    const most = last.lost + mostInFlight(last, last);
    return late > most ? Math.min(late, last.lost) : Math.min(late, Math.max(0, this.#lost ?? 0));
  }
}

/** Packets that are missing in one of two neighbours and appear in the other. */
function overtaken(a: Neighbour, b: Neighbour): number {
  return Math.min(a.lost, b.appeared) + Math.min(b.lost, a.appeared);
}

/** Packets that one side of a cut counts before it and the other behind it: no more than both neighbours tell of, and than may be under way. */
function inFlight(a: Neighbour, b: Neighbour): number {
  return Math.min(overtaken(a, b), mostInFlight(a, b));
}

/** The delay at a cut may be so many times that of the epochs around it: a queue is long at some cuts, and empty at others. */
const MOST_AT_CUT = 6;

function mostInFlight(a: Neighbour, b: Neighbour): number {
  const known = [a.meanNs, b.meanNs].filter((m) => m !== null);
  if (known.length === 0) return 0;
  const delayNs = Math.abs(known.reduce((sum, m) => sum + m, 0) / known.length);
  // More than an epoch holds cannot be on its way over the cut.
  return Math.min(
    MOST_AT_CUT * ((a.received + b.received) / (a.lengthNs + b.lengthNs)) * delayNs,
    Math.max(a.received, b.received),
  );
}
