/**
 * Series that the report page draws from single packets, if a comparison kept them: the reverse direction over time, in the intervals of the forward direction,
 * and the largest flows over time. Exact: quantiles are taken of the delays themselves (nearest rank).
 */
import { nearestRank } from "../../base/math/log-histogram.ts";
import { formatFlowKey } from "../../capture/flow/flow-text.ts";
import type { PacketTable } from "../../compare/packets.ts";
import type { FlowReport, IntervalReport, Latency } from "../../compare/report.ts";

/** Maximum number of flows per direction with a series, and of time steps per series. */
const MAX_FLOWS = 50;
const MAX_STEPS = 60;

/** The largest flows over time; lists by flow, then by time step. */
export interface FlowSeries {
  /** Relative to the page's origin, like all times of the page. */
  startNs: number;
  stepNs: number;
  /** Indices of the flows in the page's list of flows. */
  rows: number[];
  sent: number[][];
  lost: number[][];
  /** Null if no packet was matched. */
  p50Ns: (number | null)[][];
  maxNs: (number | null)[][];
}

/** Counts and delays of the packets of one time step. */
class Slot {
  sent = 0;
  lost = 0;
  readonly delays: number[] = [];

  add(delayNs: number | null, lost: boolean, packets: number): void {
    this.sent += packets;
    if (lost) this.lost += packets;
    if (delayNs !== null) this.delays.push(delayNs);
  }
}

/** Yields the packets sent in one direction: send time (ns after the table's origin) and outcome. */
function* sentPackets(
  table: PacketTable,
  direction: "forward" | "reverse",
): Generator<[id: number, atNs: number, lost: boolean]> {
  const side = direction === "forward" ? "before" : "after";
  for (let id = 0; id < table.length; id++) {
    if (table.direction(id) !== direction) continue;
    const outcome = table.outcome(id);
    if (outcome !== "delivered" && outcome !== "lost") continue;
    const atNs = table.seenNs(side, id);
    if (!Number.isNaN(atNs)) yield [id, atNs, outcome === "lost"];
  }
}

/** Returns the intervals of the reverse direction, aligned with those of the forward direction; empty if that has none. */
export function reverseIntervals(table: PacketTable, like: readonly IntervalReport[]): IntervalReport[] {
  const [first] = like;
  if (!first) return [];
  const startNs = BigInt(first.startNs);
  const lengthNs = BigInt(first.endNs) - startNs;
  const [originNs, stepNs] = [Number(table.originNs - startNs), Number(lengthNs)];
  const slots = new Map<number, Slot>();
  for (const [id, atNs, lost] of sentPackets(table, "reverse")) {
    const index = Math.floor((originNs + atNs) / stepNs);
    const slot = slots.get(index) ?? new Slot();
    slots.set(index, slot);
    slot.add(table.delayNs(id), lost, table.log.packets(id));
  }
  return [...slots]
    .sort(([a], [b]) => a - b)
    .map(([index, { sent, lost, delays }]): IntervalReport => {
      const from = startNs + BigInt(index) * lengthNs;
      return {
        ...{ startNs: `${from}`, endNs: `${from + lengthNs}`, sent, lost, matched: sent - lost },
        latency: latencyOf(delays),
      };
    });
}

function latencyOf(delays: number[]): Latency | null {
  const count = delays.length;
  const sorted = Float64Array.from(delays).sort();
  const [minNs, maxNs] = [sorted[0], sorted[count - 1]];
  if (minNs === undefined || maxNs === undefined) return null;
  const meanNs = sorted.reduce((a, b) => a + b, 0) / count;
  const squares = sorted.reduce((sum, ns) => sum + (ns - meanNs) ** 2, 0);
  const quantile = (q: number) => sorted[nearestRank(q, count) - 1] ?? maxNs;
  return {
    ...{ count, meanNs, minNs, maxNs, stdevNs: Math.sqrt(squares / count), jitterNs: null },
    ...{ p50Ns: quantile(0.5), p90Ns: quantile(0.9), p99Ns: quantile(0.99), p999Ns: quantile(0.999) },
  };
}

export function flowSeries(
  table: PacketTable,
  direction: "forward" | "reverse",
  flows: readonly FlowReport[],
  span: { originNs: bigint; firstNs: bigint; lastNs: bigint },
): FlowSeries | null {
  const packets = (row: number) => (flows[row]?.sent ?? 0) + (flows[row]?.received ?? 0);
  const rows = [...flows.keys()].sort((a, b) => packets(b) - packets(a)).slice(0, MAX_FLOWS);
  const lengthNs = Number(span.lastNs - span.firstNs);
  if (rows.length === 0 || !(lengthNs > 0)) return null;
  const stepNs = lengthNs / MAX_STEPS;
  const byName = new Map(rows.map((row, at) => [nameOf(flows[row]), at]));
  const slots = rows.map(() => Array.from({ length: MAX_STEPS }, () => new Slot()));
  const byFlow = new Map<number, number>();
  const shiftNs = Number(table.originNs - span.firstNs);
  for (const [id, atNs, lost] of sentPackets(table, direction)) {
    const flow = table.log.flow[id] ?? 0;
    let at = byFlow.get(flow);
    if (at === undefined) {
      at = byName.get(table.flowText(flow)) ?? -1;
      byFlow.set(flow, at);
    }
    const step = Math.max(0, Math.min(MAX_STEPS - 1, Math.floor((shiftNs + atNs) / stepNs)));
    slots[at]?.[step]?.add(table.delayNs(id), lost, table.log.packets(id));
  }
  const lists = <T>(value: (slot: Slot) => T) => slots.map((steps) => steps.map(value));
  const rank = (q: number) => (slot: Slot) => {
    const sorted = slot.delays.sort((a, b) => a - b);
    return sorted.length === 0 ? null : Math.round(sorted[nearestRank(q, sorted.length) - 1] ?? 0);
  };
  return {
    ...{ startNs: Number(span.firstNs - span.originNs), stepNs, rows },
    ...{
      sent: lists((s) => s.sent),
      lost: lists((s) => s.lost),
      p50Ns: lists(rank(0.5)),
      maxNs: lists(rank(1)),
    },
  };
}

const nameOf = (flow: FlowReport | undefined) => (flow ? formatFlowKey(flow.key) : "");
