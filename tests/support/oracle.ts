/** The expected result of `compare` for a scene (scenario.ts), computed slowly from the true values of every packet: no digests, no windows, no kernels. */
import {
  clockErrorNs,
  isLonely,
  type MadeScene,
  numberOf,
  type Scene,
  stampOf,
  type TruePacket,
  type Way,
} from "./scenario.ts";

export interface WayTruth {
  /** Packets at the near and far point. */
  sent: number;
  received: number;
  /** Seen at both points. */
  matched: number;
  /** Copies that arrived in addition to the packet itself. */
  duplicates: number;
  /** Seen only at the near point, and certainly lost. */
  lost: number;
  /** Those of them that would have arrived between the first and the last packet captured at the far point. */
  lostInside: number;
  /** Seen only at the near point, and not lost: the far point did not capture at that time. */
  outside: number;
  /** Seen only at the far point: the near point did not capture at that time. */
  unsent: number;
  /** (far timestamp - near timestamp) of matched packets, in order of sending, as captured. */
  stampedNs: number[];
  /** Their true delays. */
  delaysNs: number[];
  /** Packets at either point that look like another one at the same point. */
  alike: number;
  /** Packets seen only at the near point, and unique there, while an equal packet was seen only at the far point: impossible to distinguish from a match. */
  confusable: number;
  /** By send timestamp: (far timestamp - near timestamp) of each packet sent at that time, and of its copies. */
  sentAt: Map<bigint, number[]>;
  /** Matched packets sent before one that arrived earlier. */
  reordered: number;
  /**
   * Size of a step with a single matched packet before or behind it, which goes this way and seems late; 0 without one. Steady clocks and a packet that took
   * longer by as much give the same captures: nothing can tell them apart.
   */
  loneNs: number;
  /** Mean |difference| between the captured delays of consecutive packets of a flow that arrived; null without any. */
  jitterNs: number | null;
}

export interface Truth {
  forward: WayTruth;
  reverse: WayTruth;
  /** AFTER's clock minus BEFORE's while packets were matched: minimum, maximum, and at the first packet. */
  clock: { minNs: number; maxNs: number; firstNs: number };
  /** Packets at either point of unidirectional flows without matched packets, whose direction cannot be known. */
  open: number;
}

