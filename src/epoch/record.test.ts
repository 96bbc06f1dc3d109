import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FormatError, UsageError } from "../base/errors.ts";
import { checkCompatible, geometryFingerprint } from "./compatible.ts";
import { decodeHead, decodeRecord, type EpochRecord, encodeRecord } from "./record.ts";

const bigint64 = fc.bigInt({ min: -(1n << 63n), max: (1n << 63n) - 1n });
const unsigned64 = fc.bigInt({ min: 0n, max: (1n << 64n) - 1n });
const count = fc.maxSafeNat();
const anyRecord: fc.Arbitrary<EpochRecord> = fc.record({
  point: fc.string({ unit: "grapheme", minLength: 1, maxLength: 12 }),
  role: fc.constantFrom("none", "sender", "receiver"),
  segment: fc.string({ maxLength: 12 }),
  estimator: fc.constantFrom("lda", "lds", "counting"),
  payloadVersion: fc.integer({ min: 0, max: 0xffff }),
  parameters: fc.string({ maxLength: 40 }),
  key: fc.constantFrom("5tuple", "hosts", "src/24"),
  cover: fc.nat(),
  inner: fc.boolean(),
  filter: fc.string({ unit: "grapheme", maxLength: 30 }),
  seed: unsigned64,
  fingerprint: unsigned64,
  epoch: fc.record({
    mode: fc.constantFrom("aligned", "control", "delimited"),
    startNs: bigint64,
    endNs: bigint64,
    referenceNs: bigint64,
    startId: unsigned64,
    endId: unsigned64,
    cutHead: fc.boolean(),
    cutTail: fc.boolean(),
  }),
  counters: fc.record({
    frames: count,
    packets: count,
    short: count,
    backward: count,
    skipped: fc.dictionary(fc.constantFrom("notIp", "badIp", "filtered"), count, { noNullPrototype: true }),
    dropped: fc.option(fc.nat()),
  }),
  void: fc.option(fc.string({ unit: "grapheme", maxLength: 30 })),
  program: fc.string({ maxLength: 20 }),
  delayError: fc.constantFrom(null, { packetNs: 1536, meanNs: 0.25 }, { packetNs: 1, meanNs: 0 }),
  payload: fc.oneof(
    fc.uint8Array({ maxLength: 300 }),
    fc.nat(2000).map((n) => new Uint8Array(n)),
  ),
});

const anyLive: fc.Arbitrary<EpochRecord> = fc
  .tuple(
    anyRecord,
    fc.record({ id: unsigned64, estimatedErrorNs: count, maximumErrorNs: count, synchronised: fc.boolean() }),
    fc.constantFrom(null, "ntp", "ptp"),
    fc.record({ cpuNs: count, queue: count }),
    fc.constantFrom([true, true], [true, false], [false, true]),
    fc.array(fc.record({ firstNs: bigint64, lastNs: bigint64, packets: count }), { maxLength: 3 }),
  )
  .map(([record, clock, discipline, effort, [hasClock, hasEffort], spans]) => ({
    ...record,
    ...(hasClock ? { clock: { ...clock, discipline } } : {}),
    ...(hasEffort ? { effort } : {}),
    ...(spans.length > 0 ? { spans } : {}),
  }));

const GOLDEN = [
  "record-v1-aligned",
  "record-v1-delimited-raw",
  "record-v1-void",
  "record-v2-parts",
  "record-v3-live",
] as const;
const golden = (name: string) =>
  new Uint8Array(readFileSync(new URL(`../../tests/golden/${name}.hop`, import.meta.url)));

