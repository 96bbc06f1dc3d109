/**
 * All files of the robustness corpus, and truncations of them: no crash, no hang, bounded memory. The result is a FormatError with file, offset and reason if
 * the file is no capture; otherwise rows, and a message with an offset if it is damaged. The rows of a truncated file are a prefix of those of the whole file.
 */
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { FormatError } from "../../src/base/errors.ts";
import { Kernels } from "../../src/base/kernels.ts";
import { CaptureReader, type CaptureStatistics } from "../../src/capture/reader.ts";
import { sharedTraces, unpackCorpus } from "../support/shared-traces.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-corpus-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const traces = sharedTraces("robustness corpus");
const files = traces ? unpackCorpus(traces, scratch) : [];

/** Enough for the largest file of the corpus on a slow and busy machine; a hang takes much longer. */
const LIMIT_MS = 10_000;
/** Initial memory of the kernels, plus a chunk with its batch. */
const MEMORY_BYTES = 8 << 20;
const kernels = new Kernels();

/** Digest and flags of a row, and everything else that two readings must agree in. */
type Row = string;
interface Reading {
  rows: Row[];
  /** Times of the rows in ns since 1970, and their precision: if a capture's timestamps are decades apart, they are not exact to the nanosecond. */
  times: { ns: bigint; exactNs: number }[];
  statistics: CaptureStatistics | null;
  error: FormatError | null;
}

async function read(path: string, inner = false): Promise<Reading> {
  const started = process.cpuUsage();
  let reader: CaptureReader;
  try {
    reader = await CaptureReader.open(kernels, path, { inner });
  } catch (error) {
    expect(error).toBeInstanceOf(FormatError);
    const { file, offset, message } = error as FormatError;
    expect(file).toBe(path);
    expect(message).toMatch(new RegExp(`: at byte ${offset}: .{10,}`));
    return { rows: [], times: [], statistics: null, error: error as FormatError };
  }
  const rows: Row[] = [];
  const times: Reading["times"] = [];
  while (await reader.next()) {
    const { timeNs, digest, meta, addrA, flags, wireLength, captured, iface, ipid, count } = reader.batch;
    for (let i = 0; i < count; i++) {
      const words = [digest, meta, addrA].map((c) => `${c[2 * i]},${c[2 * i + 1]}`);
      const time = timeNs[i]!;
      times.push({
        ns: reader.originNs! + BigInt(Math.round(time)),
        exactNs: Math.abs(time) * Number.EPSILON,
      });
      rows.push([...words, flags[i], wireLength[i], captured[i], iface[i], ipid[i]].join(" "));
    }
  }
  reader.close();
  reader.free();
  const statistics = reader.statistics();
  const skipped = Object.values(statistics.skipped).reduce((a, b) => a + b, 0);
  expect(statistics.ipPackets).toBe(rows.length);
  expect(rows.length + skipped).toBe(statistics.packets);
  if (statistics.partial !== null) expect(statistics.partial.startsWith(`${path}: at byte `)).toBe(true);
  expect(process.cpuUsage(started).user / 1000).toBeLessThan(LIMIT_MS);
  expect(kernels.memory.buffer.byteLength).toBeLessThanOrEqual(MEMORY_BYTES);
  return { rows, times, statistics, error: null };
}

async function expectPrefix(path: string, whole: Reading, length: number): Promise<void> {
  const cut = join(scratch, "cut");
  writeFileSync(cut, readFileSync(path).subarray(0, length));
  const { rows, times } = await read(cut);
  expect(rows.length).toBeLessThanOrEqual(whole.rows.length);
  expect(rows, `${path} cut to ${length} bytes`).toEqual(whole.rows.slice(0, rows.length));
  // Time 0 may belong to another packet; the following ones show the outlier.
  for (const [i, { ns, exactNs }] of times.entries()) {
    const full = whole.times[i]!;
    const maximum = 1 + exactNs + full.exactNs;
    expect(Math.abs(Number(ns - full.ns)), `${path} cut to ${length} bytes`).toBeLessThanOrEqual(maximum);
  }
}

describe.skipIf(!traces)("the robustness corpus is survived", () => {
  test("there are as many files as there should be", () => {
    expect(files.length).toBeGreaterThan(1100);
  });

  test("every file, whole, with and without looking inside tunnels", async () => {
    const outcomes = { whole: 0, partial: 0, refused: 0, packets: 0 };
    for (const path of files) {
      const { statistics } = await read(path);
      if (!statistics) outcomes.refused++;
      else if (statistics.partial) outcomes.partial++;
      else outcomes.whole++;
      outcomes.packets += statistics?.packets ?? 0;
      await read(path, true);
    }
    console.log("robustness corpus:", JSON.stringify(outcomes));
    expect(outcomes.whole).toBeGreaterThan(1000);
  });

  test("every file cut at three places", async () => {
    for (const [i, path] of files.entries()) {
      const whole = await read(path);
      const { size } = statSync(path);
      // Pseudo-random places that are the same in every run.
      for (const k of [1, 2, 3])
        await expectPrefix(path, whole, (Math.imul(i * 3 + k, 0x9e3779b1) >>> 0) % (size + 1));
    }
  });

  test("small files cut at every place", async () => {
    const small = files.filter((f) => statSync(f).size <= 420);
    const chosen = small.filter((_, i) => i % Math.ceil(small.length / 24) === 0);
    expect(chosen.length).toBeGreaterThan(10);
    for (const path of chosen) {
      const whole = await read(path);
      for (let n = 0; n < statSync(path).size; n++) await expectPrefix(path, whole, n);
    }
  });
});
