import type { JsMsg } from "@nats-io/jetstream";
import { describe, expect, it } from "vitest";
import { UnacknowledgedRecords } from "./unacknowledged.ts";

describe("records that are not acknowledged", () => {
  it("of a partition whose rows wait for its lease hold back no other partition", () => {
    const records = new UnacknowledgedRecords(30_000);
    const acknowledged: number[] = [];
    for (const partition of [1, 2, 3])
      records.add(`r${partition}`, {
        ...{ partition, fence: 7, name: `n${partition}`, orders: 1 },
        messages: [{ ack: () => acknowledged.push(partition) } as unknown as JsMsg],
      });
    const late = new Set([2]);
    const leases = { fenceOf: () => 7, holds: (partition: number) => !late.has(partition) };
    const settle = (tick: number, unwritten: readonly number[]) =>
      records.settle(tick, leases, {
        waits: ({ partition }) => partition === 3,
        isUnwritten: ({ partition }) => unwritten.includes(partition),
      });
    settle(1, [2]);
    expect(acknowledged).toEqual([1]);
    // Renewed, but its rows were not written in this tick.
    late.clear();
    settle(2, [2]);
    expect(acknowledged).toEqual([1]);
    settle(3, []);
    expect(acknowledged).toEqual([1, 2]);
    expect(records.size).toBe(1);
  });
});
