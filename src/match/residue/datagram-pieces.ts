/**
 * UDP segmentation offload: a long datagram at one point, and the datagrams it was split into at the other. UDP has no byte numbers. If the long ones were
 * captured completely, a piece is identified by its first bytes. Otherwise, over IPv4, Linux numbers the pieces consecutively from the identification of the
 * long one, which shows which pieces are missing. If they are not numbered either, a long datagram is matched only if the first piece begins as it does, and
 * the lengths of consecutive pieces add up to it.
 */
import type { MergedFlow } from "./byte-ranges.ts";
import { KNOWN_BY, type LonePacket } from "./collect.ts";

/** Pieces of one long datagram. */
interface Cut {
  /** Index of the long datagram in its list. */
  whole: number;
  /** Indices of the pieces in the list of the other side. */
  parts: number[];
  /** Number of pieces on the wire, and whether the last one was found. */
  pieces: number;
  ends: boolean;
}

/** Numbers are used if they fit for this share of the pieces, and for this many times those that they fit for by chance. */
const NUMBERED = 0.8;
const TIMES_CHANCE = 2;
const HALF_OF_NUMBERS = 0x8000;

/** Returns null if no datagram was split. */
export function matchPieces(
  flow: number,
  sent: readonly LonePacket[],
  arrived: readonly LonePacket[],
  windowNs: number,
): MergedFlow | null {
  const atSender = longest(sent) >= longest(arrived);
  const [long, short] = atSender ? [sent, arrived] : [arrived, sent];
  const size = longest(short);
  const cuts =
    byContent(long, short, size, windowNs) ??
    byNumber(long, short, size, windowNs) ??
    bySum(long, short, windowNs);
  if (cuts.length === 0) return null;
  const merged: MergedFlow = {
    flow,
    pieces: [],
    matched: 0,
    moreSent: 0,
    moreArrived: 0,
    resolved: [],
    arrivals: [],
    arrivedTwice: [],
    sentTwice: [],
    bytes: 0,
    wirePayload: size,
  };
  for (const cut of cuts) addCut(merged, cut, long, short, atSender);
  // Datagrams lost completely also count in packets on the wire.
  const met = new Set(cuts.map((cut) => cut.whole));
  for (const [number, { timeNs, payload }] of long.entries()) {
    const pieces = Math.ceil(payload / size);
    if (met.has(number) || pieces < 2) continue;
    if (atSender) {
      merged.moreSent += pieces - 1;
      merged.resolved.push({ sent: { timeNs, number }, lost: pieces });
    } else {
      merged.moreArrived += pieces - 1;
      merged.arrivals.push({ arrived: { timeNs, number }, appeared: pieces });
    }
  }
  return merged;
}

/** Returns how many pieces remain at both points although long datagrams were split: too little of them was captured to tell to which they belong. */
export function countUnassigned(
  sent: readonly LonePacket[],
  arrived: readonly LonePacket[],
  matched: number,
): number {
  const [long, short] = longest(sent) >= longest(arrived) ? [sent, arrived] : [arrived, sent];
  const size = longest(short);
  const pieces = long.reduce((n, p) => n + (p.payload > size ? Math.ceil(p.payload / size) : 0), 0);
  return Math.max(0, Math.min(pieces, short.length) - matched);
}

function addCut(
  merged: MergedFlow,
  { whole, parts: places, pieces, ends }: Cut,
  long: readonly LonePacket[],
  short: readonly LonePacket[],
  atSender: boolean,
): void {
  const one = { timeNs: long[whole]?.timeNs ?? 0, number: whole };
  const parts = places.map((place) => short[place]).filter((p) => p !== undefined);
  const many = parts.map(({ timeNs }, i) => ({ timeNs, number: places[i] ?? 0 }));
  for (const [i, piece] of many.entries()) {
    const [sent, arrived] = atSender ? [one, piece] : [piece, one];
    merged.pieces.push({ sent, arrived, packets: 1, last: ends && i === many.length - 1 });
  }
  merged.matched += parts.length;
  merged.bytes += parts.reduce((n, p) => n + p.payload, 0);
  if (atSender) merged.moreSent += pieces - 1;
  else merged.moreArrived += pieces - 1;
  for (const p of atSender ? many : [one]) merged.arrivals.push({ arrived: p, appeared: 0 });
  for (const p of atSender ? [one] : many)
    merged.resolved.push({ sent: p, lost: atSender ? pieces - parts.length : 0 });
}

