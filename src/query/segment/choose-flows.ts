/** Filters and sorts the flows or groups of an answer. Nothing is estimated again. */
import { UsageError } from "../../base/errors.ts";
import { flowFilter } from "../../capture/filter/flow-filter.ts";
import type { Answer, GroupAnswer } from "./answer.ts";
import { p99Of } from "./flow-tails.ts";

const VALUES = {
  flow: (g: GroupAnswer) => g.text,
  packets: (g: GroupAnswer) => g.packets ?? -1,
  delay: (g: GroupAnswer) => g.latency?.meanNs ?? -1,
  p99: (g: GroupAnswer) => p99Of(g) ?? -1,
  loss: (g: GroupAnswer) => (g.packets ? (g.lost ?? (g.lostLow || -1)) / g.packets : -1),
  answered: (g: GroupAnswer) => g.coverage ?? -1,
} satisfies Record<string, (g: GroupAnswer) => number | string>;

export type FlowOrder = keyof typeof VALUES;
export const FLOW_ORDERS = Object.keys(VALUES) as FlowOrder[];

export interface FlowChoice {
  /** A filter expression (docs/filters.md) on the flows' keys. */
  filter?: string | undefined;
  /** A substring of the flow's name. */
  search?: string | undefined;
  sort?: FlowOrder | undefined;
  order?: "up" | "down" | undefined;
}

export function chooseFlows(answer: Answer, { filter, search, sort, order }: FlowChoice): Answer {
  const expression = filter === undefined ? null : flowFilter(filter);
  if (expression && expression.problem !== null) throw new UsageError("bad-filter", expression.problem);
  const groups = answer.groups.filter(
    ({ text }) =>
      (expression?.fits(text) ?? true) && text.toLowerCase().includes((search ?? "").trim().toLowerCase()),
  );
  if (sort !== undefined || order !== undefined) {
    const value = VALUES[sort ?? "packets"];
    const down = (order ?? (sort === "flow" ? "up" : "down")) === "down";
    groups.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
  }
  return { ...answer, groups };
}
