/**
 * What a packet is known by in a store. Two identities, each with a store of its own, because neither can stand for the other:
 *
 *   digest     everything that survives a hop, payload included: right for every packet; asked by who has the packet or its digest
 *   flow-ipid  flow key and IP identification (MAPLE, section 4): can be asked in ranges, without the packets. A digest cannot be made from
 *              them (it covers the payload). Packets without an IPID (most of IPv6), with IPID 0, or with one used twice by a flow in
 *              an epoch share a key: the first is kept, the others are counted as left out.
 */
import type { Kernels } from "../../base/kernels.ts";

export type Identity = "digest" | "flow-ipid";
export const IDENTITIES: readonly Identity[] = ["digest", "flow-ipid"];

/** Different hashes for the two stores of an epoch. */
const SALT: Record<Identity, bigint> = {
  digest: 0x6d61_706c_655f_6469n,
  "flow-ipid": 0x6d61_706c_655f_6670n,
};

export function storeSeed(seed: bigint, identity: Identity): bigint {
  return BigInt.asUintN(64, seed ^ SALT[identity]);
}

/** Key of the packet of a flow (its hash) with this IPID. */
export function flowPacketKey(kernels: Kernels, flowHash: bigint, ipid: number): bigint {
  return BigInt.asUintN(64, kernels.call.flowPacketKey!(flowHash, ipid & 0xffff) as bigint);
}

/** Keys of all IPIDs of the ranges, in their order. */
export function flowPacketKeys(
  kernels: Kernels,
  flowHash: bigint,
  ranges: readonly IpidRange[],
): BigUint64Array {
  const count = ranges.reduce((n, r) => n + r.last - r.first + 1, 0);
  const at = kernels.alloc(Math.max(8, 8 * count));
  let done = 0;
  for (const { first, last } of ranges) {
    kernels.call.flowPacketKeys!(flowHash, first, last - first + 1, at + 8 * done);
    done += last - first + 1;
  }
  const keys = kernels.u64.slice(at >>> 3, (at >>> 3) + count);
  kernels.free(at);
  return keys;
}

/** Both ends included; 0 <= first <= last <= 65535. */
export interface IpidRange {
  first: number;
  last: number;
}

/** The fewest ranges that hold these IPIDs and no others, ascending. */
export function ipidRanges(ipids: Iterable<number>): IpidRange[] {
  const sorted = Uint16Array.from(new Set(ipids)).sort();
  const ranges: IpidRange[] = [];
  for (const ipid of sorted) {
    const current = ranges.at(-1);
    if (current && current.last + 1 === ipid) current.last = ipid;
    else ranges.push({ first: ipid, last: ipid });
  }
  return ranges;
}
