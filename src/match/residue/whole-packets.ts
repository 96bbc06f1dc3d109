/** Packets that were cut into fragments on the way, or whose options were rewritten: one packet each, whatever became of it. */
import type { LonePacket } from "./collect.ts";

/** A packet at one point and its fragments at the other. */
export interface Fragmented {
  whole: LonePacket;
  parts: LonePacket[];
  /** All of it arrived. */
  complete: boolean;
}

/** Packets of `one` of which `other` holds fragments, by addresses, protocol and identification. */
export function findFragmented(
  one: readonly LonePacket[],
  other: readonly LonePacket[],
  windowNs: number,
): Fragmented[] {
  const parts = new Map<string, LonePacket[]>();
  for (const p of other) {
    if (!p.fragment) continue;
    const list = parts.get(p.identification);
    if (list) list.push(p);
    else parts.set(p.identification, [p]);
  }
  const found: Fragmented[] = [];
  for (const whole of one) {
    if (whole.fragment) continue;
    const list = parts
      .get(whole.identification)
      ?.filter((p) => Math.abs(p.timeNs - whole.timeNs) <= windowNs);
    if (!list || list.length === 0) continue;
    // An identification comes again: those that are one packet's follow each other.
    const own = oneOfEach(list);
    for (const part of own) {
      const all = parts.get(whole.identification);
      all?.splice(all.indexOf(part), 1);
    }
    found.push({ whole, parts: own, complete: isComplete(own, whole) });
  }
  return found;
}

function oneOfEach(parts: readonly LonePacket[]): LonePacket[] {
  const seen = new Set<number>();
  return parts.filter((p) => {
    const offset = p.fragment?.offset ?? 0;
    if (seen.has(offset)) return false;
    seen.add(offset);
    return true;
  });
}

function isComplete(parts: readonly LonePacket[], whole: LonePacket): boolean {
  const sorted = [...parts].sort((a, b) => (a.fragment?.offset ?? 0) - (b.fragment?.offset ?? 0));
  let end = 0;
  for (const p of sorted) {
    if (!p.fragment || p.fragment.offset > end) return false;
    end = Math.max(end, p.fragment.offset + p.payload);
  }
  // Behind the IP header, with what the transport's header takes of it.
  return sorted.at(-1)?.fragment?.more === false && end >= whole.payload;
}

const SYN = 2;

/** A SYN at both points that differs in the segment size it announces. */
export interface Clamped {
  sent: LonePacket;
  arrived: LonePacket;
}

export function findClamped(
  sent: readonly LonePacket[],
  arrived: readonly LonePacket[],
  windowNs: number,
): Clamped[] {
  const nameOf = (p: LonePacket) => `${p.flow},${p.tcp?.sequence},${p.tcp?.flags}`;
  const waiting = new Map<string, LonePacket[]>();
  const isSyn = (p: LonePacket) => p.tcp !== null && (p.tcp.flags & SYN) !== 0 && p.tcp.mss !== null;
  for (const p of arrived) if (isSyn(p)) waiting.set(nameOf(p), [...(waiting.get(nameOf(p)) ?? []), p]);
  const found: Clamped[] = [];
  for (const p of sent) {
    if (!isSyn(p)) continue;
    const list = waiting.get(nameOf(p));
    const at = list?.findIndex((a) => a.tcp?.mss !== p.tcp?.mss && Math.abs(a.timeNs - p.timeNs) <= windowNs);
    if (!list || at === undefined || at < 0) continue;
    const [match] = list.splice(at, 1);
    if (match) found.push({ sent: p, arrived: match });
  }
  return found;
}
