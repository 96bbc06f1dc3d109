/**
 * The captures of a point, observed by the lanes that are defined; where none are, and packets go both ways, by a lane per direction. Captures that can be read only
 * once are refused instead, with the filters to choose from.
 */
import type { Kernels } from "../base/kernels.ts";
import { countOf, formatCount } from "../base/quantity.ts";
import { compileFilter } from "../capture/filter/filter.ts";
import type { EpochRecord } from "../epoch/record.ts";
import { PacketCosts } from "../estimators/packet-costs.ts";
import { directionLanes, networksOfOthers, separatingNetworks } from "./direction-lanes.ts";
import { TwoWayError } from "./directions.ts";
import type { Lane } from "./lane.ts";
import type { ObserveResult } from "./observe.ts";
import { canReread, type ObserveCapturesOptions, observeCaptures, openForLook } from "./observe-captures.ts";
import type { TapPlan } from "./observer.ts";
import { type LanePlan, planLanes } from "./plan.ts";

const MAX_VOIDS = 1000;

export interface Observed {
  result: ObserveResult;
  lanes: Lane[];
  costs: Map<string, PacketCosts>;
  voids: Map<bigint, string>;
  /** Networks that directions were separated by. */
  networks: string[] | null;
}

export async function observeWays(
  options: Omit<ObserveCapturesOptions, "lanes" | "onRecord">,
  plan: LanePlan & { directory: string },
): Promise<Observed> {
  const { kernels, taps } = options;
  const run = async (lanes: Lane[], networks: string[] | null): Promise<Observed> => {
    const costs = new Map<string, PacketCosts>();
    const voids = new Map<bigint, string>();
    const onRecord = (record: EpochRecord) => {
      noteCosts(kernels, taps, record, costs);
      if (record.void !== null && voids.size < MAX_VOIDS) voids.set(record.epoch.startNs, record.void);
    };
    const result = await observeCaptures({ ...options, lanes, onRecord });
    return { result, lanes, costs, voids, networks };
  };
  const lanes = planLanes(plan);
  const own = (plan.segments?.length ?? 0) + (plan.classes?.length ?? 0) > 0;
  const separable = !own && !options.bothWays && options.cut.mode !== "control" && canReread(options);
  const filter = plan.filter ?? "";
  const ofOthers = separable ? networksOfOthers(plan.directory, plan.point) : [];
  const look = async (ifUsed: boolean) => {
    const compiled = filter === "" ? null : compileFilter(filter, kernels);
    try {
      return await separatingNetworks(openForLook({ ...options, lanes }), compiled, ofOthers, ifUsed);
    } finally {
      compiled?.free();
    }
  };
  const split = (networks: string[]) => run(directionLanes(networks, filter, plan.role ?? "both"), networks);
  // A point of one direction counts the same packets as the others only by the same lanes.
  const used = ofOthers.length > 0 ? await look(true) : null;
  if (used) return await split(used);
  try {
    return await run(lanes, null);
  } catch (error) {
    if (!(error instanceof TwoWayError) || !separable) throw error;
    const networks = await look(false);
    if (!networks) throw error;
    return await split(networks);
  }
}

export function separatedNote(networks: readonly string[], lanes: ObserveResult["lanes"]): string {
  const [from, to] = lanes;
  const rest = (from?.filtered ?? 0) - (to?.packets ?? 0);
  const neither = rest > 0 ? `, ${countOf(rest, "packet")} of neither` : "";
  return `both directions, separated by the networks of one side (${networks.join(", ")}): ${formatCount(from?.packets ?? 0)} packets from them, ${formatCount(to?.packets ?? 0)} to them${neither}`;
}

/** What the payloads of estimators that answer for packets take, by purpose. */
function noteCosts(
  kernels: Kernels,
  taps: readonly TapPlan[],
  { estimator: name, payload, counters }: EpochRecord,
  costs: Map<string, PacketCosts>,
): void {
  const open = taps.find((t) => t.estimator.name === name)?.estimator.packets;
  if (!open) return;
  const lookup = open.open(
    kernels,
    (offset, length) => payload.subarray(offset, offset + length),
    payload.length,
  );
  const known = costs.get(name) ?? new PacketCosts();
  known.add(lookup.costs(), counters.packets);
  costs.set(name, known);
  lookup.free();
}
