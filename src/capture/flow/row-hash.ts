/** A hash of flow keys, the same for the columns of a row and the words of a key: finds the flow of a row among a few. */
import { META_HIGH, type PacketBatch } from "../batch.ts";

/** Hashes a key's words, to distinguish flows of one instant; leaves out words that IPv4 does not use. */
export function keyHash(words: ArrayLike<number>, at: number): number {
  const used = ((words[at + 1] ?? 0) & META_HIGH.ipv6) === 0 ? 4 : 10;
  let hash = 0x811c_9dc5;
  for (let w = 0; w < used; w++) hash = mix(hash, words[at + w] ?? 0);
  return hash >>> 0;
}

/** The hash of a row's key, the same as that of its words. */
export function rowHash({ meta, addrA, addrB, addrC, addrD }: PacketBatch, row: number): number {
  const ipv6 = (meta[2 * row + 1]! & META_HIGH.ipv6) !== 0;
  let hash = 0x811c_9dc5;
  for (const column of ipv6 ? [meta, addrA, addrB, addrC, addrD] : [meta, addrA])
    hash = mix(mix(hash, column[2 * row]!), column[2 * row + 1]!);
  return hash >>> 0;
}

function mix(hash: number, word: number): number {
  const product = Math.imul(hash ^ word, 0x9e37_79b1);
  return product ^ (product >>> 15);
}
