/**
 * Drives the sketches that datapath/observe.bpf.c keeps of the packets of an interface: loads and attaches the programs, assigns sets to epochs, reads and
 * clears them. A packet goes to the set whose window contains its time, or, with delimited epochs, to the set of the current epoch. A set is read once no
 * packet goes to it any more. No call waits.
 */
import { existsSync } from "node:fs";
import { UsageError } from "../../base/errors.ts";
import { linkConstants } from "../../base/kernel-layout.ts";
import { formatBytes } from "../../base/quantity.ts";
import { later } from "../../base/time.ts";
import { SKIP_REASONS } from "../reasons.ts";
import type { Libc } from "../source/interface/libc.ts";
import { linkOf } from "../source/interface/ring.ts";
import { type Attached, attach, interfaceIndex, type Place } from "./bpf-link.ts";
import { Datapath, type DatapathPlan } from "./datapath.ts";
import {
  CELL_BYTES,
  CONTROL,
  COUNT,
  COUNTS_BYTES,
  type ConfigPlan,
  cellPlaces,
  configBytes,
  MAX_LDS_ROWS,
  MAX_SETS,
  WINDOW,
} from "./kernel-layout.ts";
import { flowsOf, type KernelKept, type KernelPart, type KernelPlaces } from "./kernel-plan.ts";
import { loadLibbpf } from "./libbpf.ts";
import { wallOffsetNs } from "./wall-offset.ts";

export interface KernelSketchPlan extends Omit<ConfigPlan, "network"> {
  /** Name of the interface. */
  name: string;
  place: Place;
  /** Returns wall clock - monotonic clock; replaced in tests. */
  offsetNs?: () => bigint;
}

/** Counters of one set, summed over all CPUs. Times in ns since 1970; null if there was no packet. */
export interface SetCounts {
  frames: number;
  bytes: number;
  packets: number;
  shorts: number;
  merged: number;
  filtered: number;
  skipped: Record<string, number>;
  firstNs: bigint | null;
  lastNs: bigint | null;
  /** Packets in the fullest counter of COLATE. */
  fullest: number;
  missedDelimiters: number;
}

export interface SetWindow {
  startNs: bigint;
  endNs: bigint;
  /** Origin of the times in the set. */
  baseNs: bigint;
}

const PROGRAM: Record<Place, string> = {
  xdp: "observe_xdp",
  "tc-ingress": "observe_ingress",
  "tc-egress": "observe_egress",
  socket: "observe_socket",
};
/** Ethernet header and two VLAN tags. */
const FRAME_OVERHEAD = 22;
const ANY_LENGTH = 0xffff_ffff;
const MAX_CELLS = 2 ** 31;
const AF_INET = 2;
const SOCK_DGRAM = 2;
const FLOW_KEY_BYTES = 40;
const FLOW_BYTES = 24;
/** The map has room for more flows than asked for; which of them to leave out is decided afterwards, by their hashes. */
const FLOW_ROOM = 1.5;

export class KernelSketch {
  readonly plan: KernelSketchPlan;
  readonly cpus: number;
  #mtu: number | null = null;
  /** Public for tests and benchmarks. */
  readonly datapath: Datapath;
  readonly #control: BigUint64Array;
  readonly #counts: BigUint64Array;
  readonly #cells: Uint8Array;
  readonly #cellsPerSet: number;
  readonly #at: Map<KernelPart, number>;
  #attached: Attached | null = null;
  readonly #readOffset: () => bigint;
  /** Wall clock - monotonic clock. Packets are timed by the monotonic clock. */
  #offsetNs: bigint;

  private constructor(plan: KernelSketchPlan, datapath: Datapath) {
    const { at, cells } = cellPlaces(plan.parts);
    this.plan = plan;
    this.cpus = datapath.bpf.possibleCpus();
    this.datapath = datapath;
    this.#control = new BigUint64Array(datapath.map(".data.control").memory());
    this.#counts = new BigUint64Array(datapath.map("counts").memory());
    this.#cells = new Uint8Array(datapath.map("cells").memory());
    this.#cellsPerSet = cells;
    this.#at = at;
    this.#readOffset = plan.offsetNs ?? (() => wallOffsetNs(datapath.bpf.libc));
    this.#offsetNs = this.#readOffset();
    this.#control[CONTROL.offset] = this.#offsetNs;
    for (let set = 0; set < MAX_SETS; set++) this.#window(set, WINDOW.offset, this.#offsetNs);
    this.#control[CONTROL.due] = 2n ** 64n - 1n;
    this.lookAtMtu();
  }

