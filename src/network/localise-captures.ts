/**
 * Which hop is to blame, from captures at several points of a path: each neighbouring pair is compared exactly, epoch by epoch, and
 * the segments' means and losses go to the localiser. Every packet counts in the segments that saw it. The error bar of an epoch's mean is that
 * of its packets' spread, widened for their dependence (packets of a queue are alike, so a mean of n is not worth n samples).
 */
import { basename } from "node:path";
import { UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { CaptureReader } from "../capture/reader.ts";
import type { CorrectionMode } from "../clock/correction.ts";
import { type CompareOptions, compareCaptures } from "../collect/compare.ts";
import type { CompareReport } from "../collect/compare-report.ts";
import { type Localisation, type LocaliseOptions, localise } from "./localise.ts";
import { intervalWidth, type SegmentEstimate } from "./segment-estimate.ts";

export interface LocaliseCapturesOptions extends LocaliseOptions {
  /** Captures in path order. */
  files: string[];
  /** Names of the points; the files' names without ending by default. */
  names?: string[] | undefined;
  /** Length of an epoch; by default a sixtieth of the first capture, between 10 ms and 1 s. */
  epochNs?: number | undefined;
  windowNs?: number;
  filter?: string | undefined;
  inner?: boolean;
  clock?: CorrectionMode;
  onProgress?: CompareOptions["onProgress"];
}

export interface CapturedLocalisation {
  localisation: Localisation;
  /** What the localisation's times are counted from, ns since 1970. */
  originNs: bigint;
  epochNs: number;
  /** The exact comparison of each segment, in path order. */
  reports: CompareReport[];
}

/** Packets that one independent sample of a queue's delay is worth at the least; queues forget within a few hundred packets. */
const DEPENDENCE = 25;
const EPOCHS = 60;

export async function localiseCaptures(options: LocaliseCapturesOptions): Promise<CapturedLocalisation> {
  const { files } = options;
  if (files.length < 2) {
    throw new UsageError(
      "bad-flag",
      "a path needs captures of two points or more",
      "hoptime localise P1.pcap P2.pcap P3.pcap",
    );
  }
  const points = pointNames(files, options.names);
  const epochNs = options.epochNs ?? (await chooseEpoch(files[0]!));
  const reports: CompareReport[] = [];
  for (let i = 0; i + 1 < files.length; i++) {
    reports.push(
      await compareCaptures({
        before: files[i]!,
        after: files[i + 1]!,
        epochNs,
        ...(options.windowNs === undefined ? {} : { windowNs: options.windowNs }),
        filter: options.filter,
        inner: options.inner ?? false,
        clock: options.clock ?? "asis",
        flows: { top: 0, sort: "packets" },
        ...(options.onProgress ? { onProgress: options.onProgress } : {}),
      }),
    );
  }
  const starts = reports.flatMap((r) => r.intervals.slice(0, 1).map((i) => BigInt(i.startNs)));
  if (starts.length === 0) {
    throw new UsageError(
      "no-records",
      "no packet was seen at two neighbouring points",
      "are the files in path order, and of the same time?",
    );
  }
  let originNs = starts[0]!;
  for (const start of starts) if (start < originNs) originNs = start;
  const width = intervalWidth(options.confidence ?? 0.95);
  const estimates = reports.flatMap((report, i) =>
    estimatesOf(report, points[i]!, points[i + 1]!, originNs, width),
  );
  const localisation = localise(points, estimates, options);
  const notes = [...localisation.notes, ...reports.flatMap((r, i) => remarks(r, points[i]!, points[i + 1]!))];
  return { localisation: { ...localisation, notes }, originNs, epochNs, reports };
}

function pointNames(files: string[], names: string[] | undefined): string[] {
  if (names && names.length !== files.length) {
    throw new UsageError(
      "bad-flag",
      `--names: ${names.length} names for ${files.length} captures`,
      "give one name per capture",
    );
  }
  const plain = files.map((f) =>
    basename(f)
      .replace(/\.gz$/, "")
      .replace(/\.(pcap|pcapng|cap|erf)$/, ""),
  );
  const chosen = names ?? (new Set(plain).size === plain.length ? plain : files);
  if (new Set(chosen).size !== chosen.length)
    throw new UsageError("bad-flag", "two points have the same name", "use --names a,b,c");
  return chosen;
}

async function chooseEpoch(file: string): Promise<number> {
  const reader = await CaptureReader.open(new Kernels(), file);
  while (await reader.next());
  const spanNs = reader.maxTimeNs;
  reader.close();
  const wanted = Math.min(1e9, Math.max(10e6, spanNs / EPOCHS));
  // 10, 20, 50, 100 … ms
  const scale = 10 ** Math.floor(Math.log10(wanted));
  return scale * ([1, 2, 5].find((m) => wanted <= m * scale * 1.0001) ?? 10);
}

function estimatesOf(
  report: CompareReport,
  fromPoint: string,
  toPoint: string,
  originNs: bigint,
  width: number,
): SegmentEstimate[] {
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
    notes.push(`${name}: the two captures look swapped (${report.direction.evidence.join("; ")})`);
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
    epochs: localisation.epochs.map((e) => ({ ...e, startNs: at(e.startNs), endNs: at(e.endNs) })),
  };
}

/** The JSON of `hoptime localise` on captures: absolute times, whole latency statistics per segment. */
export function localisationJson(captured: CapturedLocalisation): object {
  const { localisation, originNs, epochNs, reports } = captured;
  return {
    ...absoluteTimes(localisation, originNs),
    epochNs,
    segments: localisation.segments.map((s, i) => {
      const exact = reports[i]!.segment;
      return {
        ...s,
        sent: exact.matched + exact.lost,
        lost: exact.lost,
        latency: s.latency && exact.latency ? { ...exact.latency, ...s.latency } : null,
        ...(s.latency ? {} : { reason: exact.reason ?? "no epoch has an answer" }),
      };
    }),
  };
}