export function truthOf({ scene, packets }: MadeScene): Truth {
  const clock = { minNs: Number.POSITIVE_INFINITY, maxNs: Number.NEGATIVE_INFINITY, firstNs: 0 };
  let firstNs = Number.POSITIVE_INFINITY;
  const ways = { forward: wayTruth(), reverse: wayTruth() };
  const seen = seenBetween(scene, packets);
  const arrivals: Record<Way, { arrivedNs: number; order: number }[]> = { forward: [], reverse: [] };
  const sends: Record<Way, { flow: number; delayNs: number }[]> = { forward: [], reverse: [] };
  const looking = new Map<string, Looks>();
  for (const packet of packets) {
    const truth = ways[packet.way];
    const [near, far] =
      packet.way === "forward" ? (["before", "after"] as const) : (["after", "before"] as const);
    const ran = (side: "before" | "after", ns: number) => ns >= scene[side].fromNs && ns < scene[side].toNs;
    const sent = ran(near, packet.sentNs);
    const copies = packet.copiesNs.filter((ns) => ran(far, ns)).length;
    const arrived = packet.arrivedNs !== null && ran(far, packet.arrivedNs);
    const due = packet.dueNs >= seen[far].firstNs && packet.dueNs <= seen[far].lastNs;
    const looks = `${packet.way} ${packet.flow} ${numberOf(scene, packet)}`;
    const known = looking.get(looks) ?? { way: packet.way, near: 0, far: 0, both: 0 };
    looking.set(looks, {
      ...known,
      near: known.near + (sent ? 1 : 0),
      far: known.far + (arrived ? 1 : 0) + copies,
      both: known.both + (sent && arrived ? 1 : 0),
    });
    if (sent && packet.arrivedNs !== null) noteSent(truth, scene, packet);
    truth.sent += sent ? 1 : 0;
    truth.received += (arrived ? 1 : 0) + copies;
    if (sent && arrived) {
      count(truth, packet);
      truth.duplicates += copies;
      const arrivedNs = packet.arrivedNs ?? 0;
      const stamps = [stampOf(scene, near, packet.sentNs), stampOf(scene, far, arrivedNs)] as const;
      truth.stampedNs.push(Number(stamps[1] - stamps[0]));
      sends[packet.way].push({ flow: packet.flow, delayNs: Number(stamps[1] - stamps[0]) });
      const atBeforeNs = packet.way === "forward" ? packet.sentNs : arrivedNs;
      if (atBeforeNs < firstNs) {
        firstNs = atBeforeNs;
        clock.firstNs = clockErrorNs(scene.clock, atBeforeNs);
      }
      const error = clockErrorNs(scene.clock, packet.way === "forward" ? arrivedNs : packet.sentNs);
      clock.minNs = Math.min(clock.minNs, error);
      clock.maxNs = Math.max(clock.maxNs, error);
      arrivals[packet.way].push({ arrivedNs, order: packet.n });
    } else if (sent && packet.arrivedNs === null) {
      truth.lost++;
      if (due) truth.lostInside++;
    } else if (sent) truth.outside++;
    else if (arrived) truth.unsent++;
  }
  for (const { way, near, far, both } of looking.values()) {
    ways[way].alike += (near > 1 ? near : 0) + (far > 1 ? far : 0);
    if (near === 1 && far === 1 && both === 0) ways[way].confusable++;
  }
  for (const way of ["forward", "reverse"] as const) {
    ways[way].reordered = reorderedOf(arrivals[way]);
    ways[way].jitterNs = jitterOf(sends[way]);
  }
  noteLone(ways, scene, packets);
  return { ...ways, clock, open: openOf(scene, packets) };
}

function noteLone(ways: Record<Way, WayTruth>, scene: Scene, packets: readonly TruePacket[]): void {
  const ran = (side: "before" | "after", ns: number) => ns >= scene[side].fromNs && ns < scene[side].toNs;
  // When AFTER saw each matched packet.
  const times = packets.flatMap(({ way, sentNs, arrivedNs }) => {
    if (arrivedNs === null) return [];
    const [beforeNs, afterNs] = way === "forward" ? [sentNs, arrivedNs] : [arrivedNs, sentNs];
    return ran("before", beforeNs) && ran("after", afterNs) ? [{ way, afterNs }] : [];
  });
  for (const { atNs, sizeNs } of scene.clock.steps) {
    const behind = times.filter(({ afterNs }) => afterNs >= atNs);
    const ahead = times.filter(({ afterNs }) => afterNs < atNs);
    for (const [[lone, another], shiftNs] of [
      [behind, sizeNs],
      [ahead, -sizeNs],
    ] as const) {
      if (!lone || another) continue;
      // A packet that is too early proves that a clock was set.
      ways[lone.way].loneNs = Math.max(0, lone.way === "forward" ? shiftNs : -shiftNs);
    }
  }
}

function openOf(scene: Scene, packets: readonly TruePacket[]): number {
  const flows = new Map<number, { seen: number; matched: number }>();
  for (const packet of packets) {
    if (!isLonely(scene, packet)) continue;
    const ran = (side: "before" | "after", ns: number) => ns >= scene[side].fromNs && ns < scene[side].toNs;
    const sent = ran("after", packet.sentNs);
    const arrivals = [packet.arrivedNs, ...packet.copiesNs].filter((ns) => ns !== null && ran("before", ns));
    const flow = flows.get(packet.flow) ?? { seen: 0, matched: 0 };
    flow.seen += (sent ? 1 : 0) + arrivals.length;
    flow.matched += sent && arrivals.length > 0 ? 1 : 0;
    flows.set(packet.flow, flow);
  }
  return [...flows.values()].reduce((sum, { seen, matched }) => sum + (matched === 0 ? seen : 0), 0);
}

