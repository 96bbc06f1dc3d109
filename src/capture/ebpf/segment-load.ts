/** Loads and attaches datapath/segment.bpf.c: selects the programs that this kernel accepts, sizes their maps, and explains failures. */
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { UsageError } from "../../base/errors.ts";
import { attach, attachTracepoint, interfaceIndex, type XdpMode } from "./bpf-link.ts";
import { Datapath } from "./datapath.ts";
import { loadLibbpf } from "./libbpf.ts";
import { CLASSES, GROUP_BYTES, MAX_WAYS } from "./segment-layout.ts";
import { kernelMonotonicNs, wallOffsetNs } from "./wall-offset.ts";

/** Where a packet's arrival is timed: at tc, when the kernel has allocated a packet buffer, or at XDP, in the driver. */
export const ARRIVALS = ["tc", "xdp"] as const;
export type Arrival = (typeof ARRIVALS)[number];

/** Where a packet's departure is timed: at the kernel's tracepoint, or at a packet socket, which needs a mark that packets get behind the firewall. */
export const DEPARTURES = ["tracepoint", "socket"] as const;
export type Departure = (typeof DEPARTURES)[number];

export interface Way {
  input: string;
  output: string;
}

export interface SegmentPlan {
  ways: readonly Way[];
  arrival?: Arrival | undefined;
  /** Default: the tracepoint, unless the kernel restricts tracing. */
  departure?: Departure | undefined;
  /** Length of epochs, aligned to the wall clock, in which packets are counted by class, queue and flow. */
  epochNs?: number;
  /** Also record every packet, in rings of this size. */
  ringBytes?: number | undefined;
}

export const LOST = "segment_lost";
/** Memory limits of the tables of groups and of flows; each table exists twice. */
const GROUPS_BYTES = 32 << 20;
const FLOWS_BYTES = 32 << 20;
const FLOW_SUMS_BYTES = 88;
const [MIN_GROUPS, MAX_GROUPS] = [24, 256];
const [MIN_FLOWS, MAX_FLOWS] = [1024, 65_536];
export const DEFAULT_EPOCH_NS = 1e9;
const NO_RING_BYTES = 4096;
const FALLBACK = "hoptime top IN OUT measures by capturing (AF_PACKET)";

export interface Loaded {
  datapath: Datapath;
  baseNs: bigint;
  departure: Departure;
  programs: readonly string[];
}

export interface AttachedPrograms {
  links: { close(): void }[];
  xdpModes: Map<string, XdpMode>;
}

const nameOf = (ways: readonly Way[]) => ways.map(({ input, output }) => `${input}:${output}`).join(", ");

