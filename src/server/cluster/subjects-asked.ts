/** Derives which records a question needs: points, labels and the earliest epoch. */
import { parseTime } from "../../base/time.ts";
import { endsOfLabel } from "../../transport/nats/subjects.ts";
import type { ArchiveQuestion } from "../questions.ts";

export interface AskedRecords {
  point: string;
  label: string;
  /** Start of the earliest epoch needed, ms since 1970. */
  fromMs: number;
}

interface Part {
  /** Null: all points. */
  points: readonly string[] | null;
  from: string | undefined;
}

/** Questions look a little beyond the time range they name. */
const AROUND_MS = 120_000;

export function subjectsAsked(
  asked: ArchiveQuestion,
  labels: ReadonlyMap<string, readonly string[]>,
): AskedRecords[] {
  const found = new Map<string, AskedRecords>();
  for (const { points, from } of partsOf(asked))
    for (const [point, own] of labels) {
      if (points !== null && !points.includes(point)) continue;
      for (const label of own) {
        const ends = endsOfLabel(label, point);
        // A segment to a point that the question is not about.
        if (
          ends &&
          points !== null &&
          !(points.includes(ends.from) && points.includes(ends.to)) &&
          points.length > 1
        )
          continue;
        const key = JSON.stringify([point, label]);
        const fromMs = Math.min(timeOf(from), found.get(key)?.fromMs ?? Number.POSITIVE_INFINITY);
        found.set(key, { point, label, fromMs });
      }
    }
  return [...found.values()];
}

function partsOf(asked: ArchiveQuestion): Part[] {
  const one = (point: string | undefined, from: string | undefined): Part => ({
    points: point === undefined ? null : [point],
    from,
  });
  if (asked.kind === "segment") return [{ points: asked.question.between, from: asked.question.from }];
  if (asked.kind === "path") return [{ points: asked.question.path, from: asked.question.from }];
  if (asked.kind === "packets" || asked.kind === "packet-settings")
    return [one(asked.question.point, asked.question.from)];
  if (asked.kind === "packet-batch") return asked.questions.map(({ point, from }) => one(point, from));
  return [one(asked.point, undefined)];
}

function timeOf(text: string | undefined): number {
  if (text === undefined) return 0;
  try {
    return Math.max(0, Number(parseTime(text) / 1_000_000n) - AROUND_MS);
  } catch {
    // The error is reported when the question is answered.
    return 0;
  }
}
