/**
 * A second look at unmatched packets, if both captures have such: finds packets that were merged, fragmented or rewritten on the way, and counts them as what
 * they are. The captures are read again only if the first look leaves something to explain.
 */
import type { Kernels } from "../../base/kernels.ts";
import type { CorrectedCount } from "../flow-results.ts";
import type { ExactMatcher } from "../matcher.ts";
import { FATE, type ResolvedRow } from "../packet-log.ts";
import { type MergedFlow, matchRanges, type Sighting } from "./byte-ranges.ts";
import { findClamped } from "./clamped.ts";
import {
  collectLone,
  LONGEST_ORDINARY,
  type LonePacket,
  type LongRows,
  type ResidueSource,
  TCP,
  UDP,
} from "./collect.ts";
import { type Separated, setCopiesAside } from "./copies.ts";
import { countUnassigned, matchPieces } from "./datagram-pieces.ts";
import { type Fragmented, findCopies, findFragmented } from "./fragments.ts";
import { findIntact } from "./intact.ts";
import { reassemble } from "./reassembled.ts";
import { namesBefore } from "./translated.ts";

/** What was found. */
export interface Resolved {
  /** `unassigned`: pieces of datagrams of which too little was captured, by the point where they are sent. */
  merged: {
    flows: number;
    packets: number;
    bytes: number;
    longest: [number, number];
    unassigned: [number, number];
  };
  fragmented: { packets: number; incomplete: number };
  clamped: { packets: number; from: number; to: number };
}

/** Corrects the matcher's counts; returns null if there was nothing to examine. */
export async function resolveResidue(
  kernels: Kernels,
  matcher: ExactMatcher,
  sources: readonly [ResidueSource, ResidueSource],
  windowNs: number,
): Promise<Resolved | null> {
  const { lone, long } = await collectLone(kernels, matcher, sources);
  if (lone[0].length === 0 || lone[1].length === 0) return null;
  const resolution = new Resolution(matcher, windowNs);
  if (matcher.nat) resolution.rename(lone);
  resolution.fragments(lone);
  resolution.reassembled(lone);
  if (matcher.nat) resolution.quotes(lone);
  const left = lone.map((side) => side.filter((p) => !resolution.done.has(p))) as typeof lone;
  for (const [flow, sides] of byFlow(left)) resolution.flow(flow, sides);
  resolution.intact(long);
  matcher.packets?.finishReplacing();
  return resolution.resolved;
}

/** Returns the flow counter that includes a packet without a partner. */
function countOf(fate: number): CorrectedCount {
  if (fate === FATE.headBefore) return "headBefore";
  if (fate === FATE.tailBefore) return "tailBefore";
  if (fate === FATE.headAfter) return "headAfter";
  if (fate === FATE.tailAfter) return "tailAfter";
  return fate === FATE.onlyBefore ? "lost" : "appeared";
}

/** Payloads at one point this many times as long as at the other were merged there. */
const MERGED = 2;

type Sides = [LonePacket[], LonePacket[]];

/** Length of a TCP header with timestamps, as most have. */
const USUAL_HEADER = 32;

/** Packets cut before the length of their TCP header have the length that most others of their flow have. */
function completeHeaders(sides: Sides): void {
  const all = [...sides[0], ...sides[1]];
  const unknown = all.filter((p) => p.tcp?.header === null);
  if (unknown.length === 0) return;
  const counts = new Map<number, number>();
  for (const { tcp, payload } of all)
    if (tcp?.header != null && payload > 0) counts.set(tcp.header, (counts.get(tcp.header) ?? 0) + 1);
  const [[usual] = [USUAL_HEADER]] = [...counts].sort((a, b) => b[1] - a[1]);
  for (const p of unknown) p.payload = Math.max(0, p.transportBytes - usual);
}

function byFlow(lone: Sides): Map<number, Sides> {
  const flows = new Map<number, Sides>();
  for (const p of [...lone[0], ...lone[1]]) {
    let sides = flows.get(p.flow);
    if (!sides) flows.set(p.flow, (sides = [[], []]));
    sides[p.side].push(p);
  }
  return flows;
}

