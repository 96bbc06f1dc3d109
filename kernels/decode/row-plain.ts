// The commonest packets, decoded without branches on what they are: Ethernet, IPv4 without options and not a fragment, TCP or UDP, at least PLAIN_COVER bytes long and captured
// that far. Row and digest are those of decode.ts; what is not plain is left to it. Traffic mixes TCP and UDP in any order, which a branch would have to guess.

import { Batch, FLAG_IPID, FLAG_LINK_LOCAL, META_PORTS } from "./batch";
import { avalanche, mixWord } from "./digest";
import { be16, be32 } from "./link";

/** What the digest covers here, from the IP header on. */
export const PLAIN_COVER: u32 = 64;
const ETHERNET: u32 = 14;
const TCP: u32 = 6;
const UDP: u32 = 17;
/** Little-endian: type and first byte of IPv4; more fragments, the fragment's offset, and the protocol. */
const TYPE_IPV4: u32 = 0x450008;
const WHOLE: u32 = 0xff00ff3f;

// @ts-ignore: decorator
@inline
export function isUdp(ip: usize): bool {
  return load<u8>(ip, 9) == UDP;
}

/** The IPv4 packet without options in the Ethernet frame at `p` is TCP or UDP and not a fragment. */
// @ts-ignore: decorator
@inline
export function isWhole(p: usize): bool {
  const whole = load<u32>(p, 20) & WHOLE;
  // Either comes at any time: not to be guessed.
  return (<u32>(whole == UDP << 24) | <u32>(whole == TCP << 24)) != 0;
}

/** The frame at `p`, of which this many bytes are captured and were on the wire. */
// @ts-ignore: decorator
@inline
export function isPlain(p: usize, captured: u32, wire: u32): bool {
  return (
    captured >= ETHERNET + PLAIN_COVER && wire >= captured && (load<u32>(p, 12) & 0xffffff) == TYPE_IPV4 &&
    isWhole(p) && be16(p + 16) >= PLAIN_COVER
  );
}

/** Key fields of the packet at `ip`, in the next row; returns its flags. */
// @ts-ignore: decorator
@inline
export function plainKey(batch: Batch, ip: usize): u32 {
  const o = batch.count << 3;
  const proto: u32 = load<u8>(ip, 9);
  const destination = be32(ip + 16);
  const local = <u32>(destination >> 8 == 0xe00000) | <u32>(destination == 0xffffffff);
  const tcpFlags = select<u32>(0, <u32>load<u8>(ip, 33) << 8, proto == UDP);
  store<u64>(batch.meta + o, META_PORTS | (<u64>proto << 32) | (<u64>(load<u8>(ip, 1) >> 2) << 40) | <u64>be32(ip + 20));
  store<u64>(batch.addrA + o, (<u64>be32(ip + 12) << 32) | <u64>destination);
  return <u32>load<u8>(ip, 8) | tcpFlags | FLAG_IPID | (local * FLAG_LINK_LOCAL);
}

/** The packet at `ip`, of which `visible` bytes are captured, as the next row; its time and length are there. */
// @ts-ignore: decorator
@inline
export function rowPlain(batch: Batch, seed: u64, ip: usize, visible: u32, direction: u32): void {
  const row = batch.count;
  const flags = plainKey(batch, ip) | direction;
  // The checksum: of UDP in the first word, of TCP in the third.
  const udp = isUdp(ip);
  const first = load<u64>(ip, 20) & select<u64>(0x0000ffffffffffff, -1, udp);
  const third = load<u64>(ip, 36) & select<u64>(-1, 0xffffffffffff0000, udp);
  let h = mixWord(mixWord(seed, load<u64>(ip, 12)), load<u64>(ip, 2) & 0xff00ffffffffffff);
  h = mixWord(mixWord(mixWord(h, first), load<u64>(ip, 28)), third);
  h = mixWord(mixWord(mixWord(h, load<u64>(ip, 44)), load<u64>(ip, 52)), <u64>load<u32>(ip, 60));
  const q = row << 2;
  store<u64>(batch.digest + (row << 3), avalanche(h));
  store<u32>(batch.flags + q, flags);
  if (batch.lean == 0) {
    store<u32>(batch.ipid + q, be16(ip + 4));
    store<u32>(batch.header + q, <u32>ip);
    store<u32>(batch.captured + q, visible);
    store<u32>(batch.iface + q, 0);
  }
  batch.count = row + 1;
}
