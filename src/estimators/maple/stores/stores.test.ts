import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { Kernels } from "../../../base/kernels.ts";
import { Random } from "../../../base/random.ts";
import { MATCH, MULTI_MATCH, NO_MATCH } from "../../packet-answers.ts";
import { svbfFailure } from "../dimension.ts";
import { createStore, openStore } from "./open.ts";
import type { PacketStore, StoreGeometry } from "./packet-store.ts";

let kernels: Kernels;
beforeAll(() => {
  kernels = new Kernels();
});

const geometry = (
  kind: StoreGeometry["kind"],
  groups: number,
  more: Partial<StoreGeometry> = {},
): StoreGeometry => ({
  kind,
  groups,
  seed: 99n,
  codeBits: 0,
  hashes: 0,
  f: 0,
  theta: 0,
  ...more,
});

/** Inserts in two calls, so that a store has to continue where it stopped. */
function store(g: StoreGeometry, bits: number, keys: BigUint64Array, codes: Uint16Array): PacketStore {
  const made = createStore(kernels, g, bits);
  const n = keys.length;
  const half = n >> 1;
  const [k, c] = [kernels.alloc(8 * n + 8), kernels.alloc(2 * n + 8)];
  kernels.u64.set(keys, k >>> 3);
  kernels.u8.set(new Uint8Array(codes.buffer, codes.byteOffset, 2 * n), c);
  made.insert(k, c, half);
  made.insert(k + 8 * half, c + 2 * half, n - half);
  const counts = new Array(g.groups).fill(0);
  for (const code of codes) counts[code]++;
  made.close(counts);
  kernels.free(k);
  kernels.free(c);
  return made;
}

function lookup(from: PacketStore, keys: BigUint64Array) {
  const n = keys.length;
  const [k, out] = [kernels.alloc(8 * n + 8), kernels.alloc(8 * n + 8)];
  kernels.u64.set(keys, k >>> 3);
  from.lookup(k, n, out);
  const words = kernels.u32.slice(out >>> 2, (out >>> 2) + 2 * n);
  kernels.free(k);
  kernels.free(out);
  return Array.from(keys, (_, i) => ({
    kind: words[2 * i]! >>> 16,
    group: words[2 * i]! & 0xffff,
    low: words[2 * i + 1]! & 0xffff,
    high: words[2 * i + 1]! >>> 16,
  }));
}

function randomKeys(random: Random, n: number): BigUint64Array {
  return BigUint64Array.from({ length: n }, () => (BigInt(random.uint32()) << 32n) | BigInt(random.uint32()));
}

// --- Slow, obvious references. ---

const M64 = 0xffff_ffff_ffff_ffffn;
const [P1, P2, P3, P5] = [0x9e3779b185ebca87n, 0xc2b2ae3d27d4eb4fn, 0x165667b19e3779f9n, 0x27d4eb2f165667c5n];
function rehash(h: bigint, seed: bigint): bigint {
  let z = ((h ^ seed) * P1 + P5) & M64;
  z = ((z ^ (z >> 33n)) * P2) & M64;
  z = ((z ^ (z >> 29n)) * P3) & M64;
  return z ^ (z >> 32n);
}

class SlowSvbf {
  readonly set = new Set<number>();
  readonly m: number;
  readonly g: StoreGeometry;
  constructor(m: number, g: StoreGeometry) {
    this.m = m;
    this.g = g;
  }
  *positions(key: bigint): IterableIterator<number> {
    const h = rehash(key, this.g.seed);
    let [x, y] = [Number(h & 0xffff_ffffn), Number((h >> 32n) | 1n)];
    for (let j = 0; j < this.g.hashes; j++) {
      yield Number((BigInt(x) * BigInt(this.m)) >> 32n);
      x = (x + y) % 2 ** 32;
      y = (y + j) % 2 ** 32;
    }
  }
  insert(key: bigint, group: number): void {
    for (const at of this.positions(key)) this.set.add((at + group) % this.m);
  }
  candidates(key: bigint): number[] {
    const at = [...this.positions(key)];
    return Array.from({ length: this.g.groups }, (_, i) => i).filter((i) =>
      at.every((p) => this.set.has((p + i) % this.m)),
    );
  }
}

