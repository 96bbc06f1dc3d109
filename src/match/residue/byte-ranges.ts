/**
 * Segments that a network card or kernel merged or split next to one of the captures (TSO, GRO, LRO): the same bytes of a TCP connection in packets of other
 * lengths. They are matched by their bytes; the delay is that of the last byte of a merged segment, and packets are counted as on the wire.
 *
 * A byte that was sent twice is matched with the latest transmission before its arrival that is not taken yet. If some bytes of a packet did not arrive, the
 * rest counts as lost, in packets on the wire.
 */
import type { LonePacket } from "./collect.ts";
import { TWICE_NS } from "./copies.ts";

/** Payloads longer than any frame of 1,500 bytes carries must have been merged, unless frames are larger. */
const ORDINARY_PAYLOAD = 1460;
const JUMBO_PAYLOAD = 8960;
/** Packets that fill a segment have at least this payload. */
const SHORTEST_STEP = 400;
/** Share of the offsets that are a multiple of the payload on the wire: retransmissions may begin anywhere. */
const MOST_OFFSETS = 0.9;
/** Number of lengths or offsets examined. */
const MAX_LENGTHS = 10_000;

/** A captured packet: its time, and its index among the packets of its flow and side. */
export interface Sighting {
  timeNs: number;
  number: number;
}

/** Bytes that both points saw in one packet each. */
export interface Piece {
  sent: Sighting;
  arrived: Sighting;
  /** Number of packets on the wire whose last byte is among them. */
  packets: number;
  /** The last byte of one of the packets is included: it gives the delay. */
  last: boolean;
}

export interface MergedFlow {
  flow: number;
  pieces: Piece[];
  /** Packets on the wire: matched, and the excess over those captured. */
  matched: number;
  moreSent: number;
  moreArrived: number;
  /** Packets that were counted as unmatched and are now resolved, with their position in time; and what remains lost or appeared of them. */
  resolved: { sent: Sighting; lost: number }[];
  arrivals: { arrived: Sighting; appeared: number }[];
  /**
   * The same bytes a second time: where they arrive and, right behind each other, where they are sent (a mirror, several interfaces). In packets on the wire.
   */
  arrivedTwice: { seen: Sighting; packets: number }[];
  sentTwice: { seen: Sighting; packets: number }[];
  bytes: number;
  /** Payload of a full packet on the wire. */
  wirePayload: number;
}

interface Segment extends Sighting {
  /** Identical packets have the same. */
  mark: number;
  /** Position in the stream, unwrapped. */
  from: number;
  to: number;
  /** Its bytes matched with a partner. */
  met: Range[];
  /** Payload of its packets on the wire, and their number. */
  wirePayload: number;
  packets: number;
}

type Range = [number, number];

interface Overlap {
  from: Segment;
  to: Segment;
  bytes: Range[];
  last: boolean;
}

/** Matches the segments of one flow: `sent` at the point where its packets are sent. Returns null if none was merged. */
export function matchRanges(
  flow: number,
  sent: readonly LonePacket[],
  arrived: readonly LonePacket[],
  windowNs: number,
): MergedFlow | null {
  const origin = sent[0]?.tcp?.sequence ?? 0;
  const [from, to] = [segmentsOf(sent, origin), segmentsOf(arrived, origin)];
  const wirePayload = payloadOnWire(from, to, windowNs);
  for (const s of [...from, ...to]) {
    s.wirePayload = wirePayload;
    s.packets = Math.max(1, Math.ceil((s.to - s.from) / wirePayload));
  }
  const sentTwice = besideEqual(from);
  const once = from.filter((s) => !sentTwice.has(s));
  const overlaps = join(once, to, windowNs);
  if (overlaps.length === 0 || !wereMerged(overlaps)) return null;
  const total = (list: Segment[], pick: (s: Segment) => number) => list.reduce((n, s) => n + pick(s), 0);
  // Segments lost completely also count in packets on the wire.
  const arrivedTwice = copiesIn(to, windowNs);
  const touched = once.filter((s) => s.met.length > 0 || s.packets > 1);
  const reached = to.filter((s) => (s.met.length > 0 || s.packets > 1) && !arrivedTwice.has(s));
  const matched = Math.max(total(touched, matchedOf), 0);
  return {
    flow,
    pieces: overlaps.map(({ from: s, to: a, bytes, last }) => ({
      sent: s,
      arrived: a,
      packets: endsIn(s, bytes),
      last,
    })),
    matched,
    moreSent: total(touched, (s) => s.packets - 1),
    // As many arrived as were matched, plus the unmatched rest of those packets.
    moreArrived: matched + total(reached, (s) => s.packets - matchedOf(s)) - reached.length,
    resolved: touched.map((s) => ({ sent: s, lost: s.packets - matchedOf(s) })),
    arrivals: reached.map((s) => ({ arrived: s, appeared: s.packets - matchedOf(s) })),
    arrivedTwice: [...arrivedTwice].map((s) => ({ seen: s, packets: s.packets })),
    sentTwice: [...sentTwice].map((s) => ({ seen: s, packets: s.packets })),
    bytes: total(from, (s) => s.met.reduce((n, [x, y]) => n + y - x, 0)),
    wirePayload,
  };
}

