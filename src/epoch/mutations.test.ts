/**
 * Records that were written wrongly: any change of their bytes, with corrected checksums, is refused with a FormatError or read as something complete, in
 * bounded memory and time.
 */
import { deflateSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { numberedRecord } from "../../tests/support/numbered-record.ts";
import { ByteWriter, crc32c } from "../base/bytes.ts";
import { FormatError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { decodeRecord, type EpochRecord, encodeRecord, FIXED_HEAD_BYTES } from "./record.ts";
import { MAX_PAYLOAD_BYTES } from "./record-layout.ts";

const MUTATIONS = 12_000;
const MEMORY = 256 << 20;

const span = { firstNs: 5n, lastNs: 9n, packets: 3 };
const originals: Uint8Array[] = [
  encodeRecord(numberedRecord(7)),
  encodeRecord(numberedRecord(8, { payload: new Uint8Array(4000) })),
  encodeRecord(numberedRecord(9, { spans: [span, { ...span, firstNs: 20n, lastNs: 30n }] })),
  encodeRecord(numberedRecord(10, { void: "End 4 was not seen", payload: new Uint8Array(0) })),
  encodeRecord(
    numberedRecord(11, {
      counters: {
        ...{ frames: 2 ** 53 - 1, packets: 1, short: 0, backward: 0 },
        ...{ skipped: { notIp: 2 ** 40, truncatedLink: 3 }, dropped: 2 ** 53 - 2 },
      },
    }),
    { raw: true },
  ),
];

/** Corrects both checksums, if there is a head that states their position. */
function repair(bytes: Uint8Array): Uint8Array {
  if (bytes.length < FIXED_HEAD_BYTES + 8) return bytes;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const head = view.getUint32(8, true);
  if (head >= FIXED_HEAD_BYTES + 4 && head <= bytes.length - 4)
    view.setUint32(head - 4, crc32c(bytes.subarray(0, head - 4)), true);
  view.setUint32(bytes.length - 4, crc32c(bytes.subarray(0, bytes.length - 4)), true);
  return bytes;
}

const EDGES = [0, 1, 4, 127, 128, 255];
const WORDS = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, MAX_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES + 1];

function mutate(random: Random): Uint8Array {
  const original = originals[Math.floor(random.float() * originals.length)] ?? new Uint8Array(0);
  let bytes = original.slice();
  const at = (limit: number) => Math.floor(random.float() * limit);
  for (let changes = 1 + at(3); changes > 0; changes--) {
    // Mostly in the head, which contains lengths, kinds and texts.
    const place = random.float() < 0.8 ? at(Math.min(bytes.length, 260)) : at(bytes.length);
    const kind = at(6);
    if (kind === 0) bytes[place] = at(256);
    else if (kind === 1) bytes[place] = EDGES[at(EDGES.length)] ?? 0;
    else if (kind === 2) bytes[place] = (bytes[place] ?? 0) ^ (1 << at(8));
    else if (kind === 3 && place + 4 <= bytes.length)
      new DataView(bytes.buffer).setUint32(place, WORDS[at(WORDS.length)] ?? 0, true);
    else if (kind === 4)
      bytes = Uint8Array.from([...bytes.subarray(0, place), at(256), ...bytes.subarray(place)]);
    else bytes = Uint8Array.from([...bytes.subarray(0, place), ...bytes.subarray(place + 1 + at(8))]);
  }
  return repair(bytes);
}

describe("records that were written wrong", () => {
  it("are refused, or read as something whole, whatever was changed", () => {
    const random = new Random(4711);
    let refused = 0;
    let highest = 0;
    for (let n = 0; n < MUTATIONS; n++) {
      const bytes = mutate(random);
      let record: EpochRecord | null = null;
      try {
        record = decodeRecord(bytes, { file: "mutated" });
      } catch (error) {
        if (!(error instanceof FormatError)) throw error;
        refused++;
      }
      // What can be read can be written, and is then the same.
      if (record && n % 4 === 0) expect(decodeRecord(encodeRecord(record, { raw: true }))).toEqual(record);
      if (n % 500 === 0) highest = Math.max(highest, process.memoryUsage().arrayBuffers);
    }
    expect(refused).toBeGreaterThan(MUTATIONS / 4);
    expect(refused).toBeLessThan(MUTATIONS);
    expect(highest).toBeLessThan(MEMORY);
  });

  it("do not unpack to more than they may, whatever they promise", () => {
    // A megabyte that unpacks to a gigabyte: stated, stated wrongly, and not stated.
    const bomb = deflateSync(Buffer.alloc(300 << 20), { level: 9 });
    for (const promised of [300 << 20, 1000, MAX_PAYLOAD_BYTES + 1, 0xffff_ffff]) {
      const out = new ByteWriter();
      const base = encodeRecord(numberedRecord(1, { payload: new Uint8Array(5000) }));
      const head = new DataView(base.buffer, base.byteOffset).getUint32(8, true);
      out.bytes(base.subarray(0, head));
      out.bytes(bomb);
      out.u32(0);
      out.patchU32(12, bomb.length);
      out.patchU32(16, promised);
      const before = process.memoryUsage().rss;
      expect(() => decodeRecord(repair(out.finish()))).toThrow(FormatError);
      expect(process.memoryUsage().rss - before).toBeLessThan(MEMORY / 2);
    }
  });

  it("are not made: what would not be unpacked is not packed", () => {
    const payload = new Uint8Array(80 << 20);
    const bytes = encodeRecord(numberedRecord(1, { payload }));
    expect(bytes.length).toBeGreaterThan(payload.length);
    expect(decodeRecord(bytes).payload.length).toBe(payload.length);
  });
});
