import { expect, test } from "vitest";
import { type EpochEvent, SegmentBoard } from "./segment-board.ts";

const row = (label: string, startNs: string, meanNs: number): EpochEvent => ({
  ...{ from: "A", to: "B", label, estimator: "lda", startNs, endNs: `${Number(startNs) + 1}` },
  ...{ latency: { meanNs, lowNs: meanNs, highNs: meanNs }, reason: null, sent: 5, lost: 0, lossRate: 0 },
});

test("the direction of a segment takes the place of what was not separated before; classes stand beside it", () => {
  const board = new SegmentBoard();
  board.take("epoch", row("", "1", 8000));
  board.take("epoch", row("from 10.1.0.0/16", "2", 3e6));
  board.take("epoch", row("gold", "2", 5e6));
  expect(board.line().replaceAll("\u202f", " ")).toBe("A → B 3 ms   A → B (gold) 5 ms");
});
