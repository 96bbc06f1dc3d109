/** Compares the report page's series with the truth of small captures with packets in both directions. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { writePcap } from "../../../tests/support/small-pcap.ts";
import { Random } from "../../base/random.ts";
import { type Comparison, openComparison, wholeReport } from "../../compare/compare.ts";
import type { CompareReport } from "../../compare/report.ts";
import { PAGE_LIMITS, type PageData, toPageData } from "./page-data.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-series-"));
const START = 1_700_000_000_000_000_000n;
const random = new Random("series");
const sent = Array.from({ length: 4000 }, (_, n) => {
  const flow = n % 6;
  const back = n % 3 === 0;
  const [client, server] = [`10.0.0.${flow + 1}`, "10.9.0.9"];
  return {
    ...{ timeNs: START + BigInt(n) * 1_000_000n, ipid: n & 0xffff, back, lost: n % 41 === 7, flow },
    ...(back
      ? { src: server, dst: client, sport: 53, dport: 2000 + flow }
      : { src: client, dst: server, sport: 2000 + flow, dport: 53 }),
    payload: Uint8Array.from({ length: 20 }, () => random.below(256)),
    delayNs: 2_000_000 + Math.round(random.lognormal(12, 0.8)) + (back ? 3_000_000 : 0),
  };
});
type Sent = (typeof sent)[number];

let comparison: Comparison;
let report: CompareReport;
let data: PageData;

beforeAll(async () => {
  const [before, after] = [join(scratch, "a.pcap"), join(scratch, "b.pcap")];
  const seen = (there: (p: Sent) => boolean) =>
    sent
      .flatMap((p) => (there(p) ? [p] : p.lost ? [] : [{ ...p, timeNs: p.timeNs + BigInt(p.delayNs) }]))
      .sort((a, b) => (a.timeNs < b.timeNs ? -1 : 1));
  writePcap(
    before,
    seen((p) => !p.back),
  );
  writePcap(
    after,
    seen((p) => p.back),
  );
  comparison = await openComparison({ before, after, everyPacket: true, epochNs: 100e6 });
  report = wholeReport(comparison.view("all"));
  data = toPageData(report, PAGE_LIMITS, comparison.packets?.table ?? null);
});
afterAll(() => {
  comparison.free();
  rmSync(scratch, { recursive: true, force: true });
});

const sum = (list: readonly number[]) => list.reduce((a, b) => a + b, 0);

describe("series of packets", () => {
  test("the way back over time is what was sent back, interval by interval", () => {
    const { reverseIntervals: intervals } = data;
    expect(report.reverse?.sent).toBeGreaterThan(1000);
    expect(sum(intervals?.sent ?? [])).toBe((report.reverse?.matched ?? 0) + (report.reverse?.lost ?? 0));
    expect(sum(intervals?.lost ?? [])).toBe(report.reverse?.lost);
    // In the middle, away from the edges of the captures.
    const at = intervals?.startNs.findIndex((ns) => ns + Number(BigInt(data.originNs) - START) === 2e9) ?? -1;
    const own = sent.filter(
      (p) => p.back && p.timeNs >= START + 2_000_000_000n && p.timeNs < START + 2_100_000_000n,
    );
    expect(intervals?.sent[at]).toBe(own.length);
    expect(intervals?.lost[at]).toBe(own.filter((p) => p.lost).length);
    const delays = own
      .filter((p) => !p.lost)
      .map((p) => p.delayNs)
      .sort((a, b) => a - b);
    expect(intervals?.latency.minNs[at]).toBe(delays[0]);
    expect(intervals?.latency.maxNs[at]).toBe(delays.at(-1));
    expect(intervals?.latency.p50Ns[at]).toBe(delays[Math.ceil(delays.length / 2) - 1]);
  });

  test.each(["forward", "reverse"] as const)("the largest flows have their own packets: %s", (way) => {
    const series = data.flowSeries[way];
    const flows = way === "forward" ? report.flows : report.reverseFlows;
    expect(series?.rows.length).toBe(flows.length);
    for (const [at, row] of (series?.rows ?? []).entries()) {
      const flow = flows[row];
      expect(sum(series?.sent[at] ?? [])).toBe((flow?.matched ?? 0) + (flow?.lost ?? 0));
      expect(sum(series?.lost[at] ?? [])).toBe(flow?.lost);
      const known = (series?.maxNs[at] ?? []).filter((ns) => ns !== null);
      expect(Math.max(...known)).toBe(flow?.latency?.maxNs);
    }
  });

  test("without packets there are none", () => {
    const bare = toPageData(report);
    expect(bare.reverseIntervals).toBeNull();
    expect(bare.flowSeries).toEqual({ forward: null, reverse: null });
  });
});
