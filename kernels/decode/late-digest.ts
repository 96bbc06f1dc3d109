// Computes the digests of the commonest packets a little later than their rows: IPv4 without options and not a fragment, TCP or UDP. They are computed together
// with others of as many words. A digest is a chain of words, each of which depends on the previous one, and packet lengths vary at random: one by one, the end
// of nearly every chain is mispredicted, and nothing runs in parallel. With equally many words no branch is mispredicted, and two chains run at once.
//
// The digest equals that of decode.ts, to the bit. Rows wait in lists by their number of words, at most ROOM in each; their packets' bytes must stay where they
// are until finishDigests.
//
//   list: entries of 8 bytes: address of the IP header u32 | row << 4 | UDP << 3 | bytes in the last word, 0 if it is full, u32

import { Batch } from "./batch";
import { avalanche, mixWord } from "./digest";
import { isUdp } from "./row-plain";

/** Limits of the number of words behind the IP header: at least as far as TCP's checksum; the default coverage has at most 14. */
const LEAST_WORDS: u32 = 3;
const MOST_WORDS: u32 = 34;
const ROOM: u32 = 32;
const LIST_BYTES: u32 = ROOM << 3;

const lists = memory.data(<i32>((MOST_WORDS + 1) * LIST_BYTES), 64);
/** Number of waiting rows of each list, u32. */
const waiting = memory.data(<i32>((MOST_WORDS + 1) * 4), 64);
/** Non-empty lists, as a bit per number of words. */
let filled: u64 = 0;

/** Returns whether packets with this many covered bytes behind the IP header can wait. */
// @ts-ignore: decorator
@inline
export function mayWait(covered: u32): bool {
  return covered - (LEAST_WORDS * 8 - 7) <= (MOST_WORDS - LEAST_WORDS) * 8 + 7;
}

/**
 * Defers the digest of a row, of the packet at `ip` with `covered` bytes behind the IP header. Returns the list that is now full, for which digestList must run
 * before another packet waits; 0 for none.
 */
// @ts-ignore: decorator
@inline
export function digestLater(row: u32, ip: usize, covered: u32): u32 {
  const words = (covered + 7) >> 3;
  const count = waiting + (words << 2);
  const n = load<u32>(count);
  const entry = lists + words * LIST_BYTES + (n << 3);
  store<u32>(entry, <u32>ip);
  store<u32>(entry, (row << 4) | (<u32>isUdp(ip) << 3) | (covered & 7), 4);
  store<u32>(count, n + 1);
  filled |= <u64>1 << words;
  return n == ROOM - 1 ? words : 0;
}

/** Mask of a packet's last word. */
// @ts-ignore: decorator
@inline
function lastMask(what: u32): u64 {
  return <u64>-1 >> (<u64>((8 - what) & 7) << 3);
}

/** All bits set if the packet is UDP, whose checksum is in the first word; TCP's is in the third. */
// @ts-ignore: decorator
@inline
function udpMask(what: u32): u64 {
  return -(<u64>(what >> 3) & 1);
}

// @ts-ignore: decorator
@inline
function begin(seed: u64, ip: usize, what: u32): u64 {
  const h = mixWord(mixWord(seed, load<u64>(ip, 12)), load<u64>(ip, 2) & 0xff00ffffffffffff);
  return mixWord(mixWord(h, load<u64>(ip, 20) & ~(udpMask(what) & 0xffff000000000000)), load<u64>(ip, 28));
}

/** The word that contains TCP's checksum. */
// @ts-ignore: decorator
@inline
function third(ip: usize, what: u32): u64 {
  return load<u64>(ip, 36) & ~(~udpMask(what) & 0xffff);
}

/** Computes the digests of a list. */
export function digestList(digests: u32, seed: u64, words: u32): void {
  const n = load<u32>(waiting + (words << 2));
  let at: usize = lists + words * LIST_BYTES;
  const end = at + (n << 3);
  // Of an odd number, the last one is computed twice.
  if ((n & 1) != 0) store<u64>(end, load<u64>(end - 8));
  for (; at < end; at += 16) {
    const ip = <usize>load<u32>(at);
    const what = load<u32>(at, 4);
    const otherIp = <usize>load<u32>(at, 8);
    const otherWhat = load<u32>(at, 12);
    let h = begin(seed, ip, what);
    let other = begin(seed, otherIp, otherWhat);
    if (words == LEAST_WORDS) {
      h = mixWord(h, third(ip, what) & lastMask(what));
      other = mixWord(other, third(otherIp, otherWhat) & lastMask(otherWhat));
    } else {
      h = mixWord(h, third(ip, what));
      other = mixWord(other, third(otherIp, otherWhat));
      const last: usize = 20 + ((words - 1) << 3);
      for (let o: usize = 44; o < last; o += 8) {
        h = mixWord(h, load<u64>(ip + o));
        other = mixWord(other, load<u64>(otherIp + o));
      }
      h = mixWord(h, load<u64>(ip + last) & lastMask(what));
      other = mixWord(other, load<u64>(otherIp + last) & lastMask(otherWhat));
    }
    store<u64>(digests + (what >> 4 << 3), avalanche(h));
    store<u64>(digests + (otherWhat >> 4 << 3), avalanche(other));
  }
  store<u32>(waiting + (words << 2), 0);
  filled &= ~(<u64>1 << words);
}

/** Computes all waiting digests. Must be called before rows are returned, and before their packets' bytes move. */
export function finishDigests(batch: Batch, seed: u64): void {
  while (filled != 0) digestList(batch.digest, seed, <u32>ctz<u64>(filled));
}
