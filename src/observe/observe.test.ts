/** Source to observer to sink: every record once and in order, whatever fails; nothing held afterwards. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, it } from "vitest";
import { countingEstimator } from "../../tests/support/counting-estimator.ts";
import { numberedRecord } from "../../tests/support/numbered-record.ts";
import { makeBatch } from "../../tests/support/small-batch.ts";
import { RecordArchive } from "../archive/archive.ts";
import { Kernels } from "../base/kernels.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import type { Source, SourceBatch } from "../capture/source/source.ts";
import type { EpochRecord } from "../epoch/record.ts";
import { parseParameters } from "../estimators/parameters.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import { weibullDelays } from "../simulate/presets.ts";
import { simulate } from "../simulate/simulate.ts";
import { simulatedSource } from "../simulate/simulated-source.ts";
import { DirectorySink } from "./directory-sink.ts";
import { type ObserveOptions, observe } from "./observe.ts";
import type { RecordSink } from "./record-sink.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-observe-parts-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const START = 1_700_000_000_000_000_000n;

class MemorySink implements RecordSink {
  readonly records: EpochRecord[] = [];
  failAt = Number.POSITIVE_INFINITY;
  async put(record: EpochRecord) {
    if (this.records.length >= this.failAt) throw new Error("the disk is gone");
    this.records.push(record);
    return { outcome: "stored" as const, bytes: 1 };
  }
  async flush() {}
  async close() {}
}

const counting = { estimator: countingEstimator, parameters: parseParameters(countingEstimator) };
const common = (kernels: Kernels) => ({
  ...{ kernels, point: "A", seed: 1n, cover: 64, inner: false, key: FlowKeySpec.parse("5tuple") },
  lanes: [{ segment: "", role: "both" as const, filter: "" }],
  taps: [counting],
  cut: { mode: "aligned" as const, lengthNs: 1_000_000_000n },
});

/** Yields batches on request; null ends it. */
function source(
  kernels: Kernels,
  steps: (number[] | "silence" | Error)[],
  now: () => bigint | null = () => null,
) {
  const state = { closed: 0 };
  let last: SourceBatch | null = null;
  const made: Source = {
    name: "steps",
    live: true,
    async next() {
      last?.batch.free();
      last = null;
      for (let step = steps.shift(); step; step = steps.shift()) {
        if (step instanceof Error) throw step;
        if (step === "silence") await sleep(300);
        else {
          last = {
            batch: makeBatch(
              kernels,
              step.map((timeNs) => ({ timeNs })),
            ),
            originNs: START,
          };
          return last;
        }
      }
      return null;
    },
    nowNs: now,
    totals: () => ({ frames: 0, skipped: {}, dropped: null }),
    statistics: () => [],
    progress: () => ({ doneBytes: 0, totalBytes: null }),
    close: () => {
      last?.batch.free();
      last = null;
      state.closed++;
    },
  };
  return { made, state };
}

