/**
 * What a worker has read of a partition it takes over: how far the records of each endpoint of its segments reach, and which may not be in the
 * results yet.
 */
import { earlier, later } from "../../base/time.ts";
import type { CollectedSegment } from "../../collect/collector.ts";
import type { RecordHead } from "../../epoch/record.ts";

interface End {
  latestNs: bigint;
  /** Longest epoch of this endpoint. */
  longestNs: bigint;
  /** Start of the first epoch that may not be in the results. */
  openNs: bigint | null;
}

export class Takeover {
  /** Records whose rows may not be in the results. */
  readonly open: RecordHead[] = [];
  readonly #ends = new Map<string, End>();

  add(head: RecordHead, open: boolean): void {
    const { startNs, endNs } = head.epoch;
    const key = endKey(head.point, head.segment);
    const known = this.#ends.get(key) ?? { latestNs: endNs, longestNs: 0n, openNs: null };
    this.#ends.set(key, {
      latestNs: later(known.latestNs, endNs),
      longestNs: later(known.longestNs, endNs - startNs),
      openNs: open ? earlier(known.openNs ?? startNs, startNs) : known.openNs,
    });
    if (open) this.open.push(head);
  }

  /**
   * Returns where a segment continues, or null if no record of it was read. Epochs that begin before `doneNs` are in the results: both endpoints
   * have records after them, and all of these were acknowledged. Two epochs before that are estimated again as a margin: an epoch's estimators
   * arrive one after the other, and the endpoints do not cut at the same instant.
   */
  of({ from, to, label }: CollectedSegment): { latestNs: bigint; doneNs: bigint } | null {
    const ends = [from, to].flatMap((point) => this.#ends.get(endKey(point, label)) ?? []);
    const [first] = ends;
    if (!first) return null;
    const latestNs = ends.map((end) => end.latestNs).reduce(later);
    // No records of the other endpoint were read, so it is unknown how far it had come.
    if (ends.length < 2) return { latestNs, doneNs: 0n };
    const longestNs = ends.map((end) => end.longestNs).reduce(later);
    const sureNs = ends.map((end) => earlier(end.latestNs, end.openNs ?? end.latestNs)).reduce(earlier);
    return { latestNs, doneNs: sureNs - 2n * longestNs };
  }
}

const endKey = (point: string, label: string) => JSON.stringify([point, label]);
