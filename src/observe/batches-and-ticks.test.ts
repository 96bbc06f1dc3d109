import { expect, it } from "vitest";
import type { SourceBatch } from "../capture/source/source.ts";
import { BatchesAndTicks } from "./batches-and-ticks.ts";

/** A source that is silent until `give`, and counts how often its pending promise is listened to. */
function silentSource() {
  let give: (batch: SourceBatch | null) => void = () => {};
  let listeners = 0;
  let asked = 0;
  const source = {
    live: true,
    nowNs: () => 1n,
    next: () => {
      asked++;
      const promise = new Promise<SourceBatch | null>((resolve) => {
        give = resolve;
      });
      const { then } = promise;
      // biome-ignore lint/suspicious/noThenProperty: to see who listens
      promise.then = (...handlers) => {
        listeners++;
        return then.apply(promise, handlers as never) as never;
      };
      return promise;
    },
  };
  return {
    source: source as never,
    give: (batch: SourceBatch | null) => give(batch),
    listeners: () => listeners,
    asked: () => asked,
  };
}

it("a source that is silent for many ticks is asked once and listened to once", async () => {
  const silent = silentSource();
  const stream = new BatchesAndTicks(silent.source, 1);
  for (let tick = 0; tick < 50; tick++) expect(await stream.next()).toBe(1n);
  expect(silent.asked()).toBe(1);
  expect(silent.listeners()).toBe(1);
  const batch = { originNs: 5n } as SourceBatch;
  silent.give(batch);
  let got = await stream.next();
  while (typeof got === "bigint") got = await stream.next();
  expect(got).toBe(batch);
  stream.end();
});

it("a batch is not kept waiting for the next tick", async () => {
  const silent = silentSource();
  const stream = new BatchesAndTicks(silent.source, 1_000_000);
  const waiting = stream.next();
  const batch = { originNs: 6n } as SourceBatch;
  silent.give(batch);
  expect(await waiting).toBe(batch);
  const end = stream.next();
  silent.give(null);
  expect(await end).toBeNull();
  stream.end();
});
