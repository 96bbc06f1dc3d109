/**
 * The mean of all packets if all flows are known. A row that takes every packet has the exact sum of the delays in its intact cells. Only the packets in its
 * other cells are estimated from the level of their flows, which is known from other cells of the same flows.
 *
 * The flows' own answers are shrunk towards a robust common mean, which hardly follows the few slow flows of skewed delays. That is right for one flow, but a
 * bias when summed over flows. Here, a flow about which little is known is shrunk towards the mean over flows instead: t = sum w theta / sum w K from the
 * common mean, where K = 1 - variance / prior variance is the part of an answer that does not come from the prior: E[theta] = K t. Congestion delays and loses
 * packets of the same flows, so flows are weighted by the share w of their packets in cells that are not intact.
 */
import { entryAt } from "../../base/lists.ts";
import type { Beliefs } from "./belief.ts";
import type { DelaySketch } from "./difference.ts";
import { type FlowSet, packetsSeen } from "./flow-set.ts";
import { measureJitter } from "./jitter.ts";
import type { RowMean } from "./segment.ts";

export function meanOfFlows(sketch: DelaySketch, flows: FlowSet, beliefs: Beliefs): RowMean | null {
  let most = -1;
  let usable = -1;
  for (const [r, row] of sketch.rows.entries()) {
    if (row.rate < 1 || row.overflowed || flows.weights || row.usable <= usable) continue;
    most = r;
    usable = row.usable;
  }
  return most < 0 ? null : meanByRow(sketch, flows, beliefs, most);
}

/** Returns the mean of a row: intact cells as they are, the others by the flows in them. */
function meanByRow(sketch: DelaySketch, flows: FlowSet, beliefs: Beliefs, row: number): RowMean {
  const { usable: used, delaySumNs, received } = entryAt(sketch.rows, row);
  const rest = packetsElsewhere(sketch, flows, row);
  const levels = levelsOf(sketch, flows, rest.packets, beliefs);
  const unlisted = Math.max(0, received - used - levels.packets);
  const valueNs = (delaySumNs + levels.sumNs + unlisted * levels.meanNs) / received;
  const variance = levels.variance + (rest.mixed + unlisted ** 2) * beliefs.flowVariance;
  // Levels are based on sampling rows, too.
  const restsOn = Math.max(...sketch.rows.map((r) => r.usable));
  return {
    ...{ valueNs, variance: variance / received ** 2, freedom: levels.freedom },
    ...{ used: restsOn, slowerNs: 0 },
  };
}

/** Returns the packets of each flow that arrived in cells of the row that are not intact, and the variance of their allocation to flows. */
function packetsElsewhere(sketch: DelaySketch, flows: FlowSet, row: number) {
  const { columns, k } = sketch.geometry;
  const from = row * columns;
  const expected = new Float64Array(columns);
  const squares = new Float64Array(columns);
  const packets = new Float64Array(flows.count);
  const each = (add: (f: number, c: number, share: number) => void) => {
    for (let f = 0; f < flows.count; f++)
      for (let i = 0; i < k; i++) {
        const c = flows.cells[f * flows.cellsPerFlow + row * k + i]!;
        if (sketch.usable[c] === 0 && sketch.received[c]! > 0) add(f, c, flows.packets[f]! / k);
      }
  };
  each((_, c, share) => {
    expected[c - from]! += share;
  });
  each((f, c, share) => {
    const part = expected[c - from]! > 0 ? share / expected[c - from]! : 0;
    packets[f]! += part * sketch.received[c]!;
    squares[c - from]! += part * part;
  });
  let mixed = 0;
  for (let c = 0; c < columns; c++)
    if (expected[c]! > 0) mixed += sketch.received[from + c]! * Math.max(0, 1 - squares[c]!);
  return { packets, mixed };
}

/** Returns the delay sum of this many packets of each flow, at the flow's level. */
function levelsOf(sketch: DelaySketch, flows: FlowSet, rest: Float64Array, beliefs: Beliefs) {
  const { meanNs, variance, priorVariance, commonNs, flowVariance } = beliefs;
  const centre = centreOf(flows, rest, beliefs);
  // Jitter as shown by the flows. Beliefs may use a smaller value, which hardly matters for one flow among others; here the largest flows dominate.
  const jitter = beliefs.jitter ?? measureJitter(sketch, flows);
  let [packets, sumNs, own, drawn, spread] = [0, 0, 0, 0, 0];
  for (let f = 0; f < rest.length; f++) {
    const n = rest[f]!;
    if (n === 0) continue;
    const known = !Number.isNaN(variance[f]!);
    const prior = known ? Math.min(1, variance[f]! / priorVariance[f]!) : 1;
    packets += n;
    sumNs += n * ((known ? meanNs[f]! : commonNs) + prior * centre.offsetNs);
    drawn += n * prior;
    const within = Math.max(beliefs.packetVariance, jitter.variance[f]!);
    const seen = packetsSeen(sketch, flows, f);
    const level = known ? Math.max(variance[f]!, Math.min(priorVariance[f]!, within / seen)) : flowVariance;
    own += n * n * level + n * within;
    // Degrees of freedom of a sum of variances (Satterthwaite): few if one flow, seen in few cells, makes up the rest.
    const shown = known ? Math.min(n * n * level, (n * n * within) / seen) : 0;
    spread += (shown + n * within) ** 2 / jitter.freedom[f]! + (n * n * level - shown) ** 2 / beliefs.freedom;
  }
  const shared = drawn * drawn * centre.variance;
  const total = own + shared;
  const freedom = total > 0 ? (total * total) / (spread + shared ** 2 / centre.freedom) : beliefs.freedom;
  return { packets, sumNs, variance: total, freedom, meanNs: commonNs + centre.offsetNs };
}

/** Returns the mean over the flows of the packets elsewhere, relative to the common mean. */
function centreOf(flows: FlowSet, rest: Float64Array, beliefs: Beliefs) {
  const { meanNs, variance, priorVariance, commonNs } = beliefs;
  let [sum, weights, squares, fourth] = [0, 0, 0, 0];
  for (let f = 0; f < rest.length; f++) {
    const theta = meanNs[f]! - commonNs;
    const known = 1 - variance[f]! / priorVariance[f]!;
    if (!(known > 0) || rest[f] === 0) continue;
    const w = Math.min(1, rest[f]! / flows.packets[f]!);
    sum += w * theta;
    weights += w * known;
    squares += (w * theta) ** 2;
    fourth += (w * known) ** 2;
  }
  if (!(weights > 0)) return { offsetNs: 0, variance: beliefs.flowVariance, freedom: 1 };
  return {
    offsetNs: sum / weights,
    variance: squares / weights ** 2,
    freedom: Math.max(1, weights ** 2 / fourth - 1),
  };
}