  /** Loads the programs without attaching them. Throws a UsageError if that is not possible. */
  static async load(plan: KernelSketchPlan): Promise<KernelSketch> {
    const { name, parts, sets } = plan;
    const bpf = await loadLibbpf(name);
    interfaceIndex(bpf, name);
    const { ethernet } = askLink(bpf.libc, name);
    const cpus = bpf.possibleCpus();
    const { cells } = cellPlaces(parts);
    const all = cells * sets * cpus;
    if (all > MAX_CELLS)
      throw new UsageError(
        "out-of-memory",
        `${name}: ${formatBytes(all * CELL_BYTES)} of cells in the kernel, for ${cpus} CPUs, are too many`,
        "use smaller parameters of the estimators",
      );
    const colate = parts.find((part) => part.kind === "colate");
    const flows = Math.max(0, ...parts.map(flowsOf));
    const datapath = await loadEither({
      what: name,
      programs: [PROGRAM[plan.place]],
      constants: { ".rodata.config": configBytes({ ...plan, network: !ethernet }) },
      entries: {
        counts: cpus * sets,
        cells: Math.max(1, all),
        colate_slots: colate ? sets * colate.m * colate.edges.length : 1,
        flows: flows > 0 ? Math.ceil(flows * FLOW_ROOM) * 2 + 1024 : 1,
      },
    });
    return new KernelSketch(plan, datapath);
  }

  /** Attaches the programs: packets are counted from now on. */
  attach(): Attached {
    const { name, place } = this.plan;
    const { bpf } = this.datapath;
    this.#attached = attach(bpf, name, place, this.datapath.program(PROGRAM[place]));
    return this.#attached;
  }

  /** False once the interface is gone. */
  get alive(): boolean {
    return this.#attached?.alive() ?? true;
  }

  /** Null if not known. */
  get mtu(): number | null {
    return this.#mtu;
  }

  /** Reads the MTU again, because it may have changed. Frames up to the MTU count as single packets, longer ones as merged. */
  lookAtMtu(): void {
    this.#mtu = askLink(this.datapath.bpf.libc, this.plan.name).mtu ?? this.#mtu;
    this.#control[CONTROL.longest] = BigInt(this.#mtu === null ? ANY_LENGTH : this.#mtu + FRAME_OVERHEAD);
  }

  get memoryBytes(): number {
    return this.#cellsPerSet * CELL_BYTES * this.cpus * this.plan.sets;
  }

