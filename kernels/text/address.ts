// Writes IP addresses as text, IPv6 ones by RFC 5952: lower case, the longest run of zero groups (two or more, the first of equal ones) as '::'. Every function
// returns the position behind its output.

import { putInteger } from "./number";

export function putIpv4(start: u32, word: u32): u32 {
  let at = putInteger(start, word >> 24);
  store<u8>(at++, 46);
  at = putInteger(at, (word >> 16) & 255);
  store<u8>(at++, 46);
  at = putInteger(at, (word >> 8) & 255);
  store<u8>(at++, 46);
  return putInteger(at, word & 255);
}

// @ts-ignore: decorator
@inline
function groupOf(high: u64, low: u64, i: u32): u32 {
  return <u32>((i < 4 ? high : low) >> (48 - ((i & 3) << 4))) & 0xffff;
}

function putHex(start: u32, group: u32): u32 {
  let at = start;
  let shift: i32 = group > 0xfff ? 12 : group > 0xff ? 8 : group > 0xf ? 4 : 0;
  for (; shift >= 0; shift -= 4) {
    const digit = (group >> shift) & 15;
    store<u8>(at++, <u8>(digit < 10 ? 48 + digit : 87 + digit));
  }
  return at;
}

function putMapped(start: u32, low: u64): u32 {
  store<u32>(start, 0x66663a3a); // ::ff
  store<u32>(start, 0x3a6666, 4); // ff:
  return putIpv4(start + 7, <u32>low);
}

export function putIpv6(start: u32, high: u64, low: u64): u32 {
  if (high == 0 && low >> 32 == 0xffff) return putMapped(start, low);
  let best: u32 = 8;
  let length: u32 = 1;
  for (let i: u32 = 0; i < 8; i++) {
    let n: u32 = 0;
    while (i + n < 8 && groupOf(high, low, i + n) == 0) n++;
    if (n > length) {
      best = i;
      length = n;
    }
  }
  let at = start;
  for (let i: u32 = 0; i < 8; i++) {
    if (i == best) {
      store<u16>(at, 0x3a3a);
      at += 2;
      i += length - 1;
      continue;
    }
    if (i != 0 && (best == 8 || i != best + length)) store<u8>(at++, 58);
    at = putHex(at, groupOf(high, low, i));
  }
  return at;
}