class Resolution {
  readonly done = new Set<LonePacket>();
  readonly resolved: Resolved = {
    merged: { flows: 0, packets: 0, bytes: 0, longest: [0, 0], unassigned: [0, 0] },
    fragmented: { packets: 0, incomplete: 0 },
    clamped: { packets: 0, from: 0, to: 0 },
  };
  readonly #matcher: ExactMatcher;
  readonly #windowNs: number;
  /** Addresses and protocol of packets that are whole at the other point. */
  readonly #fragmentedAt = [new Set<string>(), new Set<string>()] as const;
  /** Payload of a full packet on the wire, of flows with merged segments. */
  readonly #wirePayload = new Map<number, number>();

  constructor(matcher: ExactMatcher, windowNs: number) {
    this.#matcher = matcher;
    this.#windowNs = windowNs;
  }

  /** Moves packets of translated flows to the flow's name at the first point. */
  rename(lone: Sides): void {
    const { flows, packets } = this.#matcher;
    const names = namesBefore(this.#matcher, lone);
    for (const p of lone[1]) {
      const flow = names.get(p.flow);
      if (flow === undefined) continue;
      const counts = { [countOf(p.fate)]: 1, received: 1, undecided: p.doubted ? 1 : 0 };
      const less = Object.fromEntries(Object.entries(counts).map(([name, n]) => [name, -n]));
      flows.correct(p.flow, less);
      flows.correct(flow, counts);
      packets?.renameLone(p, flow);
      p.flow = flow;
    }
  }

  /** Returns the point where a flow's packets are sent. */
  #sender(flow: number): 0 | 1 {
    return this.#matcher.flows.direction(flow) === 2 ? 1 : 0;
  }

