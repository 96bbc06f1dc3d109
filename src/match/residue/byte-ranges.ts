/**
 * Segments that a network card or kernel merged or cut beside one of the captures (TSO, GRO, LRO): the same bytes of a TCP connection in
 * packets of other lengths. They are matched by their bytes; the delay is that of the last byte of what was
 * merged, and packets are counted as they were on the wire.
 *
 * A byte that was sent twice is matched with the sending before its arrival that is latest and not taken yet. What is left of a packet
 * whose bytes did not all arrive is lost in packets of the wire.
 */
import type { LonePacket } from "./collect.ts";

/** Longer payloads than any frame of 1,500 bytes carries must have been merged, unless frames are larger. */
const ORDINARY_PAYLOAD = 1460;
const JUMBO_PAYLOAD = 8960;

/** A packet and what a mirror makes of it are no further apart. */
const TWICE_NS = 1e6;

/** A captured packet: its time, and its number among the packets of its flow and side. */
export interface Sighting {
  timeNs: number;
  number: number;
}

/** Bytes that both points saw in one packet each. */
export interface Piece {
  sent: Sighting;
  arrived: Sighting;
  /** Packets on the wire that they were in; 0 for less than half of one. */
  packets: number;
  /** The last byte of one of the packets is among them: it gives the delay. */
  last: boolean;
}

export interface MergedFlow {
  flow: number;
  pieces: Piece[];
  /** Packets on the wire: matched, and more than were captured as such. */
  matched: number;
  moreSent: number;
  moreArrived: number;
  /** What was counted alone and is not any more, with its place in time; and what is left of it. */
  resolved: { sent: Sighting; lost: number }[];
  arrivals: { arrived: Sighting; appeared: number }[];
  /** The same bytes once more: where they arrive, and, beside each other, where they come from (a mirror, several interfaces). In packets on the wire. */
  arrivedTwice: { seen: Sighting; packets: number }[];
  sentTwice: { seen: Sighting; packets: number }[];
  bytes: number;
}

interface Segment extends Sighting {
  /** Equal packets have the same. */
  mark: number;
  /** Place in the stream, unwrapped. */
  from: number;
  to: number;
  /** Bytes of it that met their partner. */
  met: number;
  /** Bytes of those whose packets were counted. */
  counted: number;
  packets: number;
}

interface Overlap {
  from: Segment;
  to: Segment;
  bytes: number;
  last: boolean;
}

/** Segments of one flow: `sent` at the point where its packets come from. Null where none was merged. */
export function matchRanges(
  flow: number,
  sent: readonly LonePacket[],
  arrived: readonly LonePacket[],
  windowNs: number,
): MergedFlow | null {
  const wirePayload = payloadOnWire(sent, arrived);
  const origin = sent[0]?.tcp?.sequence ?? 0;
  const [from, to] = [segmentsOf(sent, origin, wirePayload), segmentsOf(arrived, origin, wirePayload)];
  const sentTwice = besideEqual(from);
  const once = from.filter((s) => !sentTwice.has(s));
  const overlaps = join(once, to, windowNs);
  const met = [...from, ...to].some((s) => s.met > 0);
  if (!met) return null;
  const total = (list: Segment[], pick: (s: Segment) => number) => list.reduce((n, s) => n + pick(s), 0);
  // What is lost altogether is lost in packets of the wire, too.
  const arrivedTwice = copiesIn(to, windowNs);
  const touched = once.filter((s) => s.met > 0 || s.packets > 1);
  const reached = to.filter((s) => (s.met > 0 || s.packets > 1) && !arrivedTwice.has(s));
  const matched = Math.max(total(touched, matchedOf), 0);
  return {
    flow,
    pieces: overlaps.map(({ from: s, to: a, bytes, last }) => ({
      sent: s,
      arrived: a,
      packets: shareOf(s, bytes),
      last,
    })),
    matched,
    moreSent: total(touched, (s) => s.packets - 1),
    // As many arrived as were matched, and what else was in those packets.
    moreArrived: matched + total(reached, (s) => s.packets - matchedOf(s)) - reached.length,
    resolved: touched.map((s) => ({ sent: s, lost: s.packets - matchedOf(s) })),
    arrivals: reached.map((s) => ({ arrived: s, appeared: s.packets - matchedOf(s) })),
    arrivedTwice: [...arrivedTwice].map((s) => ({ seen: s, packets: s.packets })),
    sentTwice: [...sentTwice].map((s) => ({ seen: s, packets: s.packets })),
    bytes: total(from, (s) => s.met),
  };
}

/** Segments that come once more right behind themselves: seen twice, by a mirror or on two interfaces, and sent once. */
function besideEqual(segments: readonly Segment[]): Set<Segment> {
  const last = new Map<number, Segment>();
  const copies = new Set<Segment>();
  for (const s of segments) {
    const before = last.get(s.mark);
    if (before?.from === s.from && before.to === s.to && s.timeNs - before.timeNs <= TWICE_NS) copies.add(s);
    else last.set(s.mark, s);
  }
  return copies;
}

/** Segments of which no byte met a partner, while all of their bytes did in others of that time. */
function copiesIn(segments: readonly Segment[], withinNs: number): Set<Segment> {
  const met = segments.filter((s) => s.met > 0).sort((a, b) => a.from - b.from);
  const longest = met.reduce((n, s) => Math.max(n, s.to - s.from), 0);
  const copies = new Set<Segment>();
  for (const s of segments) {
    if (s.met > 0) continue;
    let missing: Range[] = [[s.from, s.to]];
    for (let i = firstFrom(met, s.from - longest); missing.length > 0; i++) {
      const other = met[i];
      if (!other || other.from >= s.to) break;
      if (Math.abs(other.timeNs - s.timeNs) <= withinNs)
        missing = subtract(missing, [[other.from, other.to]]);
    }
    if (missing.length === 0) copies.add(s);
  }
  return copies;
}

