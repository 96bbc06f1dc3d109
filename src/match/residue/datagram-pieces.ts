/**
 * UDP segmentation offload: a long datagram at one point, and the datagrams it is sent as at the other. UDP has no byte numbers. The pieces follow each other; over
 * IPv4 Linux numbers them on from the identification of the long one, which shows the pieces that are missing. Where it does not, a long one is
 * matched only if the lengths of all its pieces make it up.
 */
import type { MergedFlow } from "./byte-ranges.ts";
import type { LonePacket } from "./collect.ts";

/** The pieces of one long datagram: places in the list of the other side, in order. */
interface Found {
  from: number;
  to: number;
  /** Pieces on the wire, and whether the last one is among those found. */
  pieces: number;
  ends: boolean;
}

/** Null where no datagram was cut. */
export function matchPieces(
  flow: number,
  sent: readonly LonePacket[],
  arrived: readonly LonePacket[],
  windowNs: number,
): MergedFlow | null {
  const merged: MergedFlow = {
    flow,
    pieces: [],
    matched: 0,
    moreSent: 0,
    moreArrived: 0,
    resolved: [],
    arrivals: [],
    bytes: 0,
  };
  const [long, short, atSender] =
    longest(sent) >= longest(arrived) ? [sent, arrived, true] : [arrived, sent, false];
  const size = longest(short);
  const missed: { timeNs: number; number: number; pieces: number }[] = [];
  let next = 0;
  for (const [number, whole] of long.entries()) {
    const start = firstWithin(short, next, whole, windowNs);
    const found =
      start < 0
        ? null
        : ((atSender ? byNumber(short, start, whole, size) : null) ?? bySum(short, start, whole));
    const one = { timeNs: whole.timeNs, number };
    if (found === null) {
      if (whole.payload > size) missed.push({ ...one, pieces: Math.ceil(whole.payload / size) });
      continue;
    }
    next = found.to;
    const parts = short.slice(found.from, found.to);
    const many = parts.map(({ timeNs }, i) => ({ timeNs, number: found.from + i }));
    for (const [i, piece] of many.entries()) {
      const [from, to] = atSender ? [one, piece] : [piece, one];
      merged.pieces.push({ sent: from, arrived: to, packets: 1, last: found.ends && i === many.length - 1 });
    }
    merged.matched += parts.length;
    merged.bytes += parts.reduce((n, p) => n + p.payload, 0);
    if (atSender) merged.moreSent += found.pieces - 1;
    else merged.moreArrived += found.pieces - 1;
    for (const p of atSender ? many : [one]) merged.arrivals.push({ arrived: p, appeared: 0 });
    for (const p of atSender ? [one] : many)
      merged.resolved.push({ sent: p, lost: atSender ? found.pieces - parts.length : 0 });
  }
  if (merged.matched === 0) return null;
  // What is lost altogether is lost in packets of the wire, too.
  for (const { pieces, ...one } of missed) {
    if (atSender) {
      merged.moreSent += pieces - 1;
      merged.resolved.push({ sent: one, lost: pieces });
    } else {
      merged.moreArrived += pieces - 1;
      merged.arrivals.push({ arrived: one, appeared: pieces });
    }
  }
  return merged;
}

/** The pieces from `start` on that carry on the identification of `whole`; null where the first does not. */
function byNumber(
  short: readonly LonePacket[],
  start: number,
  whole: LonePacket,
  size: number,
): Found | null {
  if (whole.ipid === null) return null;
  const pieces = Math.ceil(whole.payload / size);
  const rest = whole.payload - (pieces - 1) * size;
  let last = -1;
  let to = start;
  for (; to < short.length; to++) {
    const { ipid = null, payload = 0 } = short[to] ?? {};
    if (ipid === null) break;
    const place = (ipid - whole.ipid) & 0xffff;
    if (place <= last || place >= pieces || payload !== (place === pieces - 1 ? rest : size)) break;
    last = place;
  }
  return to === start ? null : { from: start, to, pieces, ends: last === pieces - 1 };
}

/** The pieces from `start` on, where their lengths make up the whole. */
function bySum(short: readonly LonePacket[], start: number, whole: LonePacket): Found | null {
  const size = short[start]?.payload ?? 0;
  let bytes = 0;
  let to = start;
  while (to < short.length && bytes < whole.payload && (short[to]?.payload ?? 0) <= size)
    bytes += short[to++]?.payload ?? 0;
  const pieces = to - start;
  return bytes === whole.payload && pieces > 1 ? { from: start, to, pieces, ends: true } : null;
}

/** The first of `packets`, which are in order of time, that may be a piece of `whole`; -1 where none is. */
function firstWithin(
  packets: readonly LonePacket[],
  from: number,
  whole: LonePacket,
  windowNs: number,
): number {
  for (let i = from; i < packets.length; i++) {
    const { timeNs = 0, payload = 0 } = packets[i] ?? {};
    if (timeNs > whole.timeNs + windowNs) return -1;
    if (payload < whole.payload && timeNs >= whole.timeNs - windowNs) return i;
  }
  return -1;
}

const longest = (packets: readonly LonePacket[]) => packets.reduce((n, p) => Math.max(n, p.payload), 0);
