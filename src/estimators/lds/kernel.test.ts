import fc from "fast-check";
import { expect, test } from "vitest";
import { Kernels } from "../../base/kernels.ts";
import { Random } from "../../base/random.ts";
import { PacketBatch } from "../../capture/batch.ts";
import { firstColumns, type Geometry, rowSeeds, samplingThreshold } from "./geometry.ts";
import { decodeCells, encodeCells } from "./payload.ts";
import { SketchTap } from "./tap.ts";

const U64 = (1n << 64n) - 1n;

/** splitmix64's finaliser, written independently. */
function mix(z: bigint): bigint {
  z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & U64;
  z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & U64;
  return z ^ (z >> 31n);
}

interface Row {
  time: number;
  delay: number;
  digest: bigint;
  hash: bigint;
  bytes: number;
  weight: number;
}

interface TwinCell {
  sum: bigint;
  count: number;
  digest: number;
  bytes: number;
}

/** The sketch as in section 2.3.4, one packet and one row at a time. */
function twin(g: Geometry, seed: bigint, rows: readonly Row[], startNs: number, delays: boolean): TwinCell[] {
  const cells = Array.from({ length: g.rows * g.columns }, () => ({
    sum: 0n,
    count: 0,
    digest: 0,
    bytes: 0,
  }));
  for (const [r, s] of rowSeeds(seed, g.rows).entries()) {
    const flowSeed = (BigInt(s.flowHi) << 32n) | BigInt(s.flowLo);
    const packetSeed = (BigInt(s.packetHi) << 32n) | BigInt(s.packetLo);
    for (const row of rows) {
      if (delays && Number.isNaN(row.delay)) continue;
      const packet = mix(row.digest ^ packetSeed);
      if (Number(packet & 0xffffffffn) >= samplingThreshold(g.rates[r]!)) continue;
      const first = ((mix(row.hash ^ flowSeed) >> 32n) * BigInt(g.columns)) >> 32n;
      const within = ((packet >> 32n) * BigInt(g.k)) >> 32n;
      const cell = cells[r * g.columns + (Number(first + within) % g.columns)]!;
      const value = delays ? row.delay : row.time - startNs;
      cell.sum += BigInt(Math.floor(value)) * BigInt(row.weight);
      cell.count += row.weight;
      cell.digest = (cell.digest ^ Number(row.digest & 0xffffffffn)) >>> 0;
      cell.bytes += row.bytes;
    }
  }
  return cells;
}

function fill(batch: PacketBatch, rows: readonly Row[]): void {
  const { kernels } = batch;
  batch.count = rows.length;
  batch.timeNs.set(rows.map((r) => r.time));
  batch.delayNs.set(rows.map((r) => r.delay));
  kernels.u64.set(
    rows.map((r) => r.digest),
    batch.column("digest") >>> 3,
  );
  kernels.u64.set(
    rows.map((r) => r.hash),
    batch.column("flowHash") >>> 3,
  );
  batch.wireLength.set(rows.map((r) => r.bytes));
}

const bits64 = fc.bigInt({ min: 0n, max: U64 });
const row: fc.Arbitrary<Row> = fc.record({
  time: fc.integer({ min: -1_000_000, max: 2 ** 45 }),
  delay: fc.oneof(fc.constant(Number.NaN), fc.integer({ min: -1000, max: 2 ** 40 })),
  digest: bits64,
  // Few flows, so that cells are shared.
  hash: fc.constantFrom(1n, 2n, 3n, 0xdead_beef_0000_0001n, U64),
  bytes: fc.integer({ min: 20, max: 65_535 }),
  weight: fc.constant(1),
});

test("the kernel fills the cells that one packet after the other would", () => {
  fc.assert(
    fc.property(
      fc.record({
        rows: fc.integer({ min: 1, max: 4 }),
        columns: fc.integer({ min: 8, max: 50 }),
        k: fc.integer({ min: 1, max: 8 }),
        rates: fc.array(fc.constantFrom(1, 0.5, 0.01), { minLength: 4, maxLength: 4 }),
      }),
      fc.array(row, { maxLength: 60 }),
      bits64,
      fc.boolean(),
      fc.boolean(),
      fc.integer({ min: -100, max: 1e9 }),
      (shape, rows, seed, delays, bytes, startNs) => {
        const kernels = new Kernels();
        const batch = new PacketBatch(kernels, 64);
        fill(batch, rows);
        const geometry: Geometry = { ...shape, rates: shape.rates.slice(0, shape.rows), weights: "" };
        const tap = new SketchTap(kernels, { geometry, seed, digestBits: 32, bytes, keys: 0, delays });
        tap.begin(startNs);
        // In two pieces, as when an epoch ends within a batch.
        const cut = rows.length >> 1;
        tap.update(batch, 0, cut);
        tap.update(batch, cut, rows.length);
        const { payload } = tap.seal();
        const cells = decodeCells(payload, { ...geometry, delays });
        // Kernel and TypeScript write the same cells the same way.
        expect(encodeCells(cells)).toEqual(payload);
        const expected = twin(geometry, seed, rows, startNs, delays);
        for (const [i, cell] of expected.entries()) {
          const sum = (BigInt(cells.sumHigh[i]!) << 32n) | BigInt(cells.sumLow[i]!);
          expect(BigInt.asIntN(64, sum)).toBe(cell.sum);
          expect(cells.count[i]).toBe(cell.count);
          expect(cells.digest[i]).toBe(cell.digest);
          if (bytes) expect(cells.bytes![i]).toBe(cell.bytes);
        }
        for (const [r, total] of cells.totals.entries()) {
          const cellsOfRow = expected.slice(r * geometry.columns, (r + 1) * geometry.columns);
          expect(total).toBe(cellsOfRow.reduce((n, c) => n + c.count, 0));
        }
        tap.free();
      },
    ),
    { numRuns: 60, seed: 1 },
  );
});

