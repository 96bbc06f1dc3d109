import type { JsMsg } from "@nats-io/jetstream";
import { describe, expect, it, vi } from "vitest";
import { type Open, UnacknowledgedRecords } from "./unacknowledged.ts";

describe("records that are not acknowledged", () => {
  it("of a partition whose rows wait for its lease hold back no other partition", () => {
    const records = new UnacknowledgedRecords(30_000);
    const acknowledged: number[] = [];
    for (const partition of [1, 2, 3])
      records.add(`r${partition}`, {
        ...{ partition, fence: 7, name: `n${partition}`, orders: 1, isCopied: true },
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
    // The lease is renewed, but its rows were not written in this tick.
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
        ...{ partition: 1, fence: 7, name, orders: 1, isCopied: true },
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

  it("count as unfinished while rows are to be made of them, and go to the next worker at once", () => {
    const records = new UnacknowledgedRecords(30_000);
    const again: string[] = [];
    for (const [i, name] of ["rows", "end", "new"].entries())
      records.add(name, {
        ...{ partition: 1, fence: 7, name, orders: i + 1, isCopied: true },
        messages: [{ nak: () => again.push(name) } as unknown as JsMsg],
      });
    expect(records.unfinished).toBe(3);
    records.settle(
      2,
      { fenceOf: () => 7, holds: () => true },
      {
        waitsFor: ({ name }) => (name === "end" ? "end" : name === "rows" ? "rows" : null),
        isUnwritten: () => false,
      },
    );
    expect([records.unfinished, records.size]).toEqual([2, 3]);
    // Nothing more can be estimated; the rest waits for records still in the stream, which must be let in.
    records.rest();
    expect([records.unfinished, records.size]).toEqual([0, 3]);
    records.forget(1);
    expect(again).toEqual(["rows", "end", "new"]);
    expect(records.size).toBe(0);
  });

  it("waits for the copies of a record", () => {
    const acknowledged: string[] = [];
    const records = new UnacknowledgedRecords(30_000);
    const message = { ack: () => acknowledged.push("it") } as unknown as JsMsg;
    records.add("x", { partition: 1, fence: 7, name: "x", orders: 1, isCopied: false, messages: [message] });
    const leases = { fenceOf: () => 7, holds: () => true };
    const settle = () => records.settle(1, leases, { waitsFor: () => null, isUnwritten: () => false });
    settle();
    expect([acknowledged.length, records.unfinished]).toEqual([0, 1]);
    records.copied(1, "x");
    settle();
    expect([acknowledged.length, records.unfinished]).toEqual([1, 0]);
  });
});
