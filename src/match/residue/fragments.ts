/**
 * Packets that were fragmented between the points: complete at one, in fragments at the other; each is one packet, whatever happened to it. A fragment that was
 * fragmented again is such a packet, too. The identification shows what belongs together, and a first fragment shows it by its first bytes. But identifications
 * repeat, within a second at high packet rates: first fragments show the delay, and of several possible packets a fragment is assigned to the one closest to
 * that delay.
 */
import { LONGEST_ORDINARY, type LonePacket, START_BYTES, TCP } from "./collect.ts";

/** A packet at one point and its fragments at the other. */
export interface Fragmented {
  whole: LonePacket;
  /** All fragments with bytes of it; and of these, those without bytes of an earlier packet. */
  parts: LonePacket[];
  own: LonePacket[];
  /** All of it arrived. */
  complete: boolean;
}

/** Finds the remaining fragments that are copies of others: one list per copy of a packet. Inputs in time order. */
export function findCopies(
  found: readonly Fragmented[],
  other: readonly LonePacket[],
  windowNs: number,
): { of: Fragmented; parts: LonePacket[] }[] {
  const nameOf = (p: LonePacket) =>
    `${p.between},${p.identification},${p.fragment?.offset},${p.transportBytes}`;
  const wholes = new Map<string, Fragmented>();
  const taken = new Set<LonePacket>();
  for (const one of found)
    for (const part of one.parts) {
      taken.add(part);
      wholes.set(nameOf(part), one);
    }
  const copies = new Map<Fragmented, LonePacket[][]>();
  for (const p of other) {
    const of = p.fragment && !taken.has(p) ? wholes.get(nameOf(p)) : undefined;
    if (!of) continue;
    const firstNs = of.parts.reduce((n, { timeNs }) => Math.min(n, timeNs), Number.POSITIVE_INFINITY);
    if (p.timeNs < firstNs || p.timeNs - firstNs > windowNs) continue;
    const rounds = copies.get(of) ?? [];
    copies.set(of, rounds);
    const round = rounds.find((list) => !list.some((q) => nameOf(q) === nameOf(p)));
    if (round) round.push(p);
    else rounds.push([p]);
  }
  return [...copies].flatMap(([of, rounds]) => rounds.map((parts) => ({ of, parts })));
}

/** A packet that may have been fragmented, and its fragments found so far. */
interface Candidate {
  whole: LonePacket;
  from: number;
  to: number;
  identification: number | null;
  /** Expected time of its fragments at the other point, by that point's clock. */
  expectedNs: number;
  parts: LonePacket[];
}

/** Packets between the same two hosts, with the same identification if they have one, and the fragments at the other point. */
interface Family {
  candidates: Candidate[];
  parts: LonePacket[];
}

/** Maximum number of possible packets tried per fragment, the closest in time; and maximum number examined to find them. */
const NEAREST = 8;
const LOOKED_AT = 256;
/** Number of packets around one that show the current delay. */
const AROUND = 5;

/** The flow of a packet, as far as it can be compared between the points. */
type FlowOf = (p: LonePacket) => number;

/** Finds packets of `one` with fragments in `other`. Inputs in time order. */
export function findFragmented(
  one: readonly LonePacket[],
  other: readonly LonePacket[],
  windowNs: number,
  nat = false,
): Fragmented[] {
  // Behind an address translation a packet's flow has another key.
  const flowOf = nat ? () => 0 : (p: LonePacket) => p.flow;
  const families = familiesOf(one, other);
  const delays = new Delays();
  for (const family of families) noteFirstFragments(family, windowNs, flowOf, delays);
  for (const family of families) {
    for (const c of family.candidates) c.expectedNs = c.whole.timeNs + delays.near(c.whole);
    const isFirst = (p: LonePacket) => p.fragment?.offset === 0;
    assign(family.candidates, family.parts.filter(isFirst), windowNs, flowOf);
    // The other fragments follow the first.
    for (const c of family.candidates) c.expectedNs = c.parts[0]?.timeNs ?? c.expectedNs;
    assign(
      family.candidates,
      family.parts.filter((p) => !isFirst(p)),
      windowNs,
      flowOf,
    );
  }
  const taken = new Set<LonePacket>();
  return families
    .flatMap(({ candidates }) => candidates.filter(({ parts }) => parts.length > 0))
    .sort((a, b) => a.whole.timeNs - b.whole.timeNs)
    .map((candidate) => {
      const { whole, parts } = candidate;
      const own = parts.filter((p) => !taken.has(p));
      for (const part of own) taken.add(part);
      return { whole, parts, own, complete: isComplete(candidate) };
    });
}