/**
 * Segments longer than a frame were merged. Shorter ones that overlap may be other packets of the stream: they were merged if most overlaps begin and end where
 * packets on the wire do.
 */
function wereMerged(overlaps: readonly Overlap[]): boolean {
  const long = overlaps.some(({ from, to }) => [from, to].some((s) => s.to - s.from > ORDINARY_PAYLOAD));
  return long || overlaps.filter(isOfWholePackets).length > overlaps.length / 2;
}

/** Returns whether the packets merged in either segment can be those of the other; a segment that arrived may also consist of packets of any length. */
function isOfWholePackets({ from, to }: Overlap): boolean {
  const arrived = to.met.reduce((n, [x, y]) => n + y - x, 0);
  return isCutBetweenPackets(from, to) && (arrived === to.to - to.from || isCutBetweenPackets(to, from));
}

/** Returns whether the part of a segment that the other one has begins and ends between packets on the wire. */
function isCutBetweenPackets({ from, to, wirePayload }: Segment, other: Segment): boolean {
  const length = other.to - other.from;
  const isBetween = (place: number) =>
    place <= from || place >= to || (place - from) % wirePayload === 0 || (place - from) % length === 0;
  return isBetween(other.from) && isBetween(other.to);
}

/** Returns segments that are repeated right behind themselves: seen twice, by a mirror or on two interfaces, and sent once. */
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

