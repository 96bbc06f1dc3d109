/**
 * Flows in payloads. In memory: hash and key as columns, ordered by hash, then by key. As bytes: u64 hash, u64 meta (bit 59 set for IPv6), u64 addrA; IPv6
 * also has u64 addrB, addrC and addrD.
 */
import type { ByteReader, ByteWriter } from "../base/bytes.ts";

export const KEY_WORDS = 10;
const IPV6_BIT = 1 << 27;

export interface FlowKeys {
  /** [low, high] per flow. */
  hash: Uint32Array;
  /** Ten words per flow. */
  keyWords: Uint32Array;
}

export function compareFlows(a: FlowKeys, i: number, b: FlowKeys, j: number): number {
  const high = a.hash[2 * i + 1]! - b.hash[2 * j + 1]!;
  if (high !== 0) return high;
  const low = a.hash[2 * i]! - b.hash[2 * j]!;
  if (low !== 0) return low;
  for (let w = 0; w < KEY_WORDS; w++) {
    const difference = a.keyWords[KEY_WORDS * i + w]! - b.keyWords[KEY_WORDS * j + w]!;
    if (difference !== 0) return difference;
  }
  return 0;
}

export function writeFlowKey(out: ByteWriter, { hash, keyWords }: FlowKeys, i: number): void {
  out.u32(hash[2 * i]!);
  out.u32(hash[2 * i + 1]!);
  const at = KEY_WORDS * i;
  const words = (keyWords[at + 1]! & IPV6_BIT) === 0 ? 4 : KEY_WORDS;
  for (let w = 0; w < words; w++) out.u32(keyWords[at + w]!);
}

export function readFlowKey(reader: ByteReader, { hash, keyWords }: FlowKeys, i: number): void {
  hash[2 * i] = reader.u32();
  hash[2 * i + 1] = reader.u32();
  const at = KEY_WORDS * i;
  for (let w = 0; w < 4; w++) keyWords[at + w] = reader.u32();
  if ((keyWords[at + 1]! & IPV6_BIT) === 0) return;
  for (let w = 4; w < KEY_WORDS; w++) keyWords[at + w] = reader.u32();
}

/** Returns the 64-bit hash or digest at index i of a column of [low, high] pairs. */
export function wideAt(words: Uint32Array, i: number): bigint {
  return (BigInt(words[2 * i + 1]!) << 32n) | BigInt(words[2 * i]!);
}
