/** Packets that are whole at one point and in fragments at the other, and fragments of packets that did not arrive. */
import { FATE } from "../packet-log.ts";
import type { LonePacket } from "./collect.ts";
import { setCopiesAside } from "./copies.ts";
import { type Corrections, countOf, type Sides } from "./corrections.ts";
import { type Fragmented, findCopies, findFragmented } from "./fragments.ts";
import { reassemble } from "./reassembled.ts";

export class FragmentCorrections {
  readonly #to: Corrections;
  /** Addresses and protocol of packets that are whole at the other point. */
  readonly #fragmentedAt = [new Set<string>(), new Set<string>()] as const;

  constructor(to: Corrections) {
    this.#to = to;
  }

  /** Resolves packets that are complete at one point and in fragments at the other, in either order. */
  fragments(lone: Sides): void {
    for (const side of [0, 1] as const) {
      const [one, other] = [lone[side], lone[side === 0 ? 1 : 0]].map((list) =>
        list.filter((p) => !this.#to.done.has(p)),
      ) as Sides;
      if (!other.some((p) => p.fragment)) continue;
      const [wholes, parts] = [setCopiesAside(one), setCopiesAside(other)];
      const found = findFragmented(wholes.once, parts.once, this.#to.windowNs, this.#to.matcher.nat);
      for (const { of, parts } of findCopies(found, other, this.#to.windowNs))
        this.#partsTwice(side, of, parts);
      this.#wholesTwice(side, found, wholes.copies);
      for (const packet of found) {
        this.#fragmentedAt[side === 0 ? 1 : 0].add(packet.whole.between);
        this.#fragmented(side, packet);
      }
    }
  }

  #fragmented(side: 0 | 1, { whole, parts, own, complete }: Fragmented): void {
    const { flows } = this.#to.matcher;
    const seenAs = side === 0 ? "received" : "sent";
    this.#to.resolved.fragmented.packets++;
    const last = Math.max(...parts.map((p) => p.timeNs));
    const ends = complete ? parts.find((p) => p.timeNs === last) : undefined;
    // Its fragments are not packets of their own: together they count as one packet that arrived, or none.
    for (const part of own) {
      this.#to.settle(part);
      if (part !== ends) this.#to.noteAlone(part, FATE.part, 0, null);
      flows.correct(part.flow, { [seenAs]: -1 });
    }
    if (!complete) {
      this.#to.resolved.fragmented.incomplete++;
      return;
    }
    const flow = this.#nameBefore(side, whole, parts);
    flows.correct(flow, { [seenAs]: 1 });
    this.#to.settle(whole);
    if (flow !== whole.flow) {
      flows.correct(whole.flow, { received: -1 });
      flows.correct(flow, { received: 1 });
    }
    const [before, after] = side === 0 ? [whole.timeNs, last] : [last, whole.timeNs];
    this.#to.matcher.addPair(flow, before, after);
  }

  /** Fragments of a packet a second time. */
  #partsTwice(side: 0 | 1, of: Fragmented, parts: readonly LonePacket[]): void {
    const flow = this.#nameBefore(side, of.whole, of.parts);
    this.#copyOf(side === 0 ? 1 : 0, parts, of.complete ? flow : null);
  }

  /** Counts fragments as a copy of a packet of `flow`; as none if it is null, because the packet is not complete. */
  #copyOf(side: 0 | 1, parts: readonly LonePacket[], flow: number | null): void {
    const { flows } = this.#to.matcher;
    const seenAs = side === 0 ? "sent" : "received";
    const mirrored = flow !== null && this.#to.sender(flow) === side;
    for (const part of parts) {
      const ends = flow !== null && part === parts.at(-1);
      this.#to.settle(part);
      this.#to.noteAlone(
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
      const mirrored = this.#to.sender(original.flow) === side;
      if (!wholes.has(original) && !(mirrored && original.length >= shortest)) continue;
      for (const copy of list) {
        this.#to.settle(copy);
        this.#to.noteAlone(copy, mirrored ? FATE.mirrored : FATE.duplicate, 1, null);
        this.#to.matcher.flows.correct(copy.flow, { [mirrored ? "mirrored" : "duplicates"]: 1 });
      }
    }
  }

  /** Takes fragments for the packet that they are, if the other point has longer segments of their flow, or packets between the same hosts whole. */
  reassembled(lone: Sides): void {
    for (const side of [0, 1] as const) {
      const left = (list: readonly LonePacket[]) => list.filter((p) => !this.#to.done.has(p));
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
        this.#to.resolved.fragmented.packets++;
        if (!packet) this.#to.resolved.fragmented.incomplete++;
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
      this.#to.settle(part);
      this.#to.noteAlone(part, FATE.part, 0, null);
      this.#to.matcher.flows.correct(part.flow, { [seenAs]: -1 });
    }
    if (!packet) return;
    const { flow, fate, timeNs, doubted } = packet;
    this.#to.matcher.flows.correct(flow, { [seenAs]: 1, [countOf(fate)]: 1, undecided: doubted ? 1 : 0 });
    if (fate === FATE.onlyBefore && this.#to.sender(flow) === 0) this.#to.matcher.correctLost(timeNs, 1);
    this.#to.matcher.packets?.addLone(packet);
  }

  /** Returns the flow, by its name at the first point, of a packet complete at one side: with address translation, a fragment at the first point shows it. */
  #nameBefore(side: 0 | 1, whole: LonePacket, parts: readonly LonePacket[]): number {
    const first =
      side === 1 && this.#to.matcher.nat ? parts.find((p) => p.fragment?.offset === 0) : undefined;
    return (first ?? whole).flow;
  }
}