/** Loads the programs for the first way of seeing departures that the kernel accepts. */
export async function load(plan: SegmentPlan): Promise<Loaded> {
  const what = nameOf(plan.ways);
  const offsetNs = wallOffsetNs((await loadLibbpf(what)).libc);
  const nowNs = kernelMonotonicNs();
  const baseNs = nowNs - ((nowNs + offsetNs) % BigInt(plan.epochNs ?? DEFAULT_EPOCH_NS));
  const usual = ["segment_in", "segment_out", ...(plan.arrival === "xdp" ? ["segment_xdp"] : [])];
  const byTracepoint = ["tracepoint", [...usual, "segment_left", LOST]] as const;
  const bySocket = ["socket", [...usual, "segment_tap", LOST]] as const;
  const bySocketAlone = ["socket", [...usual, "segment_tap"]] as const;
  const departure = plan.departure ?? ((await tracingIsRestricted()) ? "socket" : null);
  const choices =
    departure === "tracepoint"
      ? [byTracepoint]
      : departure === "socket"
        ? [bySocket, bySocketAlone]
        : [byTracepoint, bySocket, bySocketAlone];
  let failure: unknown;
  for (const [departure, programs] of choices) {
    try {
      const datapath = await Datapath.load({
        ...{ what, object: "segment", programs },
        constants: { ".rodata.config": configOf(plan, baseNs, departure) },
        entries: entriesOf(plan),
      });
      return { datapath, baseNs, departure, programs };
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

/** Builds struct config. */
function configOf(
  { ways, epochNs, ringBytes }: SegmentPlan,
  baseNs: bigint,
  departure: Departure,
): Uint8Array {
  const config = new DataView(new ArrayBuffer(40 + 8 * MAX_WAYS));
  config.setBigUint64(0, baseNs, true);
  config.setBigUint64(8, BigInt(epochNs ?? DEFAULT_EPOCH_NS), true);
  config.setUint32(16, epochNs === undefined ? 0 : 1, true);
  config.setUint32(20, ringBytes === undefined ? 0 : 1, true);
  config.setUint32(24, departure === "socket" ? 1 : 0, true);
  // The link reads "net:[4026531840]".
  const space = readlinkSync("/proc/self/ns/net").replace(/\D/g, "");
  config.setUint32(28, Number(space), true);
  const indexOf = (name: string) => Number(readFileSync(`/sys/class/net/${name}/ifindex`, "utf8"));
  for (const [i, { input, output }] of ways.entries()) {
    config.setUint32(32 + 4 * i, indexOf(output), true);
    config.setUint32(32 + 4 * (MAX_WAYS + i), indexOf(input), true);
  }
  const cpus = possibleCpus();
  config.setUint32(32 + 8 * MAX_WAYS, cpus, true);
  config.setUint32(36 + 8 * MAX_WAYS, groupsOf(cpus), true);
  return new Uint8Array(config.buffer);
}

/** Returns whether the kernel restricts tracing: it then refuses a program that traces a function (datapath/tracing.bpf.c). */
async function tracingIsRestricted(): Promise<boolean> {
  try {
    const probe = await Datapath.load({ what: "", object: "tracing", programs: ["tracing_probe"] });
    probe.close();
    return false;
  } catch {
    return true;
  }
}

/** Attaches in an order in which no program counts before the ones it depends on are attached: a packet without our timestamp is not counted. */
export function attachAll(
  { datapath, departure, programs }: Loaded,
  { ways, arrival }: SegmentPlan,
  links: { close(): void }[],
): Map<string, XdpMode> {
  const { bpf } = datapath;
  const xdpModes = new Map<string, XdpMode>();
  const traced = departure === "tracepoint" ? ["segment_left", LOST] : [LOST];
  for (const program of traced.filter((name) => programs.includes(name)))
    links.push(attachTracepoint(bpf, nameOf(ways), datapath.program(program)));
  for (const output of new Set(ways.map((way) => way.output))) {
    if (departure === "socket") links.push(attach(bpf, output, "socket", datapath.program("segment_tap")));
    links.push(attach(bpf, output, "tc-egress", datapath.program("segment_out")));
  }
  for (const input of new Set(ways.map((way) => way.input))) {
    links.push(attach(bpf, input, "tc-ingress", datapath.program("segment_in"), { first: true }));
    if (arrival !== "xdp") continue;
    const link = attach(bpf, input, "xdp", datapath.program("segment_xdp"));
    links.push(link);
    if (link.mode) xdpModes.set(input, link.mode);
  }
  return xdpModes;
}

/** Sets the interfaces to which packets that came by an input may be accounted: the input itself, and those on top of it (VLANs, a bridge). */
export function setInputs(datapath: Datapath, ways: readonly Way[]): void {
  const bits = new Map<number, number>();
  for (const [i, { input }] of ways.entries())
    for (const name of [input, ...uppersOf(input)]) {
      const index = interfaceIndex(datapath.bpf, name);
      bits.set(index, (bits.get(index) ?? 0) | (1 << i));
    }
  for (const [index, ways] of bits)
    datapath
      .map("inputs")
      .update(
        new Uint8Array(new Uint32Array([index]).buffer),
        new Uint8Array(new Uint32Array([ways]).buffer),
      );
}

function uppersOf(name: string, seen = new Set<string>()): string[] {
  let entries: string[];
  try {
    entries = readdirSync(`/sys/class/net/${name}`);
  } catch {
    return [];
  }
  const uppers = entries.flatMap((entry) => (entry.startsWith("upper_") ? [entry.slice(6)] : []));
  for (const upper of uppers) {
    if (seen.has(upper)) continue;
    seen.add(upper);
    uppersOf(upper, seen);
  }
  return [...seen];
}

/** Returns the number of histograms per set and CPU. */
function groupsOf(cpus: number): number {
  return Math.max(MIN_GROUPS, Math.min(MAX_GROUPS, Math.floor(GROUPS_BYTES / (GROUP_BYTES * cpus))));
}

function entriesOf({ epochNs, ringBytes }: SegmentPlan): Record<string, number> {
  const ring = ringBytes ?? NO_RING_BYTES;
  const rings = { ring_in: ring, ring_left: ring };
  if (epochNs === undefined) return { ...rings, flows_0: 1, flows_1: 1 };
  const cpus = possibleCpus();
  const flows = Math.max(MIN_FLOWS, Math.min(MAX_FLOWS, Math.floor(FLOWS_BYTES / (FLOW_SUMS_BYTES * cpus))));
  return {
    ...rings,
    ...{ flows_0: flows, flows_1: flows },
    groups: 2 * cpus * groupsOf(cpus),
    classes: 2 * cpus * MAX_WAYS * CLASSES,
  };
}

/** Parses "0-3" or "0,2-5" and returns the number of CPUs. */
export function possibleCpus(): number {
  const text = readFileSync("/sys/devices/system/cpu/possible", "utf8").trim();
  return Math.max(...text.split(/[,-]/).map(Number)) + 1;
}

export function checkWays(ways: readonly Way[]): void {
  if (ways.length < 1 || ways.length > MAX_WAYS)
    throw new UsageError(
      "bad-option",
      `${ways.length} directions through this host`,
      `give 1 to ${MAX_WAYS}`,
    );
  const seen = new Set<string>();
  for (const { input, output } of ways) {
    for (const name of [input, output])
      if (!/^[^/\s]{1,15}$/.test(name) || !existsSync(`/sys/class/net/${name}`))
        throw new UsageError("no-such-file", `${name}: no such interface`, "ip -br link lists them", {
          value: name,
        });
    const text = `${input}:${output}`;
    if (input === output)
      throw new UsageError(
        "bad-option",
        `${text}: the same interface twice`,
        "give two different interfaces: eth0:eth1",
      );
    if (seen.has(text)) throw new UsageError("bad-option", `${text} is given twice`);
    seen.add(text);
  }
}

export function refused(error: unknown): never {
  throw withFallback(error);
}

export function withFallback(error: unknown): unknown {
  if (!(error instanceof UsageError) || error.code !== "not-supported") return error;
  const { message, hint } = error;
  const own = (hint ?? "").replace(/use ‘at [^;]*(; )?/, "");
  return new UsageError("not-supported", message, own === "" ? FALLBACK : `${own}; or: ${FALLBACK}`);
}
