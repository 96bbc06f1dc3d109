import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { writePcap } from "../../../tests/support/small-pcap.ts";
import { Kernels } from "../../base/kernels.ts";
import { openCaptures } from "./capture-source.ts";
import { PacedSource } from "./paced-source.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-paced-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const START = 1_700_000_000_000_000_000n;

/** One packet every 10 ms. */
function capture(packets: number): string {
  const file = join(scratch, `${packets}.pcap`);
  writePcap(
    file,
    Array.from({ length: packets }, (_, i) => ({
      timeNs: START + BigInt(i) * 10_000_000n,
      src: "10.0.0.1",
      dst: "10.0.1.1",
      sport: 1000,
      dport: 53,
      ipid: i,
    })),
  );
  return file;
}

test("rows come when their time does, at the configured speed, each once and with its own timestamp", async () => {
  const kernels = new Kernels();
  let clockMs = 0;
  const source = new PacedSource(openCaptures(kernels, [capture(100)]), 10, { clockMs: () => clockMs });
  const times: number[] = [];
  for (;;) {
    clockMs += 7;
    const before = clockMs;
    const got = await source.next();
    if (!got) break;
    for (const timeNs of got.batch.timeNs.subarray(0, got.batch.count)) {
      times.push(timeNs);
      // 10 times as fast: 1 ms of the clock is 10 ms of the capture. The clock started at the first row.
      expect(timeNs / 1e6).toBeLessThanOrEqual((before - 7) * 10);
    }
    expect(got.originNs).toBe(START);
  }
  expect(times).toEqual(Array.from({ length: 100 }, (_, i) => i * 1e7));
  expect(source.statistics()).toMatchObject([{ packets: 100 }]);
  source.close();
});

test("a signal ends the wait for the next row", async () => {
  const kernels = new Kernels();
  const controller = new AbortController();
  const { signal } = controller;
  const source = new PacedSource(openCaptures(kernels, [capture(3)], { signal }), 0.001, { signal });
  expect((await source.next())?.batch.count).toBe(1);
  setTimeout(() => controller.abort(), 20);
  expect(await source.next()).toBeNull();
  source.close();
});
