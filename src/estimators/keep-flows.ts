/** Bounds on the number of flows that grow with it, for those who know the number and have the memory (compare). */
import type { ParameterSpec, ParameterValues, Tuning } from "./estimator.ts";

/** For an estimator whose parameter `name` says how many flows are kept. */
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
