/**
 * Captures of one point become its records: read, filtered, keyed, cut, sealed. One stream may feed several lanes: a segment's or traffic
 * class's packets each, with a filter and taps of their own, so that both ends of a segment count the same packets. The captures of a
 * point follow each other in time; epochs go on from one file to the next.
 */
import { statSync } from "node:fs";
import { UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "../capture/batch.ts";
import { copyBatch } from "../capture/copy-batch.ts";
import { type CompiledFilter, compileFilter } from "../capture/filter/filter.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { CaptureReader, type CaptureStatistics, DEFAULT_SEED } from "../capture/reader.ts";
import { isStandardInput, parseCapturePath } from "../capture/source/capture-path.ts";
import type { DelayErrorSums } from "../delays/delay-error.ts";
import {
  type OwnedBatch,
  type ReferenceDelayCounts,
  ReferenceDelays,
  type ReferenceDelaysOptions,
} from "../delays/reference-delays.ts";
import { type DelayCounts, SenderDelays } from "../delays/sender-delays.ts";
import { CONTROL_PORT, controlOfRow, controlStream } from "../epoch/control.ts";
import type { CutPlan } from "../epoch/cutter.ts";
import type { Role } from "../estimators/estimator.ts";
import { type ObserverOptions, PointObserver, type TapPlan } from "./observer.ts";

/**
 * Bytes from the IP header on that digests cover when a point is observed alone. Both ends must use the same, and neither sees the other's capture:
 * 64 leave room for Ethernet and four tags in a snap length of 96.
 */
export const OBSERVE_COVER = 64;

/** Packets of one segment or class. */
export interface Lane {
  /** "" for all that the point sees. */
  segment: string;
  role: Role | "both";
  /** "" for all. */
  filter: string;
}

export type CutChoice =
  | { mode: "aligned"; lengthNs: bigint }
  | { mode: "control" }
  | { mode: "delimited"; every: number };

export interface ObserveCapturesOptions {
  kernels: Kernels;
  files: readonly string[];
  point: string;
  lanes: readonly Lane[];
  taps: readonly TapPlan[];
  cut: CutChoice;
  key?: string;
  cover?: number;
  inner?: boolean;
  seed?: bigint;
  /** Captures of the sender: the delay of each packet is told by exact match with them. */
  sender?: SenderCaptures;
  /** Instead: delays are told between reference packets in the captures (RLI). */
  references?: ReferenceDelaysOptions;
  onRecord: ObserverOptions["onRecord"];
  /** Before the first packet: all that was asked for can be done. */
  onBegin?: () => Promise<void> | void;
  /** After each batch; the records that it sealed may be put away. */
  afterBatch?: () => Promise<void> | void;
  onProgress?: (doneBytes: number, totalBytes: number | null, packets: number) => void;
}

export interface SenderCaptures {
  files: readonly string[];
  /** Longest delay that is looked for. */
  windowNs: number;
  /** This point's clock minus the sender's. */
  offsetNs?: number;
}

export interface ObserveCapturesResult {
  captures: CaptureStatistics[];
  /** How many packets were found at the sender; null where its captures were not given. */
  delays: DelayCounts | null;
  /** What reference packets told; null where they were not asked. */
  references: ReferenceDelayCounts | null;
  lanes: { segment: string; packets: number; filtered: number }[];
  memoryBytes: number;
}

export async function observeCaptures(options: ObserveCapturesOptions): Promise<ObserveCapturesResult> {
  const { kernels, files } = options;
  if (files.length === 0) throw new UsageError("bad-option", "no capture was given");
  await checkFiles(kernels, files);
  await checkFiles(kernels, options.sender?.files ?? []);
  const cover = options.cover ?? OBSERVE_COVER;
  const inner = options.inner ?? false;
  const seed = options.seed ?? DEFAULT_SEED;
  const key = FlowKeySpec.parse(options.key);
  const lanes = options.lanes.map((lane) => new RunningLane(lane, { ...options, cover, inner, seed }, key));
  const delays = options.sender
    ? new SenderDelays(kernels, { ...options.sender, capture: { cover, inner, seed } })
    : null;
  const references = openReferences(options);
  // Taps see the batch now, or when the next reference has told its delays.
  const feed = ({ batch, originNs, errors }: OwnedBatch, totals: Totals) => {
    for (const [i, lane] of lanes.entries())
      lane.feed(batch, originNs, totals, i === lanes.length - 1, errors);
  };
  const captures: CaptureStatistics[] = [];
  let packets = 0;
  let ticks = 0;
  try {
    for (const file of files) {
      // Neither filter nor key here: lanes have their own, and both change a batch in place.
      const reader = await CaptureReader.open(kernels, file, { cover, inner, seed });
      const before = captures.length === 0 ? null : sum(captures);
      try {
        if (captures.length === 0) await options.onBegin?.();
        while (await reader.next()) {
          packets += reader.batch.count;
          await delays?.fill(reader.batch, reader.originNs!);
          const totals = add(before, reader.statistics());
          if (references) {
            for (const told of references.push(reader.batch, reader.originNs!)) feed(told, totals);
          } else feed({ batch: reader.batch, originNs: reader.originNs! }, totals);
          await options.afterBatch?.();
          if ((++ticks & 63) === 0) {
            options.onProgress?.(reader.source.consumed(), reader.source.size, packets);
          }
        }
        captures.push(reader.statistics());
      } finally {
        reader.close();
        reader.free();
      }
    }
    const totals = sum(captures);
    if (references) for (const told of references.finish()) feed(told, totals);
    // Reduced by hand: Math.max knows no bigint.
    const lastNs = captures.reduce(
      (last, { lastNs }) => (lastNs !== null && lastNs > last ? lastNs : last),
      0n,
    );
    for (const lane of lanes) lane.finish(totals, lastNs);
    await options.afterBatch?.();
    return {
      captures,
      delays: delays?.counts() ?? null,
      references: references?.counts() ?? null,
      lanes: lanes.map(({ segment, packets, filtered }) => ({ segment, packets, filtered })),
      memoryBytes: lanes.reduce((n, lane) => n + lane.memoryBytes, 0),
    };
  } finally {
    for (const lane of lanes) lane.free();
    delays?.free();
    references?.free();
  }
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

function openReferences({
  kernels,
  references,
  sender,
  cut,
}: ObserveCapturesOptions): ReferenceDelays | null {
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
  return new ReferenceDelays(kernels, references);
}

interface Totals {
  frames: number;
  skipped: Record<string, number>;
  dropped: number | null;
}

class RunningLane {
  readonly segment: string;
  packets = 0;
  filtered = 0;
  readonly #kernels: Kernels;
  readonly #observer: PointObserver;
  readonly #filter: CompiledFilter | null;
  readonly #keyMask: number;
  readonly #seed: bigint;
  readonly #control: boolean;
  #begun = false;
  #copy: PacketBatch | null = null;

  constructor(
    lane: Lane,
    options: ObserveCapturesOptions & { cover: number; inner: boolean; seed: bigint },
    key: FlowKeySpec,
  ) {
    const { kernels, point, taps, cover, inner, seed, onRecord } = options;
    this.segment = lane.segment;
    this.#kernels = kernels;
    this.#seed = seed;
    this.#control = options.cut.mode === "control";
    const cut: CutPlan =
      options.cut.mode === "control" ? { mode: "control", stream: controlStream(lane.segment) } : options.cut;
    const { segment, role, filter } = lane;
    this.#filter = filter === "" ? null : compileFilter(filter, kernels);
    this.#observer = new PointObserver({
      ...{ kernels, point, role, segment, taps, cut, seed, key: key.text, cover, inner, filter, onRecord },
      delays: options.sender !== undefined || options.references !== undefined,
    });
    this.#keyMask = key.store(kernels);
  }

  get memoryBytes(): number {
    return this.#observer.memoryBytes;
  }

  /** `last`: nobody needs the batch as it is after this lane. */
  feed(source: PacketBatch, originNs: bigint, totals: Totals, last: boolean, errors?: DelayErrorSums): void {
    let batch = source;
    if (!last) {
      this.#copy ??= new PacketBatch(this.#kernels, source.capacity);
      copyBatch(source, this.#copy);
      batch = this.#copy;
    }
    if (this.#filter) {
      this.#filter.select(batch);
      if (this.#control) this.#keepControl(batch);
      this.filtered += batch.compact();
    }
    this.packets += batch.count;
    this.#kernels.call.keyFlows(batch.address, this.#keyMask, this.#seed);
    // Where the capture begins, not where this lane's first packet is: an idle lane was observed all the same.
    if (!this.#begun) this.#observer.begin(originNs);
    this.#begun = true;
    this.#observer.feed(batch, originNs, this.#with(totals), errors);
  }

  finish(totals: Totals, lastNs: bigint): void {
    this.#observer.finish(this.#with(totals), lastNs);
  }

  free(): void {
    this.#observer.free();
    this.#filter?.free();
    this.#copy?.free();
    this.#kernels.free(this.#keyMask);
  }

  /** Messages cut the stream whether or not the filter would let them through. */
  #keepControl(batch: PacketBatch): void {
    const select = batch.column("select");
    for (let i = 0; i < batch.count; i++) {
      if (controlOfRow(batch, i, CONTROL_PORT) !== null) this.#kernels.u8[select + i] = 1;
    }
  }

  #with(totals: Totals): Totals {
    if (this.filtered === 0) return totals;
    return { ...totals, skipped: { ...totals.skipped, filtered: this.filtered } };
  }
}

function add(before: Totals | null, now: CaptureStatistics): Totals {
  const skipped: Record<string, number> = { ...before?.skipped };
  for (const [reason, n] of Object.entries(now.skipped)) skipped[reason] = (skipped[reason] ?? 0) + n;
  const known = now.dropped !== null || (before?.dropped ?? null) !== null;
  return {
    frames: (before?.frames ?? 0) + now.packets,
    skipped,
    dropped: known ? (before?.dropped ?? 0) + (now.dropped ?? 0) : null,
  };
}

function sum(captures: readonly CaptureStatistics[]): Totals {
  const none: Totals = { frames: 0, skipped: {}, dropped: null };
  return captures.reduce<Totals>((total, capture) => add(total, capture), none);
}