describe("observing", () => {
  it("gives each record once and in order, empty epochs of a silence too, while it lasts", async () => {
    const kernels = new Kernels();
    const sink = new MemorySink();
    let nowNs = START;
    const seen: number[] = [];
    const { made } = source(kernels, [[0, 1e8], "silence", [5.1e9]], () => {
      seen.push(sink.records.length);
      nowNs += 700_000_000n;
      return nowNs;
    });
    const result = await observe({ ...common(kernels), source: made, sink, tickMs: 40, bothWays: true });
    const starts = sink.records.map((r) => Number((r.epoch.startNs - START) / 1_000_000_000n));
    expect(starts).toEqual(starts.map((_, i) => i));
    expect(starts.length).toBeGreaterThanOrEqual(6);
    expect(result.records.stored).toBe(starts.length);
    // Records arrived while no packets did.
    expect(Math.max(...seen)).toBeGreaterThan(0);
    expect(sink.records.map((r) => r.counters.packets).reduce((a, b) => a + b)).toBe(3);
  });

  it("ends with the sink's failure or the source's, keeps what was sealed, and gives its memory back", async () => {
    const kernels = new Kernels();
    const sizes: number[] = [];
    const taps = ESTIMATORS.filter((e) => !e.needs.delays).map((estimator) => ({
      ...{ estimator, parameters: parseParameters(estimator) },
    }));
    for (let n = 0; n < 8; n++) {
      const sink = new MemorySink();
      if (n % 2 === 0) sink.failAt = 3;
      const last = n % 2 === 0 ? [9e9] : new Error("the source is gone");
      const { made, state } = source(kernels, [[0], [1e9], [2e9], [3e9], [4e9], last]);
      const run: ObserveOptions = { ...common(kernels), taps, source: made, sink };
      // With and without holding records back until traffic is known to be one-way.
      await expect(observe({ ...run, bothWays: n % 4 < 2 })).rejects.toThrow(
        n % 2 === 0 ? /disk is gone/ : /source is gone/,
      );
      expect(state.closed).toBe(1);
      if (n % 2 === 1) expect(sink.records.length).toBeGreaterThanOrEqual(4 * taps.length - 4);
      sizes.push(kernels.memory.buffer.byteLength);
    }
    expect(new Set(sizes.slice(2)).size).toBe(1);
  });

  it("reports what failed first where the sink's flush fails too, and does not run without lanes", async () => {
    const kernels = new Kernels();
    const broken = () => {
      throw new Error("nor can it flush");
    };
    const sink = Object.assign(new MemorySink(), { flush: broken });
    const { made } = source(kernels, [[0], new Error("the source is gone")]);
    await expect(observe({ ...common(kernels), source: made, sink })).rejects.toThrow(/source is gone/);
    const { made: unused, state } = source(kernels, []);
    const run = { ...common(kernels), source: unused, sink: new MemorySink(), lanes: [] };
    await expect(observe(run)).rejects.toMatchObject({ code: "bad-option", parameter: "lanes" });
    expect(state.closed).toBe(1);
  });

  it("waits for what a sink says of each record, also where it flushes before it says so", async () => {
    const late = (outcome: () => ReturnType<RecordSink["put"]>): RecordSink => ({
      put: async () => {
        await sleep(20);
        return await outcome();
      },
      flush: async () => {},
      close: async () => {},
    });
    const through = (sink: RecordSink) => {
      const kernels = new Kernels();
      const { made } = source(kernels, [[0], [1e9], [2e9]]);
      return observe({ ...common(kernels), source: made, sink });
    };
    const { records } = await through(late(async () => ({ outcome: "stored", bytes: 1 })));
    expect(records.stored).toBe(3);
    const full = late(async () => {
      throw new Error("the disk is full");
    });
    await expect(through(full)).rejects.toThrow("the disk is full");
    // From an untyped program that returns no outcome.
    await expect(through(late(async () => undefined as never))).rejects.toThrow(/outcome/);
    const abrupt = () => {
      throw new Error("not even a promise");
    };
    await expect(through({ ...full, put: abrupt })).rejects.toThrow("not even a promise");
  });

  it("ends a simulation, which never waits for anything, when the signal aborts", async () => {
    const kernels = new Kernels();
    const endless = simulate(kernels, weibullDelays({ seed: 3, packets: 500_000_000 }));
    const ending = new AbortController();
    const from = simulatedSource(endless, { originNs: START, signal: ending.signal });
    const looking = setInterval(() => from.totals().frames > 0 && ending.abort(), 20);
    const result = await observe({
      ...common(kernels),
      source: from,
      sink: new MemorySink(),
      bothWays: true,
    });
    clearInterval(looking);
    expect(result.epochs).toBeGreaterThan(0);
  });

  it("takes a simulation as its source, with the delays that are true", async () => {
    const kernels = new Kernels();
    const simulation = simulate(kernels, weibullDelays({ seed: 3, packets: 5000 }));
    const sink = new MemorySink();
    const taps = ESTIMATORS.filter((e) => e.needs.delays).map((estimator) => ({
      ...{ estimator, parameters: parseParameters(estimator) },
    }));
    const result = await observe({ ...common(kernels), taps, source: simulatedSource(simulation), sink });
    expect(result.captures[0]).toMatchObject({ format: "simulation", partial: null });
    expect(result.lanes[0]?.packets).toBeGreaterThan(100);
    expect(new Set(sink.records.map((r) => r.estimator)).size).toBe(taps.length);
  });
});

describe("a directory as the sink", () => {
  it("has a record on disk within a second or so, without being asked, and none before the first", async () => {
    const directory = join(root, "by-age");
    const sink = new DirectorySink({ directory, point: "A", maxAgeMs: 200 });
    expect(() => RecordArchive.open(directory)).toThrow(/no such directory/);
    const durable = sink.put(numberedRecord(1));
    expect(await Promise.race([durable, sleep(100_000)])).toMatchObject({ outcome: "stored" });
    expect(RecordArchive.open(directory).list().entries).toHaveLength(1);
    await sink.close();
  });

  it("removes what is too old while it is written", async () => {
    const directory = join(root, "keeps");
    const sink = new DirectorySink({ directory, point: "A", keepNs: 100n * 1_000_000_000n });
    for (let n = 0; n < 2500; n++) {
      void sink.put(numberedRecord(n));
      if (n % 500 === 499) await sink.flush();
    }
    // Removed before the sink is closed.
    expect(sink.removed).toBeGreaterThan(1000);
    await sink.close();
    expect(RecordArchive.open(directory).list().entries).toHaveLength(101);
  });

  it("rejects every record after a failure, and says why", async () => {
    const sink = new DirectorySink({ directory: "/proc/none/such", point: "A" });
    const first = sink.put(numberedRecord(1));
    await expect(sink.flush()).rejects.toThrow(/cannot be written/);
    await expect(first).rejects.toThrow(/cannot be written/);
    await expect(sink.put(numberedRecord(2))).rejects.toThrow(/cannot be written/);
  });
});
