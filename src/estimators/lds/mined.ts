/**
 * What else the cells show about a flow (section 4.3): packets, bytes, loss and standard deviation.
 *
 * Packets and bytes are count-min: the minimum over rows of a flow's k cells, never below the truth if a row takes all packets. Loss is the number of missing
 * packets in the flow's emptiest cells, minus the expected losses of its neighbours. It is null if the missing packets may just as well be the neighbours', and
 * negative if all its cells have extra packets (in flight at the previous cut).
 */
import { entryAt } from "../../base/lists.ts";
import type { Background } from "../cells/background.ts";
import { deviationOfCells, type OwnCell } from "../cells/deviation.ts";
import type { Interval, NoAnswer } from "../estimator.ts";
import type { DelaySketch } from "./difference.ts";
import type { FlowCells } from "./flow-cells.ts";
import { type FlowSet, fullestRows } from "./flow-set.ts";

/** Upper bound of a flow's bytes; null if the sketch does not count bytes or no row takes all packets. */
export function minedBytes(sketch: DelaySketch, flows: FlowSet, flow: number): number | null {
  const { bytes } = sketch;
  const rows = fullestRows(sketch);
  if (!bytes || !(Number(sketch.rows[rows[0] ?? -1]?.rate) >= 1)) return null;
  const { k } = sketch.geometry;
  return Math.min(
    ...rows.map((r) => {
      const e = flow * flows.cellsPerFlow + r * k;
      let sum = 0;
      for (let i = 0; i < k; i++) sum += bytes[flows.cells[e + i]!]!;
      return sum;
    }),
  );
}

/** Estimates the losses of flows from the packets missing in their cells. */
export class LossMiner {
  readonly #sketch: DelaySketch;
  readonly #flows: FlowSet;
  readonly #rows: number[];
  /** Share of packets lost, over all flows. */
  readonly #share: number;

  constructor(sketch: DelaySketch, flows: FlowSet) {
    this.#sketch = sketch;
    this.#flows = flows;
    this.#rows = fullestRows(sketch);
    const row = entryAt(sketch.rows, this.#rows[0] ?? 0);
    this.#share = row.sent > 0 ? row.missing / row.sent : 0;
  }

  lost(flow: number): number | null {
    const { k } = this.#sketch.geometry;
    const { sent, received, rows } = this.#sketch;
    const weight = this.#flows.weights?.[flow] ?? 1;
    const packets = this.#flows.packets[flow]!;
    let atMost = Number.POSITIVE_INFINITY;
    let least = Number.NEGATIVE_INFINITY;
    let minimum = Number.POSITIVE_INFINITY;
    let best = 0;
    let ofAll = 0;
    for (const r of this.#rows) {
      const scale = 1 / (weight * entryAt(rows, r).rate);
      let before = 0;
      let missing = 0;
      const e = flow * this.#flows.cellsPerFlow + r * k;
      for (let i = 0; i < k; i++) {
        const c = this.#flows.cells[e + i]!;
        before += sent[c]! * scale;
        missing += (sent[c]! - received[c]!) * scale;
      }
      const others = Math.max(0, before - packets);
      atMost = Math.min(atMost, Math.max(0, missing));
      least = Math.max(least, missing);
      if (others < minimum) {
        minimum = others;
        best = missing - this.#share * others;
        ofAll = missing;
      }
    }
    if (!Number.isFinite(atMost)) return null;
    if (least < 0)
      return isOthersLoss({ missing: -least, packets, others: minimum }) ? null : Math.round(least);
    if (atMost > 0 && isOthersLoss({ missing: ofAll, packets, others: minimum })) return null;
    return Math.round(Math.min(Math.max(0, best), atMost, packets));
  }
}

/** The share of others' packets up to which the loss in a flow's cells is the flow's own; and the maximum relative error of its loss if the share is higher. */
const FEW_OTHERS = 0.03;
const LOSS_ERROR = 0.1;

/**
 * Returns true if it is too uncertain which missing packets are the flow's. If all flows lose alike, their number has the standard deviation of a draw
 * regardless of flows.
 */
function isOthersLoss({
  missing,
  packets,
  others,
}: {
  missing: number;
  packets: number;
  others: number;
}): boolean {
  const all = packets + others;
  if (others <= FEW_OTHERS * all) return false;
  return Math.sqrt(missing * packets * others) / all > LOSS_ERROR * missing * (packets / all);
}

/** Maximum share of others' packets in a cell used for the standard deviation, and minimum packets of the flow in it. */
const MAX_OTHERS = 0.02;
const MIN_OWN = 4;

/** Standard deviation of a flow's delays from the differences between its cells in each row (../cells/deviation.ts). */
export function minedDeviation(
  sketch: DelaySketch,
  flows: FlowSet,
  cells: FlowCells,
  flow: number,
  meanNs: number,
  background: Background,
  confidence: number,
): Interval | NoAnswer {
  const { shares, received, delaySumNs, geometry } = sketch;
  if (shares.every((s) => s === 1)) {
    return {
      reason: "not-supported",
      text: "with k = 1 and rate 1 a flow has the same packets in each cell",
    };
  }
  const weight = flows.weights?.[flow] ?? 1;
  // Packets of others differ from the flow's by as much as flows differ.
  const apart = background.flowVariance + (background.meanNs - meanNs) ** 2;
  const groups: OwnCell[][] = Array.from({ length: geometry.rows }, () => []);
  cells.read(flow);
  for (let j = 0; j < cells.length; j++) {
    const c = cells.cells[j]!;
    const row = cells.row[j]!;
    if (shares[row] === 1) continue;
    const packets = received[c]! / weight;
    const others = cells.others[j]! / weight;
    if (packets - others < MIN_OWN || others > MAX_OTHERS * packets) continue;
    const foreignVariance = (others * others + cells.doubt[j]! / weight ** 2) * apart;
    groups[row]?.push({ packets, delaySumNs: delaySumNs[c]! / weight, foreignVariance });
  }
  return deviationOfCells(groups, 1 / 6, confidence);
}
