/** What a crash may have left: records that cannot be read are set aside, times that the journal names are estimated again; all of them where there are no results. */
import { mkdirSync, renameSync } from "node:fs";
import { basename, join } from "node:path";
import type { RecordArchive } from "../archive/archive.ts";
import { listSegments } from "../archive/listing.ts";
import { FormatError } from "../base/errors.ts";
import { later } from "../base/time.ts";
import type { CollectedSegment } from "../collect/collector.ts";
import type { ResultsStore } from "../results/results-store.ts";
import type { Journal } from "./journal.ts";
import { labelled } from "./pairing.ts";
import type { PairingPart } from "./pairing-thread.ts";

export interface Recovered {
  archive: RecordArchive;
  results: ResultsStore;
  journal: Journal;
  pairing: PairingPart;
  /** To be watched beside those that the archive's labels name. */
  segments: readonly CollectedSegment[];
  /** The folder of what cannot be read. */
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
  if (await results.isEmpty()) for (const segment of pairing.segments) estimateAll(archive, pairing, segment);
  if (spans.length > 0) onLog(`recovering: ${spans.length} messages of before may not be in the results`);
}

/** Everything that the archive has of a segment is estimated. */
export function estimateAll(archive: RecordArchive, pairing: PairingPart, segment: CollectedSegment): void {
  const { from, to, label } = segment;
  const { entries } = archive.list({ points: [from, to], segments: [label] });
  const [first] = entries;
  if (!first) return;
  const endNs = entries.map((e) => e.epoch.endNs).reduce(later);
  pairing.resume(segment, endNs);
  pairing.again(first.point, label, { startNs: first.epoch.startNs, endNs });
}

/** Records of a time that cannot be read are moved to a folder; what is wrong with each, and where it is now, is returned. */
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
