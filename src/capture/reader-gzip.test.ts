import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { readRows } from "../../tests/support/capture-rows.ts";
import { file, ids, range, START, udpFrame } from "../../tests/support/numbered-captures.ts";
import * as p from "../../tests/support/packets.ts";
import { pcapFile } from "../../tests/support/pcap-writer.ts";
import { FormatError } from "../base/errors.ts";

function noiseBytes(seed: number, length: number): Uint8Array {
  let x = seed * 2_654_435_761 + 1;
  return Uint8Array.from({ length }, () => {
    x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d) + 0x9e3779b9;
    return x >>> 24;
  });
}

describe("gzip", () => {
  const plain = pcapFile(
    range(5000).map((n) => ({ timeNs: START + BigInt(n), frame: udpFrame(n) })),
    { nano: true },
  );
  const whole = readRows(file(plain));

  test("reads as the plain file does", async () => {
    const { rows, statistics } = await readRows(file(gzipSync(plain)));
    expect(rows).toEqual((await whole).rows);
    expect(statistics.partial).toBeNull();
  });

  test("of several members, and with zeros behind the last", async () => {
    const cuts = [0, 1, 30, 100_000, plain.length];
    const members = cuts.slice(1).map((to, i) => gzipSync(plain.subarray(cuts[i]!, to)));
    for (const tail of [Buffer.alloc(0), Buffer.alloc(7), Buffer.alloc(1000)]) {
      const { rows, statistics } = await readRows(file(Buffer.concat([...members, tail])));
      expect(rows.length).toBe(5000);
      expect(statistics.partial).toBeNull();
    }
  });

  test("followed by something else: what was read, and a message", async () => {
    const { rows, statistics } = await readRows(file(Buffer.concat([gzipSync(plain), Buffer.from("other")])));
    expect(rows.length).toBe(5000);
    expect(statistics.partial).toMatch(/incorrect header check/);
  });

  test("cut anywhere: a prefix of the rows, and a message", async () => {
    const packed = gzipSync(plain);
    const all = (await whole).rows;
    for (const share of [0.02, 0.3, 0.7, 0.99, 1 - 4 / packed.length]) {
      const { rows, statistics } = await readRows(
        file(packed.subarray(0, Math.floor(share * packed.length))),
      );
      expect(rows).toEqual(all.slice(0, rows.length));
      expect(rows.length).toBeGreaterThan(share * 5000 - 700);
      expect(statistics.partial).toMatch(/unexpected end of file/);
    }
  });

  test("with a wrong check sum: every packet, and a message", async () => {
    const packed = gzipSync(plain);
    packed[packed.length - 6]! ^= 1;
    const { rows, statistics } = await readRows(file(packed));
    expect(rows.length).toBe(5000);
    expect(statistics.partial).toMatch(/incorrect data check/);
  });

  test("damaged in the middle: what came before, and a message", async () => {
    const noise = range(3000).map((n) => ({
      timeNs: START,
      frame: p.stack([p.ethernet(0x0800), p.ipv4({ proto: 17, id: n }), p.udp()], noiseBytes(n, 200)),
    }));
    const content = pcapFile(noise);
    const packed = gzipSync(content);
    packed.fill(0xff, packed.length >> 1, (packed.length >> 1) + 100);
    const { rows, statistics } = await readRows(file(packed));
    expect(ids(rows)).toEqual(range(rows.length));
    expect(rows.length).toBeGreaterThan(1200);
    expect(rows.length).toBeLessThan(1600);
    expect(statistics.partial).not.toBeNull();
  });

  test("of nothing, or cut in its head, is a format error", async () => {
    await expect(readRows(file(gzipSync("")))).rejects.toThrow(FormatError);
    await expect(readRows(file(gzipSync(plain).subarray(0, 8)))).rejects.toThrow(/at byte 0: reading failed/);
    await expect(readRows(file(Buffer.from([0x1f, 0x8b, 0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9])))).rejects.toThrow(
      FormatError,
    );
  });
});
