/**
 * How a packet is identified in a store. There are two identities, each with its own store, because neither can replace the other:
 *
 *   digest     everything that does not change at a hop, including payload: works for every packet; requires the packet or its digest
 *   flow-ipid  flow key and IP identification (MAPLE, section 4): can be looked up in ranges, without the packets. The digest cannot be computed
 *              from them, because it covers the payload. Packets without an IPID (most of IPv6), with IPID 0, or with an IPID that a flow uses
 *              twice in an epoch share a key: the first is stored, the others are counted as left out.
 */
import type { PacketIdentity } from "../estimator.ts";

export type Identity = PacketIdentity;
export const IDENTITIES: readonly Identity[] = ["digest", "flow-ipid"];

/** Gives the two stores of an epoch different hashes. */
const SALT: Record<Identity, bigint> = {
  digest: 0x6d61_706c_655f_6469n,
  "flow-ipid": 0x6d61_706c_655f_6670n,
};

export function storeSeed(seed: bigint, identity: Identity): bigint {
  return BigInt.asUintN(64, seed ^ SALT[identity]);
}
