/** What a worker has read of a partition that it takes over: how far each end of its segments was, and what may not be in the results. */
import { earlier, later } from "../../base/time.ts";
import type { CollectedSegment } from "../../collect/collector.ts";
import type { RecordHead } from "../../epoch/record.ts";

interface End {
  latestNs: bigint;
  /** Of its epochs. */
  longestNs: bigint;
  /** Start of the first that may not be in the results. */
  openNs: bigint | null;
}

export class Takeover {
  /** Records that may not be in the results. */
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
   * Where a segment goes on; null where nothing of it was read. Epochs that begin before `doneNs` are in the results: both ends were farther, and everything of it was acknowledged. An epoch or two
   * are made once more: estimators of one epoch come one after the other, and ends are not cut at the same instant.
   */
  of({ from, to, label }: CollectedSegment): { latestNs: bigint; doneNs: bigint } | null {
    const ends = [from, to].flatMap((point) => this.#ends.get(endKey(point, label)) ?? []);
    const [first] = ends;
    if (!first) return null;
    const latestNs = ends.map((end) => end.latestNs).reduce(later);
    // Of the other end nothing was read: how far it was is not known.
    if (ends.length < 2) return { latestNs, doneNs: 0n };
    const longestNs = ends.map((end) => end.longestNs).reduce(later);
    const sureNs = ends.map((end) => earlier(end.latestNs, end.openNs ?? end.latestNs)).reduce(earlier);
    return { latestNs, doneNs: sureNs - 2n * longestNs };
  }
}

const endKey = (point: string, label: string) => JSON.stringify([point, label]);