/** Returns segments without any matched byte, all of whose bytes were matched in others around that time. */
function copiesIn(segments: readonly Segment[], withinNs: number): Set<Segment> {
  const met = segments.filter((s) => s.met.length > 0).sort((a, b) => a.from - b.from);
  const longest = met.reduce((n, s) => Math.max(n, s.to - s.from), 0);
  const copies = new Set<Segment>();
  for (const s of segments) {
    if (s.met.length > 0) continue;
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

/** Returns the index of the first segment, in stream order, that begins at `from` or later. */
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

/** Number of packets on the wire with a matched last byte. */
const matchedOf = (s: Segment) => endsIn(s, s.met);

/** Number of packets of a segment that end in these ranges: all are full but the last one. */
function endsIn({ from, to, wirePayload, packets }: Segment, ranges: readonly Range[]): number {
  let ends = 0;
  for (let k = 1; k <= packets; k++) {
    const end = Math.min(to, from + k * wirePayload);
    if (ranges.some(([x, y]) => x < end && end <= y)) ends++;
  }
  return ends;
}

/**
 * Returns the payload of a full packet on the wire: the longest at the point with the shorter ones, if these fit ordinary frames. If both points merge, segments
 * begin inside others after a number of full packets; otherwise, the longest seen that a frame carries.
 */
function payloadOnWire(sent: readonly Segment[], arrived: readonly Segment[], windowNs: number): number {
  const longest = (list: readonly Segment[]) => list.reduce((n, s) => Math.max(n, s.to - s.from), 0);
  const finer = Math.min(longest(sent), longest(arrived));
  const offsets = offsetsInside(sent, arrived, windowNs);
  const coarser = Math.max(longest(sent), longest(arrived));
  // Only the short rest of a long segment may have arrived alone.
  const isRest = finer < SHORTEST_STEP && coarser > ORDINARY_PAYLOAD && !isStep(finer, offsets);
  if (finer > 0 && finer <= ORDINARY_PAYLOAD && !isRest) return finer;
  const lengths = [...sent, ...arrived].map((s) => s.to - s.from);
  const ordinary = lengths.filter((n) => n <= ORDINARY_PAYLOAD);
  const known = Math.max(0, ...ordinary.slice(0, MAX_LENGTHS));
  if (offsets.length > 0) return commonStep(offsets, known);
  if (known > 0) return known;
  const jumbo = lengths.filter((n) => n <= JUMBO_PAYLOAD);
  // All are merged: the packet size is unknown.
  return jumbo.length > 0 ? Math.max(...jumbo.slice(0, MAX_LENGTHS)) : ORDINARY_PAYLOAD - 12;
}

/** Returns how far inside segments of the other point some begin. */
function offsetsInside(sent: readonly Segment[], arrived: readonly Segment[], windowNs: number): number[] {
  const offsets: number[] = [];
  for (const [outer, inner] of [
    [sent, arrived],
    [arrived, sent],
  ] as const) {
    const byPlace = [...inner].sort((a, b) => a.from - b.from);
    for (const s of outer)
      for (let i = firstFrom(byPlace, s.from + 1); offsets.length < MAX_LENGTHS; i++) {
        const other = byPlace[i];
        if (!other || other.from >= s.to) break;
        if (Math.abs(other.timeNs - s.timeNs) <= windowNs) offsets.push(other.from - s.from);
      }
  }
  return offsets;
}

/** Returns whether nearly all offsets are a multiple of it. */
function isStep(step: number, offsets: readonly number[]): boolean {
  return offsets.filter((n) => n % step === 0).length >= MOST_OFFSETS * offsets.length;
}

/** Returns the longest payload of an ordinary frame that nearly all offsets are a multiple of: `known` if it is one, else the part of a short offset; `known` or
 * a usual one if there is none. */
function commonStep(offsets: readonly number[], known: number): number {
  if (known >= SHORTEST_STEP && isStep(known, offsets)) return known;
  const shortest = [...offsets].sort((a, b) => a - b)[Math.floor((1 - MOST_OFFSETS) * offsets.length)] ?? 0;
  for (let parts = Math.ceil(shortest / ORDINARY_PAYLOAD); shortest / parts >= SHORTEST_STEP; parts++)
    if (shortest % parts === 0 && isStep(shortest / parts, offsets)) return shortest / parts;
  return known >= SHORTEST_STEP ? known : ORDINARY_PAYLOAD - 12;
}

function segmentsOf(packets: readonly LonePacket[], origin: number): Segment[] {
  let offset = 0;
  return packets.flatMap((p, number) => {
    if (p.payload <= 0) return [];
    // Sequence numbers wrap: take the position closest to the previous segment.
    const from = p.tcp ? offset + ((p.tcp.sequence - origin - offset) | 0) : 0;
    offset = from;
    const place = { from, to: from + p.payload };
    return [
      { timeNs: p.timeNs, number, mark: p.mark, ...place, met: [], wirePayload: p.payload, packets: 1 },
    ];
  });
}

/** Assigns arriving bytes to their latest earlier transmission. */
function join(sent: Segment[], arrived: Segment[], windowNs: number): Overlap[] {
  const overlaps: Overlap[] = [];
  // In stream order, to find those that overlap; the longest one limits how far back to look.
  const byPlace = [...sent].sort((a, b) => a.from - b.from);
  const longest = sent.reduce((n, s) => Math.max(n, s.to - s.from), 0);
  for (const a of arrived) {
    const overlapping: Segment[] = [];
    for (let i = firstFrom(byPlace, a.from - longest); i < byPlace.length; i++) {
      const s = byPlace[i];
      if (!s || s.from >= a.to) break;
      // The same bytes in a packet of the same length were not merged: it is another transmission of them.
      if (s.from === a.from && s.to === a.to) continue;
      if (s.to > a.from && Math.abs(a.timeNs - s.timeNs) <= windowNs) overlapping.push(s);
    }
    overlapping.sort((x, y) => y.timeNs - x.timeNs);
    let missing: Range[] = [[a.from, a.to]];
    for (const s of overlapping) {
      const free = subtract([[Math.max(s.from, a.from), Math.min(s.to, a.to)]], s.met);
      const got = intersect(free, missing);
      if (got.length === 0) continue;
      missing = subtract(missing, got);
      s.met.push(...got);
      a.met.push(...got);
      // The last byte of both, or of a shorter segment that ends where the longer one does.
      const last = s.to === a.to && got.some(([, end]) => end === a.to);
      overlaps.push({ from: s, to: a, bytes: got, last });
    }
  }
  return overlaps;
}

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
