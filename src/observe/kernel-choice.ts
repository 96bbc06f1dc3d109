/** Checks which parts of an observation the kernel can do: attach points, sketches, filter. If not, the error says why. */
import { UsageError } from "../base/errors.ts";
import { PLACES, type Place } from "../capture/ebpf/bpf-link.ts";
import { type KernelFilter, kernelFilter, MAX_STEPS } from "../capture/ebpf/kernel-filter.ts";
import type { KernelPart } from "../capture/ebpf/kernel-plan.ts";
import { parseFilter } from "../capture/filter/filter.ts";
import type { InterfaceOptions } from "../capture/source/interface/interface-options.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import type { CutChoice, Lane } from "./lane.ts";
import type { ObserveCapturesOptions } from "./observe-captures.ts";
import type { TapPlan } from "./observer.ts";

export { PLACES, type Place };

/** Directions seen at each attach point. */
const SEES: Record<Place, readonly ("in" | "out")[]> = {
  xdp: ["in"],
  "tc-ingress": ["in"],
  "tc-egress": ["out"],
  socket: ["in", "out"],
};
/** Default attach points, in order. Sent packets are taken behind the queue, as captures see them. */
const USUAL = { in: ["xdp", "tc-ingress", "socket"], out: ["socket"] } as const;

export interface PlaceChoice {
  direction: "in" | "out";
  /** Attach points to try, in order. */
  places: readonly Place[];
}

/** Returns the attach points for a direction. `lanes`: each lane needs its own program, and XDP takes only one. */
export function choosePlaces(
  place: Place | undefined,
  { direction }: InterfaceOptions,
  lanes = 1,
): PlaceChoice {
  if (direction === "both")
    throw new UsageError(
      "bad-option",
      "programs in the kernel see one direction",
      "choose in or out; observe the other one as a point of its own",
      { parameter: "direction", value: direction },
    );
  if (lanes > 1 && place === "xdp")
    throw new UsageError(
      "not-supported",
      `${lanes} segments or classes take ${lanes} programs, and an interface takes one XDP program`,
      "choose tc-ingress or socket, or observe one segment",
      { parameter: "at", value: place },
    );
  if (place === undefined) {
    const places: readonly Place[] = USUAL[direction ?? "in"];
    return { direction: direction ?? "in", places: places.filter((p) => lanes === 1 || p !== "xdp") };
  }
  const own = direction ?? SEES[place][0] ?? "in";
  if (!SEES[place].includes(own))
    throw new UsageError(
      "bad-option",
      `${place} sees packets that are ${own === "out" ? "received" : "sent"}, not those of direction ${own}`,
      own === "out" ? "choose tc-egress, or socket" : "choose xdp, tc-ingress or socket",
      { parameter: "at", value: place },
    );
  return { direction: own, places: [place] };
}

export interface ChosenPart {
  plan: TapPlan;
  part: KernelPart;
}

export function chooseParts(taps: readonly TapPlan[], seed: bigint): ChosenPart[] {
  return taps.map((plan) => {
    const { estimator, parameters } = plan;
    const part = estimator.kernel?.part(parameters, seed);
    if (part === undefined) {
      const names = ESTIMATORS.flatMap(({ name, kernel }) => (kernel ? [name] : [])).join(", ");
      throw new UsageError(
        "not-supported",
        `${estimator.name} cannot be kept in the kernel`,
        `those that can: ${names}; observe the others without eBPF`,
        { parameter: "estimators", value: estimator.name },
      );
    }
    if (typeof part === "string")
      throw new UsageError(
        "not-supported",
        `${estimator.name} in the kernel: ${part}`,
        "observe without eBPF",
        { parameter: estimator.name },
      );
    return { plan, part };
  });
}

export interface ChosenLane {
  lane: Lane;
  filter: KernelFilter | null;
}

export function chooseLanes(lanes: readonly Lane[]): ChosenLane[] {
  return lanes.map((lane) => {
    if (lane.filter === "") return { lane, filter: null };
    const filter = kernelFilter(parseFilter(lane.filter));
    if (!filter)
      throw new UsageError(
        "not-supported",
        `the filter takes more than the ${MAX_STEPS} steps that the kernel has for it`,
        "a shorter filter, or observe without eBPF",
        { parameter: "filter", value: lane.filter },
      );
    return { lane, filter };
  });
}

/** Throws if an option needs individual packets in user space. */
export function refusePackets(options: Omit<ObserveCapturesOptions, "sink" | "lanes" | "files">): void {
  const { inner, sender, references, packetTimes, cut, interface: own = {} } = options;
  const refuse = (parameter: string, problem: string, hint = "leave it out, or observe without eBPF") => {
    throw new UsageError("not-supported", problem, hint, { parameter });
  };
  if (inner) refuse("inner", "programs in the kernel do not look into tunnels");
  if (sender || references || packetTimes)
    refuse("delays", "programs in the kernel do not know delays of packets");
  if (cut.mode === "control") refuse("cut", "programs in the kernel do not read Start and End messages");
  if (own.timestamps === "hardware")
    refuse("timestamps", "programs in the kernel do not see the card's timestamps");
  if (own.snapBytes !== undefined) refuse("snap", "programs in the kernel copy no packets");
  if (own.promiscuous)
    refuse(
      "promiscuous",
      "programs in the kernel see only what the interface accepts",
      "leave it out, and set it yourself: ip link set dev NAME promisc on",
    );
}

const QUICK_NS = 100_000_000n;
const CELL_BYTES = 16;
/** Upper bound on the cells in the kernel, over all CPUs; beyond it fewer epochs can wait. */
const ROOM_BYTES = 128 << 20;
const MIN_SETS = 2;

/** Returns the number of sets: how many epochs may wait to be read. A power of two. `cells`: cells of one set on one CPU. */
export function setsFor(cut: CutChoice, cells: number, cpus: number): number {
  let sets = cut.mode === "aligned" && cut.lengthNs >= QUICK_NS ? 4 : 8;
  while (sets > MIN_SETS && sets * cells * cpus * CELL_BYTES > ROOM_BYTES) sets /= 2;
  return sets;
}
