/**
 * Watches ways through one box live, from counters in the kernel (../capture/ebpf/segment.ts). Each interval has the delay, loss and jitter of all
 * packets, of classes, of transmit queues and of flows. A packet belongs to the interval in which it arrived. An interval is returned when all of
 * its packets have left or are lost, or shortly before its maps are reused two intervals later. Packets that wait longer count as `waiting`, and as
 * `late` when they leave.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { LogHistogram } from "../base/math/log-histogram.ts";
import { listQdiscs, qdiscOfQueue } from "../capture/ebpf/qdiscs.ts";
import { type Drop, monotonicNs, type SegmentDatapath } from "../capture/ebpf/segment.ts";
import type { FlowSums, GroupSums, PacketSums, WayCounts } from "../capture/ebpf/segment-layout.ts";
import type { Way } from "../capture/ebpf/segment-load.ts";
import type { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { formatFlowKey } from "../capture/flow/flow-text.ts";
import type { WatchedFlow, WatchedInterval, WatchedLatency } from "./watch.ts";

export interface BoxLatency extends WatchedLatency {
  stdevNs: number;
  p999Ns: number;
}

/** Packets with a common property. */
export interface BoxGroup {
  sent: number;
  lost: number;
  bytes: number;
  latency: BoxLatency | null;
}

export interface BoxClass extends BoxGroup {
  dscp: number;
}

export interface BoxQueue extends BoxGroup {
  /** Index of the transmit queue. */
  queue: number;
  /** As tc shows it, e.g. "tbf 8001:". */
  qdisc: string;
  /** Longest backlog found when a packet left. */
  backlogBytes: number;
  backlogPackets: number;
}

export interface BoxDrop {
  place: "queue" | "forwarding";
  /** The kernel's name: QDISC_DROP, IP_INHDR … */
  reason: string;
  packets: number;
}

export interface BoxInterval extends Omit<WatchedInterval, "latency" | "dropped" | "appeared"> {
  way: Way;
  latency: BoxLatency | null;
  /** The part of the delay from arrival to the output, before its queue. */
  forwarding: { meanNs: number; maxNs: number } | null;
  classes: BoxClass[];
  queues: BoxQueue[];
  /** Drops during the interval. If the output was not known yet, drops of all the input's packets. */
  drops: BoxDrop[];
  /** Packets that arrived at the input, whatever their output. */
  arrived: number;
  /** Packets neither left nor lost when the interval was returned. */
  waiting: number;
  /** Packets of earlier intervals that left or reached the output after those were returned. */
  late: number;
  /** Packets that reached the output from the input without a timestamp: not IP. */
  untimed: number;
  /** Packets not measured because they carry a mark of their own, which must not be changed. */
  marked: number;
  /** Packets that arrived merged into larger ones (GRO), not counting the first of each. */
  merged: number;
}

export interface WatchBoxOptions {
  box: SegmentDatapath;
  key: FlowKeySpec;
  signal: AbortSignal;
}

/** Time from a packet's arrival until it is counted at the output if nothing delays it. */
const SETTLE_NS = 20e6;
export const WATCH_BOX_NS = 1e9;
const LOOK_MS = 20;
/** Safety margin before the maps of an interval are reused. */
const MARGIN_NS = 50e6;

/** Yields one interval of every way at a time, in the order of the ways. */
export async function* watchBox(options: WatchBoxOptions): AsyncGenerator<BoxInterval[]> {
  const { box, signal } = options;
  const { baseNs, epochNs } = box;
  const wallNs = BigInt(baseNs) + box.wallOffsetNs();
  const first = box.begin();
  const before = new Before(box);
  const names = new QueueNames();
  // The epoch each of the two sets of maps is open for; `whole`: it was opened before the epoch began.
  const one = { epoch: first, whole: false };
  const other = { epoch: first + 1, whole: true };
  for (;;) {
    const set = one.epoch < other.epoch ? one : other;
    const { epoch, whole } = set;
    await untilSettled(box, epoch, signal);
    const nowNs = monotonicNs();
    // A process that was suspended catches up: the maps are opened for an epoch that is not over.
    set.epoch += 2;
    while (baseNs + (set.epoch + 1) * epochNs <= nowNs) set.epoch += 2;
    const { groups, flows } = box.take(epoch, set.epoch);
    set.whole = monotonicNs() <= baseNs + set.epoch * epochNs;
    const startNs = roundTo(wallNs + BigInt(epoch) * BigInt(epochNs), BigInt(epochNs));
    const complete = whole && nowNs >= baseNs + (epoch + 1) * epochNs;
    const changes = before.changes();
    const intervals = box.ways.map((_, way) => ({
      ...intervalOf(way, groups, flows, options),
      ...{ startNs, lengthNs: epochNs, complete },
      ...changes(way),
    }));
    await names.fill(intervals);
    yield intervals;
    if (signal.aborted) return;
  }
}

