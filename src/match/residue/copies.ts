/** Packets that one capture contains twice, one right behind the other (a mirror, several interfaces): the copies are set aside before fragments are assigned. */
import type { LonePacket } from "./collect.ts";

/** Maximum time between a packet and its copy by a mirror. */
export const TWICE_NS = 1e6;

export interface Separated {
  once: LonePacket[];
  /** Copies by the packet that they are copies of. */
  copies: Map<LonePacket, LonePacket[]>;
}

/** Input in time order. */
export function setCopiesAside(packets: readonly LonePacket[]): Separated {
  const last = new Map<string, { original: LonePacket; timeNs: number }>();
  const once: LonePacket[] = [];
  const copies = new Map<LonePacket, LonePacket[]>();
  for (const p of packets) {
    const name = `${p.flow},${p.mark},${p.ipid},${p.fragment?.offset},${p.length}`;
    const before = last.get(name);
    if (before && p.timeNs - before.timeNs <= TWICE_NS) {
      before.timeNs = p.timeNs;
      const list = copies.get(before.original);
      if (list) list.push(p);
      else copies.set(before.original, [p]);
    } else {
      last.set(name, { original: p, timeNs: p.timeNs });
      once.push(p);
    }
  }
  return { once, copies };
}