/** Reads a ribbon's body as described on the format page, one bit at a time. */
function slowRibbon(body: Uint8Array, g: StoreGeometry, key: bigint): number {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const r = g.codeBits;
  const blocks = view.getUint32(8, true);
  const hash = rehash(key, g.seed);
  const block = Number(((hash >> 32n) * BigInt(blocks)) >> 32n);
  const [head, next] = [view.getUint32(16 + 4 * block, true), view.getUint32(20 + 4 * block, true)];
  const first = head >>> 6;
  const h = rehash(hash, (BigInt((head & 63) + 1) * 0x94d049bb133111ebn) & M64);
  const start = first + Number(((h >> 32n) * BigInt((next >>> 6) - first - 63)) >> 32n);
  const z = ((h ^ (h >> 31n)) * P3) & M64;
  const row = (z ^ (z >> 29n)) | 1n;
  const words = 16 + 8 * Math.ceil((blocks + 1) / 2);
  let value = 0;
  for (let t = 0; t < 64; t++) {
    if (((row >> BigInt(t)) & 1n) === 0n) continue;
    const slot = start + t;
    for (let j = 0; j < r; j++) {
      const word = view.getBigUint64(words + 8 * ((slot >> 6) * r + j), true);
      value ^= Number((word >> BigInt(slot & 63)) & 1n) << j;
    }
  }
  return value ^ Number(hash & BigInt(2 ** r - 1));
}

describe("SVBF", () => {
  test("finds the candidates that its slow twin finds, whatever its size and groups", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 150 }),
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 64, max: 4000 }),
        fc.array(fc.tuple(fc.bigInt({ min: 0n, max: M64 }), fc.nat(10_000)), { maxLength: 60 }),
        (groups, hashes, bits, packets) => {
          const g = geometry("svbf", groups, { hashes });
          const keys = BigUint64Array.from(packets, ([key]) => key);
          const codes = Uint16Array.from(packets, ([, code]) => code % groups);
          const made = store(g, bits, keys, codes);
          const slow = new SlowSvbf(made.bits, g);
          for (const [i, key] of keys.entries()) slow.insert(key, codes[i]!);
          const counts = (c: number) => codes.filter((x) => x === c).length;
          const asked = BigUint64Array.from([...keys, 1n, 2n, 3n, 4n]);
          const opened = openStore(
            kernels,
            g,
            made.body(),
            Array.from({ length: groups }, (_, c) => counts(c)),
          );
          for (const answers of [lookup(made, asked), lookup(opened, asked)]) {
            asked.forEach((key, i) => {
              const candidates = slow.candidates(key);
              const answer = answers[i]!;
              expect(answer.kind).toBe(Math.min(2, candidates.length));
              if (candidates.length === 0) return;
              expect([answer.low, answer.high]).toEqual([candidates[0], candidates.at(-1)]);
              expect(counts(answer.group)).toBe(Math.max(...candidates.map(counts)));
              if (i < keys.length) expect(candidates).toContain(codes[i]);
            });
          }
          made.free();
          opened.free();
        },
      ),
      { numRuns: 60, seed: 8 },
    );
  });
});