async function untilSettled(box: SegmentDatapath, epoch: number, signal: AbortSignal): Promise<void> {
  const { baseNs, epochNs } = box;
  const endNs = baseNs + (epoch + 1) * epochNs;
  const latestNs = endNs + epochNs - MARGIN_NS;
  for (;;) {
    const nowNs = monotonicNs();
    if (nowNs >= latestNs || signal.aborted) return;
    const waitNs = endNs + SETTLE_NS - nowNs;
    if (waitNs <= 0 && box.underWay(epoch) <= 0) return;
    try {
      await sleep(waitNs > 0 ? Math.ceil(waitNs / 1e6) : LOOK_MS, undefined, { signal });
    } catch {
      return;
    }
  }
}

/** Rounds an interval's start to a multiple of its length, removing the read error of the clock offset. */
function roundTo(ns: bigint, lengthNs: bigint): bigint {
  const nearNs = ((ns + lengthNs / 2n) / lengthNs) * lengthNs;
  const apartNs = nearNs > ns ? nearNs - ns : ns - nearNs;
  return apartNs < 1_000_000n ? nearNs : ns;
}

/** Monotonic counters; returns the increase since they were last read. */
class Before {
  readonly #box: SegmentDatapath;
  #counts: WayCounts[];
  #drops = new Map<string, number>();

  constructor(box: SegmentDatapath) {
    this.#box = box;
    this.#counts = box.ways.map((_, way) => box.counts(way));
  }

  changes(): (way: number) => Pick<BoxInterval, Change> {
    const box = this.#box;
    const [earlier, drops] = [this.#counts, this.#newDrops()];
    const counts = box.ways.map((_, way) => box.counts(way));
    this.#counts = counts;
    return (way) => {
      const more = (of: keyof WayCounts) => (counts[way]?.[of] ?? 0) - (earlier[way]?.[of] ?? 0);
      const input = box.ways[way]?.input;
      return {
        arrived: more("arrived"),
        late: more("late"),
        untimed: more("unstamped"),
        marked: more("marked"),
        merged: more("merged"),
        otherPackets: more("noFlow"),
        drops: drops
          .filter((d) => d.way === way || (d.place === "forwarding" && box.ways[d.way]?.input === input))
          .map(({ place, reason, packets }) => ({ place, reason, packets }))
          .sort((a, b) => b.packets - a.packets),
      };
    };
  }

  #newDrops(): Drop[] {
    return this.#box.drops().flatMap((drop) => {
      const name = `${drop.way} ${drop.place} ${drop.reason}`;
      const packets = drop.packets - (this.#drops.get(name) ?? 0);
      this.#drops.set(name, drop.packets);
      return packets > 0 ? [{ ...drop, packets }] : [];
    });
  }
}

const ASK_AGAIN_MS = 5000;

/** Finds the names of queues that the programs could not see. */
class QueueNames {
  readonly #lists = new Map<string, { list: Awaited<ReturnType<typeof listQdiscs>>; atMs: number }>();

