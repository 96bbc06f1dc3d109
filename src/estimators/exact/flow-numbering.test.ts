/** Flow numbers against a map of keys, for rows in any order, and what another thread is given of them. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Kernels } from "../../base/kernels.ts";
import { PacketBatch } from "../../capture/batch.ts";
import { FlowKeySpec } from "../../capture/flow-key.ts";
import { FlowNumbering } from "./flow-numbering.ts";

const SEED = 7n;
const ROWS = 64;
const META_IPV6 = 1 << 27;

/** Flow `n` as a 5-tuple: every third one is IPv6, and flows 2k and 2k + 1 answer each other. */
function write(batch: PacketBatch, row: number, n: number): void {
  const pair = n >> 1;
  const [source, destination] = n % 2 === 0 ? [pair + 1, pair + 100_000] : [pair + 100_000, pair + 1];
  const [sport, dport] = n % 2 === 0 ? [1000, 2000] : [2000, 1000];
  const wide = pair % 3 === 2;
  batch.meta.set([((sport << 16) | dport) >>> 0, (6 | (1 << 28) | (wide ? META_IPV6 : 0)) >>> 0], 2 * row);
  if (wide) {
    batch.addrA.set([0, source], 2 * row);
    batch.addrB.set([1, 2], 2 * row);
    batch.addrC.set([0, destination], 2 * row);
    batch.addrD.set([1, 2], 2 * row);
  } else batch.addrA.set([destination, source], 2 * row);
}

class Numbered {
  readonly kernels = new Kernels();
  readonly batch = new PacketBatch(this.kernels, ROWS);
  readonly ids = this.kernels.alloc(ROWS * 4);
  readonly numbering = new FlowNumbering(this.kernels, SEED);
  readonly #mask = FlowKeySpec.parse("5tuple").store(this.kernels);

  assign(side: 0 | 1, flows: number[]): number[] {
    this.batch.count = flows.length;
    for (const [row, n] of flows.entries()) write(this.batch, row, n);
    this.kernels.call.keyFlows!(this.batch.address, this.#mask, SEED);
    this.numbering.assign(side, this.batch, this.ids, 0, flows.length);
    return [...this.kernels.u32.subarray(this.ids >>> 2, (this.ids >>> 2) + flows.length)];
  }
}

/** Runs of rows of few or many flows, on either side, in pieces. */
const pieces = fc.array(
  fc.record({
    side: fc.constantFrom(0 as const, 1 as const),
    runs: fc.array(
      fc.record({ flow: fc.integer({ min: 0, max: 90 }), rows: fc.integer({ min: 1, max: 5 }) }),
      {
        maxLength: 12,
      },
    ),
  }),
  { maxLength: 40 },
);

describe("flow numbers", () => {
  test("are those of a map of keys, in order of appearance, whatever the sides bring", () => {
    fc.assert(
      fc.property(pieces, (list) => {
        const numbered = new Numbered();
        const twin = new Map<number, number>();
        for (const { side, runs } of list) {
          const flows = runs.flatMap(({ flow, rows }) => Array<number>(rows).fill(flow)).slice(0, ROWS);
          const expected = flows.map((flow) => {
            if (!twin.has(flow)) twin.set(flow, twin.size);
            return twin.get(flow)!;
          });
          expect(numbered.assign(side, flows)).toEqual(expected);
        }
        expect(numbered.numbering.count).toBe(twin.size);
      }),
      { numRuns: 150, seed: 3 },
    );
  });

  test("AFTER's rows get BEFORE's numbers, in order, with losses, late ones and strangers", () => {
    const numbered = new Numbered();
    const sent = Array.from({ length: 20_000 }, (_, i) => ((i * 7919) % 5003) + 200);
    const number = new Map<number, number>();
    const next = (flow: number) => number.get(flow) ?? number.set(flow, number.size).get(flow)!;
    for (let from = 0; from < sent.length; from += ROWS) {
      const rows = sent.slice(from, from + ROWS);
      expect(numbered.assign(0, rows)).toEqual(rows.map(next));
      const arrived = rows.filter((_, i) => (from + i) % 11 !== 0);
      if (from % 640 === 0) arrived.reverse();
      if (from % 1280 === 0) arrived.unshift(20_000 + from);
      expect(numbered.assign(1, arrived)).toEqual(arrived.map(next));
    }
  });

  test("keys that are loaded elsewhere are the same, and are found by their reverse", () => {
    for (const flows of [
      [0, 1, 2, 3, 8],
      [0, 1, 4, 5, 2, 10, 3],
    ]) {
      const numbered = new Numbered();
      numbered.assign(0, flows);
      const elsewhere = new FlowNumbering(new Kernels(), SEED);
      const keys = numbered.numbering.keys();
      expect(keys.wide).toBe(flows.includes(4));
      elsewhere.load(keys);
      expect(elsewhere.count).toBe(flows.length);
      const spec = FlowKeySpec.parse("5tuple");
      const key = (numbering: FlowNumbering, id: number) => {
        const { words, at } = numbering.keyWords(id);
        return spec.describe(words, at);
      };
      const all = flows.map((_, id) => id);
      const before = all.map((id) => key(elsewhere, id));
      expect(before).toEqual(all.map((id) => key(numbered.numbering, id)));
      for (const [id, flow] of flows.entries()) {
        const other = flows.indexOf(flow ^ 1);
        expect(elsewhere.reverseOf(id)).toBe(other);
        expect(numbered.numbering.reverseOf(id)).toBe(other);
      }
      // Looking up has put them into the kernel's table: the keys are still the same.
      expect(all.map((id) => key(elsewhere, id))).toEqual(before);
    }
  });
});
