/** RLI's parameters: for the queue, the references and the flow table. */
import { UsageError } from "../../base/errors.ts";
import { checkSource } from "../../delays/reference-source.ts";
import { STAMP_PORT } from "../../delays/stamp.ts";
import type { ParameterSpec, ParameterValues } from "../estimator.ts";

export interface RliParameters extends ParameterValues {
  estimator: "rli" | "rli-l";
  line: "transmission" | "backlog" | "arrival";
  /** bit/s; 0: unknown. */
  drain: number;
  buffer: number;
  port: number;
  /** -1: any. */
  session: number;
  /** ns. */
  longest: number;
  max: number;
  /** s; 0: never. */
  idle: number;
  select: "all" | "hold" | "flows";
  rate: number;
  quantiles: boolean;
  /** An address; "": any. */
  source: string;
  authenticated: boolean;
  /** 0: references are separate packets. */
  every: number;
}

export const RLI_PARAMETERS: readonly ParameterSpec[] = [
  {
    name: "estimator",
    kind: "choice",
    choices: ["rli", "rli-l"],
    default: "rli",
    help: "rli interpolates between two references; rli-l takes the left one's delay",
  },
  {
    name: "line",
    kind: "choice",
    choices: ["transmission", "backlog", "arrival"],
    default: "transmission",
    help: "where a packet lies between its references: transmission: when its transmission begins; arrival: as in the paper; backlog: also by runs of packets without a pause, which show the queue",
  },
  {
    name: "drain",
    kind: "number",
    default: 0,
    min: 0,
    unit: "bit/s",
    help: "rate at which the queue between the points drains, for each packet's own transmission (equation 1); 0: left out",
  },
  {
    name: "buffer",
    kind: "integer",
    default: 65_536,
    min: 1,
    max: 1 << 24,
    help: "packets that may wait for the next reference; more are answered by the last one alone",
  },
  {
    name: "port",
    kind: "integer",
    default: STAMP_PORT,
    min: 1,
    max: 65_535,
    help: "UDP port that reference packets are sent to",
  },
  {
    name: "session",
    kind: "integer",
    default: -1,
    min: -1,
    max: 65_535,
    help: "STAMP session of the references; -1 takes any",
  },
  {
    name: "longest",
    kind: "number",
    default: 10e9,
    min: 1,
    max: 2 ** 47,
    unit: "ns",
    help: "maximum delay of a reference; longer ones are not used",
  },
  {
    name: "max",
    kind: "integer",
    default: 262_144,
    min: 1,
    max: 1 << 26,
    help: "maximum flows in the table; packets of further flows are only counted",
  },
  {
    name: "idle",
    kind: "number",
    default: 0,
    min: 0,
    max: 86_400,
    help: "seconds without packets after which a flow leaves a full table (it is kept aside); 0: never",
  },
  {
    name: "select",
    kind: "choice",
    choices: ["all", "hold", "flows"],
    default: "all",
    help: "flows that are kept: all; hold: from the first packet that is sampled on; flows: a sample of the flows",
  },
  {
    name: "rate",
    kind: "number",
    default: 1,
    min: 1e-9,
    max: 1,
    help: "share of packets (select=hold) or of flows (select=flows) that is sampled",
  },
  {
    name: "quantiles",
    kind: "flag",
    default: false,
    help: "keep a histogram of each flow's interpolated delays, for median, p90 and p99",
  },
  {
    name: "source",
    isNew: true,
    kind: "text",
    default: "",
    help: "IP address that references must come from; if omitted: the sender with the most recent references",
  },
  {
    name: "authenticated",
    isNew: true,
    kind: "flag",
    default: false,
    help: "use references in authenticated mode only (RFC 8762); needs the key that they are sent with",
  },
  {
    name: "every",
    isNew: true,
    kind: "integer",
    // Default: never. 0 as an explicit value would mean no references at all, so the minimum is 1.
    default: 0,
    min: 1,
    max: 1_000_000,
    help: "take every n-th regular packet as a reference, where delays are known by other means (the sender's capture); if omitted: never",
  },
];

export function completeRli(values: ParameterValues): RliParameters {
  const parameters = values as RliParameters;
  if (parameters.select === "all" && parameters.rate !== 1) {
    throw new UsageError(
      "bad-parameter",
      "rate is for select=hold or select=flows",
      "write e.g. select=hold,rate=0.001",
      { parameter: "rli" },
    );
  }
  if (parameters.source !== "") checkSource(parameters.source);
  return parameters;
}
