import fc from "fast-check";
import { expect, it } from "vitest";
import { frameRecord, splitBatch } from "./batch.ts";

const join = (records: readonly Uint8Array[]) => new Uint8Array(Buffer.concat(records.flatMap(frameRecord)));

it("gives back the records of a message, in order", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ minLength: 1, maxLength: 50 }), { maxLength: 20 }), (records) => {
      const { records: got, cut } = splitBatch(join(records), "m");
      expect(cut).toBeNull();
      expect(got.map((r) => [...r.bytes])).toEqual(records.map((r) => [...r]));
    }),
  );
});

it("a message that is cut anywhere gives the whole records before the cut, and reports it", () => {
  const records = [Uint8Array.of(1, 2, 3), Uint8Array.of(4), Uint8Array.of(5, 6)];
  const message = join(records);
  const ends = [7, 12, 18];
  for (let length = 0; length < message.length; length++) {
    const { records: got, cut } = splitBatch(message.subarray(0, length), "m");
    expect(got).toHaveLength(ends.filter((e) => e <= length).length);
    if (length === 0 || ends.includes(length)) expect(cut).toBeNull();
    else expect(cut?.message).toMatch(/^m: at byte \d+: the message is cut/);
  }
});

it("never claims more than there is, whatever the bytes", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      const { records } = splitBatch(bytes, "m", 10);
      expect(records.length).toBeLessThanOrEqual(10);
      for (const { offset, bytes: own } of records)
        expect(offset + own.length).toBeLessThanOrEqual(bytes.length);
    }),
  );
});

it("refuses records of no length, of gigabytes, and too many of them", () => {
  expect(splitBatch(Uint8Array.of(0, 0, 0, 0), "m").cut?.message).toContain("a record of 0 bytes");
  expect(splitBatch(Uint8Array.of(255, 255, 255, 255, 1), "m").cut?.message).toContain(
    "a record of 4294967295 bytes",
  );
  expect(splitBatch(join([Uint8Array.of(1), Uint8Array.of(2)]), "m", 1).cut?.message).toContain(
    "more than 1 records",
  );
});
