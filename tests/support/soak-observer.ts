/**
 * Run as a separate process by the soak test: observes standard input with every estimator until it ends or a signal arrives, and prints its memory after every
 * hundredth epoch. Argument: epoch in seconds.
 */
import { Kernels } from "../../src/base/kernels.ts";
import { FlowKeySpec } from "../../src/capture/flow/flow-key.ts";
import { openCaptures } from "../../src/capture/source/capture-source.ts";
import type { Source } from "../../src/capture/source/source.ts";
import { parseParameters } from "../../src/estimators/parameters.ts";
import { ESTIMATORS } from "../../src/estimators/table.ts";
import { observe } from "../../src/observe/observe.ts";
import type { RecordSink } from "../../src/observe/record-sink.ts";

const lengthNs = BigInt(process.argv[2] ?? "60") * 1_000_000_000n;
const kernels = new Kernels();
const ending = new AbortController();
process.on("SIGTERM", () => ending.abort());
const seed = 1n;
const capture = openCaptures(kernels, ["-"], { capture: { cover: 64, seed }, signal: ending.signal });

let records = 0;
let epochs = 0;
let toldAt = 0;
let lastStart = -1n;

/** Provides delays for estimators that need them. */
const source: Source = {
  name: capture.name,
  live: capture.live,
  knowsDelays: true,
  async next() {
    if (epochs >= toldAt + 100) await tell();
    const got = await capture.next();
    if (got) {
      const { delayNs, timeNs, count } = got.batch;
      for (let i = 0; i < count; i++) delayNs[i] = 1e6 + ((timeNs[i] ?? 0) % 1e6);
    }
    return got;
  },
  nowNs: () => capture.nowNs(),
  totals: () => capture.totals(),
  statistics: () => capture.statistics(),
  progress: () => capture.progress(),
  close: () => capture.close(),
};

const sink: RecordSink = {
  async put(record) {
    records++;
    if (record.epoch.startNs !== lastStart) epochs++;
    lastStart = record.epoch.startNs;
    return { outcome: "stored", bytes: record.payload.length };
  },
  flush: async () => {},
  close: async () => {},
};

async function tell(): Promise<void> {
  toldAt = epochs;
  // Garbage is gone after the second run.
  for (let i = 0; i < 2; i++) {
    globalThis.gc?.();
    await new Promise(setImmediate);
  }
  const { rss, heapUsed, arrayBuffers } = process.memoryUsage();
  const kernel = kernels.memory.buffer.byteLength;
  process.stdout.write(`${JSON.stringify({ epochs, records, rss, heapUsed, arrayBuffers, kernel })}\n`);
}

const result = await observe({
  ...{ kernels, source, sink, seed, point: "A", cover: 64, inner: false },
  lanes: [{ segment: "", role: "both", filter: "" }],
  taps: ESTIMATORS.map((estimator) => ({ estimator, parameters: parseParameters(estimator) })),
  cut: { mode: "aligned", lengthNs },
  key: FlowKeySpec.parse("5tuple"),
});
await tell();
process.stdout.write(
  `${JSON.stringify({ end: true, epochs: result.epochs, packets: result.lanes[0]?.packets })}\n`,
);
