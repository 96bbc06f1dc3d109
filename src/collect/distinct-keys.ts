/** How many of many keys occur once: they are kept and sorted when asked, which takes less time and memory than a table that counts them. */
export class DistinctKeys {
  #keys = new Float64Array(1 << 12);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** A key of up to 53 bits. */
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

/** Three words of 32 bits as a key of 53: of two million different ones, two are alike in one of two thousand captures. */
export function keyOf(a: number, b: number, c: number): number {
  const high = mix(mix(mix(0x9e37_79b1, a), b), c);
  const low = mix(mix(mix(0x85eb_ca6b, c), a), b);
  return (high >>> 0) * 0x20_0000 + (low >>> 11);
}

function mix(h: number, word: number): number {
  let x = Math.imul(h ^ word, 0xcc9e_2d51);
  x = Math.imul(x ^ (x >>> 15), 0x1b87_3593);
  return x ^ (x >>> 13);
}
