/** Segments that were merged or split next to a capture, and packets with a rewritten MSS. */
import { FATE } from "../packet-log.ts";
import { type MergedFlow, matchRanges, type Sighting } from "./byte-ranges.ts";
import { findClamped } from "./clamped.ts";
import { LONGEST_ORDINARY, type LonePacket, type LongRows, TCP, UDP } from "./collect.ts";
import { type Separated, setCopiesAside } from "./copies.ts";
import type { Corrections, Sides } from "./corrections.ts";
import { countUnassigned, matchPieces } from "./datagram-pieces.ts";
import { findIntact } from "./intact.ts";

/** Payloads at one point this many times as long as at the other were merged there. */
const MERGED = 2;

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

export class MergeCorrections {
  readonly #to: Corrections;
  /** Payload of a full packet on the wire, of flows with merged segments. */
  readonly #wirePayload = new Map<number, number>();

  constructor(to: Corrections) {
    this.#to = to;
  }

  flow(flow: number, sides: Sides): void {
    const sender = this.#to.sender(flow);
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
      list.filter((p) => !this.#to.done.has(p) && p.payload > 0 && (p.proto !== TCP || p.tcp !== null));
    const [from, to] = [rest(sent), rest(arrived)];
    if (from.length === 0 || to.length === 0) return;
    if (from[0]?.tcp != null) {
      const merged = matchRanges(flow, from, to, this.#to.windowNs);
      if (merged) this.#merged(merged, sender, from, to);
    } else if (from[0]?.proto === UDP) this.#datagrams(flow, sender, from, to);
  }

  #datagrams(flow: number, sender: 0 | 1, sent: readonly LonePacket[], arrived: readonly LonePacket[]): void {
    const [from, to] = [setCopiesAside(sent), setCopiesAside(arrived)];
    const merged = matchPieces(flow, from.once, to.once, this.#to.windowNs);
    if ([...from.once, ...to.once].some((p) => p.length > LONGEST_ORDINARY))
      this.#to.resolved.merged.unassigned[sender] += countUnassigned(
        from.once,
        to.once,
        merged?.matched ?? 0,
      );
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
    for (const pair of findClamped(sides[sender], sides[sender === 0 ? 1 : 0], this.#to.windowNs)) {
      this.#to.pair(flow, sender, pair);
      for (const copy of pair.copies) {
        this.#to.settle(copy);
        this.#to.noteAlone(copy, FATE.duplicate, 1, null);
        this.#to.matcher.flows.correct(flow, { duplicates: 1 });
      }
      const { clamped } = this.#to.resolved;
      clamped.packets++;
      clamped.from = Math.max(clamped.from, pair.sent.tcp?.mss ?? 0);
      clamped.to = Math.max(clamped.to, pair.arrived.tcp?.mss ?? 0);
    }
  }

  /** Counts merged segments that both points have alike as on the wire. */
  intact(long: readonly [LongRows, LongRows]): void {
    if (this.#wirePayload.size === 0) return;
    const { flows, packets: log } = this.#to.matcher;
    const counted = new Map<string, number>();
    for (const { flow, timeNs, payload, packets } of findIntact(this.#to.matcher, long, this.#wirePayload)) {
      flows.correct(flow, { sent: packets - 1, received: packets - 1, merged: packets - 1 });
      if (this.#to.sender(flow) === 0) this.#to.matcher.addWithout(timeNs, packets - 1);
      counted.set(`${flow},${timeNs}`, packets);
      this.#to.resolved.merged.packets += packets;
      this.#to.resolved.merged.bytes += payload;
    }
    log?.countMatched(counted);
  }

  #merged(merged: MergedFlow, sender: 0 | 1, sent: LonePacket[], arrived: LonePacket[]): void {
    const { flow } = merged;
    this.#wirePayload.set(flow, merged.wirePayload);
    const [sentAs, arrivedAs] =
      sender === 0 ? (["sent", "received"] as const) : (["received", "sent"] as const);
    const delays = merged.pieces.filter((piece) => piece.last).length;
    this.#to.matcher.flows.correct(flow, {
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
      if (sender === 0 && without !== 0) this.#to.matcher.addWithout(before.timeNs, without);
      if (last) {
        this.#to.matcher.addPair(flow, before.timeNs, after.timeNs);
        this.#to.matcher.packets?.shareLast(packets, frames);
      } else {
        const times = { beforeNs: before.timeNs, afterNs: after.timeNs };
        this.#to.note({ ...times, flow, fate: FATE.merged, packets, frames });
      }
    }
    const total = this.#to.resolved.merged;
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
    this.#to.settle(p);
    this.#to.noteAlone(p, fate, packets, null);
    this.#to.matcher.flows.correct(p.flow, { [as]: packets, [seen]: packets - 1 });
  }

  /** Keeps the classification for the unmatched rest of partly matched packets. */
  #rest(packets: readonly LonePacket[], rest: readonly { seen: Sighting; left: number }[]): void {
    for (const { seen, left } of rest) {
      const p = packets[seen.number];
      if (!p) continue;
      this.#to.recount(p, left - 1);
      if (p.doubted) this.#to.matcher.flows.correct(p.flow, { undecided: left });
      this.#to.matcher.packets?.replaceLone(p);
      if (left > 0) this.#to.noteAlone(p, p.fate, left, seen.number);
    }
  }
}
