import { describe, expect, test } from "vitest";
import { hostileRows, toBatches } from "../../../tests/support/hostile-rows.ts";
import { FULL } from "../../../tests/support/rounds.ts";
import { Kernels } from "../../base/kernels.ts";
import { Random } from "../../base/random.ts";
import { referenceQueue } from "../../simulate/presets.ts";
import { RECEIVER } from "../../simulate/scenario.ts";
import { simulate } from "../../simulate/simulate.ts";
import type { SizeRequest } from "../estimator.ts";
import { MaplePayload } from "./lookup.ts";
import { maple } from "./maple.ts";
import { sizeMaple } from "./size.ts";

const request: SizeRequest = {
  packets: 400_000,
  flows: 68_000,
  flowPackets: null,
  loss: [],
  epochNs: 1e9,
  variation: 1,
  error: null,
  flowSize: null,
  memoryBytes: null,
  fixed: {},
};

describe("sizes", () => {
  test("of SVBF, COMB and the hash table are those of table 1", () => {
    const failing = (fixed: SizeRequest["fixed"]) =>
      sizeMaple({ ...request, absent: 0.1, fixed: { k: 50, ...fixed } });
    expect(failing({ store: "svbf" }).parameters).toMatchObject({ bits: 12.8, hashes: 9 });
    expect(failing({ store: "comb" }).parameters).toMatchObject({ bits: 24.2, hashes: 6 });
    expect(failing({ store: "pbf" }).parameters).toMatchObject({ bits: 12.8, hashes: 9 });
    const table = sizeMaple({ ...request, fixed: { k: 50, store: "table" } });
    expect(table.parameters.bits).toBeGreaterThan(145);
    expect(table.parameters.bits).toBeLessThan(149);
    // COMB with the parameters of section 5.3 fails for half of the packets.
    expect(failing({ store: "comb", bits: 12.8 }).notes.join()).toMatch(
      /h = 3 .* several groups for (49|50)/,
    );
  });

  test("of the ribbon: enough groups for the error, enough bits against false positives, and no more", () => {
    const { parameters, predictions, notes } = sizeMaple({ ...request, error: 0.02, absent: 0.05 });
    expect(predictions[0]!.relativeError).toBeLessThan(0.02);
    const half = sizeMaple({ ...request, fixed: { k: parameters.k / 2 } });
    expect(half.predictions[0]!.relativeError).toBeGreaterThan(0.02);
    expect(notes.join()).toMatch(/answered with a probability of (3|4|5)(\.\d+)? %/);
  });

  test("fit the memory: a streaming store instead of the ribbon, fewer bits, or fewer packets", () => {
    const streaming = sizeMaple({ ...request, memoryBytes: 2e6 });
    expect(streaming.parameters.store).toBe("svbf");
    // Table 1 has 12.8 for 50 groups; here there are 64.
    expect(streaming.parameters.bits).toBeCloseTo(13.4, 1);
    const small = sizeMaple({ ...request, memoryBytes: 400_000 });
    expect(small.parameters.bits).toBeLessThan(7);
    for (const memoryBytes of [2_000_000, 10_000_000]) {
      const kept = sizeMaple({ ...request, memoryBytes, fixed: { store: "ribbon" } });
      expect(kept.memoryBytes).toBeLessThanOrEqual(memoryBytes);
      expect(kept.memoryBytes).toBeGreaterThan(0.8 * memoryBytes);
      expect(kept.notes.join()).toMatch(/the others are shed/);
    }
    expect(() => sizeMaple({ ...request, memoryBytes: 1e5, fixed: { store: "ribbon" } })).toThrow(
      /too few for a store/,
    );
  });

  test("are met by a tap: bytes within 5 %, errors of packets within a tenth", () => {
    const kernels = new Kernels();
    const random = new Random("sizes");
    // The minimum spread that sizes are made for.
    const sigma = 1.6;
    const rows = hostileRows("sizes", 30_000).map((row, i) => ({
      ...row,
      digest: [i + 1, Math.imul(i + 1, 0x9e37_79b1) >>> 0] as [number, number],
      delayNs: Math.round(1e6 * Math.exp(sigma * random.normal())),
    }));
    const batches = toBatches(kernels, rows, 1000);
    const sizes = new Map<bigint, number>();
    for (const batch of batches) {
      const at = batch.column("flowHash") >>> 3;
      for (let i = 0; i < batch.count; i++) {
        const hash = kernels.u64[at + i]!;
        sizes.set(hash, (sizes.get(hash) ?? 0) + 1);
      }
    }
    const flowPackets = Float64Array.from(sizes.values());
    const answer = sizeMaple({ ...request, packets: rows.length, flows: flowPackets.length, flowPackets });
    const tap = maple.createTap({ kernels, role: "receiver", seed: 1n }, answer.parameters);
    tap.begin(0);
    for (const batch of batches) tap.update(batch, 0, batch.count);
    const { payload } = tap.seal();
    expect(payload.length / answer.payloadBytes).toBeGreaterThan(0.95);
    expect(payload.length / answer.payloadBytes).toBeLessThan(1.05);
    const digests = BigUint64Array.from(rows, ({ digest }) => (BigInt(digest[1]) << 32n) | BigInt(digest[0]));
    const answers = MaplePayload.of(kernels, payload).lookup("digest", digests);
    const errors = Float64Array.from(
      rows,
      ({ delayNs }, i) => Math.abs(answers.valueNs[i]! - delayNs) / delayNs,
    ).sort();
    const median = errors[errors.length >> 1]!;
    expect(median / answer.predictions[0]!.relativeError!).toBeGreaterThan(0.9);
    expect(median / answer.predictions[0]!.relativeError!).toBeLessThan(1.1);
  });

  test("the wanted error is met on queues, busy and not", async () => {
    const error = 0.03;
    const { parameters } = sizeMaple({ ...request, error });
    // Seeds that the size was not tuned on.
    for (const [utilisation, seed] of [
      [0.55, 21],
      [0.88, 23],
      [0.95, 25],
      ...(FULL ? [[0.7, 22] as const, [0.88, 24] as const] : []),
    ] as const) {
      const kernels = new Kernels();
      const scenario = referenceQueue(utilisation, { seed, traffic: { durationS: 0.15 } });
      const tap = maple.createTap({ kernels, role: "receiver", seed: 1n }, parameters);
      tap.begin(0);
      const asked: { digests: BigUint64Array; delays: Float64Array }[] = [];
      for await (const batch of simulate(kernels, scenario).at(RECEIVER)) {
        const at = batch.column("digest") >>> 3;
        const digests = kernels.u64.slice(at, at + batch.count);
        asked.push({ digests, delays: batch.delayNs.slice(0, batch.count) });
        tap.update(batch, 0, batch.count);
      }
      const payload = MaplePayload.of(kernels, tap.seal().payload);
      tap.free();
      const errors = asked
        .flatMap(({ digests, delays }) => {
          const answers = payload.lookup("digest", digests);
          return Array.from(delays, (d, i) => Math.abs((answers.valueNs[i] ?? Number.NaN) - d) / d);
        })
        .filter(Number.isFinite)
        .sort((a, b) => a - b);
      payload.free();
      expect(errors.length).toBeGreaterThan(50_000);
      expect(errors[errors.length >> 1]).toBeLessThan(error);
    }
  });
});
