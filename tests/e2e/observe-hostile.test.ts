/** Captures with impossible values: counted, never a crash. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import { observePoint } from "../../src/observe/observe-point.ts";
import { frame } from "../support/small-pcap.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-hostile-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const START = 1_700_000_000_000_000_000n;
const LAST = 2n ** 63n - 1n;

function block(type: number, body: Buffer): Buffer {
  const out = Buffer.alloc(12 + body.length);
  out.writeUInt32LE(type, 0);
  out.writeUInt32LE(out.length, 4);
  body.copy(out, 8);
  out.writeUInt32LE(out.length, out.length - 4);
  return out;
}

/** pcapng with one interface with ns resolution. */
function pcapng(...blocks: Buffer[]): Buffer {
  const section = Buffer.alloc(16);
  section.writeUInt32LE(0x1a2b3c4d, 0);
  section.writeUInt16LE(1, 4);
  section.writeBigInt64LE(-1n, 8);
  const iface = Buffer.from([1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
  return Buffer.concat([block(0x0a0d0d0a, section), block(1, iface), ...blocks]);
}

function packet(n: number, timeNs: bigint): Buffer {
  const data = frame({ timeNs: 0n, src: "10.0.0.1", dst: "10.2.0.9", sport: 1, dport: 53, ipid: n }).subarray(
    16,
  );
  const body = Buffer.alloc(20 + ((data.length + 3) & ~3));
  body.writeUInt32LE(Number(timeNs >> 32n), 4);
  body.writeUInt32LE(Number(timeNs & 0xffff_ffffn), 8);
  body.writeUInt32LE(data.length, 12);
  body.writeUInt32LE(data.length, 16);
  data.copy(body, 20);
  return block(6, body);
}

/** Interface statistics: packets dropped so far. */
function dropped(n: bigint): Buffer {
  const body = Buffer.alloc(12 + 12 + 4);
  body.writeUInt16LE(5, 12);
  body.writeUInt16LE(8, 14);
  body.writeBigUInt64LE(n, 16);
  return block(5, body);
}

const seconds = (from: number, count: number) =>
  Array.from({ length: count }, (_, i) =>
    packet(100 * from + i, START + BigInt(from) * 10n ** 9n + BigInt(i) * 10n ** 8n),
  );

let number = 0;
async function observe(bytes: Buffer, change: { keepNs?: bigint } = {}) {
  const file = join(root, `${number}.pcapng`);
  const directory = join(root, `records-${number++}`);
  writeFileSync(file, bytes);
  const report = await observePoint({
    files: [file],
    ...{ point: "A", directory, estimators: ["lda", "lds", "colate", "flows"] },
    cut: { mode: "aligned", lengthNs: 1_000_000_000n },
    ...change,
  });
  const archive = RecordArchive.open(directory);
  const records = archive.list().entries.map((e) => archive.readRecord(e));
  return { report, lda: records.filter((r) => r.estimator === "lda"), records };
}

describe("captures that claim what cannot be", () => {
  it("have timestamps near 2^63, alone or among others: every packet is counted once", async () => {
    const wild = [1n, 2n, 3n].map((n) => packet(Number(n), LAST - 3n + n));
    const alone = await observe(pcapng(...wild));
    expect(alone.lda.reduce((n, r) => n + r.counters.packets, 0)).toBe(3);
    const among = await observe(pcapng(...seconds(0, 30), ...wild, ...seconds(3, 30)));
    expect(among.lda.reduce((n, r) => n + r.counters.packets, 0)).toBe(63);
    // The stream continues at its previous time; the packet with the wrong time is in a separate epoch.
    const starts = among.lda.map((r) => r.epoch.startNs).sort((a, b) => (a < b ? -1 : 1));
    expect(starts.slice(0, 6)).toEqual([0n, 1n, 2n, 3n, 4n, 5n].map((s) => START + s * 10n ** 9n));
    expect(starts).toHaveLength(7);
    expect(among.report.records.refused).toBe(0);
    // It does not make later packets late.
    const kept = await observe(pcapng(...seconds(0, 150), ...wild, ...seconds(15, 30)), {
      keepNs: 7n * 86_400n * 10n ** 9n,
    });
    expect(kept.report.records.removed).toBe(0);
  });

  it("have dropped 2^53 - 1 packets, or 2^64 - 1", async () => {
    for (const n of [2n ** 53n - 1n, 2n ** 64n - 1n]) {
      const { report, lda } = await observe(
        pcapng(...seconds(0, 20), dropped(n), ...seconds(2, 10), dropped(n)),
      );
      expect(lda.map((r) => r.counters.packets)).toEqual([10, 10, 10]);
      for (const { counters } of lda)
        expect(counters.dropped === null || Number.isSafeInteger(counters.dropped)).toBe(true);
      const counted = report.captures[0]?.dropped;
      expect(counted === null || Number.isSafeInteger(counted)).toBe(true);
    }
  });
});
