/**
 * Observes several interfaces of one box in one process, each as a point of its own. They start and end together. Two of them may be the ends of a
 * segment: then packets are matched exactly, in memory, on the box's one clock, and estimators that need each packet's delay (MAPLE's store) run at
 * the second.
 */
import { UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import type { InterfaceOptions } from "../capture/source/interface/interface-options.ts";
import type { Source } from "../capture/source/source.ts";
import { matchLive } from "../delays/live-sender.ts";
import type { Role } from "../estimators/estimator.ts";
import { interfaceSource } from "./observe-captures.ts";
import { type ObservationReport, type ObservePointOptions, observePoint } from "./observe-point.ts";
import type { WaysPlan } from "./observe-ways.ts";
import { planLanes, planTaps } from "./plan.ts";

export interface ObservedInterface extends WaysPlan {
  /** Name of the interface. */
  name: string;
  point: string;
  options?: InterfaceOptions;
  /** Set if its records go to a collector. */
  collector?: ObservePointOptions["collector"];
}

export interface ObserveInterfacesOptions
  extends Omit<
    ObservePointOptions,
    "files" | "point" | "interface" | "kernels" | "source" | "delays" | "collector"
  > {
  interfaces: readonly ObservedInterface[];
  /** Set if the first is the sender and the second the receiver of a segment: the longest delay. */
  matchWithinNs?: number;
}

/** Returns one report per point, in the given order. */
export async function observeInterfaces(options: ObserveInterfacesOptions): Promise<ObservationReport[]> {
  const { interfaces, matchWithinNs, ...rest } = options;
  checkInterfaces(options);
  const ending = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, ending.signal]) : ending.signal;
  const kernels = new Kernels();
  const points = interfaces.map((watched, i): ObservePointOptions => {
    const role: Role | "both" | undefined =
      matchWithinNs === undefined ? options.role : i === 0 ? "sender" : "receiver";
    const { name, point, options: own, collector, ...ways } = watched;
    // Estimators that keep records only at the receiver have nothing to do at the sender.
    const estimators = role === "sender" ? bothEnds(options) : options.estimators;
    return {
      ...rest,
      ...{ kernels, files: [`iface:${name}`], point, signal, estimators, collector, ...ways },
      ...(own ? { interface: own } : {}),
      ...(role === undefined ? {} : { role }),
    };
  });
  const sources: Source[] = [];
  try {
    // Opens all interfaces before any record is made, so a wrong name leaves nothing behind.
    for (const [i, point] of points.entries()) {
      if (point.ebpf) continue;
      const taps = point.estimators.length > 0 ? planTaps(point) : [];
      const name = interfaces[i]?.name ?? "";
      sources.push(await interfaceSource(name, { ...point, kernels, lanes: planLanes(point), taps }));
    }
    const [first, second] = sources;
    const pair =
      matchWithinNs !== undefined && first && second
        ? matchLive(kernels, { sender: first, receiver: second, windowNs: matchWithinNs })
        : null;
    // If one fails, the others end and keep what they have.
    const ended = <T>(running: Promise<T>): Promise<T> =>
      running.catch((error: unknown) => {
        ending.abort();
        throw error;
      });
    const observed = points.map((point, i) => {
      if (point.ebpf) return ended(observePoint(point));
      const source: Source | undefined = pair && i === 0 ? pair.sender : sources[i];
      if (!source) throw new Error(`no source for ${point.point}`);
      const withSource = { ...point, source, ...(pair && i === 1 ? { delays: pair.delays } : {}) };
      return ended<ObservationReport | null>(
        point.estimators.length === 0 ? drain(source) : observePoint(withSource),
      );
    });
    const outcomes = await Promise.allSettled(observed);
    const failed = outcomes.find((outcome) => outcome.status === "rejected");
    if (failed) throw failed.reason;
    return outcomes.flatMap((o) => (o.status === "fulfilled" && o.value ? [o.value] : []));
  } finally {
    for (const source of sources) source.close();
  }
}

function checkInterfaces({ interfaces, matchWithinNs, ebpf }: ObserveInterfacesOptions): void {
  if (matchWithinNs !== undefined && ebpf)
    throw new UsageError(
      "not-supported",
      "packets of two interfaces are not matched by programs in the kernel",
      "name both points: ‘point A’ ‘point B’",
      { parameter: "ebpf" },
    );
  if (matchWithinNs !== undefined && interfaces.length !== 2)
    throw new UsageError(
      "bad-option",
      `a segment has two ends, and ${interfaces.length} interfaces are given`,
      "give the sender's and the receiver's",
    );
  for (const key of ["name", "point"] as const) {
    const values = interfaces.map((i) => i[key]);
    const twice = values.find((value, i) => values.indexOf(value) !== i);
    if (twice !== undefined) throw new UsageError("bad-option", `'${twice}' is given twice`);
  }
}

/** The requested estimators that keep records at both ends. */
function bothEnds({ estimators, table }: ObserveInterfacesOptions): string[] {
  const plans = planTaps({ estimators, ...(table ? { table } : {}) });
  return plans.filter(({ estimator }) => estimator.needs.sender).map(({ estimator }) => estimator.name);
}

/** Reads a source to its end: the sender's packets are only matched. */
async function drain(source: Source): Promise<null> {
  while ((await source.next()) !== null);
  source.close();
  return null;
}
