/** Raises an estimator's limit on flows to a known number of flows, for callers that have the memory (compare). */
import type { ParameterSpec, ParameterValues, Tuning } from "./estimator.ts";

/** Returns `Tuning.keepFlows` for an estimator whose parameter `name` is the number of flows kept. */
export function keepFlows<P extends ParameterValues>(
  specs: readonly ParameterSpec[],
  name: string,
): NonNullable<Tuning<P>["keepFlows"]> {
  const spec = specs.find((s) => s.name === name);
  const maximum = spec && "max" in spec && typeof spec.max === "number" ? spec.max : 0;
  return (parameters, given, flows) =>
    given.has(name) || flows <= Number(parameters[name])
      ? parameters
      : { ...parameters, [name]: Math.min(flows, maximum) };
}
