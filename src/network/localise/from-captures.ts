/**
 * Localises with captures at several points of a path: each adjacent pair is compared exactly, epoch by epoch, and the segments' means and losses go to the
 * localiser. Every packet counts in the segments that saw it. The error bar of an epoch's mean comes from the spread of its packets, widened for their
 * dependence (consecutive packets of a queue are alike, so n of them are not n independent samples).
 */
import { basename } from "node:path";
import { invalidValue, UsageError } from "../../base/errors.ts";
import { Kernels } from "../../base/kernels.ts";
import { entryAt } from "../../base/lists.ts";
import { countOf } from "../../base/quantity.ts";
import { earlier, formatDuration } from "../../base/time.ts";
import { CaptureReader } from "../../capture/reader.ts";
import type { CorrectionMode } from "../../clock/correction.ts";
import type { ClockVerdict } from "../../clock/verdict.ts";
import { type CompareOptions, compareInTurn } from "../../compare/compare.ts";
import { epochFor } from "../../compare/epoch-length.ts";
import type { CompareReport } from "../../compare/report.ts";
import { type Localisation, type LocaliseOptions, localise } from "./localise.ts";
import { intervalWidth, type LocaliseEstimate } from "./segment-estimate.ts";

export interface LocaliseCapturesOptions extends LocaliseOptions {
  /** Captures in path order. */
  files: string[];
  /** Names of the points; default: the files' names without extension. */
  names?: string[] | undefined;
  /** Length of an epoch; default: a sixtieth of the first capture, between 10 ms and 1 s. */
  epochNs?: number | undefined;
  windowNs?: number;
  filter?: string | undefined;
  inner?: boolean;
  clock?: CorrectionMode;
  onProgress?: CompareOptions["onProgress"];
}

export interface CapturedLocalisation {
  localisation: Localisation;
  /** Origin of the localisation's times, ns since 1970. */
  originNs: bigint;
  epochNs: number;
  /** The exact comparison of each segment, in path order. */
  reports: CompareReport[];
}

/** Number of packets worth one independent sample of a queue's delay; queues forget within a few hundred packets. */
const DEPENDENCE = 25;
/** More epochs are refused: hardly a packet would be in each. */
const MAX_EPOCHS = 100_000;

export async function localiseCaptures(options: LocaliseCapturesOptions): Promise<CapturedLocalisation> {
  const { files } = options;
  if (!Array.isArray(files)) throw invalidValue("files", files, "a list of captures, in path order");
  if (files.length < 2) {
    throw new UsageError(
      "bad-option",
      "a path needs captures of two points or more",
      "hoptime localise P1.pcap P2.pcap P3.pcap",
    );
  }
  const points = pointNames(files, options.names);
  const epochNs = options.epochNs ?? (await chooseEpoch(entryAt(files, 0)));
  const reports = await compareInTurn(
    files.slice(1).map((after, i) => ({
      before: entryAt(files, i),
      after,
      epochNs,
      ...(options.windowNs === undefined ? {} : { windowNs: options.windowNs }),
      filter: options.filter,
      inner: options.inner ?? false,
      clock: options.clock ?? "asis",
      flows: { top: 0, sort: "packets" },
      ...(options.onProgress ? { onProgress: options.onProgress } : {}),
    })),
  );
  checkEpoch(epochNs, entryAt(reports, 0));
  if (reports.every((r) => r.segment.matched === 0)) throw nothingMatched(reports, files, options);
  const shifts = epochShifts(reports, epochNs);
  // A segment without matched packets shows nothing, not even complete loss.
  const starts = reports.flatMap((r, i) =>
    r.segment.matched === 0 ? [] : r.intervals.slice(0, 1).map((v) => BigInt(v.startNs) - entryAt(shifts, i)),
  );
  let originNs = entryAt(starts, 0);
  for (const start of starts) if (start < originNs) originNs = start;
  const width = intervalWidth(options.confidence ?? 0.95);
  const estimates = reports.flatMap((report, i) =>
    report.segment.matched === 0
      ? []
      : estimatesOf(report, entryAt(points, i), entryAt(points, i + 1), originNs + entryAt(shifts, i), width),
  );
  const localisation = localise(points, estimates, options);
  const notes = [
    ...localisation.notes,
    ...clockNotes(localisation, shifts, options.clock ?? "asis"),
    ...reports.flatMap((r, i) => remarks(r, entryAt(points, i), entryAt(points, i + 1))),
  ];
  return { localisation: { ...localisation, notes }, originNs, epochNs, reports };
}

