/** Result rows for tests of the stores: several segments with odd names, epochs with and without answers, changing flows. The same seed gives the same rows. */
import { Combination, type CombinationState } from "../../src/collect/combine.ts";
import type { FlowRow, SegmentRow } from "../../src/results/rows.ts";

export const STORE_START_NS = 1_700_002_790_000_000_000n;
export const STORE_EPOCH_NS = 10_000_000_000n;
export const ODD_NAMES = [
  { from: "A", to: "B", label: "" },
  { from: "A", to: "B", label: 'it\'s \\ "gold" $1 `x`' },
  { from: "Zürich-1", to: "東京", label: "tab\there\nand a line; -- DROP TABLE segments" },
];

export interface StoreRows {
  segments: SegmentRow[];
  flows: FlowRow[];
}

export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function stateOf(meanNs: number, packets: number, spread: number): CombinationState {
  const combination = new Combination();
  const mean = { valueNs: meanNs, lowNs: meanNs - spread, highNs: meanNs + 1.5 * spread };
  combination.add({ mean, stdev: mean, packets, lost: 0, used: packets });
  return combination.state();
}

function unanswered(packets: number): CombinationState {
  const combination = new Combination();
  const none = { reason: "no-packets" as const, text: "receiver: no record, 'yet'" };
  combination.add({ mean: none, stdev: none, packets, lost: null, used: 0, bounds: null });
  return combination.state();
}

/** Returns the epochs from `from` to before `to` of every segment. */
export function storeRows(from: number, to: number, seed = 1): StoreRows {
  const segments: SegmentRow[] = [];
  const flows: FlowRow[] = [];
  for (const [s, segment] of ODD_NAMES.entries())
    for (let e = from; e < to; e++) {
      const random = randomNumbers(seed + 1000 * s + 7919 * e);
      const startNs = STORE_START_NS + BigInt(e) * STORE_EPOCH_NS;
      const span = { step: 0 as const, startNs, endNs: startNs + STORE_EPOCH_NS };
      const packets = 100 + Math.floor(900 * random());
      const meanNs = 1e6 * (1 + s) + 1e5 * random();
      const state = stateOf(meanNs, packets, 1000 * random() + 1 / 3);
      const common = { segment, ...span, mode: "aligned" as const, epochs: 1, missingFrom: 0, missingTo: 0 };
      const whole = {
        ...{
          ...common,
          missing: 0,
          refused: 0,
          edges: e === from ? 1 : 0,
          merged: 0,
          sent: packets,
          received: packets - (e % 3),
        },
        ...{
          lost: e % 3,
          dropped: e % 5 === 0 ? 2 : null,
          bytes: 1234.5,
          cutShift: e % 2 === 0 ? 0.1 * random() : null,
          reason: null,
          state,
        },
      };
      const none = {
        sent: null,
        received: null,
        lost: null,
        dropped: null,
        cutShift: null,
        state: unanswered(packets),
      };
      const kind = e % 17;
      if (kind === 3)
        segments.push({
          ...whole,
          ...none,
          estimator: "lda",
          missing: 1,
          missingTo: 1,
          reason: "B: no record, it's late",
        });
      else if (kind === 11)
        segments.push({ ...whole, ...none, estimator: "lda", refused: 1, reason: "other parameters" });
      else segments.push({ ...whole, estimator: "lda" });
      segments.push({ ...whole, estimator: "lds" });
      const list = 3 + Math.floor(6 * random());
      for (let i = 0; i < list; i++) {
        const own = 1 + Math.floor(60 * random());
        const odd = s === 1 && i === 2 ? "it's \\ odd" : "tcp";
        const flow = `${odd} 10.0.${s}.${i}:${1000 + (e % 4)} > 192.0.2.${i}:80`;
        const bytes = i === 1 ? null : 100 * own;
        flows.push({
          ...span,
          segment,
          estimator: "lds",
          flow,
          bytes,
          state: stateOf(meanNs + 10 * i, own, 50 + i),
        });
      }
    }
  return { segments, flows };
}
