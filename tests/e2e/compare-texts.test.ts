/**
 * Reports whose flows are written by the kernels equal those written one by one, byte for byte: various addresses, protocols and directions, flows of few and
 * of many packets.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { generateCaptures } from "../../bench/generate-captures.ts";
import { type CompareOptions, openComparison, wholeReport } from "../../src/compare/compare.ts";
import { formatCompareCsv } from "../../src/present/csv/compare-csv.ts";
import { jsonPieces } from "../../src/present/json/json-pieces.ts";
import { ROOT } from "../support/demo-captures.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-texts-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const pair = (name: string) => ({
  before: join(scratch, `${name}-before.pcap`),
  after: join(scratch, `${name}-after.pcap`),
});

const mixed = { packets: 40_000, seed: 8, loss: 0.02, ipv6Share: 0.4, vlanShare: 0.1 };
beforeAll(() => {
  const [bursts, turns] = [pair("bursts"), pair("turns")];
  generateCaptures({ ...mixed, beforeFile: bursts.before, afterFile: bursts.after });
  generateCaptures({ ...mixed, interleavedFlows: 900, beforeFile: turns.before, afterFile: turns.after });
});

/** Returns the report with its flows as lists, which are written one by one, and the number of flows. */
async function check(options: CompareOptions): Promise<number> {
  const comparison = await openComparison(options);
  try {
    const view = comparison.view("all");
    const report = wholeReport(view);
    expect([...jsonPieces(view)].join("")).toBe(JSON.stringify(report));
    expect(formatCompareCsv(view)).toBe(formatCompareCsv(report));
    return report.flows.length + report.reverseFlows.length;
  } finally {
    comparison.free();
  }
}

describe("flows written by the kernels", () => {
  test("of bursts: most have one, two or three packets", async () => {
    expect(await check(pair("bursts"))).toBeGreaterThan(3000);
  });

  test("interleaved ones: the largest have more packets than a list of delays holds", async () => {
    expect(await check(pair("turns"))).toBeGreaterThan(800);
  });

  test("with the clocks corrected: delays with fractions, and negative ones", async () => {
    await check({ ...pair("turns"), clock: "relative" });
    await check({ ...pair("turns"), clock: "deskew" });
    const { before, after } = pair("turns");
    await check({ before: after, after: before });
  });

  test("of real traffic: ICMP, both directions, flows without a match", async () => {
    const demo = (name: string) => join(ROOT, "demo", name);
    expect(
      await check({ before: demo("router-in.pcap.gz"), after: demo("router-out.pcap.gz") }),
    ).toBeGreaterThan(0);
  });

  test("other keys are written as before", async () => {
    for (const key of ["hosts", "5tuple,dscp", "src/24,proto"]) await check({ ...pair("turns"), key });
  });
});
