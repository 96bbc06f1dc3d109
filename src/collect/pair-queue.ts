/**
 * Pairs records while they arrive, for one segment and estimator: each waits for its partner until the watermark passes, then it is given up and reported. A
 * record that comes later is late: reported, too, and not paired, because its epoch was answered without it. A repeated record is not taken again.
 *
 * Epochs cut by packets wait for their neighbours, with which they may have to be merged, but not for neighbours that cannot come: if both captures have ended
 * they are estimated at once.
 *
 * State is bounded by the watermark, and by `maxWaiting` if that does not move (one end is silent): then the oldest are given up.
 */
import { identityText } from "../epoch/identity.ts";
import type { RecordPair, Unpaired } from "./pair.ts";
import type { RecordHandle } from "./record-handle.ts";
import { choosePairs, type Span, spanOf } from "./tracks.ts";

export interface ReadyPairs {
  pairs: RecordPair<RecordHandle>[];
  /** Given up: the partner did not come in time. */
  unpaired: Unpaired<RecordHandle>[];
  /** Cover time that is already answered. */
  overlapping: RecordPair<RecordHandle>[];
}

export interface PairQueueOptions {
  /** Whether both ends or only the receiver's records make an estimate. */
  ends: "both" | "receiver";
  /** Maximum number of waiting records. */
  maxWaiting: number;
}

/** Names of finished records kept to recognise repetitions. */
const MAX_REMEMBERED = 4096;

export class PairQueue {
  readonly #options: PairQueueOptions;
  #senders: RecordHandle[] = [];
  #receivers: RecordHandle[] = [];
  #watermarkNs: bigint | null = null;
  /** Answered time, as far as a record that is not late may still overlap it. */
  #answered: Span[] = [];
  #longestNs = 0n;
  /** Names of waiting records, and of the last ones finished. */
  readonly #names = new Set<string>();
  /** Those without their other end at the last check, if nothing has come since. */
  #alone: readonly RecordHandle[] = [];

  constructor(options: PairQueueOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#senders.length + this.#receivers.length;
  }

  waitingRecords(): RecordHandle[] {
    return [...this.#senders, ...this.#receivers];
  }

  /** Returns the names (identity.ts) of waiting records. */
  waitingNames(): string[] {
    return this.waitingRecords().map(identityText);
  }

  /** Returns the names of those that wait only for their other end: all others are estimated sooner or later. */
  aloneNames(): string[] {
    return this.#alone.map(identityText);
  }

  add(end: "sender" | "receiver", record: RecordHandle): "taken" | "repeated" | "late" {
    const name = identityText(record);
    if (this.#names.has(name)) return "repeated";
    if (this.#watermarkNs !== null && record.epoch.endNs <= this.#watermarkNs) return "late";
    this.#names.add(name);
    this.#alone = [];
    const lengthNs = record.epoch.endNs - record.epoch.startNs;
    if (lengthNs > this.#longestNs) this.#longestNs = lengthNs;
    (end === "sender" ? this.#senders : this.#receivers).push(record);
    return "taken";
  }

  /**
   * Returns what is complete, and what is given up because its epoch ended at or before `watermarkNs`; null: everything, because the input has ended.
   * `complete`: a pair for which this is false waits for the watermark, too (something else of its epoch is still expected).
   */
  take(
    watermarkNs: bigint | null,
    complete: (pair: RecordPair<RecordHandle>) => boolean = () => true,
  ): ReadyPairs {
    const givenUp = watermarkNs === null ? null : this.#overfull(watermarkNs);
    const past = ({ epoch }: RecordHandle) => givenUp === null || epoch.endNs <= givenUp;
    const chosen = choosePairs(this.#senders, this.#receivers, this.#options.ends, this.#answered);
    const ended = isUpToTheEnd(this.#senders) && isUpToTheEnd(this.#receivers);
    // A delimited epoch may still turn out to be part of a larger one while its neighbours are open.
    const closed = (pair: RecordPair<RecordHandle>) => pair.senders[0]?.epoch.mode !== "delimited" || ended;
    const settled = (pair: RecordPair<RecordHandle>) =>
      (closed(pair) && complete(pair)) || both(pair).every(past);
    const ready: ReadyPairs = {
      pairs: chosen.pairs.filter(settled),
      unpaired: chosen.unpaired.filter((u) => past(u.entry)),
      overlapping: chosen.overlapping.filter((pair) => both(pair).every(past)),
    };
    this.#finish(ready, givenUp);
    this.#alone = chosen.unpaired.flatMap(({ entry }) => (past(entry) ? [] : [entry]));
    if (givenUp !== null && (this.#watermarkNs === null || givenUp > this.#watermarkNs))
      this.#watermarkNs = givenUp;
    return ready;
  }

  #finish({ pairs, unpaired, overlapping }: ReadyPairs, watermarkNs: bigint | null): void {
    const done = new Set([
      ...pairs.flatMap(both),
      ...unpaired.map((u) => u.entry),
      ...overlapping.flatMap(both),
    ]);
    this.#senders = this.#senders.filter((r) => !done.has(r));
    this.#receivers = this.#receivers.filter((r) => !done.has(r));
    const answered = [...this.#answered, ...pairs.map(spanOf)];
    const fromNs = watermarkNs === null ? null : watermarkNs - this.#longestNs;
    this.#answered = answered.filter((s) => fromNs === null || s.endNs > fromNs);
    if (this.#names.size <= this.waiting + MAX_REMEMBERED) return;
    // Never a waiting one: it would be taken twice.
    const waiting = new Set(this.waitingNames());
    for (const name of this.#names) {
      if (this.#names.size <= waiting.size + MAX_REMEMBERED / 2) break;
      if (!waiting.has(name)) this.#names.delete(name);
    }
  }

  /** The watermark, or later if more records wait than allowed. */
  #overfull(watermarkNs: bigint): bigint {
    const excess = this.waiting - this.#options.maxWaiting;
    if (excess <= 0) return watermarkNs;
    const ends = [...this.#senders, ...this.#receivers]
      .map((r) => r.epoch.endNs)
      .sort((a, b) => (a < b ? -1 : 1));
    const oldest = ends[excess - 1] ?? watermarkNs;
    return oldest > watermarkNs ? oldest : watermarkNs;
  }
}

/** Returns whether no record cut by packets is missing in between, and the capture ended with the last. */
function isUpToTheEnd(records: readonly RecordHandle[]): boolean {
  const latestFirst = records
    .filter(({ epoch }) => epoch.mode === "delimited")
    .sort((a, b) => (a.epoch.startNs > b.epoch.startNs ? -1 : 1));
  const begins = new Set<string>();
  for (const { fingerprint, seed, epoch } of latestFirst) {
    const at = (id: bigint, ns: bigint) => `${fingerprint}/${seed}/${id}/${ns}`;
    if (epoch.endId !== 0n && !begins.has(at(epoch.endId, epoch.endNs))) return false;
    begins.add(at(epoch.startId, epoch.startNs));
  }
  return true;
}

function both(pair: RecordPair<RecordHandle>): RecordHandle[] {
  return [...pair.senders, ...pair.receivers];
}
