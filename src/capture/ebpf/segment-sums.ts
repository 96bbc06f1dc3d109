/**
 * Reads what datapath/segment.bpf.c counts of classes, transmit queues and whole ways, in place: the memory is shared with the programs. Two sets alternate;
 * each CPU has its own part of either.
 *
 *   classes  [set][cpu][way][dscp]   struct class_sums: in, bytes, before, its maximum; struct delays
 *   groups   [set][cpu][slot]        struct group_sums: struct delays, lost, qdisc (of queues); buckets
 *   slots    [set]                   struct slots: slots in use, lost[way], slot + 1 of each [way][64 classes, 256 queues]
 *
 * The packets of a way are the sum of those of its classes. Slots 0 to 3 hold the histograms, by way, of packets whose class found no free slot.
 */
import { LogHistogram } from "../../base/math/log-histogram.ts";
import type { Datapath } from "./datapath.ts";
import { CLASSES, GROUP_BYTES, type GroupSums, MAX_WAYS, type PacketSums } from "./segment-layout.ts";

const BUCKETS = 256 + 32 * 128;
const QUEUES = 256;
const PLACES = CLASSES + QUEUES;
/** Sizes and offsets in 32-bit words. */
const CLASS_WORDS = 32;
const GROUP_WORDS = GROUP_BYTES / 4;
const SLOTS_WORDS = 1290;
const LOST_AT = 2;
const SLOT_AT = LOST_AT + 2 * MAX_WAYS;
const DELAYS_AT = 8;
const GROUP = { lost: 14, qdisc: 16, parent: 18, handle: 19, kind: 20, backlog: 24, length: 26, buckets: 28 };
const TWO_32 = 4294967296;

export class SegmentSums {
  readonly #classes: Uint32Array;
  readonly #groups: Uint32Array;
  readonly #slots: Uint32Array;
  readonly #cpus: number;
  readonly #perCpu: number;

  constructor(datapath: Datapath, cpus: number) {
    const memoryOf = (name: string) => new Uint32Array(datapath.map(name).memory());
    this.#classes = memoryOf("classes");
    this.#groups = memoryOf("groups");
    this.#slots = memoryOf("slots");
    this.#cpus = cpus;
    this.#perCpu = datapath.map("groups").maxEntries / (2 * cpus);
    for (const set of [0, 1]) this.clear(set);
  }

