/**
 * Captures of one point become its records: which source, which delays, which lanes, wired together. One stream may feed several lanes: a segment's or traffic
 * class's packets each, with a filter and taps of their own, so that both ends of a segment count the same packets. The captures of a
 * point follow each other in time; epochs go on from one file to the next.
 */
import { statSync } from "node:fs";
import { UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { CaptureReader, DEFAULT_SEED } from "../capture/reader.ts";
import { isStandardInput, parseCapturePath } from "../capture/source/capture-path.ts";
import { followCapture, openCaptures } from "../capture/source/capture-source.ts";
import type { WallClock } from "../capture/source/live-clock.ts";
import { followFiles, isFilePattern } from "../capture/source/rotating-files.ts";
import type { Source } from "../capture/source/source.ts";
import { type DelaySource, delaysFromReferences, delaysFromSender } from "../delays/delay-source.ts";
import type { ReferenceDelaysOptions } from "../delays/reference-delays.ts";
import type { CutChoice, Lane } from "./lane.ts";
import { type ObserveOptions, type ObserveResult, observe } from "./observe.ts";
import type { TapPlan } from "./observer.ts";
import type { RecordSink } from "./record-sink.ts";

/**
 * Bytes from the IP header on that digests cover when a point is observed alone. Both ends must use the same, and neither sees the other's capture:
 * 64 leave room for Ethernet and four tags in a snap length of 96.
 */
export const OBSERVE_COVER = 64;

export interface ObserveCapturesOptions extends Pick<ObserveOptions, "onRecord" | "onProgress" | "tickMs"> {
  kernels: Kernels;
  files: readonly string[];
  /** The one file given is being written: a file, or a pattern or directory of those that a capture rotates through. */
  follow?: boolean;
  point: string;
  lanes: readonly Lane[];
  taps: readonly TapPlan[];
  cut: CutChoice;
  sink: RecordSink;
  key?: string;
  cover?: number;
  inner?: boolean;
  seed?: bigint;
  /** Captures of the sender: the delay of each packet is told by exact match with them. */
  sender?: SenderCaptures;
  /** Instead: delays are told between reference packets in the captures (RLI). */
  references?: ReferenceDelaysOptions;
  /** Ends observation: what is sealed is stored, the open epoch too. */
  signal?: AbortSignal | undefined;
  clock?: WallClock;
}

export interface SenderCaptures {
  files: readonly string[];
  /** Longest delay that is looked for. */
  windowNs: number;
  /** This point's clock minus the sender's. */
  offsetNs?: number;
}

export async function observeCaptures(options: ObserveCapturesOptions): Promise<ObserveResult> {
  const { kernels, point, lanes, taps, cut, sink, inner = false, seed = DEFAULT_SEED } = options;
  const cover = options.cover ?? OBSERVE_COVER;
  const key = FlowKeySpec.parse(options.key);
  if (!options.follow) await checkFiles(kernels, options.files);
  await checkFiles(kernels, options.sender?.files ?? []);
  const source = openSource(options, { cover, inner, seed });
  const delays = openDelays(options, { cover, inner, seed });
  const { onRecord, onProgress, tickMs } = options;
  return await observe({
    ...{ kernels, source, delays, sink, point, lanes, taps, cut, key, cover, inner, seed },
    ...(onRecord ? { onRecord } : {}),
    ...(onProgress ? { onProgress } : {}),
    ...(tickMs === undefined ? {} : { tickMs }),
  });
}

interface Capture {
  cover: number;
  inner: boolean;
  seed: bigint;
}

function openSource(
  { kernels, files, follow, signal, clock }: ObserveCapturesOptions,
  capture: Capture,
): Source {
  const options = { capture, signal, ...(clock ? { clock } : {}) };
  const [first, ...more] = files;
  if (first === undefined) throw new UsageError("bad-option", "no capture was given");
  if (!follow) return openCaptures(kernels, files, options);
  if (more.length > 0 || isStandardInput(first)) {
    throw new UsageError(
      "bad-option",
      `${more[0] ?? first}: one file, pattern or directory is followed`,
      "write a pattern in quotes: 'captures/*.pcap'",
    );
  }
  return isFilePattern(first) ? followFiles(kernels, first, options) : followCapture(kernels, first, options);
}

function openDelays(
  { kernels, references, sender, cut, signal }: ObserveCapturesOptions,
  capture: Capture,
): DelaySource | null {
  if (sender && !references) return delaysFromSender(kernels, { ...sender, capture, signal });
  if (!references) return null;
  if (sender || cut.mode === "control") {
    const other = sender
      ? "the sender's capture tells the delays"
      : "Start and End messages must be read at once";
    throw new UsageError(
      "bad-option",
      `delays between references are not to be had here: ${other}`,
      "leave one of the two out",
    );
  }
  return delaysFromReferences(kernels, references);
}

/**
 * Captures of a point follow each other. Files are looked at before the first is read, so that a wrong name among many, a capture given twice, or one in the
 * wrong place is told before records are made of the others. Pipes can be opened once only, and tell when they are read.
 */
async function checkFiles(kernels: Kernels, files: readonly string[]): Promise<void> {
  const seen = new Set<string>();
  let former: { file: string; originNs: bigint } | null = null;
  for (const file of files) {
    const { file: path, point } = parseCapturePath(file);
    const stat = isStandardInput(file) ? undefined : statSync(path, { throwIfNoEntry: false });
    if (stat && !stat.isFile() && !stat.isDirectory()) continue;
    const name = `${stat ? `${stat.dev}:${stat.ino}` : path}#${point ?? ""}`;
    if (seen.has(name))
      throw new UsageError("bad-option", `${file}: is given twice`, "give each capture once");
    seen.add(name);
    if (isStandardInput(file)) continue;
    const reader = await CaptureReader.open(kernels, file, { batchRows: 1 });
    try {
      if (files.length === 1 || !(await reader.next()) || reader.originNs === null) continue;
      if (former && reader.originNs < former.originNs) {
        const message = `${file}: begins before ${former.file}, which is given ahead of it`;
        throw new UsageError("bad-option", message, "give the captures of a point in order of time");
      }
      former = { file, originNs: reader.originNs };
    } finally {
      reader.close();
      reader.free();
    }
  }
}
