import type { JsMsg } from "@nats-io/jetstream";
import { describe, expect, it, vi } from "vitest";
import { type Open, UnacknowledgedRecords } from "./unacknowledged.ts";

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
        waitsFor: ({ partition }) => (partition === 3 ? "end" : null),
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

  it("wait for their rows however long those take, for their other end ten minutes", () => {
    const records = new UnacknowledgedRecords(30_000);
    const acknowledged: string[] = [];
    for (const name of ["rows", "end"])
      records.add(name, {
        ...{ partition: 1, fence: 7, name, orders: 1 },
        messages: [{ ack: () => acknowledged.push(name) } as unknown as JsMsg],
      });
    const leases = { fenceOf: () => 7, holds: () => true };
    const settle = (waitsFor: Open["waitsFor"]) =>
      records.settle(1, leases, { waitsFor, isUnwritten: () => false });
    const open: Open["waitsFor"] = ({ name }) => (name === "rows" ? "rows" : "end");
    vi.useFakeTimers();
    try {
      vi.setSystemTime(Date.now() + 590_000);
      settle(open);
      expect(acknowledged).toEqual([]);
      vi.setSystemTime(Date.now() + 3_600_000);
      settle(open);
      expect(acknowledged).toEqual(["end"]);
      settle(() => null);
      expect(acknowledged).toEqual(["end", "rows"]);
    } finally {
      vi.useRealTimers();
    }
  });
});
