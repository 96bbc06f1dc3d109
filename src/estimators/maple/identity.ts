/**
 * What a packet is known by in a store. Two identities, each with a store of its own, because neither can stand for the other:
 *
 *   digest     everything that survives a hop, payload included: right for every packet; asked by who has the packet or its digest
 *   flow-ipid  flow key and IP identification (MAPLE, section 4): can be asked in ranges, without the packets. A digest cannot be made from
 *              them (it covers the payload). Packets without an IPID (most of IPv6), with IPID 0, or with one used twice by a flow in
 *              an epoch share a key: the first is kept, the others are counted as left out.
 */
import type { PacketIdentity } from "../estimator.ts";

export type Identity = PacketIdentity;
export const IDENTITIES: readonly Identity[] = ["digest", "flow-ipid"];

/** Different hashes for the two stores of an epoch. */
const SALT: Record<Identity, bigint> = {
  digest: 0x6d61_706c_655f_6469n,
  "flow-ipid": 0x6d61_706c_655f_6670n,
};

export function storeSeed(seed: bigint, identity: Identity): bigint {
  return BigInt.asUintN(64, seed ^ SALT[identity]);
}