/**
 * Assigns each piece to the long datagram whose numbers include its own, and which has a piece of that length there. Identifications repeat: of several, the one
 * whose delay is closest to that of pieces with one possible datagram. Returns null if pieces are not numbered that way.
 */
function byNumber(
  long: readonly LonePacket[],
  short: readonly LonePacket[],
  size: number,
  windowNs: number,
): Cut[] | null {
  const byId = new Map<number, number[]>();
  for (const [whole, { ipid }] of long.entries())
    if (ipid !== null) byId.set(ipid, [...(byId.get(ipid) ?? []), whole]);
  const most = Math.ceil(longest(long) / size);
  const numbered = { long, byId, size, most, windowNs };
  const slots = short.map((piece) => slotsOf(piece, numbered));
  const fitting = slots.filter((list) => list.length > 0).length;
  // Other numbers show how many would fit by chance.
  const byChance = short.filter((p) => slotsOf(p, numbered, HALF_OF_NUMBERS).length > 0).length;
  if (fitting < NUMBERED * short.length || fitting < TIMES_CHANCE * byChance) return null;
  // Senders number all their packets consecutively: only a first piece has the number of its datagram.
  if (!slots.some((list) => list.some(({ piece }) => piece === 0))) return null;
  const delayOf = (place: number, { whole }: Slot) =>
    (short[place]?.timeNs ?? 0) - (long[whole]?.timeNs ?? 0);
  const sure = slots.flatMap((list, place) => (list.length === 1 ? list.map((s) => delayOf(place, s)) : []));
  const usualNs = sure.sort((a, b) => a - b)[sure.length >> 1] ?? 0;
  const found = new Map<number, { place: number; piece: number }[]>();
  const taken = new Set<string>();
  for (const [place, list] of slots.entries()) {
    const away = (slot: Slot) => Math.abs(delayOf(place, slot) - usualNs);
    const [slot] = list
      .filter(({ whole, piece }) => !taken.has(`${whole},${piece}`))
      .sort((a, b) => away(a) - away(b));
    if (!slot) continue;
    taken.add(`${slot.whole},${slot.piece}`);
    found.set(slot.whole, [...(found.get(slot.whole) ?? []), { place, piece: slot.piece }]);
  }
  return cutsOf(found, long, size);
}

interface Numbered {
  long: readonly LonePacket[];
  byId: ReadonlyMap<number, number[]>;
  size: number;
  /** Number of pieces of the longest datagram. */
  most: number;
  windowNs: number;
}

/** Returns the positions in long datagrams that have the number, the length and, at the start of one, the first bytes of a piece. */
function slotsOf(p: LonePacket, { long, byId, size, most, windowNs }: Numbered, shift = 0): Slot[] {
  if (p.ipid === null) return [];
  const slots: Slot[] = [];
  for (let piece = 0; piece < most; piece++)
    for (const whole of byId.get((p.ipid - piece + shift) & 0xffff) ?? []) {
      const { payload = 0, timeNs = 0, content = null } = long[whole] ?? {};
      const length = Math.min(size, payload - piece * size);
      if (payload <= size || p.payload !== length || Math.abs(p.timeNs - timeNs) > windowNs) continue;
      if (piece > 0 || beginsAlike(p.content, content)) slots.push({ whole, piece });
    }
  return slots;
}

function cutsOf(
  found: ReadonlyMap<number, { place: number; piece: number }[]>,
  long: readonly LonePacket[],
  size: number,
): Cut[] {
  return [...found].map(([whole, parts]) => {
    const pieces = Math.ceil((long[whole]?.payload ?? 0) / size);
    parts.sort((a, b) => a.piece - b.piece);
    return {
      whole,
      parts: parts.map(({ place }) => place),
      pieces,
      ends: parts.at(-1)?.piece === pieces - 1,
    };
  });
}

