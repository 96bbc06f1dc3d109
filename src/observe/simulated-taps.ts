/**
 * Taps along a simulated path in real time: at each point, the simulated packets become records as on an interface. Every point runs the simulation
 * itself, since the same scenario yields the same packets. Delays, for estimators that need them, are those since the previous point.
 */
import { Kernels } from "../base/kernels.ts";
import { PacedSource } from "../capture/source/paced-source.ts";
import { findAmong } from "../estimators/parameters.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import { RECEIVER, type Scenario, SENDER } from "../simulate/scenario.ts";
import { simulate } from "../simulate/simulate.ts";
import { simulatedSource } from "../simulate/simulated-source.ts";
import { type ObservationReport, type ObservePointOptions, observePoint } from "./observe-point.ts";

export interface SimulatedTapsOptions
  extends Pick<ObservePointOptions, "directory" | "estimators" | "parameters" | "cut" | "key" | "table"> {
  scenario: Scenario;
  /** Names of the sender and receiver in the records. */
  names: { sender: string; receiver: string };
  /** Collector of each point's records. */
  collector?: (point: string) => ObservePointOptions["collector"];
  /** Start of the simulation, ns since 1970. */
  originNs: bigint;
  signal: AbortSignal;
}

/** Returns the names of the points in the order packets pass them. */
export function simulatedPoints({
  scenario,
  names,
}: Pick<SimulatedTapsOptions, "scenario" | "names">): string[] {
  return [names.sender, ...scenario.path.flatMap((hop) => hop.point ?? []), names.receiver];
}

/** Returns one report per point when the simulation is over or the signal has ended it. */
export function observeSimulated(options: SimulatedTapsOptions): Promise<ObservationReport[]> {
  const { scenario, names, collector, originNs, signal, ...rest } = options;
  const inScenario = (point: string) =>
    point === names.sender ? SENDER : point === names.receiver ? RECEIVER : point;
  const points = simulatedPoints(options);
  // Estimators that have delays at the receiver keep nothing at the sender.
  const { table = ESTIMATORS } = rest;
  const atFirst = rest.estimators.filter((name) => findAmong(table, name).needs.sender);
  const observed = points.map((point, i) => {
    const simulated = inScenario(point);
    const before = points[i - 1];
    const kernels = new Kernels();
    const source = simulatedSource(simulate(kernels, scenario, { signal }), {
      ...{ point: simulated, originNs, signal },
      delaysFrom: before === undefined ? undefined : inScenario(before),
    });
    return observePoint({
      ...rest,
      ...{ kernels, point, signal, files: [], bothWays: true },
      estimators: before === undefined ? atFirst : rest.estimators,
      source: new PacedSource(source, 1, { signal }),
      collector: collector?.(point),
    });
  });
  return Promise.all(observed);
}
