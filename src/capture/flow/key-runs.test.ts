/** Compares runs of flow keys with a comparison of every row with the one before it, and their hashes with those of the key columns. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Kernels } from "../../base/kernels.ts";
import { PacketBatch } from "../batch.ts";
import { FlowKeySpec } from "./flow-key.ts";
import { type KeyRuns, RUN_BYTES, RUNS_HEAD_BYTES, RunFinder, WIDE_RUN_BYTES } from "./key-runs.ts";

const SEED = 7n;
const ROWS = 64;
const META_IPV6 = 1 << 27;

const rows = fc.array(
  fc.record({
    pair: fc.integer({ min: 1, max: 3 }),
    port: fc.integer({ min: 1, max: 2 }),
    dscp: fc.integer({ min: 0, max: 1 }),
    wide: fc.boolean(),
    repeat: fc.integer({ min: 1, max: 4 }),
  }),
  { minLength: 1, maxLength: 16 },
);

/** Reads the keys stored one per row, which have no hash. */
function rowKeys({ u32 }: Kernels, { address, count, perRow }: KeyRuns) {
  const start = (address + RUNS_HEAD_BYTES) >>> 2;
  const words = Array.from({ length: count }, (_, i) => u32.slice(start + 4 * i, start + 4 * i + 4).join());
  return { plain: perRow, count, words };
}

describe("runs of flow keys", () => {
  test.each(["5tuple", "hosts", "src/24", "proto", "dscp", "hosts,dscp"])(
    "by %s are those of equal neighbours",
    (text) => {
      const kernels = new Kernels();
      const key = FlowKeySpec.parse(text);
      const mask = key.store(kernels);
      const batch = new PacketBatch(kernels, ROWS);
      const finder = new RunFinder(kernels, key, SEED, ROWS);
      const property = fc.property(rows, fc.integer({ min: 0, max: 8 }), (list, skip) => {
        const all = list.flatMap((r) => Array<typeof r>(r.repeat).fill(r)).slice(0, ROWS);
        batch.count = all.length;
        for (const [i, { pair, port, dscp, wide }] of all.entries()) {
          const high = (6 | (dscp << 8) | (1 << 28) | (wide ? META_IPV6 : 0)) >>> 0;
          batch.meta.set([((port << 16) | 80) >>> 0, high], 2 * i);
          // Source and destination; four words for IPv6.
          batch.addrA.set([pair * 256, pair], 2 * i);
          batch.addrB.set([i % 2, pair], 2 * i);
          batch.addrC.set([pair, 5], 2 * i);
          batch.addrD.set([pair, 6], 2 * i);
        }
        const from = Math.min(skip, all.length);
        const one = rowKeys(kernels, finder.findRows(batch, from, all.length));
        expect(one.plain).toBe(all.length > from && all.slice(from).every(({ wide }) => !wide));
        const runs = finder.find(batch, from, all.length);
        expect(runs.perRow).toBe(false);
        // The key columns, masked and hashed row by row.
        const found = Array.from({ length: runs.count }, (_, i) => {
          const at = (runs.address + RUNS_HEAD_BYTES + i * RUN_BYTES) >>> 2;
          const more = (runs.wideAddress + i * WIDE_RUN_BYTES) >>> 2;
          const { u32 } = kernels;
          const wide = (u32[at + 5]! & META_IPV6) !== 0;
          return {
            end: u32[at]!,
            key: [...u32.slice(at + 2, at + 8), ...(wide ? u32.slice(more, more + 6) : [])].join(),
          };
        });
        kernels.call.keyFlows(batch.address, mask, SEED);
        const word = (column: Uint32Array, i: number) => [...column.slice(2 * i, 2 * i + 2)];
        const keys = all.map((_, i) => {
          const { flowHash, meta, addrA, addrB, addrC, addrD } = batch;
          const wide = (meta[2 * i + 1]! & META_IPV6) !== 0;
          const rest = wide ? [addrB, addrC, addrD] : [];
          return [flowHash, meta, addrA, ...rest].flatMap((c) => word(c, i)).join();
        });
        const got = found.flatMap(({ end, key: k }, i) => {
          const start = i === 0 ? 0 : found[i - 1]!.end;
          expect(end).toBeGreaterThan(start);
          return Array<string>(end - start).fill(k);
        });
        expect(got).toEqual(keys.slice(from));
        if (one.plain) expect(one.words).toEqual(keys.slice(from).map((k) => k.split(",").slice(2).join()));
        else expect(one.count).toBe(found.length);
        expect(runs.wide).toBe(keys.slice(from).some((k) => k.split(",").length > 6));
      });
      fc.assert(property, { numRuns: 150, seed: 3 });
    },
  );
});