describe("the record format", () => {
  it("gives back every record that was written, packed or not", () => {
    fc.assert(
      fc.property(anyRecord, fc.boolean(), (record, raw) => {
        const bytes = encodeRecord(record, { raw });
        expect(decodeRecord(bytes)).toEqual(record);
        expect(encodeRecord(decodeRecord(bytes), { raw })).toEqual(bytes);
      }),
      { numRuns: 300, seed: 11 },
    );
  });

  it("gives back the state of live taps, in version 3; records without it stay of versions 1 and 2", () => {
    const versionOf = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset).getUint16(4, true);
    fc.assert(
      fc.property(anyLive, (record) => {
        const bytes = encodeRecord(record);
        expect(versionOf(bytes)).toBe(3);
        expect(decodeRecord(bytes)).toEqual(record);
        const { clock: _, effort: __, ...plain } = record;
        expect(versionOf(encodeRecord(plain))).toBe(record.spans ? 2 : 1);
      }),
      { numRuns: 200, seed: 12 },
    );
  });

  it("gives the head and the payload's place without the payload", () => {
    fc.assert(
      fc.property(anyRecord, (record) => {
        const bytes = encodeRecord(record, { raw: true });
        const { layout } = decodeHead(bytes);
        const { head } = decodeHead(bytes.subarray(0, layout.headBytes));
        expect({ ...head, payload: record.payload }).toEqual(record);
        expect(bytes.subarray(layout.headBytes, layout.headBytes + layout.storedBytes)).toEqual(
          record.payload,
        );
      }),
      { numRuns: 100, seed: 12 },
    );
  });

  it("packs a payload only where that makes it smaller", () => {
    const record = decodeRecord(golden("record-v1-aligned"));
    const zeros = { ...record, payload: new Uint8Array(10_000) };
    expect(encodeRecord(zeros).length).toBeLessThan(600);
    expect(decodeHead(encodeRecord(zeros)).layout).toMatchObject({ packed: true, unpackedBytes: 10_000 });
    expect(decodeHead(encodeRecord(zeros, { raw: true })).layout.packed).toBe(false);
    const noise = { ...record, payload: Uint8Array.from({ length: 64 }, (_, i) => (i * 167) ^ (i << 3)) };
    expect(decodeHead(encodeRecord(noise)).layout.packed).toBe(false);
  });

  it("refuses every flipped bit, with an offset inside the record", () => {
    for (const name of GOLDEN) {
      const bytes = golden(name);
      for (let bit = 0; bit < bytes.length * 8; bit++) {
        const damaged = bytes.slice();
        damaged[bit >>> 3]! ^= 1 << (bit & 7);
        const error = failure(() => decodeRecord(damaged, { file: "a.hop", offset: 1000 }));
        expect(error, `bit ${bit} of ${name}`).toBeInstanceOf(FormatError);
        const { offset } = error as FormatError;
        expect(offset >= 1000 && offset <= 1000 + bytes.length, `offset ${offset}`).toBe(true);
      }
    }
  });

  it("refuses every cut, and bytes that follow", () => {
    for (const name of GOLDEN) {
      const bytes = golden(name);
      for (let length = 0; length < bytes.length; length++) {
        expect(failure(() => decodeRecord(bytes.subarray(0, length)))).toBeInstanceOf(FormatError);
      }
      const longer = new Uint8Array(bytes.length + 1);
      longer.set(bytes);
      expect(failure(() => decodeRecord(longer))).toBeInstanceOf(FormatError);
    }
  });

  it("refuses noise of any kind without another error", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...GOLDEN),
        fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 20 }),
        (name, changes) => {
          const bytes = golden(name);
          const damaged = bytes.slice();
          for (const [at, value] of changes) damaged[at % bytes.length] = value;
          if (Buffer.compare(damaged, bytes) === 0) return;
          expect(failure(() => decodeRecord(damaged))).toBeInstanceOf(FormatError);
        },
      ),
      { numRuns: 500, seed: 13 },
    );
  });

  it("reads the golden files of version 1 for ever", () => {
    for (const name of GOLDEN) {
      const record = decodeRecord(golden(name));
      expect({ ...record, payload: Buffer.from(record.payload).toString("hex") }).toMatchSnapshot(name);
    }
  });
});

describe("records of two ends", () => {
  const base = decodeRecord(golden("record-v1-aligned"));
  const make = (change: Partial<EpochRecord>): EpochRecord => {
    const record = { ...base, ...change };
    return { ...record, fingerprint: geometryFingerprint(record) };
  };

  it("fit where nothing but the point, its role, filter and counts differ", () => {
    const other = make({
      point: "elsewhere",
      role: "receiver",
      filter: "udp",
      counters: { ...base.counters, packets: 1 },
    });
    expect(() => checkCompatible(make({}), other)).not.toThrow();
  });

  it("fit where one key is written in two ways", () => {
    expect(() => checkCompatible(make({ key: "src,dst" }), make({ key: "hosts" }))).not.toThrow();
  });

  it.each([
    ["seed", { seed: 5n }],
    ["geometry", { parameters: "cells=8" }],
    ["version", { payloadVersion: 9 }],
    ["key", { key: "hosts" }],
    ["cover", { cover: 32 }],
    ["inner", { inner: true }],
    ["estimator", { estimator: "lds" }],
    ["epoch", { epoch: { ...base.epoch, startNs: 0n } }],
    ["epoch", { epoch: { ...base.epoch, mode: "delimited" as const } }],
    ["epoch", { epoch: { ...base.epoch, referenceNs: 1n } }],
  ])("are refused by name where the %s differs", (what, change) => {
    const error = failure(() => checkCompatible(make({}), make(change)));
    expect(error).toBeInstanceOf(UsageError);
    expect((error as UsageError).code).toBe("mismatch");
    expect((error as UsageError).message).toContain(`differ in ${what}`);
  });
});

function failure(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  return "no error";
}
