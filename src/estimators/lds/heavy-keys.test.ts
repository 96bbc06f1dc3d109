import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { hostileRows, toBatches } from "../../../tests/support/hostile-rows.ts";
import { ByteReader, ByteWriter } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import { Kernels } from "../../base/kernels.ts";
import { KEY_WORDS } from "../flow-keys.ts";
import {
  type HeavyKeys,
  HeavyKeysTap,
  heavyKeysBytes,
  knownHeavyFlows,
  mergeHeavyKeys,
  readHeavyKeys,
  writeHeavyKeys,
} from "./heavy-keys.ts";

const kernels = new Kernels();
type Row = ReturnType<typeof hostileRows>[number];
const [pattern] = hostileRows("heavy", 1);

/** A packet of the flow with this number. */
function rowOf(flow: number): Row {
  if (!pattern) throw new Error("no row");
  const v6 = flow % 7 === 3;
  return {
    ...pattern,
    meta: [((1024 + flow) << 16) | 443, 6 | (1 << 28) | (v6 ? 1 << 27 : 0)],
    address: v6 ? [1, flow, 3, 4, 5, 6, 7, 8] : [0x0a00_0002, 0x0a00_0100 + flow, 0, 0, 0, 0, 0, 0],
    wireLength: 60 + (flow % 1400),
  };
}

function list(flows: readonly number[], max: number, size = 64): HeavyKeys {
  const tap = new HeavyKeysTap(kernels, max);
  for (const batch of toBatches(kernels, flows.map(rowOf), size)) {
    tap.update(batch, 0, batch.count);
    batch.free();
  }
  const bytes = tap.seal();
  tap.free();
  const keys = readHeavyKeys(new ByteReader(bytes), "sealed");
  // Kernel and TypeScript write the same list the same way.
  const again = new ByteWriter();
  writeHeavyKeys(again, keys);
  expect(again.finish()).toEqual(bytes);
  return keys;
}

/** By the port that rowOf gives a flow: packets counted since it was listed, and packets missed before. */
function listed(keys: HeavyKeys): Map<number, [packets: number, missed: number]> {
  return new Map(
    Array.from({ length: keys.count }, (_, i) => [
      ((keys.keyWords[KEY_WORDS * i] ?? 0) >>> 16) - 1024,
      [keys.packets[i] ?? 0, keys.missed[i] ?? 0],
    ]),
  );
}

/** The slow reference: one packet after the other, as described at the top of kernels/flows/heavy-flows.ts. */
function twin(flows: readonly number[], max: number): { floor: number; kept: Map<number, [number, number]> } {
  let floor = 0;
  let kept = new Map<number, [number, number]>();
  const shed = () => {
    const bounds = [...kept.values()].map(([n, missed]) => n + missed).sort((a, b) => b - a);
    floor = Math.max(floor + 1, bounds[max] ?? 0);
    kept = new Map([...kept].filter(([, [n, missed]]) => n + missed > floor));
  };
  for (const flow of flows) {
    const known = kept.get(flow) ?? [0, floor];
    kept.set(flow, [known[0] + 1, known[1]]);
    if (kept.size > 2 * max) shed();
  }
  if (kept.size > max) shed();
  return { floor, kept };
}

const counts = (flows: readonly number[]) => {
  const out = new Map<number, number>();
  for (const flow of flows) out.set(flow, (out.get(flow) ?? 0) + 1);
  return out;
};

/** Checks the guarantees of a list of these packets. */
function keepsPromise(keys: HeavyKeys, flows: readonly number[], max: number): void {
  const truth = counts(flows);
  const found = listed(keys);
  expect(keys.count).toBeLessThanOrEqual(max);
  expect(keys.floor).toBeLessThanOrEqual(flows.length / (max + 1));
  for (const [flow, packets] of truth) {
    const [low, missed] = found.get(flow) ?? [0, keys.floor];
    expect(packets).toBeGreaterThanOrEqual(low);
    expect(packets).toBeLessThanOrEqual(low + missed);
  }
  for (const flow of found.keys()) expect(truth.has(flow)).toBe(true);
}

/** Some flows are much heavier than others. */
const stream = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 1, max: 12 })), { maxLength: 120 })
  .map((runs) => runs.flatMap(([flow, n]) => new Array<number>(flow < 5 ? 3 * n : n).fill(flow)));

describe("keys of the heaviest flows", () => {
  it("are those that a slow twin keeps, whatever the batches", () => {
    fc.assert(
      fc.property(
        stream,
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 1, max: 90 }),
        (flows, max, size) => {
          const keys = list(flows, max, size);
          const expected = twin(flows, max);
          expect(keys.floor).toBe(expected.floor);
          expect(listed(keys)).toEqual(new Map([...expected.kept].sort()));
          keepsPromise(keys, flows, max);
        },
      ),
      { numRuns: 150 },
    );
  });

  it("merge in any order within the promise, and bit for bit where all flows find room", () => {
    fc.assert(
      fc.property(stream, stream, fc.integer({ min: 1, max: 70 }), (a, b, max) => {
        const [one, other] = [list(a, max), list(b, max)];
        const merged = mergeHeavyKeys(one, other, max);
        expect(mergeHeavyKeys(other, one, max)).toEqual(merged);
        keepsPromise(merged, [...a, ...b], max);
        const whole = list([...a, ...b], max);
        if (new Set([...a, ...b]).size <= max) expect(bytesOf(merged)).toEqual(bytesOf(whole));
      }),
      { numRuns: 100 },
    );
  });

  it("come back from their bytes, and what is damaged is refused", () => {
    const keys = list([0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 7, 7, 8, 9, 10], 4);
    const bytes = bytesOf(keys);
    expect(readHeavyKeys(new ByteReader(bytes, { file: "x" }), "x")).toEqual(keys);
    for (let cut = 0; cut < bytes.length; cut++)
      expect(() => readHeavyKeys(new ByteReader(bytes.subarray(0, cut), { file: "x" }), "x")).toThrow(
        FormatError,
      );
    const many = new ByteWriter(16);
    many.varint(0);
    many.varint(2 ** 40);
    expect(() => readHeavyKeys(new ByteReader(many.finish(), { file: "x" }), "x")).toThrow(/do not fit/);
  });

  it("are a complete, exact list where there are no more flows than keys", () => {
    const known = knownHeavyFlows(list([1, 2, 2, 3], 3));
    expect(known.complete).toBe(true);
    expect([...known.packets].sort()).toEqual([1, 1, 2]);
    const some = knownHeavyFlows(list([1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9], 3));
    expect(some.complete).toBe(false);
    expect(some.heavy?.floor).toBeGreaterThan(0);
  });

  it("take the memory that is stated, once", () => {
    const before = kernels.memory.buffer.byteLength;
    for (let i = 0; i < 200; i++) list([1, 2, 3], 4096);
    expect(kernels.memory.buffer.byteLength - before).toBeLessThan(8 * heavyKeysBytes(4096));
  });
});

function bytesOf(keys: HeavyKeys): Uint8Array {
  const out = new ByteWriter(64);
  writeHeavyKeys(out, keys);
  return out.finish();
}