/**
 * Returns how far the epochs at each segment's first point are behind those at the path's first point: the delay up to there in whole epochs, including clock
 * offsets. Thereby epochs of the same packets are compared.
 */
function epochShifts(reports: readonly CompareReport[], epochNs: number): bigint[] {
  let behindNs = 0;
  return reports.map((report) => {
    const shift = BigInt(Math.round(behindNs / epochNs)) * BigInt(Math.round(epochNs));
    behindNs += timestampedDelay(report);
    return shift;
  });
}

/** Returns the delay of a segment including its clock offset. A clock correction subtracts the smallest difference: add it again. */
function timestampedDelay({ clock, segment }: CompareReport): number {
  const { floor } = clock as unknown as ClockVerdict;
  return clock.mode === "asis" || floor === null ? (segment.latency?.meanNs ?? 0) : floor.levelNs;
}

function clockNotes(localisation: Localisation, shifts: readonly bigint[], clock: CorrectionMode): string[] {
  const negative = localisation.segments.filter((s) => s.latency !== null && s.latency.meanNs < 0);
  const shifted = localisation.points.filter((_, i) => (shifts[i] ?? 0n) !== 0n);
  const notes: string[] = [];
  if (shifted.length > 0)
    notes.push(
      `epochs at ${shifted.join(", ")} differ by more than half an epoch from those at ${localisation.points[0]}: they were aligned by their packets`,
    );
  if (negative.length > 0 && clock === "asis")
    notes.push(
      `${negative.map((s) => `${s.from} → ${s.to}`).join(", ")}: negative delays: clocks differ, or the points are out of order. Sums and spikes are right, delays of single segments are not; ‘clock relative’ shows them relative to their minimum`,
    );
  return notes;
}

function checkEpoch(epochNs: number, { before }: CompareReport): void {
  if (before.firstNs === null || before.lastNs === null) return;
  const spanNs = Number(BigInt(before.lastNs) - BigInt(before.firstNs));
  if (spanNs / epochNs <= MAX_EPOCHS) return;
  throw new UsageError(
    "bad-option",
    `${formatDuration(epochNs)} makes ${Math.ceil(spanNs / epochNs).toLocaleString("en-US")} epochs of ${before.file}`,
    `give at least ${formatDuration(spanNs / MAX_EPOCHS)}; an epoch needs packets to have a mean`,
    { parameter: "epoch", value: epochNs },
  );
}

function nothingMatched(
  reports: readonly CompareReport[],
  files: readonly string[],
  { filter }: LocaliseCapturesOptions,
): UsageError {
  const sides = [entryAt(reports, 0).before, ...reports.map((r) => r.after)];
  const empty = sides.findIndex((side) => side.packets === 0);
  if (empty >= 0)
    return new UsageError("no-records", `${files[empty]}: contains no packets`, "leave this point out");
  return new UsageError(
    "no-records",
    "no packet was seen at two neighbouring points",
    filter === undefined
      ? "check that the files are in path order, from the same time, and contain the headers (hoptime inspect FILE)"
      : "check that ‘filter’ matches packets, and that the files are in path order and from the same time",
  );
}

function pointNames(files: string[], names: string[] | undefined): string[] {
  if (names && names.length !== files.length) {
    throw new UsageError(
      "bad-option",
      `${countOf(names.length, "name")} for ${files.length} captures`,
      "give one name per capture",
      { parameter: "names", value: names },
    );
  }
  const again = files.find((f, i) => files.indexOf(f) !== i);
  if (again !== undefined)
    throw new UsageError("bad-option", `${again} is given twice`, "give the capture of each point once");
  if (names?.some((n) => n.trim() === ""))
    throw new UsageError("bad-option", "a name is empty", "give one name per capture, e.g. ‘names a,b,c’", {
      parameter: "names",
      value: names,
    });
  const plain = files.map((f) =>
    basename(f)
      .replace(/\.gz$/, "")
      .replace(/\.(pcap|pcapng|cap|erf)$/, ""),
  );
  const chosen = names ?? (new Set(plain).size === plain.length ? plain : files);
  if (new Set(chosen).size !== chosen.length)
    throw new UsageError(
      "bad-option",
      "two points have the same name",
      "give them names, e.g. ‘names a,b,c’",
    );
  return chosen;
}

