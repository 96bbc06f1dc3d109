import { expect, it } from "vitest";
import { Kernels } from "../base/kernels.ts";
import type { SeriesRow } from "../query/segment/answer.ts";
import { askArchive } from "../query/segment/ask.ts";
import { RECEIVER, SENDER } from "../simulate/scenario.ts";
import { observeRouter, routerTimeNs } from "./overflowing-router.ts";
import { ROUTER_CASES } from "./router-coverage.ts";

it("what an epoch has lost is within its bounds behind a busy queue that overflows, closer where another estimator knows how delays vary", async () => {
  const kernels = new Kernels();
  const one = ROUTER_CASES.find((c) => c.name === "busy, small flows too")!;
  const run = await observeRouter(kernels, one.traffic(61_001), one.cut, ["lda", "lds"]);
  const lostIn = ({ startNs, endNs }: SeriesRow) =>
    run.packets.filter(({ sentNs, arrivedNs }) => {
      const at = routerTimeNs(sentNs);
      return arrivedNs === null && at >= BigInt(startNs) && at < BigInt(endNs);
    }).length;
  const width = (estimators: readonly string[]) => {
    const { estimates } = askArchive(run.records, { between: [SENDER, RECEIVER], estimators }, { kernels });
    const inner = estimates["lds"]!.series.filter((row) => !row.edge);
    expect(inner.length).toBeGreaterThan(10);
    for (const row of inner) {
      const lost = lostIn(row);
      expect(row.lostLow!, `${row.startNs}`).toBeLessThanOrEqual(lost);
      expect(row.lostHigh!, `${row.startNs}`).toBeGreaterThanOrEqual(lost);
    }
    return inner.reduce((sum, row) => sum + row.lostHigh! - row.lostLow!, 0);
  };
  expect(width(["lda", "lds"])).toBeLessThan(0.75 * width(["lds"]));
});
