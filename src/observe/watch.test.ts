import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { makeBatch } from "../../tests/support/small-batch.ts";
import { Kernels } from "../base/kernels.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import type { Source, SourceBatch } from "../capture/source/source.ts";
import { type WatchedInterval, watchPair } from "./watch.ts";

const START = 1_700_000_000_000_000_000n;

/** A capture with ten packets per second, one batch each: `until` seconds of them, or until the signal. */
function capture(
  kernels: Kernels,
  { shiftNs, until, signal }: { shiftNs: number; until: number; signal?: AbortSignal },
  onBatch: (n: number) => void = () => {},
): Source {
  let n = 0;
  return {
    name: "capture",
    live: false,
    async next(): Promise<SourceBatch | null> {
      await new Promise(setImmediate);
      if (n >= until || signal?.aborted) return null;
      const rows = Array.from({ length: 10 }, (_, i) => ({
        timeNs: n * 1e9 + i * 5e7 + shiftNs,
        digest: [Math.imul(1 + 10 * n + i, 0x9e37_79b1) >>> 0, 10 * n + i] as [number, number],
      }));
      onBatch(++n);
      return { batch: makeBatch(kernels, rows), originNs: START };
    },
    nowNs: () => null,
    totals: () => ({ frames: 0, skipped: {}, dropped: null }),
    statistics: () => [],
    progress: () => ({ doneBytes: 0, totalBytes: null }),
    close: () => {},
  };
}

async function watched(options: Parameters<typeof watchPair>[0]): Promise<WatchedInterval[]> {
  const all: WatchedInterval[] = [];
  for await (const interval of watchPair(options)) all.push(interval);
  return all;
}

test("captures that are read to their ends are counted whole; of one that is left early, what was not read is not lost", async () => {
  const kernels = new Kernels();
  const common = { kernels, key: FlowKeySpec.parse("5tuple"), seed: 1n, windowNs: 1e8, lookMs: 5 };
  const whole = await watched({
    ...common,
    sender: capture(kernels, { shiftNs: 0, until: 8 }),
    receiver: capture(kernels, { shiftNs: 1e6, until: 8 }),
  });
  expect(whole.map((i) => [i.sent, i.lost])).toEqual(Array(8).fill([10, 0]));
  const ending = new AbortController();
  const { signal } = ending;
  const cut = await watched({
    ...common,
    signal,
    sender: capture(kernels, { shiftNs: 0, until: 8 }),
    // The signal comes while the receiver is in its third second and the sender at its end.
    receiver: capture(kernels, { shiftNs: 1e6, until: 8, signal }, (n) => n === 3 && ending.abort()),
  });
  expect(cut.map((i) => [i.sent, i.lost])).toEqual(Array(2).fill([10, 0]));
});

test("what was sent before both interfaces were opened is not lost", async () => {
  const kernels = new Kernels();
  const began = (source: Source, ns: number): Source => ({
    ...source,
    beganNs: () => START + BigInt(ns),
  });
  const receiver = capture(kernels, { shiftNs: 1e6, until: 4 });
  const found = await watched({
    ...{ kernels, key: FlowKeySpec.parse("5tuple"), seed: 1n, windowNs: 1e8, lookMs: 5 },
    sender: began(capture(kernels, { shiftNs: 0, until: 4 }), 0),
    // Opened after the first second and three packets of the next.
    receiver: began(
      {
        ...receiver,
        async next() {
          const got = await receiver.next();
          if (!got) return null;
          const { timeNs } = got.batch;
          const skipped = timeNs.subarray(0, got.batch.count).findIndex((ns) => ns >= 1.12e9);
          if (skipped > 0 || skipped < 0) {
            const kept = skipped < 0 ? 0 : got.batch.count - skipped;
            const { digest } = got.batch;
            timeNs.copyWithin(0, skipped, skipped + kept);
            digest.copyWithin(0, 2 * skipped, 2 * (skipped + kept));
            got.batch.count = kept;
          }
          return got.batch.count > 0 ? got : this.next();
        },
      },
      1.12e9,
    ),
  });
  expect(found.map((i) => [i.sent, i.lost])).toEqual([
    [7, 0],
    [10, 0],
    [10, 0],
  ]);
});

test("however often it looks, waiting holds on to nothing", async () => {
  const kernels = new Kernels();
  let looks = 0;
  const slow = (shiftNs: number): Source => {
    const source = capture(kernels, { shiftNs, until: 4 });
    return {
      ...source,
      async next() {
        // Several looks per batch, however busy the machine is.
        for (const enough = looks + 6; looks < enough; ) await sleep(1);
        return await source.next();
      },
    };
  };
  // Listeners added to the signal that ends the waits are removed again, and looks do not add further handlers to the pending read.
  const listening = new Map<AbortSignal, number>();
  const waiting = new Map<object, number>();
  const { addEventListener, removeEventListener } = AbortSignal.prototype;
  const { then } = Promise.prototype;
  const change = (signal: AbortSignal, by: number) =>
    listening.set(signal, (listening.get(signal) ?? 0) + by);
  AbortSignal.prototype.addEventListener = function (this: AbortSignal, ...given: unknown[]) {
    looks++;
    change(this, 1);
    return Reflect.apply(addEventListener, this, given);
  };
  AbortSignal.prototype.removeEventListener = function (this: AbortSignal, ...given: unknown[]) {
    change(this, -1);
    return Reflect.apply(removeEventListener, this, given);
  };
  // biome-ignore lint/suspicious/noThenProperty: looked at, not made.
  Promise.prototype.then = function (this: Promise<unknown>, ...given: unknown[]) {
    waiting.set(this, (waiting.get(this) ?? 0) + 1);
    return Reflect.apply(then, this, given);
  } as typeof then;
  try {
    const key = FlowKeySpec.parse("5tuple");
    await watched({
      ...{ kernels, key, seed: 1n, windowNs: 1e8, lookMs: 1 },
      ...{ sender: slow(0), receiver: slow(1e6) },
    });
  } finally {
    Object.assign(AbortSignal.prototype, { addEventListener, removeEventListener });
    // biome-ignore lint/suspicious/noThenProperty: as it was.
    Promise.prototype.then = then;
  }
  expect(Math.max(0, ...waiting.values())).toBeLessThanOrEqual(4);
  expect(Math.max(0, ...listening.values())).toBeLessThanOrEqual(1);
  expect(looks).toBeGreaterThan(20);
});

test.each<[string, Record<string, unknown>]>([
  ["sender", { sender: null }],
  ["receiver", { receiver: { next: () => null } }],
  ["window", { windowNs: Number.NaN }],
  ["window", { windowNs: -1 }],
  ["interval", { intervalNs: 0 }],
  ["key", { key: "5tuple" }],
  ["seed", { seed: 5 }],
  ["sender", { sender: capture(new Kernels(), { shiftNs: 0, until: 3 }) }],
  ["receiver", { receiver: capture(new Kernels(), { shiftNs: 1e6, until: 3 }) }],
])("a wrong %s is refused by name", async (parameter, given) => {
  const kernels = new Kernels();
  const options = {
    ...{ kernels, key: FlowKeySpec.parse("5tuple"), seed: 1n, windowNs: 1e8, lookMs: 5 },
    sender: capture(kernels, { shiftNs: 0, until: 3 }),
    receiver: capture(kernels, { shiftNs: 1e6, until: 3 }),
    ...given,
  } as Parameters<typeof watchPair>[0];
  await expect(watched(options)).rejects.toMatchObject({ name: "UsageError", parameter });
});