/** The first of those, in order of place, that begins there or behind. */
function firstFrom(byPlace: readonly Segment[], from: number): number {
  let low = 0;
  let high = byPlace.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if ((byPlace[mid]?.from ?? 0) < from) low = mid + 1;
    else high = mid;
  }
  return low;
}

/** Packets on the wire that the bytes of it which met their partner were in. */
const matchedOf = (s: Segment) => Math.round((s.packets * s.met) / (s.to - s.from));

/** So many of its packets as `bytes` more of it are, in whole ones: all pieces of it make up what was matched. */
function shareOf(s: Segment, bytes: number): number {
  const before = Math.round((s.packets * s.counted) / (s.to - s.from));
  s.counted += bytes;
  return Math.round((s.packets * s.counted) / (s.to - s.from)) - before;
}

/** The payload of a full packet on the wire: the longest at the point that has the shorter ones, where these are no longer than frames; otherwise the longest that a frame carries, of those seen. */
function payloadOnWire(sent: readonly LonePacket[], arrived: readonly LonePacket[]): number {
  const longest = (list: readonly LonePacket[]) => list.reduce((n, p) => Math.max(n, p.payload), 0);
  const finer = Math.min(longest(sent), longest(arrived));
  if (finer > 0 && finer <= ORDINARY_PAYLOAD) return finer;
  const lengths = [...sent, ...arrived].map((p) => p.payload).filter((n) => n > 0);
  const ordinary = lengths.filter((n) => n <= ORDINARY_PAYLOAD);
  if (ordinary.length > 0) return Math.max(...ordinary.slice(0, 10_000));
  const jumbo = lengths.filter((n) => n <= JUMBO_PAYLOAD);
  // All are merged: what they are multiples of is not known.
  return jumbo.length > 0 ? Math.max(...jumbo.slice(0, 10_000)) : ORDINARY_PAYLOAD - 12;
}

function segmentsOf(packets: readonly LonePacket[], origin: number, wirePayload: number): Segment[] {
  let offset = 0;
  return packets.flatMap((p, number) => {
    if (p.payload <= 0) return [];
    const packets = Math.max(1, Math.ceil(p.payload / wirePayload));
    // Sequence numbers wrap: the nearest place to the segment before is meant.
    const from = p.tcp ? offset + ((p.tcp.sequence - origin - offset) | 0) : 0;
    offset = from;
    const place = { from, to: from + p.payload };
    return [{ timeNs: p.timeNs, number, mark: p.mark, ...place, met: 0, counted: 0, packets }];
  });
}

/** Gives arriving bytes to the sending of them that is latest before. */
function join(sent: Segment[], arrived: Segment[], windowNs: number): Overlap[] {
  const taken = new Map<Segment, [number, number][]>();
  const overlaps: Overlap[] = [];
  // By place, for finding those that overlap; the longest one bounds how far back to look.
  const byPlace = [...sent].sort((a, b) => a.from - b.from);
  const longest = sent.reduce((n, s) => Math.max(n, s.to - s.from), 0);
  for (const a of arrived) {
    const overlapping: Segment[] = [];
    for (let i = firstFrom(byPlace, a.from - longest); i < byPlace.length; i++) {
      const s = byPlace[i];
      if (!s || s.from >= a.to) break;
      // The same bytes in a packet of the same length were not merged: it is another sending of them.
      if (s.from === a.from && s.to === a.to) continue;
      if (s.to > a.from && Math.abs(a.timeNs - s.timeNs) <= windowNs) overlapping.push(s);
    }
    overlapping.sort((x, y) => y.timeNs - x.timeNs);
    let missing: [number, number][] = [[a.from, a.to]];
    for (const s of overlapping) {
      const free = subtract([[Math.max(s.from, a.from), Math.min(s.to, a.to)]], taken.get(s) ?? []);
      const got = intersect(free, missing);
      const bytes = got.reduce((n, [x, y]) => n + y - x, 0);
      if (bytes === 0) continue;
      taken.set(s, [...(taken.get(s) ?? []), ...got]);
      missing = subtract(missing, got);
      s.met += bytes;
      a.met += bytes;
      // The last byte of both, or of the one that ends within a longer one whose end this is.
      const last = s.to === a.to && got.some(([, end]) => end === a.to);
      overlaps.push({ from: s, to: a, bytes, last });
    }
  }
  return overlaps;
}

type Range = [number, number];

function subtract(ranges: readonly Range[], cut: readonly Range[]): Range[] {
  let left = [...ranges];
  for (const [from, to] of cut) {
    left = left.flatMap(([a, b]): Range[] => {
      if (to <= a || from >= b) return [[a, b]];
      const parts: Range[] = [];
      if (from > a) parts.push([a, from]);
      if (to < b) parts.push([to, b]);
      return parts;
    });
  }
  return left;
}

function intersect(a: readonly Range[], b: readonly Range[]): Range[] {
  return a.flatMap(([x, y]) =>
    b.flatMap(([u, v]): Range[] =>
      Math.max(x, u) < Math.min(y, v) ? [[Math.max(x, u), Math.min(y, v)]] : [],
    ),
  );
}
