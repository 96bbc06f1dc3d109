import type { Latency } from "../../src/compare/report.ts";
import type { PageData } from "../../src/present/html/page-data.ts";
import type { FlowRows } from "./flow-rows.ts";

/** The flows of one direction, the delays of all its packets, and its largest flows over time if packets were kept. */
export interface FlowDirection {
  label: string;
  rows: FlowRows;
  whole: Latency | null;
  series: PageData["flowSeries"]["forward"];
}
