/**
 * The monitoring station as part of a collector. It receives measurement state packets over UDP and keeps what they report, and what the map needs,
 * in DIR/station.json. Through the collector's plan it asks the taps for the segments they can measure: it sets `segments` and leaves the rest of
 * the plan as the operator has set it. Segments without an m-router at an end must be probed; those that the configuration names are probed from
 * here.
 */
import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { existsSync, readFileSync, renameSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { publish, syncFolder, writeTemporary } from "../archive/durable.ts";
import { UsageError } from "../base/errors.ts";
import { entryAt } from "../base/lists.ts";
import { sendReferences } from "../delays/reference-sender.ts";
import { type Plan, planUpgrades } from "../network/plan/plan.ts";
import { segmentKey } from "../network/station/segment-needs.ts";
import {
  type StationSnapshot,
  StationState,
  type StationStateOptions,
} from "../network/station/station-state.ts";
import type { Topology } from "../network/topology/topology.ts";
import type { ReportedEpoch } from "../results/rows.ts";
import { isLoopback } from "./access.ts";
import { parseListen } from "./listen.ts";
import type { TapPlanState, TapsPlan } from "./tap-plan.ts";

export interface StationOptions {
  topology: Topology;
  /** HOST:PORT of the UDP socket; port 0: any free port. */
  listen: string;
  /** Key that authenticates packets. Required if other hosts can send, unless `insecure` is set. */
  key?: Uint8Array | undefined;
  insecure?: boolean | undefined;
  /** How long a silent router still counts, and a segment no longer needed is kept (default 3 min). */
  holdNs?: bigint | undefined;
  /** Segments that this host probes itself, with reference packets to an address behind the receiving point. */
  probes?: readonly ProbeTarget[] | undefined;
  /** File of the station's state. */
  file: string;
  now?: (() => bigint) | undefined;
  onLog?: ((text: string) => void) | undefined;
  /** Interval at which expired entries are removed, ms. */
  tickMs?: number | undefined;
}

export interface ProbeTarget {
  from: string;
  to: string;
  address: string;
  port?: number | undefined;
}

/** The collector's interface for the station: its plan, which the station sets, and its results, which receive the routers' measurements. */
export interface PlanHolder {
  readonly plan: TapPlanState;
  setPlan(plan: TapsPlan): Promise<TapPlanState>;
  takeReported(epoch: ReportedEpoch): void;
}

export const DEFAULT_STATION = "127.0.0.1:8788";
const HOLD_NS = 180_000_000_000n;
const TICK_MS = 2000;
const DEFAULT_PLAN: TapsPlan = { estimators: ["lda"], epoch: "1s" };
const MAX_SEGMENTS = 1000;
const PROBE_RATE = 10;
const PROBE_AGAIN_MS = 60_000;
const MAX_LISTED = 2000;
/** Number of planned upgrade steps, and the largest map they are computed for, because all pairs of routers are examined. */
const NEXT_UPGRADES = 5;
const MAX_PLANNED = 300;

export class Station {
  readonly state: StationState;
  readonly #options: StationOptions;
  readonly #holder: PlanHolder;
  readonly #socket: Socket;
  readonly #probing = new Map<string, AbortController>();
  #timer: NodeJS.Timeout | null = null;
  #ticking: Promise<void> = Promise.resolve();
  #kept = "";
  #trouble: string | null = null;
  /** The upgrade plan for the routers that had announced themselves when it was computed. */
  #upgrades: { topology: Topology; key: string; plan: Plan | null } | null = null;

  private constructor(options: StationOptions, holder: PlanHolder, socket: Socket, before?: StationSnapshot) {
    this.#options = options;
    this.#holder = holder;
    this.#socket = socket;
    const { topology, key, holdNs = HOLD_NS, now } = options;
    const onMeasured: StationStateOptions["onMeasured"] = (segment, { packets, lost, delay, ...epoch }) =>
      holder.takeReported({
        ...{ ...segment, packets, lost, delay },
        ...{ startNs: BigInt(epoch.epochStartNs), endNs: BigInt(epoch.epochEndNs) },
      });
    this.state = new StationState(topology, { holdNs, key, onMeasured, ...(now ? { now } : {}) }, before);
  }

  /** Throws UsageError if the address is not available, or if other hosts could send without a key. */
  static async open(options: StationOptions, holder: PlanHolder): Promise<Station> {
    const { host, port } = parseListen(options.listen);
    if (!isLoopback(host) && !options.key && !options.insecure)
      throw new UsageError(
        "bad-option",
        `${options.listen} can be reached from other hosts, and anybody could send reports`,
        "give ‘station-key’, or ‘insecure’ where the network is trusted",
        { parameter: "station", value: options.listen },
      );
    const socket = createSocket(host.includes(":") ? "udp6" : "udp4");
    const station = new Station(options, holder, socket, readState(options.file, options.onLog));
    socket.on("message", (bytes, { address, port: from }) => {
      station.state.take(bytes, `${address}:${from}`);
    });
    try {
      socket.bind({ address: host, port });
      await once(socket, "listening");
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException;
      const why = code === "EADDRINUSE" ? "is in use" : `cannot be listened on (${code})`;
      throw new UsageError("bad-option", `${options.listen} ${why}`, undefined, {
        ...{ parameter: "station", cause },
      });
    }
    // A later socket error is logged, and the station continues.
    socket.on("error", (error) => options.onLog?.(`station: ${error.message}`));
    await station.settle();
    station.#schedule();
    return station;
  }

  get address(): string {
    const { address, port } = this.#socket.address();
    return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
  }

  /** Resolves when everything received is in the plan and on disk. */
  settle(): Promise<void> {
    this.#ticking = this.#ticking.then(() => this.#tick());
    return this.#ticking;
  }

  async close(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    await this.settle();
    for (const probing of this.#probing.values()) probing.abort();
    this.#socket.close();
  }

  #schedule(): void {
    this.#timer = setTimeout(() => {
      void this.settle().then(() => {
        if (this.#timer) this.#schedule();
      });
    }, this.#options.tickMs ?? TICK_MS);
  }

  async #tick(): Promise<void> {
    try {
      this.state.tick();
      await this.#updatePlan();
      this.#updateProbes();
      await this.#keep();
      this.#trouble = null;
    } catch (error) {
      const { message } = error as Error;
      if (message !== this.#trouble) this.#options.onLog?.(`station: ${message}`);
      this.#trouble = message;
    }
  }

  async #updatePlan(): Promise<void> {
    const segments = this.state.plannedSegments().slice(0, MAX_SEGMENTS);
    const { plan, next } = this.#holder.plan;
    const current = next?.plan ?? plan;
    // No segments needed and none set: the plan is entirely the operator's.
    if (segments.length === 0 && (current?.segments ?? []).length === 0) return;
    if (current && JSON.stringify(current.segments ?? []) === JSON.stringify(segments)) return;
    await this.#holder.setPlan({ ...(current ?? DEFAULT_PLAN), segments });
  }

  #updateProbes(): void {
    const needed = new Set(
      this.state
        .segments()
        .filter((s) => s.by === "probes")
        .map((s) => segmentKey(s)),
    );
    for (const target of this.#options.probes ?? []) {
      const key = segmentKey(target);
      const running = this.#probing.get(key);
      if (needed.has(key) && !running) this.#probe(key, target);
      if (!needed.has(key)) running?.abort();
    }
  }

  #probe(key: string, { from, to, address, port }: ProbeTarget): void {
    const ending = new AbortController();
    this.#probing.set(key, ending);
    const log = (text: string) =>
      this.#options.onLog?.(`station: probing ${from} → ${to} at ${address}: ${text}`);
    log("begins");
    sendReferences({
      ...{
        to: address,
        packetsPerSecond: PROBE_RATE,
        durationNs: Number.MAX_SAFE_INTEGER,
        signal: ending.signal,
      },
      ...(port === undefined ? {} : { port }),
    })
      .then(
        ({ sent }) => log(`ended after ${sent} reference packets`),
        async (error: Error) => {
          log(`${error.message}; tried again in a minute`);
          await sleep(PROBE_AGAIN_MS, undefined, { ref: false, signal: ending.signal }).catch(
            () => undefined,
          );
        },
      )
      .finally(() => this.#probing.delete(key));
  }

  async #keep(): Promise<void> {
    const text = `${JSON.stringify(this.state.snapshot(), null, 1)}\n`;
    if (text === this.#kept) return;
    const { file } = this.#options;
    await publish(await writeTemporary(dirname(file), Buffer.from(text)), file, true);
    await syncFolder(dirname(file));
    this.#kept = text;
  }

  /** Answers /v1/station/plan: what the next routers would gain, in addition to those that announce themselves. */
  upgrades(): Record<string, unknown> {
    const { topology, routers } = this.state;
    const announced = new Set(routers.filter((r) => r.kind === "m-router").map((r) => r.name));
    const mRouters = topology.routers.flatMap(({ name }, i) => (announced.has(name) ? [i] : []));
    const key = mRouters.join();
    if (this.#upgrades?.topology !== topology || this.#upgrades.key !== key) {
      const fits = topology.routers.length <= MAX_PLANNED;
      const plan = fits
        ? planUpgrades(
            { ...topology, mRouters },
            { upgrade: Math.min(NEXT_UPGRADES, topology.routers.length) },
          )
        : null;
      this.#upgrades = { topology, key, plan };
    }
    const name = (r: number) => entryAt(topology.routers, r).name;
    return {
      format: "hoptime.station-plan/1",
      routers: topology.routers.slice(0, MAX_PLANNED).map((r) => r.name),
      links: topology.links
        .filter((link) => link.up && link.from < MAX_PLANNED && link.to < MAX_PLANNED)
        .map(({ from, to }) => ({ from: name(from), to: name(to) })),
      plan: this.#upgrades.plan,
      reason: this.#upgrades.plan ? null : `the map has more than ${MAX_PLANNED} routers: use hoptime plan`,
    };
  }

  /** Answers /v1/station. */
  describe(): Record<string, unknown> {
    const { state } = this;
    const segments = state.segments();
    const json = ({ untilNs, routers, measured, ...segment }: (typeof segments)[number]) => ({
      ...segment,
      over: routers,
      heldUntilNs: untilNs === null ? null : `${untilNs}`,
      measured,
    });
    const probed = segments.filter((s) => s.by === "probes");
    const measured = segments.filter((s) => s.by !== "probes");
    return {
      format: "hoptime.station/1",
      topology: state.topology.name,
      address: this.address,
      authenticated: this.#options.key !== undefined,
      holdNs: `${this.#options.holdNs ?? HOLD_NS}`,
      counts: state.counts,
      problems: state.problems,
      trouble: this.#trouble,
      routers: state.routers.map((router) => ({
        ...router,
        expiresNs: `${state.expiresNs(router)}`,
        mSet: state.mSet(router.name),
      })),
      ambiguousPairs: state.ambiguousPairs,
      segmentCount: measured.length,
      segments: measured.slice(0, MAX_LISTED).map(json),
      probeCount: probed.length,
      probes: probed.slice(0, MAX_LISTED).map((segment) => ({
        ...json(segment),
        probing: this.#probing.has(segmentKey(segment)),
        referencesPerSecond: PROBE_RATE,
      })),
    };
  }
}

function readState(file: string, onLog?: (text: string) => void): StationSnapshot | undefined {
  if (!existsSync(file)) return undefined;
  try {
    const read = JSON.parse(readFileSync(file, "utf8")) as StationSnapshot;
    if (read.format === "hoptime.station/1") return read;
  } catch {
    // Reported below.
  }
  const aside = `${file}.damaged-${Date.now()}`;
  renameSync(file, aside);
  onLog?.(`${file}: not a station's state; kept as ${aside}, and built again from the routers' reports`);
  return undefined;
}
