/** Flow records that would take too much memory or time are refused in one line, or counted. */
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { parseFlowRecordFile } from "./flow-records.ts";

const u16 = (...values: number[]) => values.flatMap((v) => [v >> 8, v & 255]);

/** An IPFIX message of one set. */
function ipfix(id: number, body: readonly number[]): number[] {
  const set = [...u16(id, body.length + 4), ...body];
  return [...u16(10, set.length + 16), ...new Array<number>(12).fill(0), ...set];
}

describe("a packed file", () => {
  it("that unpacks to far more than flow records do is refused before it is unpacked", async () => {
    const line = Buffer.from("10.0.0.1,10.0.0.2,6,1,2,5\n");
    const bomb = gzipSync(
      Buffer.concat([
        Buffer.from("src,dst,proto,sport,dport,packets\n"),
        Buffer.alloc(20 << 20, line), // 20 MiB in some 60 kB
      ]),
    );
    expect(bomb.length).toBeLessThan(100_000);
    await expect(parseFlowRecordFile(bomb, "bomb.csv.gz")).rejects.toThrow(
      "bomb.csv.gz: at byte 0: more than 16 MiB of flow records",
    );
  });

  it("that is packed as flow records are is read", async () => {
    const rows = Array.from({ length: 20_000 }, (_, i) => `10.${i >> 8}.${i & 255}.1,10.0.0.2,${i + 1}`);
    const { records } = await parseFlowRecordFile(gzipSync(`src,dst,packets\n${rows.join("\n")}\n`), "x.gz");
    expect(records).toHaveLength(20_000);
  });
});

describe("IPFIX templates", () => {
  it("with fields of no length are left out and said, however many fields and data there are", async () => {
    // 15,000 fields of length 0, and one of a byte: each of 60,000 bytes would be a record of 15,001 fields.
    const fields = [...new Array<number[]>(15_000).fill(u16(2, 0)).flat(), ...u16(4, 1)];
    const template = ipfix(2, [...u16(256, 15_001), ...fields]);
    const data = ipfix(256, new Array<number>(60_000).fill(6));
    const bytes = [...template, ...data, ...data, ...data, ...data];
    const before = process.cpuUsage();
    const { records, notes } = await parseFlowRecordFile(Uint8Array.from(bytes), "zero.ipfix");
    expect(process.cpuUsage(before).user / 1e6).toBeLessThan(2);
    expect(records).toEqual([]);
    expect(notes).toEqual([
      "4 data sets of 1 template left out: received before their template",
      "1 template with fields of no length left out, with their data",
    ]);
  });

  it("without end are refused", async () => {
    // Each message describes 16,000 fields under another number.
    const fields = new Array<number[]>(16_000).fill(u16(4, 1)).flat();
    const messages = Array.from({ length: 70 }, (_, i) => ipfix(2, [...u16(256 + i, 16_000), ...fields]));
    await expect(parseFlowRecordFile(Uint8Array.from(messages.flat()), "many.ipfix")).rejects.toThrow(
      /^many\.ipfix: at byte \d+: templates of more than 1,000,000 fields$/,
    );
  });
});

describe("text", () => {
  it("without lines is no list of flows", async () => {
    await expect(
      parseFlowRecordFile(
        Buffer.concat([Buffer.from("src,dst,packets\n"), Buffer.alloc(2 << 20, "a,")]),
        "x",
      ),
    ).rejects.toThrow("x: at byte 16: a line of 2097152 bytes: not a list of flows");
  });
});