  /** Marks a packet as matched: another row of the packet log replaces it. */
  #settle(p: LonePacket): void {
    this.done.add(p);
    this.#matcher.packets?.replaceLone(p);
    this.#recount(p, -1);
  }

  /** Changes the count of what this packet was classified as. The packet itself is no longer in doubt. */
  #recount(p: LonePacket, change: number): void {
    this.#matcher.flows.correct(p.flow, { [countOf(p.fate)]: change, undecided: p.doubted ? -1 : 0 });
    if (p.fate === FATE.onlyBefore && this.#sender(p.flow) === 0) this.#matcher.correctLost(p.timeNs, change);
  }

  /** Resolves packets that are complete at one point and in fragments at the other, in either order. */
  fragments(lone: Sides): void {
    for (const side of [0, 1] as const) {
      const [one, other] = [lone[side], lone[side === 0 ? 1 : 0]].map((list) =>
        list.filter((p) => !this.done.has(p)),
      ) as Sides;
      if (!other.some((p) => p.fragment)) continue;
      const [wholes, parts] = [setCopiesAside(one), setCopiesAside(other)];
      const found = findFragmented(wholes.once, parts.once, this.#windowNs, this.#matcher.nat);
      for (const { of, parts } of findCopies(found, other, this.#windowNs)) this.#partsTwice(side, of, parts);
      this.#wholesTwice(side, found, wholes.copies);
      for (const packet of found) {
        this.#fragmentedAt[side === 0 ? 1 : 0].add(packet.whole.between);
        this.#fragmented(side, packet);
      }
    }
  }

  #fragmented(side: 0 | 1, { whole, parts, own, complete }: Fragmented): void {
    const { flows } = this.#matcher;
    const seenAs = side === 0 ? "received" : "sent";
    this.resolved.fragmented.packets++;
    const last = Math.max(...parts.map((p) => p.timeNs));
    const ends = complete ? parts.find((p) => p.timeNs === last) : undefined;
    // Its fragments are not packets of their own: together they count as one packet that arrived, or none.
    for (const part of own) {
      this.#settle(part);
      if (part !== ends) this.#noteAlone(part, FATE.part, 0, null);
      flows.correct(part.flow, { [seenAs]: -1 });
    }
    if (!complete) {
      this.resolved.fragmented.incomplete++;
      return;
    }
    const flow = this.#nameBefore(side, whole, parts);
    flows.correct(flow, { [seenAs]: 1 });
    this.#settle(whole);
    if (flow !== whole.flow) {
      flows.correct(whole.flow, { received: -1 });
      flows.correct(flow, { received: 1 });
    }
    const [before, after] = side === 0 ? [whole.timeNs, last] : [last, whole.timeNs];
    this.#matcher.addPair(flow, before, after);
  }

  /** Fragments of a packet a second time. */
  #partsTwice(side: 0 | 1, of: Fragmented, parts: readonly LonePacket[]): void {
    const flow = this.#nameBefore(side, of.whole, of.parts);
    this.#copyOf(side === 0 ? 1 : 0, parts, of.complete ? flow : null);
  }

  /** Counts fragments as a copy of a packet of `flow`; as none if it is null, because the packet is not complete. */
  #copyOf(side: 0 | 1, parts: readonly LonePacket[], flow: number | null): void {
    const { flows } = this.#matcher;
    const seenAs = side === 0 ? "sent" : "received";
    const mirrored = flow !== null && this.#sender(flow) === side;
    for (const part of parts) {
      const ends = flow !== null && part === parts.at(-1);
      this.#settle(part);
      this.#noteAlone(
        part,
        ends ? (mirrored ? FATE.mirrored : FATE.duplicate) : FATE.part,
        ends ? 1 : 0,
        null,
      );
      flows.correct(part.flow, { [seenAs]: -1 });
    }
    if (flow !== null) flows.correct(flow, { [seenAs]: 1, [mirrored ? "mirrored" : "duplicates"]: 1 });
  }

  /** Copies of packets that are in fragments at the other point, and of those of that length of which no fragment arrived. */
  #wholesTwice(
    side: 0 | 1,
    found: readonly Fragmented[],
    copies: ReadonlyMap<LonePacket, LonePacket[]>,
  ): void {
    const wholes = new Set(found.map(({ whole }) => whole));
    const shortest = found.reduce((n, { whole }) => Math.min(n, whole.length), Number.POSITIVE_INFINITY);
    for (const [original, list] of copies) {
      const mirrored = this.#sender(original.flow) === side;
      if (!wholes.has(original) && !(mirrored && original.length >= shortest)) continue;
      for (const copy of list) {
        this.#settle(copy);
        this.#noteAlone(copy, mirrored ? FATE.mirrored : FATE.duplicate, 1, null);
        this.#matcher.flows.correct(copy.flow, { [mirrored ? "mirrored" : "duplicates"]: 1 });
      }
    }
  }

  /** Takes fragments for the packet that they are, if the other point has longer segments of their flow, or packets between the same hosts whole. */
  reassembled(lone: Sides): void {
    for (const side of [0, 1] as const) {
      const left = (list: readonly LonePacket[]) => list.filter((p) => !this.done.has(p));
      const longest = new Map<number, number>();
      for (const p of left(lone[side === 0 ? 1 : 0]))
        if (!p.fragment) longest.set(p.flow, Math.max(longest.get(p.flow) ?? 0, p.payload));
      const { once, copies } = setCopiesAside(left(lone[side]).filter((p) => p.fragment));
      const again = new Set<LonePacket>();
      const between = new Set<string>();
      const rest: LonePacket[] = [];
      for (const { parts, packet } of reassemble(once)) {
        const first = parts.find((p) => p.opening);
        if (!parts.some((p) => p.fragment?.offset === 0)) rest.push(...parts);
        const bytes = packet?.payload ?? parts.reduce((n, p) => n + p.transportBytes, 0);
        // Other packets between these hosts are fragmented here: so is this one, which did not arrive.
        const lost = packet !== null && this.#fragmentedAt[side].has(packet.between);
        if (!first || (!lost && (longest.get(first.flow) ?? 0) <= bytes)) continue;
        this.resolved.fragmented.packets++;
        if (!packet) this.resolved.fragmented.incomplete++;
        between.add(first.between);
        this.#together(side, parts, packet);
        if (packet) lone[side].push(packet);
        for (const part of parts) for (const copy of copies.get(part) ?? []) again.add(copy);
      }
      // Of packets between the same hosts that lost the first fragment.
      for (const part of rest) if (between.has(part.between)) this.#together(side, [part], null);
      for (const { parts, packet } of reassemble([...again].sort((a, b) => a.timeNs - b.timeNs)))
        this.#copyOf(side, parts, packet?.flow ?? null);
      lone[side].sort((a, b) => a.timeNs - b.timeNs);
    }
  }

  /** Counts fragments as the unmatched packet that they are; as none if some are missing. */
  #together(side: 0 | 1, parts: readonly LonePacket[], packet: LonePacket | null): void {
    const seenAs = side === 0 ? "sent" : "received";
    for (const part of parts) {
      this.#settle(part);
      this.#noteAlone(part, FATE.part, 0, null);
      this.#matcher.flows.correct(part.flow, { [seenAs]: -1 });
    }
    if (!packet) return;
    const { flow, fate, timeNs, doubted } = packet;
    this.#matcher.flows.correct(flow, { [seenAs]: 1, [countOf(fate)]: 1, undecided: doubted ? 1 : 0 });
    if (fate === FATE.onlyBefore && this.#sender(flow) === 0) this.#matcher.correctLost(timeNs, 1);
    this.#matcher.packets?.addLone(packet);
  }

  /** Returns the flow, by its name at the first point, of a packet complete at one side: with address translation, a fragment at the first point shows it. */
  #nameBefore(side: 0 | 1, whole: LonePacket, parts: readonly LonePacket[]): number {
    const first = side === 1 && this.#matcher.nat ? parts.find((p) => p.fragment?.offset === 0) : undefined;
    return (first ?? whole).flow;
  }

  flow(flow: number, sides: Sides): void {
    const sender = this.#sender(flow);
    completeHeaders(sides);
    this.#clamped(flow, sender, sides);
    // Packets outside the other capture can belong to something only if segments were merged.
    const [longest, other] = sides.map((side) => side.reduce((n, p) => Math.max(n, p.payload), 0)) as [
      number,
      number,
    ];
    const long =
      [...sides[0], ...sides[1]].some((p) => p.length > LONGEST_ORDINARY) ||
      Math.max(longest, other) >= MERGED * Math.max(1, Math.min(longest, other));
    const [sent, arrived] = [sides[sender], sides[sender === 0 ? 1 : 0]].map((side) =>
      long ? side : side.filter((p) => p.fate === FATE.onlyBefore || p.fate === FATE.onlyAfter),
    ) as Sides;
    if (sent.length === 0 || arrived.length === 0) return;
    const rest = (list: LonePacket[]) =>
      list.filter((p) => !this.done.has(p) && p.payload > 0 && (p.proto !== TCP || p.tcp !== null));
    const [from, to] = [rest(sent), rest(arrived)];
    if (from.length === 0 || to.length === 0) return;
    if (from[0]?.tcp != null) {
      const merged = matchRanges(flow, from, to, this.#windowNs);
      if (merged) this.#merged(merged, sender, from, to);
    } else if (from[0]?.proto === UDP) this.#datagrams(flow, sender, from, to);
  }

  #datagrams(flow: number, sender: 0 | 1, sent: readonly LonePacket[], arrived: readonly LonePacket[]): void {
    const [from, to] = [setCopiesAside(sent), setCopiesAside(arrived)];
    const merged = matchPieces(flow, from.once, to.once, this.#windowNs);
    if ([...from.once, ...to.once].some((p) => p.length > LONGEST_ORDINARY))
      this.resolved.merged.unassigned[sender] += countUnassigned(from.once, to.once, merged?.matched ?? 0);
    if (!merged) return;
    const twice = (seen: Sighting, { once, copies }: Separated) => {
      const original = once[seen.number];
      const packets = Math.ceil((original?.payload ?? 0) / merged.wirePayload);
      return (original ? (copies.get(original) ?? []) : []).map((copy) => ({ copy, packets }));
    };
    const [sentAs, arrivedAs] =
      sender === 0 ? (["sent", "received"] as const) : (["received", "sent"] as const);
    for (const { copy, packets } of merged.resolved.flatMap((r) => twice(r.sent, from)))
      this.#twice(copy, { fate: FATE.mirrored, as: "mirrored", seen: sentAs, packets });
    for (const { copy, packets } of merged.arrivals.flatMap((r) => twice(r.arrived, to)))
      this.#twice(copy, { fate: FATE.duplicate, as: "duplicates", seen: arrivedAs, packets });
    this.#merged(merged, sender, from.once, to.once);
  }

  /** Connections and captures begin with SYNs: those near the captures' ends are included. */
  #clamped(flow: number, sender: 0 | 1, sides: Sides): void {
    for (const pair of findClamped(sides[sender], sides[sender === 0 ? 1 : 0], this.#windowNs)) {
      this.#pair(flow, sender, pair);
      for (const copy of pair.copies) {
        this.#settle(copy);
        this.#noteAlone(copy, FATE.duplicate, 1, null);
        this.#matcher.flows.correct(flow, { duplicates: 1 });
      }
      const { clamped } = this.resolved;
      clamped.packets++;
      clamped.from = Math.max(clamped.from, pair.sent.tcp?.mss ?? 0);
      clamped.to = Math.max(clamped.to, pair.arrived.tcp?.mss ?? 0);
    }
  }

  #pair(flow: number, sender: 0 | 1, { sent, arrived }: Record<"sent" | "arrived", LonePacket>): void {
    this.#settle(sent);
    this.#settle(arrived);
    const [before, after] = sender === 0 ? [sent, arrived] : [arrived, sent];
    this.#matcher.addPair(flow, before.timeNs, after.timeNs);
  }

  /** ICMP errors quote a packet whose addresses are translated, too. */
  quotes(lone: Sides): void {
    const errors = lone.map((side) => side.filter((p) => p.quotes !== null && !this.done.has(p))) as Sides;
    const arrived = new Map<string, LonePacket[]>();
    for (const p of errors[1]) arrived.set(p.quotes ?? "", [...(arrived.get(p.quotes ?? "") ?? []), p]);
    for (const p of errors[0]) {
      const list = arrived.get(p.quotes ?? "");
      const at = list?.findIndex((a) => Math.abs(a.timeNs - p.timeNs) <= this.#windowNs) ?? -1;
      const [other] = at < 0 ? [] : (list?.splice(at, 1) ?? []);
      if (!other) continue;
      const sender = this.#sender(p.flow);
      if (other.flow !== p.flow) {
        // Flows are named by their key at the first point.
        this.#matcher.flows.correct(other.flow, { received: -1 });
        this.#matcher.flows.correct(p.flow, { received: 1 });
      }
      this.#pair(p.flow, sender, sender === 0 ? { sent: p, arrived: other } : { sent: other, arrived: p });
    }
  }

  /** Counts merged segments that both points have alike as on the wire. */
  intact(long: readonly [LongRows, LongRows]): void {
    if (this.#wirePayload.size === 0) return;
    const { flows, packets: log } = this.#matcher;
    const counted = new Map<string, number>();
    for (const { flow, timeNs, payload, packets } of findIntact(this.#matcher, long, this.#wirePayload)) {
      flows.correct(flow, { sent: packets - 1, received: packets - 1, merged: packets - 1 });
      if (this.#sender(flow) === 0) this.#matcher.addWithout(timeNs, packets - 1);
      counted.set(`${flow},${timeNs}`, packets);
      this.resolved.merged.packets += packets;
      this.resolved.merged.bytes += payload;
    }
    log?.countMatched(counted);
  }

  #merged(merged: MergedFlow, sender: 0 | 1, sent: LonePacket[], arrived: LonePacket[]): void {
    const { flow } = merged;
    this.#wirePayload.set(flow, merged.wirePayload);
    const [sentAs, arrivedAs] =
      sender === 0 ? (["sent", "received"] as const) : (["received", "sent"] as const);
    const delays = merged.pieces.filter((piece) => piece.last).length;
    this.#matcher.flows.correct(flow, {
      [sentAs]: merged.moreSent,
      [arrivedAs]: merged.moreArrived,
      // Each delay is that of a last byte; the other packets are matched without a delay.
      merged: Math.max(0, merged.matched - delays),
    });
    this.#rest(
      sent,
      merged.resolved.map((r) => ({ seen: r.sent, left: r.lost })),
    );
    this.#rest(
      arrived,
      merged.arrivals.map((r) => ({ seen: r.arrived, left: r.appeared })),
    );
    for (const { seen, packets } of merged.arrivedTwice)
      this.#twice(arrived[seen.number], { fate: FATE.duplicate, as: "duplicates", seen: arrivedAs, packets });
    for (const { seen, packets } of merged.sentTwice)
      this.#twice(sent[seen.number], { fate: FATE.mirrored, as: "mirrored", seen: sentAs, packets });
    for (const piece of merged.pieces) {
      const { packets, last } = piece;
      const [before, after] = sender === 0 ? [piece.sent, piece.arrived] : [piece.arrived, piece.sent];
      const frames = { before: before.number, after: after.number };
      // Intervals count packets sent at BEFORE.
      const without = packets - (last ? 1 : 0);
      if (sender === 0 && without !== 0) this.#matcher.addWithout(before.timeNs, without);
      if (last) {
        this.#matcher.addPair(flow, before.timeNs, after.timeNs);
        this.#matcher.packets?.shareLast(packets, frames);
      } else {
        const times = { beforeNs: before.timeNs, afterNs: after.timeNs };
        this.#note({ ...times, flow, fate: FATE.merged, packets, frames });
      }
    }
    const total = this.resolved.merged;
    total.flows++;
    total.packets += merged.matched;
    total.bytes += merged.bytes;
    const longest = (list: LonePacket[]) => list.reduce((n, p) => Math.max(n, p.length), 0);
    const [a, b] = sender === 0 ? [sent, arrived] : [arrived, sent];
    total.longest[0] = Math.max(total.longest[0], longest(a));
    total.longest[1] = Math.max(total.longest[1], longest(b));
  }

  /** Counts a packet whose bytes were seen before as a copy of `packets` packets on the wire. */
  #twice(
    p: LonePacket | undefined,
    copy: { fate: number; as: "duplicates" | "mirrored"; seen: "sent" | "received"; packets: number },
  ): void {
    if (!p) return;
    const { fate, as, seen, packets } = copy;
    this.#settle(p);
    this.#noteAlone(p, fate, packets, null);
    this.#matcher.flows.correct(p.flow, { [as]: packets, [seen]: packets - 1 });
  }

  /** Keeps the classification for the unmatched rest of partly matched packets. */
  #rest(packets: readonly LonePacket[], rest: readonly { seen: Sighting; left: number }[]): void {
    for (const { seen, left } of rest) {
      const p = packets[seen.number];
      if (!p) continue;
      this.#recount(p, left - 1);
      if (p.doubted) this.#matcher.flows.correct(p.flow, { undecided: left });
      this.#matcher.packets?.replaceLone(p);
      if (left > 0) this.#noteAlone(p, p.fate, left, seen.number);
    }
  }

  /** Adds a row of a packet at one point only. */
  #noteAlone(
    { side, timeNs, flow }: Pick<LonePacket, "side" | "timeNs" | "flow">,
    fate: number,
    packets: number,
    frame: number | null,
  ): void {
    const [beforeNs, afterNs] = side === 0 ? [timeNs, Number.NaN] : [Number.NaN, timeNs];
    const frames = frame === null ? null : { before: frame, after: frame };
    this.#note({ beforeNs, afterNs, flow, fate, packets, frames });
  }

  #note(row: ResolvedRow): void {
    this.#matcher.packets?.add(row);
  }
}
