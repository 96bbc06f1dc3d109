import { expect, test } from "vitest";
import type { RecordHead } from "../epoch/record.ts";
import { MetricText, tapMetrics } from "./metrics.ts";
import { TapStates } from "./tap-states.ts";

const SECOND_NS = 1_000_000_000n;

function head(estimator: string, second: number, more: Partial<RecordHead> = {}): RecordHead {
  const startNs = BigInt(second) * SECOND_NS;
  return {
    ...{ point: "A", segment: "", estimator, program: "hoptime", clock: null, effort: null },
    epoch: { startNs, endNs: startNs + SECOND_NS },
    counters: { packets: 200, dropped: 3 },
    ...more,
  } as unknown as RecordHead;
}

test("packets are counted once, however many estimators looked at them and in whatever order their records come", () => {
  const taps = new TapStates();
  for (let second = 0; second < 5; second++) taps.take([head("lda", second), head("lds", second)], null);
  // The records of one estimator for a while, then the other's, as a spool delivers them.
  taps.take(
    [5, 6, 7, 8].map((s) => head("lda", s)),
    null,
  );
  taps.take(
    [5, 6, 7, 8].map((s) => head("lds", s)),
    null,
  );
  expect(taps.of("A")).toMatchObject({
    packets: 9 * 200,
    dropped: 9 * 3,
    packetsPerSecond: 200,
    records: 18,
  });
});

test("other labels are other packets; a label that has ended is none of the present rate", () => {
  const taps = new TapStates();
  taps.take([head("lda", 1, { segment: "A:B" }), head("lda", 1, { segment: "A:C" })], null);
  expect(taps.of("A")).toMatchObject({ packets: 400, packetsPerSecond: 400 });
  taps.take([head("lda", 200, { segment: "A:B" })], null);
  expect(taps.of("A")).toMatchObject({ packets: 600, packetsPerSecond: 200 });
});

test("where the estimator that was counted by has ended, another one is", () => {
  const taps = new TapStates();
  taps.take([head("lda", 1), head("lds", 1), head("lds", 2), head("lds", 30)], null);
  expect(taps.of("A")).toMatchObject({ packets: 400, packetsPerSecond: 200 });
});

test("what a tap says of itself is in /metrics: processor, queue and clock, in base units", () => {
  const taps = new TapStates();
  const clock = {
    id: 1n,
    synchronised: false,
    discipline: null,
    estimatedErrorNs: 2000,
    maximumErrorNs: 5e8,
  };
  taps.take([head("lda", 1, { clock, effort: { cpuNs: 25_000_000, queue: 3 } })], null);
  const out = new MetricText();
  tapMetrics(out, taps.all());
  const lines = out.text().split("\n");
  for (const line of [
    'hoptime_tap_cpu_ratio{point="A"} 0.025',
    'hoptime_tap_queue_records{point="A"} 3',
    'hoptime_tap_clock_synchronised{point="A"} 0',
    'hoptime_tap_clock_estimated_error_seconds{point="A"} 0.000002',
    'hoptime_tap_clock_maximum_error_seconds{point="A"} 0.5',
  ])
    expect(lines).toContain(line);
});
