import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Combination } from "../collect/combine.ts";
import { DuckdbStore } from "./duckdb-store.ts";
import { combineFlow, type FlowRow, type SegmentRow, type Step } from "./rows.ts";
import { oneFlow, topFlows } from "./series.ts";

const SEGMENT = { from: "A", to: "B", label: "" };
const START_NS = 1_700_002_800_000_000_000n;
const EPOCH_NS = 10_000_000_000n;
/** A little more than an hour. */
const EPOCHS = 400;
const heavy = (i: number) => `heavy-${i}`;
/** Appears in one epoch of 40; a minute has more of these than it keeps. */
const rare = (epoch: number, i: number) => `rare-${epoch % 40}-${i}`;

function stateOf(meanNs: number, packets: number) {
  const combination = new Combination();
  const mean = { valueNs: meanNs, lowNs: meanNs - 50, highNs: meanNs + 50 };
  combination.add({ mean, stdev: mean, packets, lost: 0, used: packets });
  return combination.state();
}

const folder = mkdtempSync(join(tmpdir(), "hoptime-flow-reader-"));
let store: DuckdbStore;
const segments: SegmentRow[] = [];
const flows: FlowRow[] = [];

beforeAll(async () => {
  store = await DuckdbStore.open(join(folder, "results.duckdb"));
  for (let e = 0; e < EPOCHS; e++) {
    const startNs = START_NS + BigInt(e) * EPOCH_NS;
    const span = { step: 0 as Step, startNs, endNs: startNs + EPOCH_NS, segment: SEGMENT, estimator: "lds" };
    segments.push({
      ...{ ...span, mode: "aligned", epochs: 1, missing: 0, missingFrom: 0, missingTo: 0, refused: 0 },
      ...{
        edges: 0,
        merged: 0,
        sent: 1000,
        received: 1000,
        lost: 0,
        dropped: null,
        bytes: 1,
        cutShift: null,
      },
      ...{ reason: null, state: stateOf(1000, 1000) },
    });
    const add = (flow: string, packets: number) =>
      flows.push({ ...span, flow, bytes: 10 * packets, state: stateOf(500 + e + packets, packets) });
    for (let i = 0; i < 5; i++) add(heavy(i), 100 - 10 * i + (e % 7));
    for (let i = 0; i < 45; i++) add(rare(e, i), 1 + (i % 9));
  }
  await store.write(segments, flows);
  // The last epochs are not rolled up yet.
  await store.rollUp(START_NS + BigInt(EPOCHS - 20) * EPOCH_NS);
});

afterAll(async () => {
  await store.close();
  rmSync(folder, { recursive: true });
});

describe("rows of flows", () => {
  const spans: [string, bigint, bigint][] = [
    ["all of it", START_NS, START_NS + BigInt(EPOCHS) * EPOCH_NS],
    [
      "from within a minute to within another",
      START_NS + 5n * EPOCH_NS + 1n,
      START_NS + 383n * EPOCH_NS - 1n,
    ],
    ["less than a minute", START_NS + 2n * EPOCH_NS, START_NS + 5n * EPOCH_NS],
  ];
  for (const [name, fromNs, toNs] of spans)
    it(`in minutes and hours say what the epochs say, over ${name}`, async () => {
      const selection = { ...SEGMENT, estimator: "lds", fromNs, toNs };
      const names = [heavy(0), heavy(4), rare(3, 8), rare(3, 0), rare(17, 4)];
      const span = { step: 0 as Step, startNs: fromNs, endNs: toNs };
      for (const flow of names) {
        const fine = await store.flows.rows(selection, [flow], 0);
        const expected = combineFlow(fine, span)?.row;
        for (const step of [60, 3600] as const) {
          const rows = await store.flows.rows(selection, names, step);
          const own = rows.filter((r) => r.flow === flow);
          const made = combineFlow(own, span)?.row;
          expect(made?.state.packets ?? null).toBe(expected?.state.packets ?? null);
          expect(made?.bytes).toBe(expected?.bytes);
          if (expected && made) expect(made.state.meanNs).toBeCloseTo(expected.state.meanNs, 6);
          if (flow === heavy(0) && fine.length > 100) expect(own.length).toBeLessThan(fine.length / 3);
        }
      }
    });

  it("sum to the same, to the last digit, whether minutes and hours are made yet or not", async () => {
    const fresh = await DuckdbStore.open(join(folder, "fresh.duckdb"));
    await fresh.write(segments, flows);
    for (const [, fromNs, toNs] of spans) {
      const selection = { ...SEGMENT, estimator: "lds", fromNs, toNs };
      const own = async (from: DuckdbStore) =>
        await Promise.all([0, 1, 2, 3, 4].map((i) => oneFlow(from, selection, heavy(i))));
      expect(await own(fresh)).toEqual(await own(store));
      expect(await topFlows(fresh, selection, 5)).toEqual(await topFlows(store, selection, 5));
    }
    await fresh.close();
  });

  it("are ranked alike by minutes and by epochs, what is not rolled up included", async () => {
    const selection = {
      ...{ ...SEGMENT, estimator: "lds" },
      ...{ fromNs: START_NS + 30n * EPOCH_NS, toNs: START_NS + BigInt(EPOCHS) * EPOCH_NS },
    };
    const byEpochs = await store.flows.top(selection, 0, 5);
    expect(byEpochs).toEqual([0, 1, 2, 3, 4].map(heavy));
    for (const step of [60, 3600] as const)
      expect(await store.flows.top(selection, step, 5)).toEqual(byEpochs);
    const late = { ...selection, fromNs: START_NS + BigInt(EPOCHS - 6) * EPOCH_NS };
    expect(await store.flows.top(late, 3600, 5)).toEqual(byEpochs);
  });
});
