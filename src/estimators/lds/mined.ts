/**
 * What else the cells tell of a flow (section 4.3): packets, bytes, loss and deviation.
 *
 * Packets and bytes are count-min: the minimum over rows of a flow's k cells, never below the truth where a row takes all packets.
 * Loss is the missing packets of the flow's emptiest cells, less what its neighbours are expected to have lost; null where those may just as well be the neighbours'. Where all its cells have
 * packets too many (in flight at the cut before), it is below 0.
 */
import { entryAt } from "../../base/lists.ts";
import type { Background } from "../cells/background.ts";
import { deviationOfCells, type OwnCell } from "../cells/deviation.ts";
import type { Interval, NoAnswer } from "../estimator.ts";
import type { DelaySketch } from "./difference.ts";
import type { FlowCells } from "./flow-cells.ts";
import { type FlowSet, fullestRows } from "./flow-set.ts";

/** Bytes of a flow, at most; null where the sketch does not count bytes or no row takes all packets. */
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

/** Losses of flows, from what is missing in their cells. */
export class LossMiner {
  readonly #sketch: DelaySketch;
  readonly #flows: FlowSet;
  readonly #rows: number[];
  /** Share of packets lost, over all. */
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

/** Others' packets among a flow's, of all, that leave its loss as it is; and how well it must be known else. */
const FEW_OTHERS = 0.03;
const LOSS_ERROR = 0.1;

/** Whose of the missing packets are others' is chance, where all lose alike: their deviation is that of a draw without regard to flows. */
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

/** Others' packets that a cell may hold, of all, to count for the deviation; and packets of the flow that it must hold. */
const MAX_OTHERS = 0.02;
const MIN_OWN = 4;

/** Deviation of a flow's delays from the differences between its cells in each row (../cells/deviation.ts). */
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
  // Others' packets are as far off as flows are from each other.
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
