/**
 * Observes the captures of one point: wires source, delays and lanes together. One stream may feed several lanes, each with the packets of a
 * segment or traffic class and with its own filter and taps, so that both ends of a segment count the same packets. The captures follow each other
 * in time, and epochs continue across files.
 */
import { statSync } from "node:fs";
import { UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import type { FilterExpression } from "../capture/filter/expression.ts";
import { asksIdentification, parseFilter } from "../capture/filter/filter.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { CaptureReader, DEFAULT_SEED } from "../capture/reader.ts";
import { isRegularCapture, isStandardInput, parseCapturePath } from "../capture/source/capture-path.ts";
import { followCapture, openCaptures } from "../capture/source/capture-source.ts";
import type { InterfaceOptions } from "../capture/source/interface/interface-options.ts";
import { openLive } from "../capture/source/interface/live-source.ts";
import { interfaceOf, refuseUnknown } from "../capture/source/interface/name.ts";
import type { WallClock } from "../capture/source/live-clock.ts";
import { PacedSource } from "../capture/source/paced-source.ts";
import { followFiles, isFilePattern } from "../capture/source/rotating-files.ts";
import type { Source } from "../capture/source/source.ts";
import {
  type DelaySource,
  delaysFromPackets,
  delaysFromReferences,
  delaysFromSender,
} from "../delays/delay-source.ts";
import type { PacketTimesOptions } from "../delays/packet-times.ts";
import type { ReferenceDelaysOptions } from "../delays/reference-delays.ts";
import { verifiedSource } from "../delays/reference-key.ts";
import { STAMP_PORT } from "../delays/stamp.ts";
import { checkCut } from "../epoch/cutter.ts";
import { needsDelays } from "../estimators/estimator.ts";
import { ControlSender } from "./control-sender.ts";
import type { CutChoice, Lane } from "./lane.ts";
import { type ObserveOptions, type ObserveResult, observe } from "./observe.ts";
import type { TapPlan } from "./observer.ts";
import type { RecordSink } from "./record-sink.ts";

/**
 * Bytes from the IP header on that digests cover when a point is observed alone. Both ends must use the same value without seeing each other's
 * capture. 64 leaves room for Ethernet and four tags in a snap length of 96.
 */
export const OBSERVE_COVER = 64;

export interface ObserveCapturesOptions
  extends Pick<ObserveOptions, "onRecord" | "onProgress" | "tickMs" | "bothWays" | "separable"> {
  kernels: Kernels;
  /** Source and delays supplied by the caller, instead of files. */
  source?: Source;
  delays?: DelaySource;
  /** Captures in order of time, or the name of one interface (capture/source/interface/name.ts). */
  files: readonly string[];
  /** Options of the interface, if one is given. */
  interface?: InterfaceOptions;
  /** The given file is still being written: a file, or the pattern or directory of a rotating capture. */
  follow?: boolean;
  /** Replay speed: seconds of capture per second. Infinity or undefined: as fast as possible. */
  speed?: number;
  point: string;
  lanes: readonly Lane[];
  taps: readonly TapPlan[];
  cut: CutChoice;
  sink: RecordSink;
  key?: string;
  cover?: number;
  inner?: boolean;
  seed?: bigint;
  /** Captures of the sender, for delays by exact matching. */
  sender?: SenderCaptures;
  /** Alternatively: delays interpolated between reference packets in the captures (RLI). */
  references?: ReferenceDelaysOptions;
  /** Alternatively: timestamps that a capture switch wrote into the packets. */
  packetTimes?: PacketTimesOptions;
  /** Key of authenticated references; with it, others are ignored. */
  referenceKey?: Uint8Array;
  /** Ends the observation: the open epoch is sealed too, and everything sealed is stored. */
  signal?: AbortSignal | undefined;
  clock?: WallClock;
}

export interface SenderCaptures {
  files: readonly string[];
  /** Longest delay searched for. */
  windowNs: number;
  /** This point's clock minus the sender's. */
  offsetNs?: number;
}

export async function observeCaptures(options: ObserveCapturesOptions): Promise<ObserveResult> {
  const { kernels, point, lanes, cut, sink, inner = false, seed = DEFAULT_SEED } = options;
  checkCut(cut);
  const cover = options.cover ?? OBSERVE_COVER;
  const key = FlowKeySpec.parse(options.key);
  if (!options.follow) await checkFiles(kernels, options.files);
  await checkFiles(kernels, options.sender?.files ?? []);
  const taps = withAuthentication(options.taps, options.referenceKey);
  const source = verified(
    options.source ?? (await openSource(options, { cover, inner, seed })),
    taps,
    options,
  );
  const delays = options.delays ?? openDelays(options, { cover, inner, seed });
  // Packets of the other direction have no delay, so estimators that need delays ignore them.
  const bothWays =
    options.bothWays ?? (options.sender !== undefined && taps.every((t) => t.estimator.needs.delays));
  const { onRecord, onProgress, tickMs, separable = false } = options;
  const control = await openControl(cut, source, options.signal);
  try {
    return await observe({
      ...{
        kernels,
        source,
        delays,
        sink,
        point,
        lanes,
        taps,
        cut,
        key,
        cover,
        inner,
        seed,
        bothWays,
        control,
        separable,
      },
      ...(onRecord ? { onRecord } : {}),
      ...(onProgress ? { onProgress } : {}),
      ...(tickMs === undefined ? {} : { tickMs }),
    });
  } finally {
    await control?.end();
  }
}

async function openControl(
  cut: CutChoice,
  source: Source,
  signal: AbortSignal | undefined,
): Promise<ControlSender | null> {
  if (cut.mode !== "control" || !cut.send) return null;
  if (source.live) return await ControlSender.open(cut.send, signal);
  source.close();
  throw new UsageError(
    "bad-option",
    "messages can be sent only while observing an interface, and a file is given",
    "leave it out",
    {
      parameter: "control-to",
    },
  );
}

/** Whether the captures can be read twice, so that they can be examined before they are observed. */
export function canReread({ files, follow }: Pick<ObserveCapturesOptions, "files" | "follow">): boolean {
  return !follow && files.every(isRegularCapture);
}

/** Opens only the captures, as observeCaptures reads them. */
export function openForLook(options: ObserveCapturesOptions): Source {
  const { kernels, files, inner = false, seed = DEFAULT_SEED, signal } = options;
  return openCaptures(kernels, files, {
    capture: { cover: options.cover ?? OBSERVE_COVER, inner, seed },
    signal,
  });
}

interface Capture {
  cover: number;
  inner: boolean;
  seed: bigint;
}

async function openSource(observed: ObserveCapturesOptions, capture: Capture): Promise<Source> {
  const { kernels, files, follow, signal, clock } = observed;
  const options = { capture, signal, ...(clock ? { clock } : {}) };
  const [first, ...more] = files;
  if (first === undefined)
    throw new UsageError("bad-option", "the capture is missing", "name a capture file or an interface", {
      value: files,
    });
  const name = interfaceOf(first);
  if (name !== null) {
    if (observed.speed !== undefined)
      throw new UsageError("bad-option", "applies to captures, and an interface is given", "leave it out", {
        parameter: "speed",
      });
    if (more.length > 0 || follow)
      throw new UsageError(
        "bad-option",
        `${first}: an interface cannot be combined with others in one point`,
        "give it alone",
      );
    return await interfaceSource(name, observed);
  }
  const [unused] = Object.keys(observed.interface ?? {}).filter((key) => key !== "onOpen");
  if (unused !== undefined)
    throw new UsageError("bad-option", "applies to interfaces, and a file is given", "leave it out", {
      parameter: unused === "snapBytes" ? "snap" : unused,
    });
  if (!follow) return atSpeed(openCaptures(kernels, files, options), observed);
  if (more.length > 0 || isStandardInput(first)) {
    throw new UsageError(
      "bad-option",
      `${more[0] ?? first}: ‘follow’ takes one file, pattern or directory`,
      "write a pattern in quotes: 'captures/*.pcap'",
    );
  }
  return isFilePattern(first) ? followFiles(kernels, first, options) : followCapture(kernels, first, options);
}

/** Opens the interface with the snap length that the estimators need, and with as much of the lanes' filters as the kernel can apply. */
export function interfaceSource(
  name: string,
  observed: Omit<ObserveCapturesOptions, "sink">,
): Promise<Source> {
  const { kernels, signal, clock, inner = false, seed = DEFAULT_SEED } = observed;
  const rowsOnly = rowsSuffice(observed);
  const capture = { cover: observed.cover ?? OBSERVE_COVER, inner, seed, rowsOnly };
  return openLive(kernels, name, {
    ...snapFor(observed),
    ...{ capture, signal, wanted: wantedOf(observed) },
    ...(clock ? { clock } : {}),
  });
}

/** Whether packet bytes and identification are not needed: no estimator that injects packets or needs delays, no control messages, no such filter. */
function rowsSuffice({
  taps,
  lanes,
  cut,
  inner,
  references,
  packetTimes,
  referenceKey,
}: Omit<ObserveCapturesOptions, "sink">): boolean {
  if (inner || references || packetTimes || referenceKey || cut.mode === "control") return false;
  if (lanes.some(({ filter }) => filter !== "" && asksIdentification(parseFilter(filter)))) return false;
  return taps.every(
    ({ estimator, parameters }) => !estimator.needs.injected && !needsDelays(estimator, parameters),
  );
}

function atSpeed(source: Source, { speed, signal }: ObserveCapturesOptions): Source {
  return speed === undefined || speed === Number.POSITIVE_INFINITY
    ? source
    : new PacedSource(source, speed, { signal });
}

/** STAMP packets are read whole; switch timestamps lie behind the packet. */
const STAMP_SNAP_BYTES = 256;
const WHOLE_SNAP_BYTES = 65_535;

function snapFor({
  interface: given,
  references,
  packetTimes,
  taps,
}: Omit<ObserveCapturesOptions, "sink">): InterfaceOptions {
  const stamped = references !== undefined || taps.some(({ parameters }) => "authenticated" in parameters);
  const snapBytes = packetTimes ? WHOLE_SNAP_BYTES : stamped ? STAMP_SNAP_BYTES : undefined;
  return { ...(snapBytes === undefined ? {} : { snapBytes }), ...given };
}

/** The union of the lanes' filters; null if it is everything, or if other packets are needed too. */
function wantedOf({
  lanes,
  inner,
  cut,
  references,
}: Omit<ObserveCapturesOptions, "sink">): FilterExpression | null {
  if (inner || references || cut.mode === "control" || lanes.some(({ filter }) => filter === "")) return null;
  return { kind: "or", terms: lanes.map(({ filter }) => parseFilter(filter)) };
}

/** With a reference key, taps that support authentication use authenticated references only. */
function withAuthentication(taps: readonly TapPlan[], key: Uint8Array | undefined): TapPlan[] {
  return taps.map((plan) => {
    const asked = plan.parameters["authenticated"];
    if (asked === true && !key) {
      throw new UsageError("bad-option", "authenticated references need their key", "give ‘reference-key’", {
        parameter: plan.estimator.name,
      });
    }
    return asked === undefined || !key
      ? plan
      : { ...plan, parameters: { ...plan.parameters, authenticated: true } };
  });
}

/** Marks references with a valid authentication code before any tap sees them. */
function verified(source: Source, taps: readonly TapPlan[], options: ObserveCapturesOptions): Source {
  const { kernels, referenceKey, references } = options;
  if (!referenceKey) return source;
  const ports = new Set([
    references?.port ?? STAMP_PORT,
    ...taps.flatMap(({ parameters }) => (parameters["authenticated"] ? [Number(parameters["port"])] : [])),
  ]);
  return verifiedSource(kernels, source, referenceKey, ports);
}

function openDelays(
  { kernels, references, sender, packetTimes, referenceKey, cut, signal }: ObserveCapturesOptions,
  capture: Capture,
): DelaySource | null {
  const given = [sender, references, packetTimes].filter((x) => x !== undefined);
  if (given.length > 1) {
    throw new UsageError("bad-option", "delays come from one source only", "leave the others out");
  }
  if (sender) return delaysFromSender(kernels, { ...sender, capture, signal });
  if (packetTimes) return delaysFromPackets(kernels, packetTimes);
  if (!references) return null;
  if (cut.mode === "control") {
    throw new UsageError(
      "bad-option",
      "delays interpolated between references cannot be combined with epochs cut by Start and End messages",
      "leave one of the two out",
    );
  }
  return delaysFromReferences(kernels, { ...references, authenticated: referenceKey !== undefined });
}

/**
 * Checks the captures of a point before the first is read, so that a wrong name, a capture given twice or one out of order is reported before any
 * record is made. Pipes can be opened only once; their errors show when they are read.
 */
async function checkFiles(kernels: Kernels, files: readonly string[]): Promise<void> {
  const seen = new Set<string>();
  let former: { file: string; originNs: bigint } | null = null;
  for (const file of files) {
    if (interfaceOf(file) !== null) continue;
    const { file: path, point } = parseCapturePath(file);
    const stat = isStandardInput(file) ? undefined : statSync(path, { throwIfNoEntry: false });
    if (stat && !stat.isFile() && !stat.isDirectory()) continue;
    const name = `${stat ? `${stat.dev}:${stat.ino}` : path}#${point ?? ""}`;
    if (seen.has(name))
      throw new UsageError("bad-option", `${file}: is given twice`, "give each capture once");
    seen.add(name);
    if (isStandardInput(file)) continue;
    refuseUnknown(file);
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
