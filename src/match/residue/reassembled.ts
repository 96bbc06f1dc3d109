/**
 * Packets that neither point captured whole: cut from a long segment by a card and fragmented behind it, or reassembled from fragments and merged. Fragments
 * that together are a packet are taken as that packet, so that its bytes can be found in the long segment.
 */
import type { LonePacket } from "./collect.ts";

/** Maximum time between the fragments of a packet. */
const APART_NS = 1e9;

export interface Reassembled {
  parts: LonePacket[];
  /** The packet, as captured when its last fragment was; null if fragments are missing. */
  packet: LonePacket | null;
}

/** Groups fragments, in time order, by packet. */
export function reassemble(fragments: readonly LonePacket[]): Reassembled[] {
  const open = new Map<string, LonePacket[]>();
  const sets: LonePacket[][] = [];
  for (const p of fragments) {
    const name = `${p.between},${p.identification}`;
    const set = open.get(name);
    const [first] = set ?? [];
    const known = set?.some((q) => q.fragment?.offset === p.fragment?.offset);
    if (set && first && !known && p.timeNs - first.timeNs <= APART_NS) {
      set.push(p);
      continue;
    }
    const fresh = [p];
    open.set(name, fresh);
    sets.push(fresh);
  }
  return sets.map((parts) => ({ parts, packet: wholeOf(parts) }));
}

function wholeOf(parts: readonly LonePacket[]): LonePacket | null {
  const offset = (p: LonePacket) => p.fragment?.offset ?? 0;
  const sorted = [...parts].sort((a, b) => offset(a) - offset(b));
  const [first] = sorted;
  let end = 0;
  for (const p of sorted) {
    if (offset(p) !== end) return null;
    end += p.transportBytes;
  }
  if (!first?.opening || sorted.at(-1)?.fragment?.more !== false) return null;
  const { header, tcp, content } = first.opening;
  return {
    ...first,
    timeNs: parts.reduce((n, p) => Math.max(n, p.timeNs), first.timeNs),
    length: first.length - first.transportBytes + end,
    transportBytes: end,
    payload: end - header,
    tcp,
    content,
    fragment: null,
    opening: null,
  };
}