/** Compares as far as both are known. */
function beginsAlike(a: Uint8Array | null | undefined, b: Uint8Array | null): boolean {
  if (!a || !b) return true;
  const common = Math.min(a.length, b.length, KNOWN_BY);
  return a.subarray(0, common).every((byte, i) => byte === b[i]);
}

/** A position in a long datagram where a piece begins. */
interface Slot {
  whole: number;
  piece: number;
}

/**
 * Assigns each piece to the first position within the window with the same first bytes and length. Returns null if the long ones were not captured completely,
 * or if all of these pieces begin with one repeated byte: padding looks the same in all datagrams.
 */
function byContent(
  long: readonly LonePacket[],
  short: readonly LonePacket[],
  size: number,
  windowNs: number,
): Cut[] | null {
  const slots = new Map<string, Slot[]>();
  const nameOf = (content: Uint8Array, at: number, length: number) =>
    `${length} ${content.subarray(at, at + Math.min(KNOWN_BY, length)).join()}`;
  for (const [whole, { content, payload }] of long.entries()) {
    // A datagram no longer than the pieces was not split, or is the rest of one that was.
    if (payload <= size) continue;
    if (!content || content.length < payload) return null;
    for (let piece = 0; piece * size < payload; piece++) {
      const name = nameOf(content, piece * size, Math.min(size, payload - piece * size));
      const list = slots.get(name);
      if (list) list.push({ whole, piece });
      else slots.set(name, [{ whole, piece }]);
    }
  }
  const found = new Map<number, { place: number; piece: number }[]>();
  let padded = true;
  for (const [place, { content, payload, timeNs }] of short.entries()) {
    if (!content || content.length < Math.min(KNOWN_BY, payload)) return null;
    const list = slots.get(nameOf(content, 0, payload)) ?? [];
    const at = list.findIndex(({ whole }) => Math.abs((long[whole]?.timeNs ?? 0) - timeNs) <= windowNs);
    const [slot] = at < 0 ? [] : list.splice(at, 1);
    if (!slot) continue;
    found.set(slot.whole, [...(found.get(slot.whole) ?? []), { place, piece: slot.piece }]);
    padded &&= isPadding(content.subarray(0, Math.min(KNOWN_BY, payload)));
  }
  return padded && found.size > 0 ? null : cutsOf(found, long, size);
}

function isPadding(content: Uint8Array): boolean {
  return content.every((byte) => byte === content[0]);
}

/** Matches long datagrams with consecutive pieces whose lengths add up to them. */
function bySum(long: readonly LonePacket[], short: readonly LonePacket[], windowNs: number): Cut[] {
  const cuts: Cut[] = [];
  let next = 0;
  for (const [w, whole] of long.entries()) {
    const from = firstWithin(short, next, whole, windowNs);
    if (from < 0) continue;
    const size = short[from]?.payload ?? 0;
    let bytes = 0;
    let to = from;
    while (to < short.length && bytes < whole.payload && (short[to]?.payload ?? 0) <= size)
      bytes += short[to++]?.payload ?? 0;
    if (bytes !== whole.payload || to - from < 2) continue;
    cuts.push({
      whole: w,
      parts: Array.from({ length: to - from }, (_, i) => from + i),
      pieces: to - from,
      ends: true,
    });
    next = to;
  }
  return cuts;
}

/** Returns the first of `packets`, in time order, that may be a piece of `whole`; -1 if there is none. */
function firstWithin(
  packets: readonly LonePacket[],
  from: number,
  whole: LonePacket,
  windowNs: number,
): number {
  for (let i = from; i < packets.length; i++) {
    const { timeNs = 0, payload = 0 } = packets[i] ?? {};
    if (timeNs > whole.timeNs + windowNs) return -1;
    const fits = payload < whole.payload && timeNs >= whole.timeNs - windowNs;
    if (fits && beginsAlike(packets[i]?.content, whole.content)) return i;
  }
  return -1;
}

const longest = (packets: readonly LonePacket[]) => packets.reduce((n, p) => Math.max(n, p.payload), 0);
