/**
 * Localises with the records of several points: each adjacent pair is queried like `hoptime query` does, epoch by epoch, and the answers go to the localiser.
 * No packets are needed: kilobytes per second and point.
 */

import { RecordArchive } from "../../archive/archive.ts";
import type { RecordStorage } from "../../archive/storage.ts";
import { UsageError } from "../../base/errors.ts";
import { countOf, formatCount } from "../../base/quantity.ts";
import { askArchive } from "../../query/segment/ask.ts";
import { type Localisation, type LocaliseOptions, localise } from "./localise.ts";
import type { LocaliseEstimate } from "./segment-estimate.ts";

export interface LocaliseRecordsOptions extends LocaliseOptions {
  directory: string;
  storage?: RecordStorage | undefined;
  /** Points in path order. */
  points: string[];
  /** Name of the estimator; default: the first that has records of each pair. */
  estimator?: string | undefined;
  fromNs?: bigint | undefined;
  toNs?: bigint | undefined;
}

export function localiseRecords(options: LocaliseRecordsOptions): {
  localisation: Localisation;
  originNs: bigint;
} {
  const { points } = options;
  if (points.length < 2)
    throw new UsageError("bad-option", "a path needs two points or more", "e.g. ‘path A,B,C’", {
      parameter: "path",
      value: points,
    });
  const archive = RecordArchive.open(options.directory, options.storage);
  const notes: string[] = [];
  const rows: { from: string; to: string; row: ReturnType<typeof seriesOf>[number] }[] = [];
  try {
    for (const [i, to] of points.slice(1).entries()) {
      const between = [points[i] ?? "", to] as const;
      const answer = askArchive(archive, {
        between,
        estimators: options.estimator === undefined ? undefined : [options.estimator],
        fromNs: options.fromNs,
        toNs: options.toNs,
        confidence: options.confidence,
      });
      for (const row of seriesOf(answer)) rows.push({ from: between[0], to: between[1], row });
      notes.push(...answer.epochs.missing.map((m) => `${m.point} ${m.startNs} ${m.estimator}: ${m.reason}`));
      notes.push(
        ...answer.epochs.refused.map(
          (r) => `${between.join(" → ")} ${r.startNs} ${r.estimator}: ${r.reason}`,
        ),
      );
    }
  } finally {
    archive.close();
  }
  const first = rows[0];
  if (!first)
    throw new UsageError(
      "no-records",
      `no epoch of ${points.join(" → ")} has an answer${notes.length > 0 ? `: ${foldNotes(notes)[0]}` : ""}`,
      notes.length > 0
        ? "observe all points with the same estimator, parameters, ‘epoch’ and ‘seed’, over the same time"
        : "hoptime query shows why",
    );
  let originNs = BigInt(first.row.startNs);
  for (const { row } of rows) if (BigInt(row.startNs) < originNs) originNs = BigInt(row.startNs);
  const estimates = rows.map(({ from, to, row }): LocaliseEstimate => {
    const { packets, lost, lostError } = lossOf(row);
    return {
      fromPoint: from,
      toPoint: to,
      epochStartNs: Number(BigInt(row.startNs) - originNs),
      epochEndNs: Number(BigInt(row.endNs) - originNs),
      meanNs: row.latency?.meanNs ?? null,
      lowNs: row.latency?.lowNs ?? null,
      highNs: row.latency?.highNs ?? null,
      stdevNs: row.latency?.stdevNs ?? null,
      packets,
      lost,
      lostError,
    };
  });
  const cut = rows.filter(({ row }) => row.edge).length;
  if (cut > 0)
    notes.push(
      `loss excludes ${formatCount(cut)} of ${countOf(rows.length, "answer")}: a capture begins or ends in their epoch`,
    );
  const localisation = localise(points, estimates, options);
  return { localisation: { ...localisation, notes: [...localisation.notes, ...foldNotes(notes)] }, originNs };
}

/**
 * Returns the signed number of packets missing at the other end: packets in flight at the start of an epoch arrive in it, those at its end in the next one, so
 * single epochs are off by about as many as are in flight, but their sum is not. Counting only epochs with missing packets would turn these into losses.
 */
export function lossOf(row: {
  sent: number | null;
  received: number | null;
  lost: number | null;
  startNs: string | bigint;
  endNs: string | bigint;
  latency: { meanNs: number; stdevNs: number | null } | null;
  edge?: boolean | undefined;
}): {
  packets: number;
  lost: number;
  lostError: number;
} {
  const packets = Math.max(0, row.received ?? (row.sent ?? 0) - (row.lost ?? 0));
  const lost =
    row.sent !== null && row.received !== null ? row.sent - row.received : Math.max(0, row.lost ?? 0);
  const lengthNs = Number(BigInt(row.endNs) - BigInt(row.startNs));
  const delayNs = Math.abs(row.latency?.meanNs ?? 0) + (row.latency?.stdevNs ?? 0);
  const inFlight = 1 + (packets * Math.min(delayNs, lengthNs)) / lengthNs;
  // A capture begins or ends within the epoch: missing packets may not have been captured.
  return { packets, lost, lostError: row.edge ? Number.POSITIVE_INFINITY : inFlight };
}

/** Lists epochs that fail for the same reason once, by the first; the most frequent reason comes first. */
function foldNotes(notes: readonly string[]): string[] {
  const kinds = new Map<string, { first: string; more: number }>();
  for (const note of notes) {
    const kind = note.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z|\d{15,}/g, "#");
    const known = kinds.get(kind);
    if (known) known.more++;
    else kinds.set(kind, { first: note, more: 0 });
  }
  const ranked = [...kinds.values()].sort((a, b) => b.more - a.more);
  return ranked.map(({ first, more }) =>
    more === 0 ? first : `${first} (and ${more} more ${more === 1 ? "epoch" : "epochs"})`,
  );
}

/** Returns the epochs of the estimator that answered most of them. */
function seriesOf(answer: ReturnType<typeof askArchive>) {
  const answered = (series: (typeof answer.estimates)[string]["series"]) =>
    series.filter((r) => r.latency !== null).length;
  const [best] = Object.values(answer.estimates).sort((a, b) => answered(b.series) - answered(a.series));
  return best?.series ?? [];
}
