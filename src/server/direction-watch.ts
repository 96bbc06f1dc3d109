/**
 * Finds the direction labels of segments that are watched without a label and whose points keep records per direction (observe/direction-lanes.ts).
 * As soon as the records of both points show which label is the direction from A to B (query/segment/direction.ts), that label is watched too.
 * Checked every few seconds while there are labels whose direction is unknown.
 */
import type { RecordArchive } from "../archive/archive.ts";
import { listSegments } from "../archive/listing.ts";
import { UsageError } from "../base/errors.ts";
import { later } from "../base/time.ts";
import type { CollectedSegment } from "../collect/collector.ts";
import { directionLabel, networksOfLabels, parseDirectionLabel } from "../epoch/direction-label.ts";
import type { Estimator } from "../estimators/estimator.ts";
import { askArchive } from "../query/segment/ask.ts";
import { forwardLabel } from "../query/segment/direction.ts";

const LOOK_MS = 5000;
/** A few epochs are enough, and answers over many are costly. */
const ASKED_NS = 20_000_000_000n;

export interface DirectionWatchOptions {
  archive: RecordArchive;
  table: readonly Estimator[];
  /** The segments watched now. */
  segments: () => readonly CollectedSegment[];
  watch: (segment: CollectedSegment) => void;
}

export class DirectionWatch {
  readonly #options: DirectionWatchOptions;
  /** Labels have arrived whose direction is not known yet. */
  #open = true;
  readonly #heard = new Set<string>();
  #lookedMs = Number.NEGATIVE_INFINITY;

  constructor(options: DirectionWatchOptions) {
    this.#options = options;
  }

  /** Called for each record with its point and label. */
  hear(point: string, label: string): void {
    if (label === "" || parseDirectionLabel(label) === null) return;
    const name = JSON.stringify([point, label]);
    if (this.#heard.has(name)) return;
    this.#heard.add(name);
    this.#open = true;
  }

  resolve(nowMs = performance.now()): void {
    if (!this.#open || nowMs - this.#lookedMs < LOOK_MS) return;
    this.#lookedMs = nowMs;
    const segments = this.#options.segments();
    const waiting = segments.filter(({ label }) => label === "").map((s) => this.#resolve(s, segments));
    this.#open = waiting.includes(true);
  }

  /** Returns true if a direction is still unknown. */
  #resolve({ from, to }: CollectedSegment, segments: readonly CollectedSegment[]): boolean {
    const { directory } = this.#options.archive;
    const [own, other] = [from, to].map((point) => networksOfLabels(listSegments(directory, point)));
    const common = (own ?? []).filter((n) => (other ?? []).some((o) => o.join() === n.join()));
    let open = false;
    for (const networks of common) {
      const labels = (["from", "to"] as const).map((way) => directionLabel(way, networks));
      if (segments.some((s) => s.from === from && s.to === to && labels.includes(s.label))) continue;
      const label = this.#forward([from, to], labels);
      if (label === null) open = true;
      else this.#options.watch({ from, to, label });
    }
    return open;
  }

  /** Returns the label of the direction from the first point to the second; null if the records do not show it yet. */
  #forward(between: [string, string], labels: readonly string[]): string | null {
    const { archive, table } = this.#options;
    const { entries } = archive.list({ points: between, segments: labels });
    const lastNs = entries.reduce((last, e) => later(e.epoch.endNs, last), 0n);
    const there = new Set(entries.map((e) => e.estimator));
    const first = table.find((e) => there.has(e.name) && e.needs.sender && e.answers.length > 0);
    if (!first) return null;
    try {
      const asked = labels.map((label) => ({
        label,
        answer: askArchive(
          archive,
          { between, segment: label, estimators: [first.name], fromNs: lastNs - ASKED_NS },
          { table },
        ),
      }));
      return forwardLabel(between, asked).label;
    } catch (error) {
      if (error instanceof UsageError) return null;
      throw error;
    }
  }
}
