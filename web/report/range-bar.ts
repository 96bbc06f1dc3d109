/** A small chart of one flow's delays on an axis that all flows share: a line from min to max, a block from p50 to p99. */
import type { LatencyField } from "../../src/compare/report.ts";
import { el } from "./elements.ts";

export type LatencyColumns = Record<LatencyField, (number | null)[]>;

/** Converts a delay to a position in [0, 100]. */
export type SpreadAxis = (ns: number) => number;

export function spreadAxis(latency: LatencyColumns): SpreadAxis {
  let minimum = Number.POSITIVE_INFINITY;
  let greatest = Number.NEGATIVE_INFINITY;
  for (const ns of latency.minNs) if (ns !== null && ns < minimum) minimum = ns;
  for (const ns of latency.maxNs) if (ns !== null && ns > greatest) greatest = ns;
  if (!(greatest > minimum)) return () => 50;
  const log = minimum > 0;
  const bend = (ns: number) => (log ? Math.log(ns) : ns);
  const [from, span] = [bend(minimum), bend(greatest) - bend(minimum)];
  return (ns) => Math.max(0, Math.min(100, ((bend(ns) - from) / span) * 100));
}

export function rangeBar(axis: SpreadAxis, latency: LatencyColumns, row: number): HTMLElement {
  const at = (field: LatencyField) => axis(latency[field][row] ?? 0);
  const piece = (name: string, from: number, to: number) => {
    const node = el("i", { class: name });
    node.style.left = `${from.toFixed(2)}%`;
    node.style.width = `${Math.max(0, to - from).toFixed(2)}%`;
    return node;
  };
  return el(
    "span",
    { class: "range", aria: { hidden: "true" } },
    piece("whisker", at("minNs"), at("maxNs")),
    piece("block", at("p50Ns"), at("p99Ns")),
    piece("tick", at("p50Ns"), at("p50Ns")),
  );
}