test("a sketch of many pieces is sealed as TypeScript would write it, whatever the digests", () => {
  const random = new Random("pieces");
  const kernels = new Kernels();
  const batch = new PacketBatch(kernels, 2048);
  const geometry: Geometry = { rows: 3, columns: 9000, k: 2, rates: [1, 1, 0.5], weights: "" };
  for (const digestBits of [0, 8, 16, 32]) {
    const tap = new SketchTap(kernels, {
      ...{ geometry, seed: 5n, digestBits, bytes: digestBits === 8, keys: 0, delays: false },
    });
    tap.begin(0);
    for (let i = 0; i < 4; i++) {
      const rows = Array.from({ length: 2048 }, (): Row => {
        const wide = () => (BigInt(random.uint32()) << 32n) | BigInt(random.uint32());
        // Some times are before the epoch, so sums have either sign.
        return {
          time: random.below(1e12) - 1e9,
          delay: 0,
          digest: wide(),
          hash: wide(),
          bytes: random.below(1500),
          weight: 1,
        };
      });
      fill(batch, rows);
      tap.update(batch, 0, rows.length);
    }
    const { payload } = tap.seal();
    expect(encodeCells(decodeCells(payload, { ...geometry, delays: false }))).toEqual(payload);
    expect(payload.length).toBeGreaterThan(1 << 15);
    tap.free();
  }
});

test("weighted rows add their weight to counts and sums, by the kernel's own weights column", () => {
  const random = new Random("weights");
  const kernels = new Kernels();
  const batch = new PacketBatch(kernels, 64);
  const rows = Array.from({ length: 64 }, (): Row => {
    const digest = (BigInt(random.uint32()) << 32n) | BigInt(random.uint32());
    const hash = BigInt(random.below(5));
    return { time: random.below(1e12), delay: 0, digest, hash, bytes: 64, weight: 1 + random.below(2500) };
  });
  fill(batch, rows);
  const geometry: Geometry = { rows: 2, columns: 20, k: 3, rates: [1, 0.5], weights: "" };
  const { call } = kernels;
  const sketch = call.ldsNew(2, 20, 3, false, false) >>> 0;
  for (const [r, s] of rowSeeds(9n, 2).entries()) {
    const flow = (BigInt(s.flowHi) << 32n) | BigInt(s.flowLo);
    const packet = (BigInt(s.packetHi) << 32n) | BigInt(s.packetLo);
    call.ldsRow(sketch, r, flow, packet, BigInt(samplingThreshold(geometry.rates[r]!)));
  }
  const weights = kernels.alloc(64 * 4);
  kernels.u32.set(
    rows.map((r) => r.weight),
    weights >>> 2,
  );
  call.ldsUpdate(sketch, batch.address, 0, 64, weights);
  const at = (call.ldsCells(sketch) >>> 0) >>> 2;
  for (const [i, cell] of twin(geometry, 9n, rows, 0, false).entries()) {
    expect(kernels.i64[(at >>> 1) + 2 * i]).toBe(cell.sum);
    expect(kernels.u32[at + 4 * i + 2]).toBe(cell.count);
    expect(kernels.u32[at + 4 * i + 3]).toBe(cell.digest);
  }
});

test("firstColumns finds the columns that the kernel uses", () => {
  const random = new Random("columns");
  const hashes = Uint32Array.from({ length: 200 }, () => random.uint32());
  const geometry: Geometry = { rows: 3, columns: 1000, k: 1, rates: [1, 1, 1], weights: "" };
  const columns = firstColumns(geometry, 5n, hashes);
  for (const [r, s] of rowSeeds(5n, 3).entries()) {
    const seed = (BigInt(s.flowHi) << 32n) | BigInt(s.flowLo);
    for (let f = 0; f < 100; f++) {
      const hash = (BigInt(hashes[2 * f + 1]!) << 32n) | BigInt(hashes[2 * f]!);
      expect(columns[f * 3 + r]).toBe(Number(((mix(hash ^ seed) >> 32n) * 1000n) >> 32n));
    }
  }
});

test("rows are independent: flows that share a cell in one row are apart in the next", () => {
  const random = new Random("independence");
  const flows = 4000;
  const hashes = Uint32Array.from({ length: 2 * flows }, () => random.uint32());
  const geometry: Geometry = { rows: 2, columns: 100, k: 1, rates: [1, 1], weights: "" };
  const columns = firstColumns(geometry, 1n, hashes);
  let together = 0;
  let twice = 0;
  for (let f = 0; f < flows; f++) {
    for (let g = 0; g < f; g++) {
      if (columns[2 * f] !== columns[2 * g]) continue;
      together++;
      if (columns[2 * f + 1] === columns[2 * g + 1]) twice++;
    }
  }
  // Of 8 M pairs, 1 % share a column, and 1 % of those share another: about 800 +- 28; six standard deviations are one false alarm in 5e8.
  expect(together).toBeGreaterThan(75_000);
  expect(Math.abs(twice - together / 100)).toBeLessThan(170);
});
