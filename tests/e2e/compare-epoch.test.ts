/** The length of intervals depends on the length of the capture, in `compare` as in `localise`. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { CompareReport } from "../../src/compare/report.ts";
import { localiseCaptures } from "../../src/network/localise/from-captures.ts";
import { cliOutput } from "../support/cli.ts";
import { writeLink } from "../support/link-captures.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-epoch-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const FILES = { before: join(scratch, "before.pcap"), after: join(scratch, "after.pcap") };
const MS = 1e6;

test.each([
  [0.1, 10],
  [0.6, 10],
  [0.9, 20],
  [3, 50],
  [5, 100],
  [12, 200],
  [30, 500],
  [50, 1000],
  [600, 1000],
])("%d s: intervals of %i ms", async (seconds, epochMs) => {
  const packets = Array.from({ length: 1201 }, (_, n) => ({
    flow: 1 + (n % 3),
    atNs: Math.round((n * seconds * 1e9) / 1200),
    delayNs: MS,
  }));
  writeLink(packets, FILES);
  const json = cliOutput(["compare", FILES.before, FILES.after, "--json"]);
  const { options, intervals } = JSON.parse(json) as CompareReport;
  const lengths = new Set(intervals.map((i) => Number(BigInt(i.endNs) - BigInt(i.startNs))));
  expect([...lengths]).toEqual([epochMs * MS]);
  expect(options["epochNs"]).toBe(epochMs * MS);
  const { epochNs } = await localiseCaptures({ files: [FILES.before, FILES.after] });
  expect(epochNs).toBe(epochMs * MS);
});

test("a length that is asked for is taken", () => {
  const json = cliOutput(["compare", FILES.before, FILES.after, "--json", "--epoch", "5s"]);
  expect((JSON.parse(json) as CompareReport).options["epochNs"]).toBe(5e9);
});
