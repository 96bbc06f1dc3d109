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

/** Maximum number of long datagrams tried as owner of pieces, from the last owner on. */
const MAX_LOOKED_AT = 64;
/** If this share of the complete runs of pieces begins with the number of a long datagram, the numbers are used. */
const NUMBERED = 0.9;

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
  const runs = atSender ? runsOf(short, size) : [];
  const cuts =
    byContent(long, short, size, windowNs) ??
    (runs.length > 0 && areNumbered(long, short, runs, size)
      ? byNumber(long, short, runs, size, windowNs)
      : bySum(long, short, windowNs));
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

interface Run {
  from: number;
  to: number;
}

/** Pieces with ascending numbers, up to one shorter than the others. */
function runsOf(short: readonly LonePacket[], size: number): Run[] {
  const runs: Run[] = [];
  let from = 0;
  for (let i = 0; i < short.length; i++) {
    const [{ ipid = null, payload = 0 } = {}, next] = [short[i], short[i + 1]];
    if (ipid === null) return [];
    const rises = next?.ipid != null && ((next.ipid - ipid) & 0xffff) - 1 < 0x7fff && next.ipid !== ipid;
    if (payload === size && rises) continue;
    runs.push({ from, to: i + 1 });
    from = i + 1;
  }
  return runs;
}

function areNumbered(
  long: readonly LonePacket[],
  short: readonly LonePacket[],
  runs: readonly Run[],
  size: number,
): boolean {
  const numbers = new Set(long.map((p) => p.ipid));
  const complete = runs.filter(({ from, to }) => {
    const last = short[to - 1];
    return to - from > 1 && last !== undefined && last.payload < size;
  });
  const tested = complete.length > 0 ? complete : runs.filter(({ from, to }) => to - from > 1);
  const fit = tested.filter(({ from }) => numbers.has(short[from]?.ipid ?? null));
  return tested.length > 0 && fit.length >= NUMBERED * tested.length;
}

/** Assigns each run of pieces to the long datagram whose numbers it continues: preferably to one with the number that it begins with. */
function byNumber(
  long: readonly LonePacket[],
  short: readonly LonePacket[],
  runs: readonly Run[],
  size: number,
  windowNs: number,
): Cut[] {
  const cuts: Cut[] = [];
  let next = 0;
  for (const run of runs) {
    let found: Cut | null = null;
    for (let w = next; w < Math.min(long.length, next + MAX_LOOKED_AT); w++) {
      const whole = long[w];
      const first = short[run.from];
      if (!whole || !first || whole.timeNs > first.timeNs + windowNs) break;
      if (first.timeNs - whole.timeNs > windowNs) continue;
      const ends = placesIn(whole, short, run, size);
      if (ends === null) continue;
      const cut = { whole: w, parts: range(run), pieces: Math.ceil(whole.payload / size), ends };
      found ??= cut;
      if (whole.ipid !== first.ipid) continue;
      found = cut;
      break;
    }
    if (found === null) continue;
    next = found.whole + 1;
    cuts.push(found);
  }
  return cuts;
}

/** Returns whether the last piece of `whole` is in the run; null if the run does not belong to it. */
function placesIn(
  { ipid, payload }: LonePacket,
  short: readonly LonePacket[],
  { from, to }: Run,
  size: number,
): boolean | null {
  if (ipid === null) return null;
  const pieces = Math.ceil(payload / size);
  let place = -1;
  for (const piece of short.slice(from, to)) {
    const at = ((piece.ipid ?? 0) - ipid) & 0xffff;
    const length = at === pieces - 1 ? payload - at * size : size;
    if (at <= place || at >= pieces || piece.payload !== length) return null;
    place = at;
  }
  return place === pieces - 1;
}

const range = ({ from, to }: Run) => Array.from({ length: to - from }, (_, i) => from + i);

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
 * Assigns each piece to the first position within the window with the same first bytes and length. Returns null if the long ones were not captured completely.
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
  for (const [place, { content, payload, timeNs }] of short.entries()) {
    if (!content || content.length < Math.min(KNOWN_BY, payload)) return null;
    const list = slots.get(nameOf(content, 0, payload)) ?? [];
    const at = list.findIndex(({ whole }) => Math.abs((long[whole]?.timeNs ?? 0) - timeNs) <= windowNs);
    const [slot] = at < 0 ? [] : list.splice(at, 1);
    if (!slot) continue;
    found.set(slot.whole, [...(found.get(slot.whole) ?? []), { place, piece: slot.piece }]);
  }
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
    cuts.push({ whole: w, parts: range({ from, to }), pieces: to - from, ends: true });
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
