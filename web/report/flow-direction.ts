import type { Latency } from "../../src/compare/report.ts";
import type { PageData } from "../../src/present/html/page-data.ts";
import type { FlowRows } from "./flow-rows.ts";

/** The flows of one direction, what all of its packets took, and its largest flows over time where packets were kept. */
export interface FlowDirection {
  label: string;
  rows: FlowRows;
  whole: Latency | null;
  series: PageData["flowSeries"]["forward"];
}