describe("ribbon", () => {
  test("returns for every key the code that came first, and nothing else", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 16 }),
        fc.integer({ min: 0, max: 9000 }),
        fc.nat(2 ** 31),
        fc.integer({ min: 1, max: 10 }),
        (codeBits, n, seed, repeat) => {
          const random = new Random(seed);
          const groups = 1 + random.below(2 ** codeBits);
          const g = geometry("ribbon", groups, { codeBits });
          // One key in ten is a repetition with another code.
          const keys = randomKeys(random, n);
          for (let i = repeat; i < n; i += 10) keys[i] = keys[random.below(i)]!;
          const codes = Uint16Array.from({ length: n }, () => random.below(groups));
          const truth = new Map<bigint, number>();
          keys.forEach((key, i) => {
            if (!truth.has(key)) truth.set(key, codes[i]!);
          });
          const made = store(g, 0, keys, codes);
          expect(made.packets).toBe(n);
          expect(made.leftOut).toBe(n - truth.size);
          const body = made.body();
          const opened = openStore(kernels, g, body, []);
          for (const answers of [lookup(made, keys), lookup(opened, keys)]) {
            const wrong = answers.findIndex((a, i) => {
              const code = truth.get(keys[i]!);
              return a.kind !== MATCH || a.group !== code || a.low !== code || a.high !== code;
            });
            expect(wrong).toBe(-1);
          }
          const falsePositives = BigUint64Array.from([...keys.slice(0, 20), ...randomKeys(random, 20)]);
          lookup(opened, falsePositives).forEach((answer, i) => {
            const value = slowRibbon(body, g, falsePositives[i]!);
            expect(answer.kind).toBe(value < groups ? MATCH : NO_MATCH);
            if (value < groups) expect(answer.group).toBe(value);
          });
          made.free();
          opened.free();
        },
      ),
      { numRuns: 40, seed: 21 },
    );
  });

  test("takes 1.04 r bits per packet, is never wrong, and has false positives with probability k / 2^r", () => {
    const random = new Random(77);
    const n = 200_000;
    const keys = randomKeys(random, n);
    const falsePositives = randomKeys(random, n);
    for (const [k, r] of [
      [32, 5],
      [64, 6],
      [50, 9],
      [400, 12],
    ] as const) {
      const codes = Uint16Array.from({ length: n }, () => random.below(k));
      const made = store(geometry("ribbon", k, { codeBits: r }), 0, keys, codes);
      expect(made.bits / n / r).toBeLessThan(1.04);
      expect(lookup(made, keys).every((a, i) => a.kind === MATCH && a.group === codes[i])).toBe(true);
      const accepted = lookup(made, falsePositives).filter((a) => a.kind === MATCH).length / n;
      // Half a percentage point is 7 standard deviations or more.
      expect(Math.abs(accepted - k / 2 ** r)).toBeLessThan(0.005);
      made.free();
    }
  });

  test("the false positives are spread evenly over the groups", () => {
    const random = new Random(5);
    const n = 50_000;
    // All packets in one group: without the mask, most packets that were never stored would get it as their answer.
    const made = store(
      geometry("ribbon", 16, { codeBits: 8 }),
      0,
      randomKeys(random, n),
      new Uint16Array(n).fill(3),
    );
    const counts = new Array(16).fill(0);
    for (const a of lookup(made, randomKeys(random, 160_000))) if (a.kind === MATCH) counts[a.group]++;
    // 625 expected in each group. The limit is 6 standard deviations of 25: one false alarm in 10^8 runs.
    for (const count of counts) expect(Math.abs(count - 625)).toBeLessThan(150);
    made.free();
  });

  test("damaged bodies are refused, not read past their end", () => {
    const random = new Random(6);
    const g = geometry("ribbon", 64, { codeBits: 6 });
    const made = store(g, 0, randomKeys(random, 7000), new Uint16Array(7000));
    const body = made.body();
    for (const [at, value] of [
      [8, 0],
      [8, 1000],
      [12, 5],
      [16, 64],
      [20, 0xffff_ffff],
    ] as const) {
      const bad = body.slice();
      new DataView(bad.buffer).setUint32(at, value, true);
      expect(() => openStore(kernels, g, bad, [])).toThrow(/maple ribbon/);
    }
    expect(() => openStore(kernels, g, body.subarray(0, 500), [])).toThrow(/maple ribbon/);
    made.free();
  });
});