/** Groups the packets and fragments that may belong together. */
function familiesOf(one: readonly LonePacket[], other: readonly LonePacket[]): Family[] {
  // In IPv6 only fragments have an identification.
  const nameOf = (p: LonePacket) => (p.ipid === null ? p.between : `${p.between},${p.ipid}`);
  const families = new Map<string, Family>();
  for (const p of other) {
    if (!p.fragment) continue;
    const family = families.get(nameOf(p));
    if (family) family.parts.push(p);
    else families.set(nameOf(p), { candidates: [], parts: [p] });
  }
  for (const whole of one) {
    const family = families.get(nameOf(whole));
    if (!family) continue;
    if (wasSplit(whole, family.parts)) continue;
    const { fragment, identification, timeNs, transportBytes } = whole;
    const from = fragment?.offset ?? 0;
    family.candidates.push({
      whole,
      from,
      to: from + transportBytes,
      identification,
      expectedNs: timeNs,
      parts: [],
    });
  }
  for (const family of families.values()) family.candidates = ofLongerFragments(family);
  return [...families.values()].filter(({ candidates }) => candidates.length > 0);
}

/**
 * A long packet without a fragment that ends where it does: a card split it, and the fragments are of the packets that it was split into. TCP packets of that
 * length are not fragmented; of others, another last fragment shows it.
 */
function wasSplit(
  { length, proto, fragment, transportBytes }: LonePacket,
  parts: readonly LonePacket[],
): boolean {
  if (fragment || length <= LONGEST_ORDINARY) return false;
  const ends = parts
    .filter((p) => !p.fragment?.more)
    .map((p) => (p.fragment?.offset ?? 0) + p.transportBytes);
  return (proto === TCP || ends.length > 0) && !ends.includes(transportBytes);
}

/** If both points have fragments, the side with the longest fragment had its fragments fragmented again. */
function ofLongerFragments({ candidates, parts }: Family): Candidate[] {
  const bytes = (list: readonly LonePacket[]) =>
    list.reduce((n, p) => (p.fragment ? Math.max(n, p.transportBytes) : n), 0);
  const longer = bytes(candidates.map((c) => c.whole)) > bytes(parts);
  return longer ? candidates : candidates.filter(({ whole }) => whole.fragment === null);
}

/** Records the delay of packets whose first fragments are unique. */
function noteFirstFragments(
  { candidates, parts }: Family,
  windowNs: number,
  flowOf: FlowOf,
  delays: Delays,
): void {
  const wholes = candidates.filter(({ from }) => from === 0).map(({ whole }) => whole);
  const firsts = parts.filter((p) => p.fragment?.offset === 0);
  const known = [...wholes, ...firsts].reduce((n, p) => Math.min(n, p.start.length), START_BYTES);
  const nameOf = (p: LonePacket) => `${flowOf(p)},${p.start.slice(0, known)}`;
  const arrived = soleByName(firsts, nameOf);
  for (const [name, whole] of soleByName(wholes, nameOf)) {
    const first = arrived.get(name);
    if (whole && first && Math.abs(first.timeNs - whole.timeNs) <= windowNs)
      delays.note(whole, first.timeNs - whole.timeNs);
  }
}

/** Maps names to packets; null if several have a name. */
function soleByName(
  list: readonly LonePacket[],
  nameOf: (p: LonePacket) => string,
): Map<string, LonePacket | null> {
  const sole = new Map<string, LonePacket | null>();
  for (const p of list) sole.set(nameOf(p), sole.has(nameOf(p)) ? null : p);
  return sole;
}

/** Delays of packets by their hosts, or over all hosts if none is known for these. */
class Delays {
  readonly #between = new Map<string, { timeNs: number; delayNs: number }[]>();
  #sorted = false;

  note({ between, timeNs }: LonePacket, delayNs: number): void {
    for (const name of [between, ""]) {
      const list = this.#between.get(name);
      if (list) list.push({ timeNs, delayNs });
      else this.#between.set(name, [{ timeNs, delayNs }]);
    }
  }