  /** Returns the number of packets that have reached the output and neither left nor were lost. */
  underWay(set: number, ways: number): number {
    let packets = 0;
    for (let way = 0; way < ways; way++) {
      packets -= this.#lost(set, way);
      for (let cpu = 0; cpu < this.#cpus; cpu++)
        for (let dscp = 0; dscp < CLASSES; dscp++) {
          const at = this.#classAt(set, cpu, way, dscp);
          packets += wide(this.#classes, at) - wide(this.#classes, at + DELAYS_AT);
        }
    }
    return packets;
  }

  read(set: number, ways: number): GroupSums[] {
    return Array.from({ length: ways }, (_, way) => this.#readWay(set, way)).flat();
  }

  clear(set: number): void {
    const words = this.#cpus * MAX_WAYS * CLASSES * CLASS_WORDS;
    this.#classes.fill(0, set * words, (set + 1) * words);
    const slots = this.#slots.subarray(set * SLOTS_WORDS, (set + 1) * SLOTS_WORDS);
    const used = Math.min(this.#perCpu, Math.max(MAX_WAYS, slots[0] ?? 0));
    for (let cpu = 0; cpu < this.#cpus; cpu++) {
      const at = this.#groupAt(set, cpu, 0);
      this.#groups.fill(0, at, at + used * GROUP_WORDS);
    }
    slots.fill(0);
    slots[0] = MAX_WAYS;
  }

  #readWay(set: number, way: number): GroupSums[] {
    const all: GroupSums = { ...groupOf("all", way, 0), lost: this.#lost(set, way) };
    const groups = [all];
    this.#addBuckets(all.histogram, set, way);
    for (let dscp = 0; dscp < CLASSES; dscp++) {
      const group = groupOf("class", way, dscp);
      for (let cpu = 0; cpu < this.#cpus; cpu++) {
        const at = this.#classAt(set, cpu, way, dscp);
        if (isZero(this.#classes, at, CLASS_WORDS)) continue;
        for (const sums of [group, all]) addClass(sums, this.#classes, at);
      }
      const slot = this.#slotOf(set, way, dscp);
      if (slot === null) continue;
      for (const { histogram } of [group, all]) this.#addBuckets(histogram, set, slot);
      groups.push(group);
    }
    for (let queue = 0; queue < QUEUES; queue++) {
      const slot = this.#slotOf(set, way, CLASSES + queue);
      if (slot !== null) groups.push(this.#readQueue(set, way, queue, slot));
    }
    return groups;
  }

  #readQueue(set: number, way: number, queue: number, slot: number): GroupSums {
    const group = groupOf("queue", way, queue);
    const words = this.#groups;
    for (let cpu = 0; cpu < this.#cpus; cpu++) {
      const at = this.#groupAt(set, cpu, slot);
      addDelays(group, words, at);
      group.lost += wide(words, at + GROUP.lost);
      group.qdisc ??= qdiscOf(words, at);
      group.backlogBytes = Math.max(group.backlogBytes, wide(words, at + GROUP.backlog));
      group.backlogPackets = Math.max(group.backlogPackets, wide(words, at + GROUP.length));
    }
    this.#addBuckets(group.histogram, set, slot);
    return group;
  }

  #addBuckets(histogram: LogHistogram, set: number, slot: number): void {
    for (let cpu = 0; cpu < this.#cpus; cpu++) {
      const at = this.#groupAt(set, cpu, slot) + GROUP.buckets;
      for (let bucket = 0; bucket < BUCKETS; bucket++) {
        const count = this.#groups[at + bucket]!;
        if (count > 0) histogram.addBucket(bucket, count);
      }
    }
  }

  #lost(set: number, way: number): number {
    return wide(this.#slots, set * SLOTS_WORDS + LOST_AT + 2 * way);
  }

  #slotOf(set: number, way: number, place: number): number | null {
    const slot = this.#slots[set * SLOTS_WORDS + SLOT_AT + way * PLACES + place] ?? 0;
    return slot === 0 ? null : slot - 1;
  }

  #classAt(set: number, cpu: number, way: number, dscp: number): number {
    return (((set * this.#cpus + cpu) * MAX_WAYS + way) * CLASSES + dscp) * CLASS_WORDS;
  }

  #groupAt(set: number, cpu: number, slot: number): number {
    return ((set * this.#cpus + cpu) * this.#perCpu + slot) * GROUP_WORDS;
  }
}

const wide = (words: Uint32Array, at: number) => words[at]! + words[at + 1]! * TWO_32;

function isZero(words: Uint32Array, at: number, count: number): boolean {
  for (let i = at; i < at + count; i++) if (words[i] !== 0) return false;
  return true;
}

function groupOf(kind: GroupSums["kind"], way: number, id: number): GroupSums {
  return {
    ...{ kind, way, id, in: 0, inBytes: 0, left: 0, leftBytes: 0, lost: 0, total: 0 },
    ...{ min: Number.POSITIVE_INFINITY, max: 0, squares: 0, before: 0, beforeMax: 0 },
    ...{ histogram: new LogHistogram(), qdisc: null, backlogBytes: 0, backlogPackets: 0 },
  };
}

function addClass(sums: PacketSums, words: Uint32Array, at: number): void {
  sums.in += wide(words, at);
  sums.inBytes += wide(words, at + 2);
  sums.before += wide(words, at + 4);
  sums.beforeMax = Math.max(sums.beforeMax, wide(words, at + 6));
  addDelays(sums, words, at + DELAYS_AT);
}

/** Adds struct delays. Minima are stored plus 1: 0 means none. */
function addDelays(sums: PacketSums, words: Uint32Array, at: number): void {
  const min1 = wide(words, at + 6);
  sums.left += wide(words, at);
  sums.leftBytes += wide(words, at + 2);
  sums.total += wide(words, at + 4);
  if (min1 > 0) sums.min = Math.min(sums.min, min1 - 1);
  sums.max = Math.max(sums.max, wide(words, at + 8));
  sums.squares += wide(words, at + 10) + wide(words, at + 12) * TWO_32;
}

function qdiscOf(words: Uint32Array, at: number): GroupSums["qdisc"] {
  const bytes = new Uint8Array(words.buffer, words.byteOffset + 4 * (at + GROUP.kind), 16).slice();
  const end = bytes.indexOf(0);
  const kind = new TextDecoder().decode(bytes.subarray(0, end < 0 ? 16 : end));
  if (kind === "") return null;
  return { kind, handle: words[at + GROUP.handle] ?? 0, parent: words[at + GROUP.parent] ?? 0 };
}
