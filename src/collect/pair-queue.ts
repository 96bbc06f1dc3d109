/**
 * Pairing while records arrive: each waits for its partner until the watermark passes, then is given up and named. One that comes after
 * that is late: named too, and not paired, since its epoch has been answered without it.
 */
import type { ArchiveEntry } from "../archive/names.ts";
import { pairRecords, type RecordPair, type Unpaired } from "./pair.ts";

export interface ReadyPairs {
  pairs: RecordPair[];
  /** Given up: the partner has not come in time. */
  unpaired: Unpaired[];
  /** Came after their epoch was given up. */
  late: ArchiveEntry[];
}

/** For records of one segment and estimator. */
export class PairQueue {
  #senders: ArchiveEntry[] = [];
  #receivers: ArchiveEntry[] = [];
  #late: ArchiveEntry[] = [];
  #watermarkNs: bigint | null = null;

  get waiting(): number {
    return this.#senders.length + this.#receivers.length;
  }

  add(end: "sender" | "receiver", entry: ArchiveEntry): void {
    if (this.#watermarkNs !== null && entry.epoch.endNs <= this.#watermarkNs) this.#late.push(entry);
    else (end === "sender" ? this.#senders : this.#receivers).push(entry);
  }

  /** What is complete, and what is given up because its epoch ended at or before `watermarkNs`. */
  take(watermarkNs: bigint): ReadyPairs {
    const past = (e: ArchiveEntry) => e.epoch.endNs <= watermarkNs;
    const { pairs, unpaired } = pairRecords(this.#senders, this.#receivers);
    // A delimited epoch may still be found to be part of a larger one while its neighbours are open.
    const settled = (pair: RecordPair) =>
      pair.senders[0]?.epoch.mode !== "delimited" || both(pair).every(past);
    const ready = pairs.filter(settled);
    const given = unpaired.filter((u) => past(u.entry));
    const done = new Set([...ready.flatMap(both), ...given.map((u) => u.entry)]);
    this.#senders = this.#senders.filter((e) => !done.has(e));
    this.#receivers = this.#receivers.filter((e) => !done.has(e));
    const late = this.#late;
    this.#late = [];
    if (this.#watermarkNs === null || watermarkNs > this.#watermarkNs) this.#watermarkNs = watermarkNs;
    return { pairs: ready, unpaired: given, late };
  }
}

function both(pair: RecordPair): ArchiveEntry[] {
  return [...pair.senders, ...pair.receivers];
}
