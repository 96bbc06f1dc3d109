/**
 * Recovery after a crash: sets unreadable records aside and has the journal's time spans estimated again. If there are no results at all,
 * everything is estimated again.
 */
import { mkdirSync, renameSync } from "node:fs";
import { basename, join } from "node:path";
import type { RecordArchive } from "../archive/archive.ts";
import { listSegments } from "../archive/listing.ts";
import { FormatError } from "../base/errors.ts";
import { later } from "../base/time.ts";
import type { CollectedSegment } from "../collect/collector.ts";
import type { ResultsStore } from "../results/results-store.ts";
import type { Journal, PendingSpan } from "./journal.ts";
import { labelled, type Span } from "./pairing.ts";
import type { PairingPart } from "./pairing-thread.ts";

/** Longer than epochs wait for the other endpoint. */
const NEWEST_NS = 60_000_000_000n;

export interface Recovered {
  archive: RecordArchive;
  results: ResultsStore;
  journal: Journal;
  pairing: PairingPart;
  /** Segments to watch besides those named by labels in the archive. */
  segments: readonly CollectedSegment[];
  /** Folder for unreadable records. */
  damaged: string;
  onProblem: (text: string) => void;
  onLog: (text: string) => void;
}

export async function recover(parts: Recovered): Promise<void> {
  const { archive, results, journal, pairing, segments, damaged, onProblem, onLog } = parts;
  for (const point of archive.points())
    for (const label of listSegments(archive.directory, point)) {
      const found = labelled(label, point);
      if (found) pairing.watch(found);
    }
  for (const segment of segments) pairing.watch(segment);
  const { spans } = journal;
  for (const span of spans) for (const text of setAsideDamaged(archive, damaged, span)) onProblem(text);
  for (const segment of pairing.segments) {
    const own = spans.filter(
      (s) => s.segment === segment.label && (s.point === segment.from || s.point === segment.to),
    );
    if (own.length > 0) pairing.resume(segment, own.map((s) => s.endNs).reduce(later));
  }
  for (const span of spans) pairing.again(span.point, span.segment, span);
  // Other collectors may keep results in the same database, so this looks for rows of our own segments, not for any rows.
  const known = new Set((await results.segments()).map(nameOf));
  if (!pairing.segments.some((s) => known.has(nameOf(s))))
    for (const segment of pairing.segments) {
      const span = estimateAll(archive, pairing, segment);
      // With its first rows, the results no longer look empty to the next start. Until all rows are written, the journal keeps these spans.
      if (span) await journal.addSpans(pendingSpans(segment, span));
    }
  if (spans.length > 0)
    onLog(`recovering: ${spans.length} messages of the previous run may not be in the results`);
}

const nameOf = ({ from, to, label }: CollectedSegment) => JSON.stringify([from, to, label]);

/** Splits off the newest part: it stays open until newer records arrive, and is cheap to estimate again. */
function pendingSpans({ from, label }: CollectedSegment, { startNs, endNs }: Span): PendingSpan[] {
  const cutNs = later(startNs, endNs - NEWEST_NS);
  const parts = [
    { startNs, endNs: cutNs },
    { startNs: cutNs, endNs },
  ];
  return parts.filter((p) => p.endNs > p.startNs).map((p) => ({ point: from, segment: label, ...p }));
}

/** Has all archived records of a segment estimated. Returns the time span they cover, or null if the archive has none. */
export function estimateAll(
  archive: RecordArchive,
  pairing: PairingPart,
  segment: CollectedSegment,
): Span | null {
  const { from, to, label } = segment;
  const { entries } = archive.list({ points: [from, to], segments: [label] });
  const [first] = entries;
  if (!first) return null;
  const endNs = entries.map((e) => e.epoch.endNs).reduce(later);
  pairing.resume(segment, endNs);
  const span = { startNs: first.epoch.startNs, endNs };
  pairing.again(first.point, label, span);
  return span;
}

/** Moves the unreadable records of a time span to a folder. Returns one line per record: what is wrong and where it is now. */
function setAsideDamaged(
  archive: RecordArchive,
  folder: string,
  { point, segment, startNs, endNs }: { point: string; segment: string; startNs: bigint; endNs: bigint },
): string[] {
  const { entries } = archive.list({
    points: [point],
    segments: [segment],
    fromNs: startNs,
    toNs: endNs,
  });
  const found: string[] = [];
  for (const entry of entries) {
    try {
      archive.readRecord(entry);
    } catch (error) {
      if (!(error instanceof FormatError)) throw error;
      mkdirSync(folder, { recursive: true });
      const aside = join(folder, `${Date.now()}-${basename(entry.file)}`);
      renameSync(entry.file, aside);
      found.push(`${error.message}; set aside as ${aside}`);
    }
  }
  return found;
}
