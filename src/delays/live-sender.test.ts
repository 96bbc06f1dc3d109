import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { makeBatch } from "../../tests/support/small-batch.ts";
import { Kernels } from "../base/kernels.ts";
import { Random } from "../base/random.ts";
import type { Source, SourceBatch } from "../capture/source/source.ts";
import { matchLive } from "./live-sender.ts";

const START = 1_700_000_000_000_000_000n;
const kernels = new Kernels();

interface Packet {
  id: number;
  timeNs: number;
}

const batchOf = (packets: readonly Packet[]): SourceBatch => ({
  batch: makeBatch(
    kernels,
    packets.map(({ id, timeNs }) => ({ timeNs, digest: [0x1234_0000 + id, id * 2_654_435_761] })),
  ),
  originNs: START,
});

/** Returns its batches when the test provides them. */
class HandSource implements Source {
  readonly name = "hand";
  readonly live = true;
  passedNs: number | null = null;
  readonly #batches: (SourceBatch | null)[] = [];
  #last: number | null = null;
  give(packets: readonly Packet[] | null): void {
    this.#batches.push(packets && batchOf(packets));
  }
  /** With the next requested batch, time has advanced to this. */
  passes(timeNs: number): void {
    this.#last = timeNs;
  }
  async next(): Promise<SourceBatch | null> {
    // What was returned before has been seen by now.
    this.passedNs = this.#last ?? this.passedNs;
    for (;;) {
      const got = this.#batches.shift();
      if (got !== undefined) return got;
      await sleep(1);
    }
  }
  nowNs = () => (this.passedNs === null ? null : START + BigInt(this.passedNs));
  totals = () => ({ frames: 0, skipped: {}, dropped: null });
  statistics = () => [];
  progress = () => ({ doneBytes: 0, totalBytes: null });
  close(): void {}
}

async function delaysOf(
  delays: ReturnType<typeof matchLive>["delays"],
  packets: readonly Packet[],
): Promise<number[]> {
  const { batch, originNs } = batchOf(packets);
  const out: number[] = [];
  for await (const filled of delays.push(batch, originNs))
    out.push(...filled.batch.delayNs.subarray(0, filled.batch.count));
  return out;
}

test("every packet of the receiver has its delay, whichever of the two streams is read first", async () => {
  const random = new Random(15);
  const sent = Array.from({ length: 4000 }, (_, id) => ({ id, timeNs: id * 1000 }));
  const lost = new Set(sent.filter(({ id }) => id % 13 === 0).map(({ id }) => id));
  const received = sent
    .filter(({ id }) => !lost.has(id))
    .map(({ id, timeNs }) => ({ id, timeNs: timeNs + 500 + random.below(300_000) }))
    .sort((a, b) => a.timeNs - b.timeNs);
  const [a, b] = [new HandSource(), new HandSource()];
  const { sender, delays } = matchLive(kernels, { sender: a, receiver: b, windowNs: 1e6 });
  const reading = (async () => {
    while ((await sender.next()) !== null);
  })();
  const truth = new Map(received.map(({ id, timeNs }) => [id, timeNs - id * 1000]));
  // The receiver's batches come before the sender's of the same time: they wait.
  for (let i = 0; i < received.length; i += 500) {
    const part = received.slice(i, i + 500);
    const last = part.at(-1)?.timeNs ?? 0;
    const waiting = delaysOf(delays, part);
    await sleep(3);
    a.give(sent.filter(({ timeNs }) => timeNs > (received[i - 1]?.timeNs ?? -1) && timeNs <= last));
    a.passes(last);
    expect(await waiting).toEqual(part.map(({ id }) => truth.get(id)));
  }
  a.give(null);
  await reading;
  expect(delays.counts()).toMatchObject({ from: "live", matched: received.length, unmatched: 0 });
  delays.free();
});

test("what the receiver never sees is lost, and is not kept, however long it is silent", async () => {
  const [a, b] = [new HandSource(), new HandSource()];
  const { sender, delays } = matchLive(kernels, { sender: a, receiver: b, windowNs: 1000 });
  for (let i = 0; i < 50; i++) {
    b.passedNs = i * 10_000;
    a.give(Array.from({ length: 100 }, (_, k) => ({ id: 100 * i + k, timeNs: i * 10_000 + k })));
    await sender.next();
  }
  // All but those of the last window.
  expect(delays.counts()).toMatchObject({ matched: 0, lost: 4900 });
  delays.free();
});

test("a packet that goes the other way has no delay, and one that was never sent neither", async () => {
  const [a, b] = [new HandSource(), new HandSource()];
  const { sender, delays } = matchLive(kernels, { sender: a, receiver: b, windowNs: 1e6 });
  a.give([
    { id: 1, timeNs: 1000 },
    { id: 2, timeNs: 5000 },
  ]);
  await sender.next();
  const packets = [
    { id: 1, timeNs: 3000 },
    { id: 2, timeNs: 4000 },
    { id: 3, timeNs: 4500 },
  ];
  expect(await delaysOf(delays, packets)).toEqual([2000, Number.NaN, Number.NaN]);
  expect(delays.counts()).toMatchObject({ matched: 1, unmatched: 1, reversed: 1 });
  delays.free();
});

test("what was sent before the receiver was opened is not lost", async () => {
  const [sender, receiver] = [new HandSource(), new HandSource()];
  const pair = matchLive(kernels, {
    sender,
    receiver: Object.assign(receiver, { beganNs: () => START + 5_000n }),
    windowNs: 1e6,
  });
  sender.give([0, 1, 2, 3].map((id) => ({ id, timeNs: 2_000 * id })));
  await pair.sender.next();
  sender.passedNs = 7_000;
  expect(await delaysOf(pair.delays, [{ id: 3, timeNs: 6_100 }])).toEqual([100]);
  receiver.passedNs = 5e6;
  sender.give([{ id: 4, timeNs: 5e6 }]);
  await pair.sender.next();
  expect(pair.delays.counts()).toMatchObject({ matched: 1, lost: 0 });
  pair.delays.free();
});

test("a batch that waits when all ends is left as it is, and nothing is written to memory that was given back", async () => {
  const [a, b] = [new HandSource(), new HandSource()];
  const { delays } = matchLive(kernels, { sender: a, receiver: b, windowNs: 1e6 });
  const { batch, originNs } = batchOf([{ id: 1, timeNs: 5000 }]);
  batch.delayNs[0] = 17;
  const waiting = (async () => {
    for await (const _ of delays.push(batch, originNs));
  })();
  await sleep(5);
  const before = kernels.u32.slice(0, 1024);
  delays.free();
  await waiting;
  expect(batch.delayNs[0]).toBe(17);
  expect(kernels.u32.slice(0, 1024)).toEqual(before);
  batch.free();
});
