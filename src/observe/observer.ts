/**
 * Observes a point: batches in, records out. It cuts the stream (cutter.ts), drives one tap per estimator and role through the epochs, and seals
 * them. Batches arrive filtered and keyed, in file order, and are not modified. It holds the taps' memory until `free`.
 */
import { checkChoice, checkSeed, checkText } from "../base/checks.ts";
import { UsageError } from "../base/errors.ts";
import { type Kernels, memoryError } from "../base/kernels.ts";
import { formatBytes } from "../base/quantity.ts";
import { VERSION } from "../base/version.ts";
import { FLAG, type PacketBatch } from "../capture/batch.ts";
import { type CaptureTotals, NO_TOTALS } from "../capture/source/source.ts";
import { addDelayErrors, type DelayErrorSums, delayErrorOf, noDelayErrors } from "../delays/delay-error.ts";
import { geometryFingerprint } from "../epoch/compatible.ts";
import { type CutPlan, createCutter } from "../epoch/cutter.ts";
import type { Cutter, EpochSink, SeenPackets } from "../epoch/epoch-sink.ts";
import { instant } from "../epoch/instant.ts";
import type { EncodeOptions, EpochBounds, EpochRecord, RecordCounters, RecordRole } from "../epoch/record.ts";
import type { Span } from "../epoch/spans.ts";
import type { TapState } from "../epoch/tap-state.ts";
import {
  type Estimator,
  needsDelays,
  type ParameterValues,
  type Role,
  type SealedEpoch,
  type Tap,
} from "../estimators/estimator.ts";
import { formatParameters } from "../estimators/parameters.ts";

/** An estimator to run, with complete parameters. */
export interface TapPlan {
  estimator: Estimator;
  parameters: ParameterValues;
}

export interface ObserverOptions {
  kernels: Kernels;
  point: string;
  /** Which end of a segment the point is; `both` if it may be either. */
  role: Role | "both";
  segment?: string;
  taps: readonly TapPlan[];
  cut: CutPlan;
  /** Replaces the cutter made from `cut`, if epochs are cut elsewhere. */
  cutter?: Cutter;
  /** Wraps each tap when it is created. */
  wrapTap?: (tap: Tap, plan: TapPlan) => Tap;
  /** Counters, if nothing is fed. */
  totals?: TellTotals;
  /** Seed of digests, flow hashes and sketches. */
  seed: bigint;
  /** How the batches were made, for the record: flow key, digest cover, tunnels, filter. */
  key: string;
  cover: number;
  inner?: boolean;
  filter?: string;
  /** Whether the batches' delay column is filled. */
  delays?: boolean;
  /** State of a live point: its clock, and the CPU time since the previous call. Called once per epoch. */
  state?: (() => TapState) | undefined;
  onRecord: (record: EpochRecord, options: EncodeOptions) => void;
}

/** Returns the capture's counters. Without it, every row counts as a frame. */
export type TellTotals = () => CaptureTotals;

interface RunningTap {
  plan: TapPlan;
  role: RecordRole;
  tap: Tap;
  fingerprint: bigint;
  parameters: string;
}

const LONGEST_NAME_BYTES = 64;

export class PointObserver {
  readonly #options: ObserverOptions;
  readonly #cutter: Cutter;
  readonly #taps: RunningTap[];
  readonly #sink: EpochSink;
  /** Time axis of the taps, ns since 1970: the origin of the first batch. */
  #axisNs: bigint | null = null;
  #batch: PacketBatch | null = null;
  #openNs: { startNs: bigint; referenceNs: bigint } | null = null;
  /** Errors of the delays since the last seal, and of the current batch. */
  #errors = noDelayErrors();
  #batchErrors: DelayErrorSums | null = null;
  #short = 0;
  #backward = 0;
  /** Times of the epoch's first and last row, on the axis. */
  #firstNs = Number.NaN;
  #lastNs = Number.NaN;
  #frames = 0;
  #totals: TellTotals = () => NO_TOTALS;
  #counted: CaptureTotals = NO_TOTALS;
  /** Totals over all epochs sealed so far. */
  readonly sums = { epochs: 0, short: 0, backward: 0 };