/** Chosen from the length of the first capture. */
async function chooseEpoch(file: string): Promise<number> {
  // Shared memory like a reading thread's kernels: compiled once for both.
  const reader = await CaptureReader.open(new Kernels({ shared: true }), file, { rowsOnly: true });
  try {
    while (await reader.next());
    return epochFor(reader.maxTimeNs);
  } finally {
    reader.close();
  }
}

function estimatesOf(
  report: CompareReport,
  fromPoint: string,
  toPoint: string,
  originNs: bigint,
  width: number,
): LocaliseEstimate[] {
  return report.intervals.map((interval) => {
    const l = interval.latency;
    const half = l ? (width * l.stdevNs) / Math.sqrt(Math.max(1, l.count / DEPENDENCE)) : 0;
    return {
      fromPoint,
      toPoint,
      epochStartNs: Number(BigInt(interval.startNs) - originNs),
      epochEndNs: Number(BigInt(interval.endNs) - originNs),
      meanNs: l?.meanNs ?? null,
      lowNs: l ? l.meanNs - half : null,
      highNs: l ? l.meanNs + half : null,
      stdevNs: l?.stdevNs ?? null,
      packets: interval.matched,
      lost: interval.lost,
    };
  });
}

function remarks(report: CompareReport, from: string, to: string): string[] {
  const notes: string[] = [];
  const name = `${from} → ${to}`;
  if (report.direction.order === "swapped")
    notes.push(
      `${name}: the two captures look swapped (${report.direction.evidence.join("; ")}); if they are, name ${to} before ${from}`,
    );
  for (const side of [report.before, report.after]) if (side.partial) notes.push(`${name}: ${side.partial}`);
  if (report.segment.matched === 0) notes.push(`${name}: ${report.segment.reason}`);
  return notes;
}

/** With absolute times, as strings of ns since 1970. */
export function absoluteTimes(localisation: Localisation, originNs: bigint): object {
  const at = (ns: number) => (originNs + BigInt(Math.round(ns))).toString();
  return {
    ...localisation,
    spikes: localisation.spikes.map((s) => ({ ...s, fromNs: at(s.fromNs), toNs: at(s.toNs) })),
    lossSpikes: localisation.lossSpikes.map((s) => ({ ...s, fromNs: at(s.fromNs), toNs: at(s.toNs) })),
    epochs: localisation.epochs.map((e) => ({ ...e, startNs: at(e.startNs), endNs: at(e.endNs) })),
  };
}

/** The inverse: converts absolute times to times relative to the first of them. */
export function relativeTimes(written: object): { localisation: Localisation; originNs: bigint } {
  const parsed = written as Localisation;
  const spans = [...parsed.spikes, ...parsed.lossSpikes].map((s) => [s.fromNs, s.toNs]);
  const all = [...spans, ...parsed.epochs.map((e) => [e.startNs, e.endNs])].flat().map((t) => BigInt(t));
  const originNs = all.reduce(earlier, all[0] ?? 0n);
  const at = (time: unknown) => Number(BigInt(time as string) - originNs);
  return {
    localisation: {
      ...parsed,
      spikes: parsed.spikes.map((s) => ({ ...s, fromNs: at(s.fromNs), toNs: at(s.toNs) })),
      lossSpikes: parsed.lossSpikes.map((s) => ({ ...s, fromNs: at(s.fromNs), toNs: at(s.toNs) })),
      epochs: parsed.epochs.map((e) => ({ ...e, startNs: at(e.startNs), endNs: at(e.endNs) })),
    },
    originNs,
  };
}

/** The JSON of `hoptime localise` on captures: absolute times, complete latency statistics per segment. */
export function localisationJson(captured: CapturedLocalisation): object {
  const { localisation, originNs, epochNs, reports } = captured;
  return {
    ...absoluteTimes(localisation, originNs),
    epochNs,
    segments: localisation.segments.map((s, i) => {
      const exact = entryAt(reports, i).segment;
      return {
        ...s,
        ...(s.sent > 0 ? { sent: exact.matched + exact.lost, lost: exact.lost } : {}),
        latency: s.latency && exact.latency ? { ...exact.latency, ...s.latency } : null,
        ...(s.latency ? {} : { reason: exact.reason ?? "no epoch has an answer" }),
      };
    }),
  };
}