  async fill(intervals: readonly BoxInterval[]): Promise<void> {
    for (const { way, queues } of intervals)
      for (const queue of queues) {
        if (queue.qdisc !== "") continue;
        const found = qdiscOfQueue((await this.#listOf(way.output)) ?? [], queue.queue);
        if (found) queue.qdisc = `${found.kind} ${found.handle}`.trim();
      }
  }

  async #listOf(output: string): ReturnType<typeof listQdiscs> {
    const known = this.#lists.get(output);
    if (known && performance.now() - known.atMs < ASK_AGAIN_MS) return known.list;
    const list = await listQdiscs(output);
    this.#lists.set(output, { list, atMs: performance.now() });
    return list;
  }
}

type Counted = "startNs" | "lengthNs" | "complete" | Change;
type Change = "arrived" | "late" | "untimed" | "marked" | "merged" | "otherPackets" | "drops";

function intervalOf(
  way: number,
  groups: readonly GroupSums[],
  flows: readonly FlowSums[],
  { box, key }: WatchBoxOptions,
): Omit<BoxInterval, Counted> {
  const names = box.ways[way] ?? { input: "", output: "" };
  const own = groups.filter((group) => group.way === way);
  const all = own.find(({ kind }) => kind === "all");
  const listed = flowsOf(
    flows.filter((flow) => flow.way === way),
    key,
  );
  const steps = listed.reduce((n, flow) => n + flow.steps, 0);
  const jitter = listed.reduce((n, flow) => n + flow.jitter, 0);
  return {
    way: names,
    sent: all?.in ?? 0,
    lost: all ? all.lost : 0,
    waiting: all ? Math.max(0, all.in - all.left - all.lost) : 0,
    bytes: all?.inBytes ?? 0,
    latency: all ? latencyOf(all, all.histogram) : null,
    jitterNs: steps > 0 ? jitter / steps : null,
    forwarding: all && all.in > 0 ? { meanNs: all.before / all.in, maxNs: all.beforeMax } : null,
    classes: own
      .filter(({ kind }) => kind === "class")
      .map((group) => ({ dscp: group.id, ...groupOf(group) })),
    queues: own.filter(({ kind }) => kind === "queue").map(queueOf),
    flows: listed.map(({ flow }) => flow),
  };
}

function groupOf(group: GroupSums): BoxGroup {
  return {
    sent: group.in,
    lost: Math.max(0, group.in - group.left),
    bytes: group.inBytes,
    latency: latencyOf(group, group.histogram),
  };
}

/** Packets sent to a queue are those that left it plus those lost in it. */
function queueOf(group: GroupSums): BoxQueue {
  const { id, qdisc, left, lost, leftBytes, backlogBytes, backlogPackets, histogram } = group;
  const hex = (n: number) => n.toString(16);
  const handle = qdisc && qdisc.handle !== 0 ? ` ${hex(qdisc.handle >>> 16)}:` : "";
  return {
    queue: id,
    qdisc: qdisc ? `${qdisc.kind}${handle}` : "",
    sent: left + lost,
    lost,
    bytes: leftBytes,
    latency: latencyOf(group, histogram),
    ...{ backlogBytes, backlogPackets },
  };
}

function latencyOf(sums: PacketSums, histogram: LogHistogram): BoxLatency | null {
  const { left, total, squares, min, max } = sums;
  if (left === 0) return null;
  const meanNs = total / left;
  const at = (q: number) => histogram.quantile(q, min, max) ?? meanNs;
  return {
    ...{ meanNs, minNs: min, maxNs: max },
    stdevNs: Math.sqrt(Math.max(0, squares / left - meanNs * meanNs)),
    ...{ p50Ns: at(0.5), p90Ns: at(0.9), p99Ns: at(0.99), p999Ns: at(0.999) },
  };
}

interface ListedFlow {
  flow: WatchedFlow;
  steps: number;
  jitter: number;
}

/** Combines five-tuples by the requested key. */
function flowsOf(flows: readonly FlowSums[], key: FlowKeySpec): ListedFlow[] {
  const byKey = new Map<string, FlowSums>();
  for (const flow of flows) {
    const words = key.mask(flow.keyWords);
    const name = words.join();
    const sums = byKey.get(name);
    if (!sums) byKey.set(name, { ...flow, keyWords: words });
    else {
      for (const field of ["in", "inBytes", "left", "total", "steps", "jitter"] as const)
        sums[field] += flow[field];
      sums.max = Math.max(sums.max, flow.max);
    }
  }
  return [...byKey.values()].map((sums) => ({
    flow: {
      flow: formatFlowKey(key.describe(sums.keyWords)),
      sent: sums.in,
      lost: Math.max(0, sums.in - sums.left),
      bytes: sums.inBytes,
      meanNs: sums.left > 0 ? sums.total / sums.left : null,
      maxNs: sums.left > 0 ? sums.max : null,
      jitterNs: sums.steps > 0 ? sums.jitter / sums.steps : null,
    },
    steps: sums.steps,
    jitter: sums.jitter,
  }));
}
