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
  const numbered = identifyIpv6(one, parts, windowNs);
  for (const whole of one) {
    if (whole.fragment) continue;
    const identification = numbered.get(whole) ?? whole.identification;
    const list = parts.get(identification)?.filter((p) => Math.abs(p.timeNs - whole.timeNs) <= windowNs);
    if (!list || list.length === 0) continue;
    // An identification comes again: those that are one packet's follow each other.
    const own = oneOfEach(list);
    for (const part of own) {
      const all = parts.get(identification);
      all?.splice(all.indexOf(part), 1);
    }
    found.push({ whole, parts: own, complete: isComplete(own, whole) });
  }
  return found;
}

/**
 * Fragments of IPv6 have an identification, the packet they are of has none: it is the first one between the same hosts that is as long as they are together, as far as the last of them is
 * there, and begins as the first does, as far as that is there.
 */
function identifyIpv6(
  one: readonly LonePacket[],
  parts: ReadonlyMap<string, readonly LonePacket[]>,
  windowNs: number,
): Map<LonePacket, string> {
  const wholes = new Map<string, LonePacket[]>();
  for (const p of one) {
    if (p.fragment || !p.ipv6) continue;
    const list = wholes.get(p.ipv6.addresses);
    if (list) list.push(p);
    else wholes.set(p.ipv6.addresses, [p]);
  }
  const numbered = new Map<LonePacket, string>();
  for (const [identification, list] of parts) {
    const [any] = list;
    if (!any?.ipv6) continue;
    const candidates = wholes.get(any.ipv6.addresses) ?? [];
    const at = candidates.findIndex(
      (whole) => Math.abs(whole.timeNs - any.timeNs) <= windowNs && list.every((p) => isPartOf(p, whole)),
    );
    const [whole] = at < 0 ? [] : candidates.splice(at, 1);
    if (whole) numbered.set(whole, identification);
  }
  return numbered;
}

function isPartOf(part: LonePacket, whole: LonePacket): boolean {
  const { offset = 0, more = false } = part.fragment ?? {};
  const [own, all] = [part.ipv6, whole.ipv6];
  if (!own || !all || part.proto !== whole.proto) return false;
  const end = offset + own.transportBytes;
  if (more ? end >= all.transportBytes : end !== all.transportBytes) return false;
  if (offset > 0) return true;
  const common = Math.min(own.start.length, all.start.length);
  return part.flow === whole.flow && own.start.subarray(0, common).every((byte, i) => byte === all.start[i]);
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
