import { describe, expect, it } from "vitest";
import type { ResultsStore } from "../results/results-store.ts";
import { reportedRow, type SegmentRow } from "../results/rows.ts";
import { Events } from "./events.ts";
import { RowWriter } from "./row-writer.ts";

const row = (to: string) =>
  reportedRow({ from: "A", to, startNs: 0n, endNs: 1n, packets: 1, lost: 0, delay: null });

describe("rows of a backlog", () => {
  it("are written and reported while the rest is estimated; what the gate holds back is named, what comes during a write is not", async () => {
    const written: string[] = [];
    const results = {
      write: async (rows: readonly SegmentRow[]) => {
        written.push(...rows.map((r) => r.segment.to));
        // Meanwhile the next row is estimated.
        if (written.length === 1) rowWriter.add(row("later"), []);
      },
    } as unknown as ResultsStore;
    const gate = { fenceOf: () => 1, isOpen: ({ segment }: SegmentRow) => segment.to !== "held" };
    const rowWriter = new RowWriter(results, new Events(), gate, (text) => expect.fail(text));
    rowWriter.add(row("B"), []);
    rowWriter.add(row("held"), []);
    const reports: { begun: string[]; held: string[] }[] = [];
    let end = () => {};
    const working = new Promise<void>((resolve) => {
      end = resolve;
    });
    // `working` ends only after rows were reported: if they were reported only at its end, it would never end.
    const count = await rowWriter.writeDuring(working, () => {
      const begun = [...written];
      return (held) => {
        reports.push({ begun, held: [...held] });
        end();
      };
    });
    expect(count).toBe(2);
    expect(reports).toEqual([
      { begun: [], held: ["held"] },
      { begun: ["B"], held: ["held"] },
    ]);
    expect(written).toEqual(["B", "later"]);
  });
});
