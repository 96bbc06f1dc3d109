import { mix64Into } from "../base/hash.ts";

/** Counts the keys that occur once. Keys are stored and sorted on request, which takes less time and memory than a hash table with counts. */
export class DistinctKeys {
  #keys = new Float64Array(1 << 12);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Adds a key of up to 53 bits. */
  add(key: number): void {
    if (this.#count === this.#keys.length) {
      const more = new Float64Array(2 * this.#keys.length);
      more.set(this.#keys);
      this.#keys = more;
    }
    this.#keys[this.#count++] = key;
  }

  once(): number {
    const keys = this.#keys.subarray(0, this.#count).sort();
    let once = 0;
    for (let i = 0; i < keys.length; i++) if (keys[i] !== keys[i - 1] && keys[i] !== keys[i + 1]) once++;
    return once;
  }
}

const mixed = new Uint32Array(2);

/** Hashes three 32-bit words to a key of 53 bits. Of two million different ones, two collide in one of two thousand captures. */
export function keyOf(a: number, b: number, c: number): number {
  mix64Into(a, b, mixed);
  mix64Into(mixed[0]! ^ c, mixed[1]!, mixed);
  return mixed[0]! * 0x20_0000 + (mixed[1]! >>> 11);
}
