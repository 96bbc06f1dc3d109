/** Parses the counters of datapath/segment.bpf.c: the C structures, little-endian, with the values of all possible CPUs added up. */
import type { LogHistogram } from "../../base/math/log-histogram.ts";
import { META_HIGH } from "../batch.ts";

/** Sums over a group of packets: those that reached the output (`in`), left it, or were lost in between. Times in ns. */
export interface PacketSums {
  in: number;
  inBytes: number;
  left: number;
  leftBytes: number;
  lost: number;
  total: number;
  min: number;
  max: number;
  squares: number;
  /** The part of the delay before the packet reached the output. */
  before: number;
  beforeMax: number;
}

export interface GroupSums extends PacketSums {
  way: number;
  kind: "all" | "class" | "queue";
  /** DSCP of a class, number of a transmit queue, or 0 for all packets. */
  id: number;
  histogram: LogHistogram;
  /** Transmit queues only: the qdisc, and the largest backlog seen when a packet left. */
  qdisc: { kind: string; handle: number; parent: number } | null;
  backlogBytes: number;
  backlogPackets: number;
}

export interface FlowSums {
  way: number;
  dscp: number;
  /** Words of the five-tuple, as FlowKeySpec.describe reads them. */
  keyWords: Uint32Array;
  in: number;
  inBytes: number;
  left: number;
  total: number;
  min: number;
  max: number;
  squares: number;
  steps: number;
  jitter: number;
}

export interface WayCounts {
  arrived: number;
  unstamped: number;
  late: number;
  noFlow: number;
  noGroup: number;
  merged: number;
  ringIn: number;
  ringLeft: number;
  marked: number;
}

export const FLOW_KEY_BYTES = 40;
export const DROP_KEY_BYTES = 4;
export const MAX_WAYS = 4;
export const SNAP_BYTES = 144;
/** Offsets of the fields of a packet in the rings. */
export const PACKET = {
  arrival: 0,
  departure: 8,
  length: 16,
  segments: 20,
  captured: 24,
  tag: 26,
  tagType: 28,
  way: 30,
  frame: 32,
} as const;
const TWO_32 = 4294967296;

const wide = (view: DataView, at: number) => view.getUint32(at, true) + view.getUint32(at + 4, true) * TWO_32;

/** Number of DSCPs of a way; each has its own sums. */
export const CLASSES = 64;
/** Size of struct group_sums. */
export const GROUP_BYTES = 17_520;

/** Sums a u64 at the same offset in the values of all CPUs. */
function sumOf(values: DataView, stride: number, at: number): number {
  let sum = 0;
  for (let cpu = 0; cpu < values.byteLength; cpu += stride) sum += wide(values, cpu + at);
  return sum;
}

function largestOf(values: DataView, stride: number, at: number): number {
  let largest = 0;
  for (let cpu = 0; cpu < values.byteLength; cpu += stride)
    largest = Math.max(largest, wide(values, cpu + at));
  return largest;
}

/** Returns the minimum over all CPUs. Minima are stored plus 1: 0 means none. */
function smallestOf(values: DataView, stride: number, at: number): number {
  let smallest = Number.POSITIVE_INFINITY;
  for (let cpu = 0; cpu < values.byteLength; cpu += stride) {
    const value = wide(values, cpu + at);
    if (value > 0) smallest = Math.min(smallest, value - 1);
  }
  return smallest;
}

/** Reads struct flow and struct flow_sums. */
export function readFlow(key: DataView, values: DataView, stride: number): FlowSums {
  const sum = (at: number) => sumOf(values, stride, at);
  return {
    way: key.getUint8(39),
    dscp: key.getUint8(37),
    keyWords: keyWordsOf(key),
    ...{ in: sum(0), inBytes: sum(8), left: sum(16), total: sum(24) },
    min: smallestOf(values, stride, 32),
    max: largestOf(values, stride, 40),
    squares: sum(48) + sum(56) * TWO_32,
    ...{ steps: sum(72), jitter: sum(80) },
  };
}

const WITH_PORTS = [6, 17, 33, 132];

/** Returns a key as the kernels hold it: meta, then the addresses, each as a pair of low and high word. */
function keyWordsOf(key: DataView): Uint32Array {
  const word = (at: number) => key.getUint32(at, false);
  const [ports, protocol, dscp, v6] = [word(32), key.getUint8(36), key.getUint8(37), key.getUint8(38) === 6];
  const flags =
    (WITH_PORTS.includes(protocol) && ports !== 0 ? META_HIGH.ports : 0) | (v6 ? META_HIGH.ipv6 : 0);
  const meta = [ports, (protocol | (dscp << 8) | flags) >>> 0];
  if (!v6) return Uint32Array.from([...meta, word(16), word(0), 0, 0, 0, 0, 0, 0]);
  const addresses = [0, 8, 16, 24].flatMap((at) => [word(at + 4), word(at)]);
  return Uint32Array.from([...meta, ...addresses]);
}

/** Reads struct counts of one way. */
export function readCounts(values: readonly Uint8Array[]): WayCounts {
  const views = values.map((v) => new DataView(v.buffer, v.byteOffset, v.byteLength));
  const sum = (i: number) => views.reduce((n, view) => n + wide(view, 8 * i), 0);
  const [arrived, unstamped, late, noFlow] = [sum(0), sum(1), sum(2), sum(3)];
  const [noGroup, merged, ringIn, ringLeft, marked] = [sum(4), sum(5), sum(6), sum(7), sum(8)];
  return { arrived, unstamped, late, noFlow, noGroup, merged, ringIn, ringLeft, marked };
}