  constructor(options: ObserverOptions) {
    checkName("point", options.point);
    if (options.segment) checkName("segment", options.segment);
    checkChoice("role", options.role, ROLES);
    checkSeed(options.seed);
    this.#options = options;
    this.#cutter = options.cutter ?? createCutter(options.cut);
    if (options.totals) this.#totals = options.totals;
    this.#taps = [];
    try {
      for (const plan of options.taps) this.#start(plan);
    } catch (error) {
      this.free();
      throw error;
    }
    if (this.#taps.length === 0) {
      const names = options.taps.map((t) => t.estimator.name).join(", ");
      throw names === ""
        ? new UsageError("bad-option", "no estimator is given", undefined, { parameter: "taps", value: [] })
        : new UsageError(
            "not-supported",
            `${names}: keeps records at the receiver only, and the point is a ${options.role}`,
          );
    }
    this.#sink = {
      open: (start) => this.#open(start),
      rows: (from, to) => this.#rows(from, to),
      seen: (packets) => this.#note(packets),
      isFull: () => this.#taps.some(({ tap }) => tap.isFull?.() ?? false),
      close: (bounds) => this.#seal(bounds, null),
      discard: (bounds, reason) => this.#seal(bounds, reason),
    };
  }

  get memoryBytes(): number {
    return this.#taps.reduce((sum, t) => sum + t.tap.memoryBytes, 0);
  }

  /** Starts observing at this time, whenever the first row comes. For rows that are only part of what the point sees. */
  begin(nowNs: bigint, totals?: TellTotals): void {
    this.#axisNs ??= nowNs;
    if (totals) this.#totals = totals;
    this.#cutter.begin?.(nowNs, this.#sink);
  }

  /**
   * Takes the rows of a batch whose time 0 is `originNs`. `errors`: of its delays, attributed to epochs batch by batch. `totals`: the capture's
   * counters up to and including this batch.
   */
  feed(batch: PacketBatch, originNs: bigint, totals?: TellTotals, errors?: DelayErrorSums): void {
    this.#batchErrors = errors ?? null;
    if (errors) addDelayErrors(this.#errors, errors);
    this.#axisNs ??= originNs;
    if (totals) this.#totals = totals;
    else this.#frames += batch.count;
    this.#batch = batch;
    if (originNs === this.#axisNs) this.#cutter.cut(batch, originNs, this.#sink);
    else this.#feedShifted(batch, Number(originNs - this.#axisNs), this.#axisNs);
    this.#batch = null;
    this.#batchErrors = null;
  }

  /** No more rows before this time will come: seals the epochs that ended before it, with rows or without. */
  tick(nowNs: bigint): void {
    this.#cutter.tick?.(nowNs, this.#sink);
  }

  /** Ends the observation (at `nowNs` if known) and seals the open epoch as it is. Feeding may continue with a new epoch. */
  finish(nowNs?: bigint): void {
    this.#cutter.finish(this.#sink, nowNs);
  }

  free(): void {
    for (const { tap } of this.#taps) tap.free();
  }

  /** Takes rows of a later capture: their times are shifted to the first capture's axis while the taps process them. */
  #feedShifted(batch: PacketBatch, shiftNs: number, axisNs: bigint): void {
    const { count } = batch;
    const kept = batch.timeNs.slice(0, count);
    const { timeNs } = batch;
    for (let i = 0; i < count; i++) timeNs[i] = kept[i]! + shiftNs;
    try {
      this.#cutter.cut(batch, axisNs, this.#sink);
    } finally {
      batch.timeNs.set(kept);
    }
  }

  #start(plan: TapPlan): void {
    const { kernels, seed, role, key, cover, inner } = this.#options;
    const { estimator } = plan;
    if (needsDelays(estimator, plan.parameters) && this.#options.delays !== true) {
      throw new UsageError(
        "not-supported",
        `${estimator.name} needs the delay of each packet, which a single capture does not contain`,
        "give the sender's capture too, or ‘delays’ where the capture contains reference packets or timestamps",
      );
    }
    const parameters = formatParameters(estimator, plan.parameters, true);
    const payloadVersion = estimator.version;
    const fingerprint = geometryFingerprint({
      estimator: estimator.name,
      payloadVersion,
      parameters,
      key,
      cover,
      inner: inner ?? false,
    });
    const make = (as: RecordRole, tapRole: Role) => {
      try {
        const made = estimator.createTap({ kernels, role: tapRole, seed }, plan.parameters);
        const tap = this.#options.wrapTap?.(made, plan) ?? made;
        this.#taps.push({ plan, role: as, tap, fingerprint, parameters });
      } catch (error) {
        throw (
          memoryError(
            error,
            `${estimator.name} (${parameters}) does not fit${this.#held()}`,
            `lower the parameters of ${estimator.name}`,
          ) ?? error
        );
      }
    };
    if (!estimator.needs.sender) {
      if (role !== "sender") make("receiver", "receiver");
    } else if (role !== "both") make(role, role);
    else if (estimator.roleMatters) {
      make("sender", "sender");
      make("receiver", "receiver");
    } else make("none", "sender");
  }

  /** Lists the memory held, for error messages. */
  #held(): string {
    const parts = this.#taps.map(({ plan, tap }) => `${plan.estimator.name} ${formatBytes(tap.memoryBytes)}`);
    return parts.length === 0 ? "" : `; held: ${parts.join(", ")}`;
  }

  /** Runs `work`; if the tap cannot grow any more, the error names it and says what to lower. */
  #drive<T>({ plan, parameters }: RunningTap, work: () => T): T {
    try {
      return work();
    } catch (error) {
      const { name } = plan.estimator;
      throw (
        memoryError(
          error,
          `${name} (${parameters}) needs more within an epoch${this.#held()}`,
          `shorten the epoch, or lower the parameters of ${name}`,
        ) ?? error
      );
    }
  }

  #open(start: { startNs: bigint; referenceNs: bigint; salt: bigint }): void {
    this.#openNs = start;
    const axisNs = this.#axisNs ?? start.referenceNs;
    const at = Number(start.referenceNs - axisNs);
    for (const running of this.#taps) this.#drive(running, () => running.tap.begin(at, axisNs, start.salt));
  }

  #rows(from: number, to: number): void {
    const batch = this.#batch;
    if (!batch || !this.#openNs || this.#axisNs === null) return;
    const { timeNs } = batch;
    const start = Number(this.#openNs.startNs - this.#axisNs);
    this.#short += batch.countFlagged(from, to, FLAG.short);
    this.#backward += batch.countBefore(from, to, start);
    if (Number.isNaN(this.#firstNs)) this.#firstNs = timeNs[from]!;
    this.#lastNs = timeNs[to - 1]!;
    for (const running of this.#taps) this.#drive(running, () => running.tap.update(batch, from, to));
  }

  #note({ shorts, firstNs, lastNs }: SeenPackets): void {
    this.#short += shorts;
    if (firstNs === null || lastNs === null || this.#axisNs === null) return;
    this.#firstNs = Number(firstNs - this.#axisNs);
    this.#lastNs = Number(lastNs - this.#axisNs);
  }

  #seal(epoch: EpochBounds, reason: string | null): void {
    const opened = this.#openNs !== null;
    this.#openNs = null;
    const counters = this.#count();
    const state = this.#options.state?.() ?? {};
    this.sums.epochs++;
    this.sums.short += this.#short;
    this.sums.backward += this.#backward;
    for (const running of this.#taps) {
      const sealed = opened ? this.#drive(running, () => running.tap.seal()) : null;
      // A void epoch keeps its counters and reason, but not its sketch, which would be misleading.
      const kept =
        reason === null && sealed ? sealed : { payload: new Uint8Array(0), packets: sealed?.packets ?? 0 };
      this.#emit(running, epoch, kept, reason, { counters, state });
    }
    this.#short = 0;
    this.#backward = 0;
    this.#firstNs = Number.NaN;
    this.#errors = this.#batchErrors ? { ...this.#batchErrors } : noDelayErrors();
  }

  #emit(
    running: RunningTap,
    epoch: EpochBounds,
    sealed: SealedEpoch,
    reason: string | null,
    { counters, state }: { counters: Omit<RecordCounters, "packets">; state: TapState },
  ): void {
    const { point, segment, key, cover, inner, filter, seed, onRecord } = this.#options;
    const { estimator } = running.plan;
    const record: EpochRecord = {
      point,
      role: running.role,
      segment: segment ?? "",
      estimator: estimator.name,
      payloadVersion: estimator.version,
      parameters: running.parameters,
      key,
      cover,
      inner: inner ?? false,
      filter: filter ?? "",
      seed,
      fingerprint: running.fingerprint,
      epoch,
      counters: { ...counters, packets: sealed.packets },
      void: reason,
      program: `hoptime ${VERSION}`,
      payload: sealed.payload,
      delayError: estimator.needs.delays ? delayErrorOf(this.#errors) : null,
      ...this.#spans(epoch, sealed.packets),
      ...state,
    };
    onRecord(record, estimator.packets ? { raw: true } : {});
  }

  /** For an epoch not seen whole: the span that was, so that its parts can be merged, each once. */
  #spans({ cutHead, cutTail }: EpochBounds, packets: number): { spans?: Span[] } {
    if (!(cutHead || cutTail) || Number.isNaN(this.#firstNs) || this.#axisNs === null) return {};
    const [firstNs, lastNs] = [this.#firstNs, this.#lastNs].sort((a, b) => a - b) as [number, number];
    const axisNs = this.#axisNs;
    const at = (ns: number) => instant(axisNs, ns);
    return { spans: [{ firstNs: at(firstNs), lastNs: at(lastNs), packets }] };
  }

  /** Returns the counters since the last seal. Frames arrive in batches, so at a cut they are exact to a batch. */
  #count(): Omit<RecordCounters, "packets"> {
    const now = this.#totals();
    const before = this.#counted;
    this.#counted = now;
    const skipped: Record<string, number> = {};
    for (const [reason, n] of Object.entries(now.skipped)) {
      const more = n - (before.skipped[reason] ?? 0);
      if (more > 0) skipped[reason] = more;
    }
    const frames = now.frames - before.frames + this.#frames;
    this.#frames = 0;
    const dropped = now.dropped === null ? null : Math.max(0, now.dropped - (before.dropped ?? 0));
    return { frames, short: this.#short, backward: this.#backward, skipped, dropped };
  }
}

/** The roles a lane may be given. */
export const ROLES = ["sender", "receiver", "both"] as const;
/** Names of the archive's own files, not allowed as point names. */
const RESERVED = ["archive.json"];

/** Throws on invalid names. Names become folders and arguments and are part of records, so they are short, visible and unambiguous. */
export function checkName(parameter: string, name: string): void {
  checkText(parameter, name, "a name");
  const bytes = new TextEncoder().encode(name).length;
  const visible = name.trim() === name && !/\p{Cc}/u.test(name);
  const taken = name.startsWith("-") || RESERVED.includes(name.toLowerCase());
  if (bytes >= 1 && bytes <= LONGEST_NAME_BYTES && visible && !taken) return;
  throw new UsageError(
    "bad-parameter",
    `invalid name '${name}'`,
    `a name has 1 to ${LONGEST_NAME_BYTES} bytes, no control characters, no spaces at its ends, no '-' in front, and is not ${RESERVED.join(", ")}`,
    { parameter, value: name },
  );
}