describe("the structures of the comparison", () => {
  const n = 40_000;
  const k = 50;
  const random = new Random(12);
  const keys = randomKeys(random, n);
  const codes = Uint16Array.from({ length: n }, () => Math.min(k - 1, random.geometric(0.08) - 1));
  const falsePositives = randomKeys(random, n);
  const rate = (answers: ReturnType<typeof lookup>, kind: number) =>
    answers.filter((a) => a.kind === kind).length / n;

  test("SVBF fails as often as equation (3) says, and the true group is always a candidate", () => {
    const made = store(geometry("svbf", k, { hashes: 9 }), 12.8 * n, keys, codes);
    const answers = lookup(made, keys);
    const wrong = answers.filter(
      (a, i) =>
        a.kind === NO_MATCH ||
        (a.kind === MATCH && a.group !== codes[i]) ||
        a.low > codes[i]! ||
        a.high < codes[i]!,
    );
    expect(wrong).toEqual([]);
    // A share of 40,000 has a standard deviation of 0.15 percentage points.
    expect(Math.abs(rate(answers, MULTI_MATCH) - svbfFailure(12.8, 9, k))).toBeLessThan(0.01);
    const absent = 1 - rate(lookup(made, falsePositives), NO_MATCH);
    expect(Math.abs(absent - made.absentAccepted)).toBeLessThan(0.01);
    made.free();
  });

  test("COMB(8, 3) in the same memory fails for half of the packets", () => {
    const made = store(geometry("comb", k, { hashes: 3, f: 8, theta: 3 }), 12.8 * n, keys, codes);
    const answers = lookup(made, keys);
    expect(answers.filter((a, i) => a.low > codes[i]! || a.high < codes[i]!)).toEqual([]);
    expect(Math.abs(rate(answers, MULTI_MATCH) - 0.5)).toBeLessThan(0.01);
    const opened = openStore(kernels, made.geometry, made.body(), new Array(k).fill(1));
    expect(lookup(opened, keys).map((a) => a.kind)).toEqual(answers.map((a) => a.kind));
    made.free();
    opened.free();
  });

  test.each([0, 0.5, 0.905, 1.5])(
    "mixed ribbons with %d bits fewer: never wrong, as many false positives as a ribbon",
    (fewer) => {
      const g = geometry("mixed", k, { codeBits: 8 });
      const made = createStore(kernels, g, fewer);
      const [a, c, out] = [kernels.alloc(8 * n), kernels.alloc(2 * n), kernels.alloc(8 * n)];
      kernels.u64.set(keys, a >>> 3);
      kernels.u8.set(new Uint8Array(codes.buffer), c);
      made.insert(a, c, n);
      made.close(new Array(k).fill(1));
      // Blocks with few packets take more than 1.8 % extra.
      expect(made.bits / n).toBeLessThan(1.1 * (8 - fewer));
      const opened = openStore(kernels, g, made.body(), new Array(k).fill(1));
      for (const store of [made, opened]) {
        store.lookup(a, n, out);
        const words = kernels.u32.slice(out >>> 2, (out >>> 2) + 2 * n);
        const wrong = codes.findIndex((code, i) => {
          const [low, high] = [words[2 * i + 1]! & 0xffff, words[2 * i + 1]! >>> 16];
          return words[2 * i]! >>> 16 !== MATCH || low > code || high < code;
        });
        expect(wrong).toBe(-1);
      }
      kernels.u64.set(
        keys.map((key) => key ^ 0x5555_5555_5555_5555n),
        a >>> 3,
      );
      opened.lookup(a, n, out);
      const { u32 } = kernels;
      let falsePositives = 0;
      for (let i = 0; i < n; i++) if (u32[(out >>> 2) + 2 * i]! >>> 16 !== 0) falsePositives++;
      // Shortened numbers round the number of groups up.
      expect(Math.abs(falsePositives / n - opened.absentAccepted)).toBeLessThan(0.03);
      expect(() => openStore(kernels, g, made.body().slice(0, -8), [])).toThrow(/do not fit/);
      for (const address of [a, c, out]) kernels.free(address);
      made.free();
      opened.free();
    },
  );

  test("COMB has no code for more groups than theta of f allow", () => {
    expect(() => createStore(kernels, geometry("comb", 57, { hashes: 3, f: 8, theta: 3 }), 1000)).toThrow(
      /56 codes/,
    );
  });

  test("PBF with right shares leaves a few out, with equal shares many", () => {
    const shares = new Float64Array(k);
    for (const code of codes) shares[code]! += 1 / n;
    const g = geometry("pbf", k, { hashes: 9 });
    const fed = (s: Float64Array | null) => {
      const made = createStore(kernels, g, 12.8 * n, s);
      const [a, c] = [kernels.alloc(8 * n), kernels.alloc(2 * n)];
      kernels.u64.set(keys, a >>> 3);
      kernels.u8.set(new Uint8Array(codes.buffer), c);
      made.insert(a, c, n);
      made.close(Array.from(shares, (x) => x * n));
      kernels.free(a);
      kernels.free(c);
      return made;
    };
    const [right, equal] = [fed(shares), fed(null)];
    expect(right.leftOut / n).toBeLessThan(0.05);
    expect(equal.leftOut / n).toBeGreaterThan(0.2);
    const missing = rate(lookup(equal, keys), NO_MATCH);
    expect(missing).toBeGreaterThan(0.15);
    expect(missing).toBeLessThanOrEqual(equal.leftOut / n);
    const opened = openStore(
      kernels,
      g,
      equal.body(),
      Array.from(shares, (x) => x * n),
    );
    expect(lookup(opened, keys)).toEqual(lookup(equal, keys));
    for (const s of [right, equal, opened]) s.free();
  });

  test("the hash table is wrong where packets were overwritten, as often as section 3.4.1 says", () => {
    const slots = 4 * n;
    const made = store(geometry("table", k, { codeBits: 6 }), 6 * slots, keys, codes);
    const answers = lookup(made, keys);
    expect(rate(answers, MATCH)).toBe(1);
    const wrong = answers.filter((a, i) => a.group !== codes[i]).length / n;
    const overwritten = 1 - (slots / n) * (1 - Math.exp(-n / slots));
    expect(wrong).toBeLessThan(overwritten);
    expect(wrong).toBeGreaterThan(0.8 * overwritten);
    expect(1 - rate(lookup(made, falsePositives), NO_MATCH)).toBeCloseTo(made.absentAccepted, 1);
    const opened = openStore(kernels, made.geometry, made.body(), []);
    expect(lookup(opened, keys)).toEqual(answers);
    made.free();
    opened.free();
  });
});
