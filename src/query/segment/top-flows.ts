/**
 * Finds the groups with the most packets before anything is estimated. Packets are added up in a numeric hash table (16 bytes per flow), so that
 * estimates are kept only for the few requested groups, not for millions.
 */

/** The groups to keep, by key words. */
export interface Wanted {
  has(words: Uint32Array): boolean;
}

export const NO_RANKING: Wanted = { has: () => true };

const FIRST_SLOTS = 1 << 12;

export class FlowRanking {
  /** Open addressing; 0 marks a free slot. */
  #keys = new Float64Array(FIRST_SLOTS);
  #packets = new Float64Array(FIRST_SLOTS);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(words: Uint32Array, packets: number): void {
    if (2 * (this.#size + 1) > this.#keys.length) this.#grow();
    const key = keyOf(words);
    const at = slotOf(this.#keys, key);
    if (this.#keys[at] === 0) {
      this.#keys[at] = key;
      this.#size++;
    }
    this.#packets[at] = (this.#packets[at] ?? 0) + packets;
  }

  /** Returns the groups that may be among the first `count`, including up to MAX_TIES ties at the end. */
  top(count: number): Wanted {
    if (this.#size <= count) return NO_RANKING;
    const sorted = Float64Array.from(this.#packets.filter((_, i) => this.#keys[i] !== 0)).sort();
    const minimum = sorted[sorted.length - count] ?? 0;
    const kept = new Set<number>();
    let ties = 0;
    for (const [i, key] of this.#keys.entries()) {
      const packets = this.#packets[i] ?? 0;
      if (key === 0 || packets < minimum) continue;
      // Of very many ties (e.g. a million flows of one packet each), a fixed number suffices; the choice is repeatable.
      if (packets === minimum && ++ties > MAX_TIES) continue;
      kept.add(key);
    }
    return { has: (words) => kept.has(keyOf(words)) };
  }

  #grow(): void {
    const [keys, packets] = [this.#keys, this.#packets];
    this.#keys = new Float64Array(2 * keys.length);
    this.#packets = new Float64Array(2 * keys.length);
    for (const [i, key] of keys.entries()) {
      if (key === 0) continue;
      const at = slotOf(this.#keys, key);
      this.#keys[at] = key;
      this.#packets[at] = packets[i] ?? 0;
    }
  }
}

const MAX_TIES = 10_000;

function slotOf(keys: Float64Array, key: number): number {
  const mask = keys.length - 1;
  let at = (key % 4_294_967_291) & mask;
  while (keys[at] !== 0 && keys[at] !== key) at = (at + 1) & mask;
  return at;
}

/** A 53-bit hash of the key words. Among a million flows, any two collide with a probability of about 1 in 20,000; then both are kept or neither. */
function keyOf(words: Uint32Array): number {
  let a = 0x9e3779b9;
  let b = 0x85ebca6b;
  for (const word of words) {
    a = Math.imul(a ^ word, 0xcc9e2d51);
    a = (a << 15) | (a >>> 17);
    b = Math.imul(b ^ (word + a), 0x1b873593);
    b ^= b >>> 15;
  }
  a = Math.imul(a ^ (b >>> 7), 0xc2b2ae35);
  a ^= a >>> 16;
  return (b >>> 11) * 2 ** 32 + (a >>> 0) + 1;
}