  near({ between, timeNs }: LonePacket): number {
    if (!this.#sorted) for (const list of this.#between.values()) list.sort((a, b) => a.timeNs - b.timeNs);
    this.#sorted = true;
    const list = this.#between.get(between) ?? this.#between.get("") ?? [];
    const at = firstFrom(list, (d) => d.timeNs >= timeNs);
    const from = Math.max(0, Math.min(list.length, at + (AROUND >> 1) + 1) - AROUND);
    const around = list.slice(from, from + AROUND).map((d) => d.delayNs);
    return around.sort((a, b) => a - b)[around.length >> 1] ?? 0;
  }
}

/** Assigns each fragment to the possible packet with the closest expected time, the closest of all first. */
function assign(
  candidates: readonly Candidate[],
  parts: readonly LonePacket[],
  windowNs: number,
  flowOf: FlowOf,
): void {
  const sorted = [...candidates].sort((a, b) => a.expectedNs - b.expectedNs);
  const choices = parts.flatMap((part) =>
    nearest(sorted, part, windowNs, flowOf).map((candidate) => ({
      part,
      candidate,
      awayNs: Math.abs(part.timeNs - candidate.expectedNs),
    })),
  );
  const takers = new Map<LonePacket, Candidate[]>();
  for (const { part, candidate } of choices.sort((a, b) => a.awayNs - b.awayNs)) {
    const of = takers.get(part) ?? [];
    // A fragment may contain the end of one fragment and the start of the next, of a packet that was reassembled and fragmented differently.
    if (of.some((c) => c.from < candidate.to && candidate.from < c.to)) continue;
    if (!isPartOf(part, candidate, flowOf)) continue;
    if (candidate.parts.some((p) => p.fragment?.offset === part.fragment?.offset)) continue;
    candidate.parts.push(part);
    candidate.identification ??= part.identification;
    takers.set(part, [...of, candidate]);
  }
}

function nearest(
  sorted: readonly Candidate[],
  part: LonePacket,
  windowNs: number,
  flowOf: FlowOf,
): Candidate[] {
  const found: Candidate[] = [];
  let high = firstFrom(sorted, (c) => c.expectedNs >= part.timeNs);
  let low = high - 1;
  for (let n = 0; n < LOOKED_AT && found.length < NEAREST; n++) {
    const [below, above] = [sorted[low], sorted[high]];
    if (!below && !above) break;
    const lower =
      !above || (below && part.timeNs - below.expectedNs <= above.expectedNs - part.timeNs)
        ? below
        : undefined;
    const next = lower ?? above;
    if (lower) low--;
    else high++;
    if (next && Math.abs(part.timeNs - next.whole.timeNs) <= windowNs && isPartOf(part, next, flowOf))
      found.push(next);
  }
  return found;
}

/** Returns whether a fragment contains bytes of a packet without contradicting it. */
function isPartOf(part: LonePacket, { whole, from, to, identification }: Candidate, flowOf: FlowOf): boolean {
  if (!part.fragment || (identification !== null && part.identification !== identification)) return false;
  const { offset, more } = part.fragment;
  const end = offset + part.transportBytes;
  if (end <= from || offset >= to || (offset === from && end === to)) return false;
  // The last byte of the last fragment is the packet's last byte.
  const last = !whole.fragment?.more;
  if (last ? (more ? end >= to : end !== to) : !more && end <= to) return false;
  if (offset > 0 || from > 0) return true;
  const common = Math.min(part.start.length, whole.start.length);
  return flowOf(part) === flowOf(whole) && part.start.slice(0, common) === whole.start.slice(0, common);
}

function isComplete({ parts, from, to }: Candidate): boolean {
  const offset = (p: LonePacket) => p.fragment?.offset ?? 0;
  let end = from;
  for (const part of [...parts].sort((a, b) => offset(a) - offset(b))) {
    if (offset(part) > end) return false;
    end = Math.max(end, offset(part) + part.transportBytes);
  }
  return end >= to;
}

/** Returns the first index for which `holds` is true; it must be true for all later ones. */
function firstFrom<T>(list: readonly T[], holds: (item: T) => boolean): number {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const item = list[middle];
    if (item !== undefined && holds(item)) high = middle;
    else low = middle + 1;
  }
  return low;
}
