// Recognises the commonest packets and extracts their keys without branches: IPv4 without options and not a fragment, TCP or UDP. Traffic mixes TCP and UDP at
// random, so a branch on it would be mispredicted. walk-plain.ts and late-digest.ts compute their digests.

import { Batch, FLAG_IPID, FLAG_LINK_LOCAL, FLAG_SHORT, META_PORTS } from "./batch";
import { be16, be32 } from "./link";

const TCP: u32 = 6;
const UDP: u32 = 17;
/** Little-endian mask of more fragments, fragment offset, and protocol. */
const WHOLE: u32 = 0xff00ff3f;
/** Smallest first byte of a multicast destination. */
const MULTICAST: u32 = 0xe0;
/** Little-endian: the EtherType and the first byte of an IPv4 header without options. */
export const TYPE_IPV4: u32 = 0x450008;

// @ts-ignore: decorator
@inline
export function isUdp(ip: usize): bool {
  return load<u8>(ip, 9) == UDP;
}

/** Returns whether the IPv4 packet without options in the Ethernet frame at `p` is TCP or UDP and not a fragment. */
// @ts-ignore: decorator
@inline
export function isWhole(p: usize): bool {
  const whole = load<u32>(p, 20) & WHOLE;
  // Both occur at random: compute without a branch.
  return (<u32>(whole == UDP << 24) | <u32>(whole == TCP << 24)) != 0;
}

/** Returns the number of bytes behind the IP header that the digest covers, if `visible` bytes are captured from the header on. */
// @ts-ignore: decorator
@inline
export function coveredOf(ip: usize, visible: u32, cover: u32): u32 {
  return min<u32>(min<u32>(visible, be16(ip + 2)), cover) - 20;
}

/** Returns FLAG_SHORT, and counts the row, if the digest would cover more than is visible. `left`: bytes on the wire from the IP header on. */
// @ts-ignore: decorator
@inline
export function shortTo(batch: Batch, row: u32, ip: usize, visible: u32, left: u32, cover: u32): u32 {
  if (visible >= min<u32>(min<u32>(be16(ip + 2), left), cover)) return 0;
  batch.shorts++;
  store<u32>(batch.captured + (row << 2), visible);
  return FLAG_SHORT;
}

/** Writes the key fields of the packet at `ip` to the columns of its row; returns its flags. */
// @ts-ignore: decorator
@inline
export function keyTo(meta: usize, addresses: usize, ip: usize): u32 {
  const proto: u32 = load<u8>(ip, 9);
  store<u64>(meta, META_PORTS | (<u64>proto << 32) | (<u64>(load<u8>(ip, 1) >> 2) << 40) | <u64>be32(ip + 20));
  store<u64>(addresses, bswap<u64>(load<u64>(ip, 12)));
  const flags = <u32>load<u8>(ip, 8) | select<u32>(0, <u32>load<u8>(ip, 33) << 8, proto == UDP) | FLAG_IPID;
  return load<u8>(ip, 16) < MULTICAST ? flags : flags | linkLocalOf(be32(ip + 16));
}

function linkLocalOf(destination: u32): u32 {
  return destination >> 8 == 0xe00000 || destination == 0xffffffff ? FLAG_LINK_LOCAL : 0;
}

/** The same for the next row of the batch. */
// @ts-ignore: decorator
@inline
export function plainKey(batch: Batch, ip: usize): u32 {
  const o = batch.count << 3;
  return keyTo(batch.meta + o, batch.addrA + o, ip);
}
