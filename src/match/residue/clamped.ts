/** SYNs with a segment size that was rewritten on the way (MSS clamping): each is one packet. */
import type { LonePacket } from "./collect.ts";

const SYN = 2;

/** A SYN at both points that differs in the announced segment size; and its copies where it arrives. */
export interface Clamped {
  sent: LonePacket;
  arrived: LonePacket;
  copies: LonePacket[];
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
    if (match) found.push({ sent: p, arrived: match, copies: [] });
  }
  for (const { arrived: first, copies } of found)
    for (const p of waiting.get(nameOf(first)) ?? [])
      if (p.tcp?.mss === first.tcp?.mss && Math.abs(p.timeNs - first.timeNs) <= windowNs) copies.push(p);
  return found;
}
