import { describe, expect, it } from "vitest";
import type { RecordHead } from "../../epoch/record.ts";
import { Takeover } from "./takeover.ts";

const SEGMENT = { from: "A", to: "B", label: "A:B" };
const head = (point: string, start: number) =>
  ({
    ...{ point, segment: "A:B" },
    epoch: { startNs: BigInt(start), endNs: BigInt(start + 10) },
  }) as RecordHead;

describe("a partition that is taken over", () => {
  it("is done up to where both ends were, but for two epochs and what is open", () => {
    const read = new Takeover();
    expect(read.of(SEGMENT)).toBeNull();
    for (const start of [100, 110, 120]) read.add(head("A", start), false);
    // Nothing is known of the other endpoint.
    expect(read.of(SEGMENT)).toEqual({ latestNs: 130n, doneNs: 0n });
    for (const start of [103, 113]) read.add(head("B", start), false);
    expect(read.of(SEGMENT)).toEqual({ latestNs: 130n, doneNs: 103n });
    read.add(head("B", 93), true);
    expect(read.of(SEGMENT)).toEqual({ latestNs: 130n, doneNs: 73n });
    expect(read.open.map((h) => h.epoch.startNs)).toEqual([93n]);
  });
});
