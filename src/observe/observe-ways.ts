/**
 * Observes the captures of a point with the defined lanes. If none are defined and packets go both ways, it uses one lane per direction; an
 * interface is reopened with these lanes as soon as that shows. Streams that can be read only once are refused, with a choice of filters.
 */
import { UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import { countOf, formatCount } from "../base/quantity.ts";
import { WITHOUT_EBPF } from "../capture/ebpf/datapath.ts";
import { compileFilter } from "../capture/filter/filter.ts";
import { interfaceOf, refuseUnknown } from "../capture/source/interface/name.ts";
import type { EpochRecord } from "../epoch/record.ts";
import { PacketCosts } from "../estimators/packet-costs.ts";
import { AgreedNetworks } from "./agreed-networks.ts";
import { directionLanes, networksOfOthers, separatingNetworks } from "./direction-lanes.ts";
import { TwoWayError } from "./directions.ts";
import type { Lane } from "./lane.ts";
import type { ObserveResult } from "./observe.ts";
import { canReread, type ObserveCapturesOptions, observeCaptures, openForLook } from "./observe-captures.ts";
import { type KernelOptions, KernelUnavailable, observeKernel } from "./observe-kernel.ts";
import type { TapPlan } from "./observer.ts";
import { type LanePlan, planLanes } from "./plan.ts";

const MAX_VOIDS = 1000;

export interface Observed {
  result: ObserveResult;
  lanes: Lane[];
  costs: Map<string, PacketCosts>;
  voids: Map<bigint, string>;
  /** Networks by which directions were separated. */
  networks: string[] | null;
}

/** How an interface with two-way traffic finds the networks that separate its directions. */
export interface WaysPlan {
  /** Networks used by other points; default: those of the directory. */
  networksOfOthers?: (() => Promise<string[][]>) | undefined;
  /** How often these are asked for again while directions are separated, ms. */
  agreeEveryMs?: number;
  onSeparated?: ((networks: readonly string[]) => void) | undefined;
}

type ObservedOptions = Omit<ObserveCapturesOptions, "lanes" | "onRecord">;

/** Runs one observation and collects facts about its records for the notes. */
async function noted(
  { kernels, taps }: Pick<ObservedOptions, "kernels" | "taps">,
  lanes: Lane[],
  networks: string[] | null,
  run: (onRecord: (record: EpochRecord) => void) => Promise<ObserveResult>,
): Promise<Observed> {
  const costs = new Map<string, PacketCosts>();
  const voids = new Map<bigint, string>();
  const result = await run((record) => {
    noteCosts(kernels, taps, record, costs);
    if (record.void !== null && voids.size < MAX_VOIDS) voids.set(record.epoch.startNs, record.void);
  });
  return { result, lanes, costs, voids, networks };
}

/** Observes with programs in the kernel. If they do not work here and no attach point was chosen, observes the same direction with captures. */
async function observeInKernel(
  options: ObservedOptions,
  plan: LanePlan & WaysPlan & { directory: string },
  ebpf: KernelOptions,
): Promise<Observed> {
  const [file, ...more] = options.files;
  const name = file === undefined ? null : interfaceOf(file);
  if (file !== undefined && name === null) refuseUnknown(file);
  if (name === null || more.length > 0)
    throw new UsageError("bad-option", "applies to interfaces, and a file is given", "leave it out", {
      parameter: "ebpf",
    });
  const lanes = planLanes(plan);
  try {
    return await noted(options, lanes, null, (onRecord) =>
      observeKernel({ ...options, name, ebpf, lanes, onRecord }),
    );
  } catch (error) {
    if (!(error instanceof KernelUnavailable) || ebpf.place !== undefined) throw error;
    const { message, hint } = error;
    const remedy = hint === undefined || hint === WITHOUT_EBPF ? "" : `; for eBPF: ${hint}`;
    ebpf.onFallback?.(`${message}; packets are captured instead (AF_PACKET)${remedy}`);
    const direction = options.interface?.direction ?? "in";
    return await observeWays({ ...options, interface: { ...options.interface, direction } }, plan);
  }
}

export async function observeWays(
  options: ObservedOptions,
  plan: LanePlan & WaysPlan & { directory: string },
  ebpf?: KernelOptions,
): Promise<Observed> {
  if (ebpf) return await observeInKernel(options, plan, ebpf);
  const { kernels } = options;
  const run = (lanes: Lane[], networks: string[] | null, more = {}): Promise<Observed> =>
    noted(options, lanes, networks, (onRecord) => observeCaptures({ ...options, ...more, lanes, onRecord }));
  const lanes = planLanes(plan);
  const own = (plan.segments?.length ?? 0) + (plan.classes?.length ?? 0) > 0;
  const separates = !own && !options.bothWays && options.cut.mode !== "control";
  const filter = plan.filter ?? "";
  if (separates && isInterface(options)) {
    const split = (networks: string[], signal: AbortSignal) =>
      run(directionLanes(networks, filter, plan.role ?? "both"), networks, { source: undefined, signal });
    return await run(lanes, null, { separable: true }).catch((error: unknown) =>
      separateLive(error, split, options, plan),
    );
  }
  const separable = separates && canReread(options);
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
  // A one-way point counts the same packets as the others only if it uses the same lanes.
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

/** Whether the source is one interface that can be reopened. If packets are matched with another interface's, both would have to be. */
function isInterface({ files, delays }: Pick<ObserveCapturesOptions, "files" | "delays">): boolean {
  const [first, ...more] = files;
  return first !== undefined && more.length === 0 && interfaceOf(first) !== null && !delays;
}

/** Separates directions by networks learnt so far. If points turn out to use different networks, starts again with others until they agree. */
async function separateLive(
  error: unknown,
  split: (networks: string[], signal: AbortSignal) => Promise<Observed>,
  { signal }: Pick<ObserveCapturesOptions, "signal">,
  plan: WaysPlan & { directory: string; point: string },
): Promise<Observed> {
  if (!(error instanceof TwoWayError)) throw error;
  const ofOthers = plan.networksOfOthers ?? (async () => networksOfOthers(plan.directory, plan.point));
  const agreed = new AgreedNetworks(error.check, ofOthers, plan.agreeEveryMs);
  for (let networks = await agreed.first(); ; ) {
    if (!networks) throw error;
    plan.onSeparated?.(networks);
    const change = new AbortController();
    const unwatch = agreed.watch(networks, () => change.abort());
    const ending = signal ? AbortSignal.any([signal, change.signal]) : change.signal;
    const observed = await split(networks, ending).finally(unwatch);
    if (signal?.aborted || !change.signal.aborted) return observed;
    networks = agreed.better;
  }
}

export function separatedNote(networks: readonly string[], lanes: ObserveResult["lanes"]): string {
  const [from, to] = lanes;
  const rest = (from?.filtered ?? 0) - (to?.packets ?? 0);
  const neither = rest > 0 ? `, ${countOf(rest, "packet")} of neither` : "";
  return `both directions, separated by the networks of one side (${networks.join(", ")}): ${countOf(from?.packets ?? 0, "packet")} from them, ${formatCount(to?.packets ?? 0)} to them${neither}`;
}

/** Sums up, by purpose, the payload sizes of estimators that answer for packets. */
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
