import { expect, test } from "vitest";
import type { KernelSketch } from "../capture/ebpf/kernel-sketch.ts";
import type { EpochSink } from "../epoch/epoch-sink.ts";
import type { EpochBounds } from "../epoch/record.ts";
import { KernelCutter } from "./kernel-cutter.ts";
import { KernelEpochs } from "./kernel-epochs.ts";

const S = 1_000_000_000n;

/** Fakes sets with given packet counts; `state.set`: the clock was set. */
function fake(frames: number[]) {
  const state = { set: false, windows: new Map<number, bigint>() };
  const sketch = {
    plan: { sets: frames.length },
    clockWasSet: () => [state.set, (state.set = false)][0],
    setWindow: (set: number, window: { startNs: bigint } | null) =>
      window ? state.windows.set(set, window.startNs) : state.windows.delete(set),
    counts: (set: number) => ({ frames: frames[set] ?? 0, packets: frames[set] ?? 0, skipped: {} }),
    clear: (set: number) => {
      frames[set] = 0;
    },
  } as unknown as KernelSketch;
  const closed: (EpochBounds & { packets: number })[] = [];
  const opened: bigint[] = [];
  let packets = 0;
  const sink: EpochSink = {
    open: ({ startNs }: { startNs: bigint }) => void opened.push(startNs),
    seen: (counts: { packets: number }) => {
      packets = counts.packets;
    },
    close: (bounds: EpochBounds) => void closed.push({ ...bounds, packets }),
  } as unknown as EpochSink;
  return { state, sink, closed, opened, epochs: new KernelEpochs(sketch, () => {}) };
}

test("when the clock is set no packet is lost: all sets that have some are sealed, and epochs begin anew", () => {
  for (const step of [S, -S, -100n * S]) {
    const frames = [0, 0, 0, 0];
    const { state, sink, closed, opened, epochs } = fake(frames);
    const cutter = new KernelCutter(epochs, S, Number.POSITIVE_INFINITY);
    cutter.begin(1000n * S + 5n, sink);
    // The first epoch is over, and packets of the second arrived before the cutter looked.
    [frames[0], frames[1]] = [7, 3];
    state.set = true;
    const nowNs = 1001n * S + 1_000_000n + step;
    cutter.tick(nowNs, sink);
    expect(closed.map(({ startNs, packets, cutTail }) => [startNs, packets, cutTail])).toEqual([
      [1000n * S, 7, false],
      [1001n * S, 3, true],
    ]);
    const freshNs = 1001n * S + step;
    expect(opened).toEqual([1000n * S, 1001n * S, freshNs]);
    expect([...state.windows.values()]).toEqual([0n, 1n, 2n, 3n].map((i) => freshNs + i * S));
  }
});
