import { describe, expect, test } from "vitest";
import { emptyReport, reportWithFlows, syntheticReport } from "../../../tests/support/synthetic-report.ts";
import { COUNT_FIELDS, LATENCY_FIELDS } from "../../compare/report.ts";
import { KEY_FIELDS, PAGE_LIMITS, toPageData } from "./page-data.ts";

describe("what the page carries of a report", () => {
  test("every flow comes back from the columns as it was, delays within half a nanosecond", () => {
    const report = syntheticReport({ packets: 5000 });
    report.flows[2] = { ...report.flows[2]!, latency: null, reason: "every packet was lost" };
    report.flows[4]!.key = { src: "10.0.0.0/8", dst: null, proto: null, sport: null, dport: null, vlan: 7 };
    const { flows } = toPageData(report);
    expect(flows.length).toBe(report.flows.length);
    for (const [i, flow] of report.flows.entries()) {
      const text = (at: number | null | undefined) => (at == null ? null : flows.addresses[at]);
      expect([text(flows.src[i]), text(flows.dst[i])]).toEqual([flow.key.src, flow.key.dst]);
      for (const field of KEY_FIELDS) expect(flows.key[field][i] ?? null).toBe(flow.key[field] ?? null);
      for (const field of COUNT_FIELDS) expect(flows.count[field][i]).toBe(flow[field]);
      for (const field of LATENCY_FIELDS) {
        const [kept, was] = [flows.latency[field][i], flow.latency?.[field] ?? null];
        if (was === null) expect(kept).toBeNull();
        else expect(Math.abs(kept! - was)).toBeLessThanOrEqual(0.5);
      }
      const reason = flows.reason[i] == null ? undefined : flows.reasons[flows.reason[i]!];
      expect(reason).toBe(flow.reason);
    }
  });

  test("too many flows: those with most packets stay, the whole number is kept", () => {
    const report = reportWithFlows(500);
    const { flows } = toPageData(report, { ...PAGE_LIMITS, maxFlows: 20 });
    expect([flows.length, flows.total]).toEqual([20, 500]);
    const sizes = report.flows.map((f) => f.sent + f.received).sort((a, b) => b - a);
    expect(flows.count.sent.map((sent, i) => sent! + flows.count.received[i]!)).toEqual(sizes.slice(0, 20));
  });

  test("too many intervals are grouped: counts and extremes stay exact, quantiles are the worst", () => {
    const report = syntheticReport({ packets: 9000, seconds: 90 });
    report.intervals[3]!.latency = null;
    const { intervals } = toPageData(report, { ...PAGE_LIMITS, maxIntervals: 20 });
    expect([intervals.grouped, intervals.sent.length]).toEqual([5, 18]);
    const first = report.intervals.slice(0, 5);
    expect(intervals.sent[0]).toBe(first.reduce((n, i) => n + i.sent, 0));
    expect(intervals.lost.reduce((a, b) => a + b)).toBe(report.segment.lost);
    const worst = Math.max(...first.map((i) => i.latency?.p99Ns ?? 0));
    expect(intervals.latency.p99Ns[0]).toBe(Math.round(worst));
    expect(Math.max(...intervals.latency.maxNs.map((v) => v!))).toBe(
      Math.round(report.segment.latency!.maxNs),
    );
    expect([intervals.startNs[1], intervals.endNs[1]]).toEqual([5e9, 10e9]);
  });

  test("the heat map loses its empty cells and no packet", () => {
    const report = syntheticReport({ packets: 3000 });
    const { heat } = toPageData(report);
    for (const [i, [first, ...counts]] of heat!.counts.entries()) {
      const column = new Array<number>(heat!.delayEdgesNs.length - 1).fill(0);
      for (const [j, n] of counts.entries()) column[first! + j] = n;
      expect(column).toEqual(report.heat!.counts[i]);
    }
  });

  test("lists of unknown content are cut, big integers become text", () => {
    const report = emptyReport();
    report.estimates = { lds: { flows: new Array(1000).fill({ n: 1 }), seed: 12345678901234567890n } };
    const { estimates } = toPageData(report);
    const lds = estimates!["lds"] as { flows: unknown[]; seed: unknown };
    expect(lds.flows).toHaveLength(PAGE_LIMITS.maxListItems + 1);
    expect(lds.flows.at(-1)).toBe("… 900 more");
    expect(lds.seed).toBe("12345678901234567890");
    expect(() => JSON.stringify(estimates)).not.toThrow();
  });

  test("the time axis of a report without packets begins somewhere", () => {
    const report = emptyReport();
    Object.assign(report.before, { firstNs: null, lastNs: null });
    expect(toPageData(report).originNs).toBe(report.after.firstNs);
    report.after.firstNs = null;
    expect(toPageData(report).originNs).toBe("0");
  });
});