  /**
   * Returns whether the wall clock was set since the last call. Windows set before then are off by the change; packets already in them keep their times on the
   * old clock.
   */
  clockWasSet(): boolean {
    const nowNs = this.#readOffset();
    if (nowNs === this.#offsetNs) return false;
    // A pending cut was scheduled on the old clock.
    this.cutAt(null);
    this.#offsetNs = nowNs;
    this.#control[CONTROL.offset] = nowNs;
    return true;
  }

  /** Sends packets with times in the window to the set. Null: no packets go there. */
  setWindow(set: number, window: SetWindow | null): void {
    // The end is written last: until then the window is empty.
    this.#window(set, WINDOW.end, 0n);
    if (!window) return;
    this.#window(set, WINDOW.offset, this.#offsetNs);
    this.#window(set, WINDOW.base, window.baseNs - this.#offsetNs);
    // An epoch may begin before the machine was started.
    this.#window(set, WINDOW.start, later(0n, window.startNs - this.#offsetNs));
    this.#window(set, WINDOW.end, window.endNs - this.#offsetNs);
  }

  /** With delimited epochs: number of the current epoch. */
  get epoch(): bigint {
    return Atomics.load(this.#control, CONTROL.current);
  }

  /** Returns when the epoch in a set began, and the digest of the packet that began it (0: cut by the clock). */
  opening(set: number): { startNs: bigint; id: bigint } {
    const startNs = this.#windowOf(set, WINDOW.start) + this.#windowOf(set, WINDOW.offset);
    return { startNs, id: this.#windowOf(set, WINDOW.id) };
  }

  /** Returns the origin of the times in a set; null if no packet came. */
  baseOf(set: number): bigint | null {
    // Negative if the machine has been up for less than a step of the grid; stored as unsigned.
    const base = BigInt.asIntN(64, this.#windowOf(set, WINDOW.base));
    return base === 0n ? null : base + this.#windowOf(set, WINDOW.offset);
  }

  /** Frees the sets of epochs below this number, which have been read. */
  drainedUntil(epoch: bigint): void {
    Atomics.store(this.#control, CONTROL.drained, epoch);
  }

  /** The next packet from this time on begins an epoch. Null: no cut by time. */
  cutAt(ns: bigint | null): void {
    Atomics.store(this.#control, CONTROL.due, ns === null ? 2n ** 64n - 1n : ns - this.#offsetNs);
  }

  /** Switches packets to the next set if the current epoch is still `epoch`. */
  cutNow(epoch: bigint): boolean {
    this.#window(Number((epoch + 1n) % BigInt(this.plan.sets)), WINDOW.offset, this.#offsetNs);
    return Atomics.compareExchange(this.#control, CONTROL.current, epoch, epoch + 1n) === epoch;
  }

  /** Writes the seeds of an epoch's cells. */
  place(set: number, places: KernelPlaces): void {
    if (places.kind === "lds") {
      const seeds = new BigUint64Array(this.datapath.map("lds_seeds").memory());
      for (const [i, { flow, packet }] of places.rows.entries()) {
        seeds[2 * (set * MAX_LDS_ROWS + i)] = flow;
        seeds[2 * (set * MAX_LDS_ROWS + i) + 1] = packet;
      }
      return;
    }
    const view = new DataView(this.datapath.map("colate_slots").memory());
    const first = set * places.slots.length;
    for (const [i, slot] of places.slots.entries()) {
      view.setBigUint64(16 * (first + i), slot.seed, true);
      view.setUint32(16 * (first + i) + 8, slot.first, true);
      view.setUint32(16 * (first + i) + 12, slot.cells, true);
    }
  }

  counts(set: number): SetCounts {
    const sum = (word: number) => {
      let total = 0n;
      for (let cpu = 0; cpu < this.cpus; cpu++) total += this.#count(cpu, set, word);
      return Number(total);
    };
    let [first, last, fullest]: [bigint, bigint, number] = [0n, 0n, 0];
    for (let cpu = 0; cpu < this.cpus; cpu++) {
      const own = this.#count(cpu, set, COUNT.first);
      if (own !== 0n && (first === 0n || own < first)) first = own;
      const end = this.#count(cpu, set, COUNT.last);
      if (end > last) last = end;
      fullest += Number(this.#count(cpu, set, COUNT.fullest));
    }
    const skipped: Record<string, number> = {};
    for (const [reason, i] of SKIP_REASONS) {
      const n = i <= linkConstants.TOO_DEEP ? sum(COUNT.skipped + i) : 0;
      if (n > 0) skipped[reason] = n;
    }
    const [packets, filtered] = [sum(COUNT.packets), sum(COUNT.filtered)];
    const at = (time: bigint) => (time === 0n ? null : time + this.#windowOf(set, WINDOW.offset));
    return {
      frames: Object.values(skipped).reduce((n, of) => n + of, packets + filtered),
      bytes: sum(COUNT.bytes),
      packets,
      shorts: sum(COUNT.shorts),
      merged: sum(COUNT.merged),
      filtered,
      ...{ skipped, fullest, firstNs: at(first), lastNs: at(last) },
      missedDelimiters: sum(COUNT.missed),
    };
  }

  /** Returns the number of packets since the last call that belonged to no set because this side was late. */
  takeLost(): number {
    let lost = 0n;
    for (let cpu = 0; cpu < this.cpus; cpu++)
      for (let set = 0; set < this.plan.sets; set++) {
        const at = (cpu * this.plan.sets + set) * (COUNTS_BYTES / 8) + COUNT.lost;
        lost += Atomics.exchange(this.#counts, at, 0n);
      }
    return Number(lost);
  }

  /** Returns what a set holds for one of the plan's parts. */
  kept(set: number, part: KernelPart): KernelKept {
    const { packets } = this.counts(set);
    const counted = flowsOf(part) > 0 ? this.#flows(set) : { flows: [], shed: null };
    if (part.kind === "flows") return { packets, cells: [], ...counted };
    const bytes = part.cells * CELL_BYTES;
    const first = (this.#at.get(part) ?? 0) * CELL_BYTES;
    const cells = Array.from({ length: this.cpus }, (_, cpu) => {
      const start = (cpu * this.plan.sets + set) * this.#cellsPerSet * CELL_BYTES + first;
      return this.#cells.subarray(start, start + bytes);
    });
    return { packets, cells, ...counted };
  }

  /** Clears a set. */
  clear(set: number): void {
    const bytes = this.#cellsPerSet * CELL_BYTES;
    for (let cpu = 0; cpu < this.cpus; cpu++) {
      const at = cpu * this.plan.sets + set;
      const words = at * (COUNTS_BYTES / 8);
      if (this.#count(cpu, set, COUNT.packets) !== 0n) this.#cells.fill(0, at * bytes, (at + 1) * bytes);
      const lost = words + COUNT.lost;
      this.#counts.fill(0n, words, lost);
      this.#counts.fill(0n, lost + 1, words + COUNTS_BYTES / 8);
    }
    for (const word of [WINDOW.base, WINDOW.flowCut]) this.#window(set, word, 0n);
    if (this.plan.parts.some((part) => flowsOf(part) > 0)) this.#dropFlows(set);
  }

  /** Detaches the programs; the data kept so far stays. */
  detach(): void {
    this.#attached?.close();
    this.#attached = null;
  }

  close(): void {
    this.detach();
    this.datapath.close();
  }

  #window(set: number, word: number, value: bigint): void {
    Atomics.store(this.#control, CONTROL.windows + set * WINDOW.words + word, BigInt.asUintN(64, value));
  }

  #windowOf(set: number, word: number): bigint {
    return this.#control[CONTROL.windows + set * WINDOW.words + word] ?? 0n;
  }

  #count(cpu: number, set: number, word: number): bigint {
    return this.#counts[(cpu * this.plan.sets + set) * (COUNTS_BYTES / 8) + word] ?? 0n;
  }

  /** Calls `each` for every flow of a set with the map's key and value. */
  #eachFlow(set: number, each: (key: Uint8Array, value: Uint8Array) => void): void {
    this.datapath.map("flows").entries(FLOW_KEY_BYTES, (keys, values, count) => {
      for (let i = 0; i < count; i++) {
        const key = keys.subarray(i * FLOW_KEY_BYTES, (i + 1) * FLOW_KEY_BYTES);
        if ((key[7] ?? 0) >>> 5 === set) each(key, values.subarray(i * FLOW_BYTES, (i + 1) * FLOW_BYTES));
      }
    });
  }

  #flows(set: number): Pick<KernelKept, "flows" | "shed"> {
    const flows: Uint8Array[] = [];
    this.#eachFlow(set, (key, value) => {
      const flow = new Uint8Array(FLOW_KEY_BYTES + FLOW_BYTES);
      flow.set(key);
      // Remove the set number from the key.
      flow[7] = (flow[7] ?? 0) & 0x1f;
      flow.set(value, FLOW_KEY_BYTES);
      flows.push(flow);
    });
    let [packets, bytes] = [0n, 0n];
    for (let cpu = 0; cpu < this.cpus; cpu++) {
      packets += this.#count(cpu, set, COUNT.shedPackets);
      bytes += this.#count(cpu, set, COUNT.shedBytes);
    }
    const cut = this.#windowOf(set, WINDOW.flowCut);
    return { flows, shed: cut === 0n ? null : { cut, packets, bytes } };
  }

  #dropFlows(set: number): void {
    const keys: Uint8Array[] = [];
    this.#eachFlow(set, (key) => void keys.push(key.slice()));
    const map = this.datapath.map("flows");
    for (const key of keys) map.remove(key);
  }
}

function askLink(libc: Libc, name: string): ReturnType<typeof linkOf> {
  const fd = libc.socket(AF_INET, SOCK_DGRAM, 0);
  try {
    return linkOf(libc, fd, name);
  } finally {
    libc.close(fd);
  }
}

/** Loads the programs that find kernel fields by BTF types if the kernel has them, otherwise those that use helper functions. */
async function loadEither(plan: Omit<DatapathPlan, "object">): Promise<Datapath> {
  if (!existsSync("/sys/kernel/btf/vmlinux")) return Datapath.load({ ...plan, object: "observe" });
  try {
    return await Datapath.load({ ...plan, object: "observe-btf" });
  } catch (error) {
    if (!(error instanceof UsageError) || error.code !== "not-supported") throw error;
    return Datapath.load({ ...plan, object: "observe" });
  }
}