/** Packets that look the same, and how many of them were seen at the near point, the far point, and both. */
interface Looks {
  way: Way;
  near: number;
  far: number;
  both: number;
}

/** Notes the possible delays of a packet sent at that time: its own, or that of a copy. */
function noteSent(truth: WayTruth, scene: Scene, { way, sentNs, arrivedNs, copiesNs }: TruePacket): void {
  const [near, far] = way === "forward" ? (["before", "after"] as const) : (["after", "before"] as const);
  const sent = stampOf(scene, near, sentNs);
  const list = truth.sentAt.get(sent) ?? [];
  for (const ns of [arrivedNs ?? 0, ...copiesNs]) list.push(Number(stampOf(scene, far, ns) - sent));
  truth.sentAt.set(sent, list);
}

type Seen = Record<"before" | "after", { firstNs: number; lastNs: number }>;

/** Returns the true times of the first and last packet of each capture. */
function seenBetween(scene: Scene, packets: readonly TruePacket[]): Seen {
  const none = () => ({ firstNs: Number.POSITIVE_INFINITY, lastNs: Number.NEGATIVE_INFINITY });
  const seen: Seen = { before: none(), after: none() };
  const note = (side: "before" | "after", ns: number) => {
    if (ns < scene[side].fromNs || ns >= scene[side].toNs) return;
    seen[side].firstNs = Math.min(seen[side].firstNs, ns);
    seen[side].lastNs = Math.max(seen[side].lastNs, ns);
  };
  for (const { way, sentNs, arrivedNs, copiesNs } of packets) {
    note(way === "forward" ? "before" : "after", sentNs);
    for (const ns of [...(arrivedNs === null ? [] : [arrivedNs]), ...copiesNs])
      note(way === "forward" ? "after" : "before", ns);
  }
  return seen;
}

function wayTruth(): WayTruth {
  return {
    sent: 0,
    received: 0,
    matched: 0,
    duplicates: 0,
    lost: 0,
    lostInside: 0,
    outside: 0,
    unsent: 0,
    alike: 0,
    confusable: 0,
    sentAt: new Map(),
    stampedNs: [],
    delaysNs: [],
    reordered: 0,
    loneNs: 0,
    jitterNs: null,
  };
}

function count(truth: WayTruth, packet: TruePacket): void {
  truth.matched++;
  truth.delaysNs.push((packet.arrivedNs ?? 0) - packet.sentNs);
}

/** RFC 3393, mean of |ddT|; `sends` are in order of sending. */
function jitterOf(sends: readonly { flow: number; delayNs: number }[]): number | null {
  const before = new Map<number, number>();
  const steps: number[] = [];
  for (const { flow, delayNs } of sends) {
    const last = before.get(flow);
    if (last !== undefined) steps.push(Math.abs(delayNs - last));
    before.set(flow, delayNs);
  }
  return steps.length === 0 ? null : mean(steps);
}

/** RFC 4737: packets that arrive after one that was sent later. */
function reorderedOf(arrivals: { arrivedNs: number; order: number }[]): number {
  const sorted = [...arrivals].sort((a, b) => a.arrivedNs - b.arrivedNs);
  let newest = -1;
  let late = 0;
  for (const { order } of sorted) {
    if (order < newest) late++;
    else newest = order;
  }
  return late;
}

/** Sums differences to the first value, which keeps the digits of small delays with a large offset. */
export function mean(values: readonly number[]): number {
  const [first = Number.NaN] = values;
  return first + values.reduce((sum, v) => sum + (v - first), 0) / values.length;
}

/** Nearest rank. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? Number.NaN;
}
