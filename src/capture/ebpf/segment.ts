/**
 * Measures ways through one box in the kernel (datapath/segment.bpf.c): packets that come by one interface and leave by another. All programs are attached by
 * links, so they are gone when this is closed and whenever the process ends. Times are those of the kernel's monotonic clock; `wallOffsetNs` returns the offset
 * to the clock of captures.
 */
import type { XdpMode } from "./bpf-link.ts";
import type { Datapath } from "./datapath.ts";
import { RingBuffer } from "./ring-buffer.ts";
import {
  DROP_KEY_BYTES,
  FLOW_KEY_BYTES,
  type FlowSums,
  type GroupSums,
  readCounts,
  readFlow,
  type WayCounts,
} from "./segment-layout.ts";
import {
  type AttachedPrograms,
  attachAll,
  checkWays,
  DEFAULT_EPOCH_NS,
  type Departure,
  LOST,
  type Loaded,
  load,
  possibleCpus,
  refused,
  type SegmentPlan,
  setInputs,
  type Way,
  withFallback,
} from "./segment-load.ts";
import { SegmentSums } from "./segment-sums.ts";
import { kernelMonotonicNs, wallOffsetNs } from "./wall-offset.ts";

export interface Drop {
  way: number;
  /** Dropped from the output's queue, or earlier, while being forwarded. */
  place: "queue" | "forwarding";
  reason: string;
  packets: number;
}

const NO_EPOCH = 0xffff_ffff_ffff_ffffn;

export class SegmentDatapath {
  readonly ways: readonly Way[];
  readonly datapath: Datapath;
  readonly departure: Departure;
  /** Whether drops are counted by reason. */
  readonly seesDrops: boolean;
  /** XDP mode of each input. */
  readonly xdpModes: ReadonlyMap<string, XdpMode>;
  /** Monotonic time in ns at which epoch 0 starts. */
  readonly baseNs: number;
  readonly epochNs: number;
  readonly #open: BigUint64Array;
  readonly #links: { close(): void }[];
  /** The sums of epochs; null if epochs are not counted. */
  readonly #sums: SegmentSums | null;
  #reasons: ReadonlyMap<number, string> | null = null;

  private constructor(plan: SegmentPlan, loaded: Loaded, attached: AttachedPrograms) {
    const { datapath, baseNs, departure, programs } = loaded;
    this.ways = plan.ways;
    this.datapath = datapath;
    this.departure = departure;
    this.seesDrops = programs.includes(LOST);
    this.baseNs = Number(baseNs);
    this.epochNs = plan.epochNs ?? DEFAULT_EPOCH_NS;
    this.#links = attached.links;
    this.xdpModes = attached.xdpModes;
    this.#open = new BigUint64Array(datapath.map("open_epochs").memory(), 0, 2);
    // No set is assigned to an epoch yet.
    this.#open.fill(NO_EPOCH);
    this.#sums = plan.epochNs === undefined ? null : new SegmentSums(datapath, possibleCpus());
  }

  /** Opens the measurement and resolves once it runs. Throws a UsageError that says what is missing and what to do. */
  static async open(plan: SegmentPlan): Promise<SegmentDatapath> {
    checkWays(plan.ways);
    const loaded = await load(plan).catch(refused);
    const links: { close(): void }[] = [];
    try {
      setInputs(loaded.datapath, plan.ways);
      const xdpModes = attachAll(loaded, plan, links);
      return new SegmentDatapath(plan, loaded, { links, xdpModes });
    } catch (error) {
      for (const link of links) link.close();
      loaded.datapath.close();
      throw withFallback(error);
    }
  }

  /** Starts counting; returns the number of the current epoch. */
  begin(): number {
    const epoch = Math.floor((monotonicNs() - this.baseNs) / this.epochNs);
    for (const e of [epoch, epoch + 1]) Atomics.store(this.#open, e & 1, BigInt(e));
    return epoch;
  }

  /** Returns the number of packets of an epoch that have reached the output and neither left nor were lost. */
  underWay(epoch: number): number {
    return this.#sums?.underWay(epoch & 1, this.ways.length) ?? 0;
  }

  /** Returns what was counted in an epoch, and assigns its set of maps to epoch `next`. */
  take(epoch: number, next: number): { groups: GroupSums[]; flows: FlowSums[] } {
    const set = epoch & 1;
    const flows: FlowSums[] = [];
    Atomics.store(this.#open, set, NO_EPOCH);
    const groups = this.#sums?.read(set, this.ways.length) ?? [];
    this.#each(`flows_${set}`, FLOW_KEY_BYTES, (key, values, stride) => {
      flows.push(readFlow(key, values, stride));
    });
    this.#sums?.clear(set);
    Atomics.store(this.#open, set, BigInt(next));
    return { groups, flows };
  }

  /** Returns the counts since the measurement was opened. */
  counts(way: number): WayCounts {
    const key = new Uint8Array(new Uint32Array([way]).buffer);
    return readCounts(this.datapath.map("counted").lookupPerCpu(key));
  }

  /** Returns the drops since the measurement was opened. */
  drops(): Drop[] {
    const drops: Drop[] = [];
    this.#each(
      "drops",
      DROP_KEY_BYTES,
      (key, values, stride) => {
        let packets = 0;
        for (let at = 0; at < values.byteLength; at += stride)
          packets += Number(values.getBigUint64(at, true));
        const reason = key.getUint16(2, true);
        this.#reasons ??= this.datapath.bpf.kernelEnum("skb_drop_reason") ?? new Map<number, string>();
        const name = this.#reasons.get(reason) ?? `reason ${reason}`;
        drops.push({
          way: key.getUint8(0),
          place: key.getUint8(1) === 0 ? "queue" : "forwarding",
          reason: name.replace(/^SKB_(DROP_REASON_)?/, ""),
          packets,
        });
      },
      false,
    );
    return drops;
  }

  ring(of: "in" | "left"): RingBuffer {
    return new RingBuffer(this.datapath.bpf, this.datapath.map(`ring_${of}`));
  }

  /** Returns the wall clock minus the monotonic clock in ns. It changes when the clock is set. */
  wallOffsetNs(): bigint {
    return wallOffsetNs(this.datapath.bpf.libc);
  }

  close(): void {
    for (const link of this.#links.splice(0)) link.close();
    this.datapath.close();
  }

  #each(
    name: string,
    keyBytes: number,
    each: (key: DataView, values: DataView, stride: number) => void,
    take = true,
  ): void {
    const map = this.datapath.map(name);
    const stride = (map.valueBytes + 7) & ~7;
    const bytes = stride * this.datapath.bpf.possibleCpus();
    map.entries(
      keyBytes,
      (keys, values, count) => {
        for (let i = 0; i < count; i++)
          each(
            new DataView(keys.buffer, keys.byteOffset + i * keyBytes, keyBytes),
            new DataView(values.buffer, values.byteOffset + i * bytes, bytes),
            stride,
          );
      },
      { perCpu: true, take },
    );
  }
}

export function monotonicNs(): number {
  return Number(kernelMonotonicNs());
}
