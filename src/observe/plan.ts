/** Plans an observation from its options: lanes of packets, and a tap per estimator. */
import { checkChoice, checkList, isText } from "../base/checks.ts";
import { invalidValue, UsageError } from "../base/errors.ts";
import { type Estimator, listsAllFlows, type Role } from "../estimators/estimator.ts";
import { findAmong, parseParameters } from "../estimators/parameters.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import type { Lane } from "./lane.ts";
import { checkName, ROLES, type TapPlan } from "./observer.ts";

export interface LanePlan {
  point: string;
  role?: Role | "both";
  filter?: string;
  /** `A:B=expression`: packets that cross from A to B; the point must be one of the two. */
  segments?: readonly string[];
  /** `name=expression`: traffic classes, each with its own taps. */
  classes?: readonly string[];
}

export interface TapChoice {
  /** Estimator names. */
  estimators: readonly string[];
  /** Parameters by estimator, as text. */
  parameters?: Readonly<Record<string, string>>;
  role?: Role | "both";
  /** Adds a flow table, so that estimators that need flow names know all flows. */
  flows?: boolean;
  /** Available estimators. */
  table?: readonly Estimator[];
}

export function planLanes({ point, role, filter, segments, classes }: LanePlan): Lane[] {
  if (role !== undefined) checkChoice("role", role, ROLES);
  const both = (expression: string) => {
    if (filter === undefined || filter === "") return expression;
    return expression === "" ? filter : `(${filter}) and (${expression})`;
  };
  const lanes: Lane[] = [];
  for (const text of segments ?? []) {
    const { name, expression } = named("segment", text, "A:B=dst net 10.2.0.0/16");
    const ends = name.split(":");
    if (ends.length !== 2 || ends.some((e) => e === "")) {
      throw invalidValue("segment", text, "SENDER:RECEIVER=EXPRESSION");
    }
    // One list of segments serves all points; segments of other points are skipped.
    if (ends[0] === point) lanes.push({ segment: name, role: "sender", filter: both(expression) });
    if (ends[1] === point) lanes.push({ segment: name, role: "receiver", filter: both(expression) });
  }
  if ((segments?.length ?? 0) > 0 && lanes.length === 0) {
    throw new UsageError(
      "bad-option",
      `no segment begins or ends at ${point}`,
      "name the point as in ‘segment A:B=…’",
      { parameter: "segment", value: segments },
    );
  }
  for (const text of classes ?? []) {
    const { name, expression } = named("class", text, "gold=dscp 46");
    lanes.push({ segment: name, role: role ?? "both", filter: both(expression) });
  }
  const names = lanes.map((l) => l.segment);
  const twice = names.find((n, i) => names.indexOf(n) !== i);
  if (twice !== undefined) throw new UsageError("bad-option", `'${twice}' is given twice`);
  if (lanes.length === 0) lanes.push({ segment: "", role: role ?? "both", filter: both("") });
  return lanes;
}

function named(parameter: string, text: string, example: string): { name: string; expression: string } {
  const equals = text.indexOf("=");
  const name = text.slice(0, Math.max(0, equals)).trim();
  const expression = text.slice(equals + 1).trim();
  if (equals < 0 || name === "" || expression === "") {
    throw invalidValue(parameter, text, `NAME=EXPRESSION, e.g. '${example}'`);
  }
  checkName(parameter, name);
  return { name, expression };
}

/** Plans the requested estimators, and a flow table if requested. */
export function planTaps(options: TapChoice): TapPlan[] {
  const table = options.table ?? ESTIMATORS;
  checkList("estimators", options.estimators, "a list of names", isText);
  const chosen: Estimator[] = [];
  for (const name of options.estimators) {
    const found = findAmong(table, name);
    if (!chosen.includes(found)) chosen.push(found);
  }
  if (options.role !== undefined) checkChoice("role", options.role, ROLES);
  if (chosen.length === 0)
    throw new UsageError("bad-option", "no estimator is named", undefined, { parameter: "estimators" });
  const lister = options.flows ? table.find(listsAllFlows) : undefined;
  if (lister && !chosen.includes(lister)) chosen.push(lister);
  return chosen.map((estimator) => ({
    estimator,
    parameters: parseParameters(estimator, options.parameters?.[estimator.name]),
  }));
}
