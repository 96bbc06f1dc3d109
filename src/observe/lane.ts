/** A lane: packets of one segment or traffic class of a point, with their own filter and key, cut and sealed by their own observer. */
import type { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "../capture/batch.ts";
import { copyBatch } from "../capture/copy-batch.ts";
import { type CompiledFilter, compileFilter } from "../capture/filter/filter.ts";
import type { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { type CaptureTotals, checkMemory } from "../capture/source/source.ts";
import type { OwnedBatch } from "../delays/reference-delays.ts";
import { CONTROL_PORT, controlOfRow, controlStream } from "../epoch/control.ts";
import { type CutPlan, checkCut } from "../epoch/cutter.ts";
import type { Role } from "../estimators/estimator.ts";
import type { ControlPlan } from "./control-sender.ts";
import { DirectionCheck } from "./directions.ts";
import { type ObserverOptions, PointObserver, type TellTotals } from "./observer.ts";

export interface Lane {
  /** Empty: all packets of the point. */
  segment: string;
  role: Role | "both";
  /** Empty: all packets. */
  filter: string;
}

export type CutChoice =
  | { mode: "aligned"; lengthNs: bigint }
  /** `send`: this point sends the messages. */
  | { mode: "control"; send?: ControlPlan }
  | { mode: "delimited"; every: number };

export interface LaneOptions extends Omit<ObserverOptions, "role" | "segment" | "filter" | "cut" | "key"> {
  cut: CutChoice;
  key: FlowKeySpec;
  /** Counts packets of both directions together; otherwise they are refused. */
  bothWays?: boolean;
}

export class RunningLane {
  readonly segment: string;
  packets = 0;
  filtered = 0;
  readonly #kernels: Kernels;
  readonly #observer: PointObserver;
  readonly #filter: CompiledFilter | null;
  readonly #keyMask: number;
  readonly #seed: bigint;
  readonly #control: boolean;
  /** Detects two-way traffic; null if it is allowed. */
  readonly directions: DirectionCheck | null;
  #begun = false;
  #copy: PacketBatch | null = null;

  constructor(lane: Lane, options: LaneOptions) {
    const { kernels, key, seed } = options;
    const { segment, role, filter } = lane;
    checkCut(options.cut);
    this.segment = segment;
    this.directions = options.bothWays ? null : new DirectionCheck();
    this.#kernels = kernels;
    this.#seed = seed;
    this.#control = options.cut.mode === "control";
    const cut: CutPlan =
      options.cut.mode === "control" ? { mode: "control", stream: controlStream(segment) } : options.cut;
    this.#filter = filter === "" ? null : compileFilter(filter, kernels);
    this.#keyMask = key.store(kernels);
    try {
      this.#observer = new PointObserver({ ...options, role, segment, filter, cut, key: key.text });
    } catch (error) {
      this.#filter?.free();
      kernels.free(this.#keyMask);
      throw error;
    }
  }

  get memoryBytes(): number {
    return this.#observer.memoryBytes;
  }

  /** Totals of the epochs sealed so far. */
  get sums(): PointObserver["sums"] {
    return this.#observer.sums;
  }

  /** Feeds a batch. `last`: no later lane needs the batch, so it may be modified. */
  feed({ batch: source, originNs, errors }: OwnedBatch, totals: TellTotals, last: boolean): void {
    checkMemory("source", source, this.#kernels);
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
    if (this.directions && !this.directions.done) this.directions.add(batch);
    this.#kernels.call.keyFlows(batch.address, this.#keyMask, this.#seed);
    this.begin(originNs, totals);
    this.#observer.feed(batch, originNs, () => this.#with(totals()), errors);
  }

  /** Starts at the beginning of the capture, not at this lane's first packet: an idle lane was observed too. */
  begin(nowNs: bigint, totals: TellTotals): void {
    if (!this.#begun) this.#observer.begin(nowNs, () => this.#with(totals()));
    this.#begun = true;
  }

  tick(nowNs: bigint): void {
    this.#observer.tick(nowNs);
  }

  finish(lastNs?: bigint): void {
    this.#observer.finish(lastNs);
  }

  free(): void {
    this.#observer.free();
    this.#filter?.free();
    this.#copy?.free();
    this.#kernels.free(this.#keyMask);
  }

  /** Control messages cut the stream whether or not they match the filter. */
  #keepControl(batch: PacketBatch): void {
    const select = batch.column("select");
    for (let i = 0; i < batch.count; i++) {
      if (controlOfRow(batch, i, CONTROL_PORT) !== null) this.#kernels.u8[select + i] = 1;
    }
  }

  #with(totals: CaptureTotals): CaptureTotals {
    if (this.filtered === 0) return totals;
    return { ...totals, skipped: { ...totals.skipped, filtered: this.filtered } };
  }
}
