/**
 * State of the monitoring station (MPLANE, section VI): which routers measure, as announced by their measurement state packets; what has to be measured between
 * them, from the map; and what they have reported.
 *
 * A router counts from its first packet until it has been silent for the hold time. A segment that is no longer needed, because a router appeared or
 * disappeared or the map changed, is held for the same time in addition to the new ones, so that paths are covered before and after. Packets may be lost,
 * repeated, late, truncated, or forged: each is counted, and none changes anything but what its own reporter may report. Plain data, with an injected clock:
 * sockets and files are elsewhere (server/station.ts).
 */
import { FormatError } from "../../base/errors.ts";
import { entryAt } from "../../base/lists.ts";
import { later } from "../../base/time.ts";
import { deployment } from "../plan/deployment.ts";
import { memberLabel } from "../plan/m-sets.ts";
import { byName, type Topology } from "../topology/topology.ts";
import { KnownPoints, wrongClaim } from "./announcements.ts";
import { decodeMsp, type MeasurementStatePacket, type MspEntry } from "./msp.ts";
import { type NeededSegment, type Needs, neededSegments, segmentKey } from "./segment-needs.ts";

export interface StationStateOptions {
  /** How long a silent router still counts, and a segment that is no longer needed is held, ns. */
  holdNs: bigint;
  /** Packets must be authenticated with it. */
  key?: Uint8Array | undefined;
  now?: () => bigint;
  /** Called with the routers' measurements, once per epoch of a segment. */
  onMeasured?: ((segment: { from: string; to: string }, measured: Measured) => void) | undefined;
}

export interface StationCounts {
  received: number;
  accepted: number;
  /** Truncated, damaged, or of another version. */
  malformed: number;
  /** Without the correct code, if a key is set. */
  unauthenticated: number;
  /** From a router that is not on the map. */
  unknown: number;
  /** About something that its reporter may not report. */
  forged: number;
  /** More than an hour ahead. */
  ahead: number;
  repeated: number;
  late: number;
  /** From the gaps in sequence numbers. */
  lost: number;
}

export interface ReportedRouter {
  name: string;
  kind: "m-router" | "m-server";
  /** Source of its last packet. */
  address: string;
  firstHeardNs: string;
  heardNs: string;
  sequence: number;
  epochEndNs: string;
  lost: number;
  repeated: number;
  restarts: number;
  /** What it measures, as announced. */
  announced: { kind: MspEntry["kind"]; from: string; to: string }[];
}

export interface Measured {
  reporter: string;
  epochStartNs: string;
  epochEndNs: string;
  packets: number;
  lost: number;
  delay: { meanNs: number; lowNs: number; highNs: number } | null;
  stdevNs: number | null;
}

/** State kept over a restart: format hoptime.station/1. */
export interface StationSnapshot {
  format: "hoptime.station/1";
  counts: StationCounts;
  routers: ReportedRouter[];
  held: { segment: NeededSegment; untilNs: string }[];
  measured: { key: string; value: Measured }[];
}

const HOUR_NS = 3_600_000_000_000n;
const MAX_PROBLEMS = 20;

export class StationState {
  readonly #options: StationStateOptions;
  readonly #now: () => bigint;
  #topology: Topology;
  #points: KnownPoints;
  readonly #routers = new Map<string, ReportedRouter>();
  #needs: Needs | null = null;
  #deployed = "";
  readonly #held = new Map<string, { segment: NeededSegment; untilNs: bigint }>();
  readonly #measured = new Map<string, Measured>();
  /** Silence is counted from here at the earliest: while the station was not listening no router was heard. */
  #listeningNs: bigint;
  readonly counts: StationCounts = {
    ...{ received: 0, accepted: 0, malformed: 0, unauthenticated: 0, unknown: 0, forged: 0 },
    ...{ ahead: 0, repeated: 0, late: 0, lost: 0 },
  };
  readonly problems: string[] = [];

  constructor(topology: Topology, options: StationStateOptions, before?: StationSnapshot) {
    this.#options = options;
    this.#now = options.now ?? (() => BigInt(Date.now()) * 1_000_000n);
    this.#topology = topology;
    this.#points = new KnownPoints(topology);
    this.#listeningNs = this.#now();
    if (before) this.#restore(before);
    this.tick();
  }

  /** Takes a datagram as received. Returns true if it was accepted. */
  take(bytes: Uint8Array, address: string): boolean {
    this.counts.received++;
    let packet: MeasurementStatePacket;
    try {
      packet = decodeMsp(bytes, address, this.#options.key);
    } catch (error) {
      if (!(error instanceof FormatError)) throw error;
      const kind = error.code === "bad-signature" ? "unauthenticated" : "malformed";
      return this.#refuse(kind, error.message);
    }
    const { reporter } = packet;
    if (!this.#points.knows(reporter))
      return this.#refuse("unknown", `${address}: '${reporter.slice(0, 64)}' is not on the map`);
    const wrong = wrongClaim(packet, this.#points);
    if (wrong !== null) return this.#refuse("forged", `${address}: ${reporter} reports ${wrong}`);
    if (packet.epochEndNs > this.#now() + HOUR_NS)
      return this.#refuse(
        "ahead",
        `${address}: ${reporter} reports an epoch that is more than an hour ahead`,
      );
    const order = this.#order(packet);
    if (order === "repeated" || order === "late") {
      this.counts[order]++;
      return false;
    }
    this.#accept(packet, address);
    return true;
  }

  /** Classifies a packet as new, repeated, or late; missing ones in between are counted. */
  #order({ reporter, sequence, epochEndNs }: MeasurementStatePacket): "new" | "repeated" | "late" {
    const known = this.#routers.get(reporter);
    if (!known) return "new";
    const ahead = (sequence - known.sequence) >>> 0;
    if (ahead === 0) {
      known.repeated++;
      return "repeated";
    }
    if (ahead < 2 ** 31) {
      known.lost += ahead - 1;
      this.counts.lost += ahead - 1;
      return "new";
    }
    // A router that restarts its numbering continues in time.
    if (epochEndNs > BigInt(known.epochEndNs)) {
      known.restarts++;
      return "new";
    }
    if (known.lost > 0) {
      known.lost--;
      this.counts.lost--;
    }
    return "late";
  }

  #accept(packet: MeasurementStatePacket, address: string): void {
    const { reporter: name, reporterKind: kind, sequence, entries } = packet;
    const now = `${this.#now()}`;
    const [epochStartNs, epochEndNs] = [`${packet.epochStartNs}`, `${packet.epochEndNs}`];
    const known = this.#routers.get(name);
    this.#routers.set(name, {
      ...{
        name,
        kind,
        address,
        firstHeardNs: known?.firstHeardNs ?? now,
        heardNs: now,
        sequence,
        epochEndNs,
      },
      ...{ lost: known?.lost ?? 0, repeated: known?.repeated ?? 0, restarts: known?.restarts ?? 0 },
      announced: entries.map(({ kind: of, from, to }) => ({ kind: of, from, to })),
    });
    for (const { from, to, packets, lost, delay, stdevNs } of entries) {
      if (packets === 0 && lost === 0 && !delay) continue;
      const measured = {
        ...{ reporter: name, epochStartNs, epochEndNs, packets, lost },
        ...{ delay: delay ?? null, stdevNs: stdevNs ?? null },
      };
      this.#measured.set(segmentKey({ from, to }), measured);
      this.#options.onMeasured?.({ from, to }, measured);
    }
    this.counts.accepted++;
    this.tick();
  }

  #refuse(kind: "malformed" | "unauthenticated" | "unknown" | "forged" | "ahead", why: string): false {
    this.counts[kind]++;
    this.problems.push(why);
    if (this.problems.length > MAX_PROBLEMS) this.problems.shift();
    return false;
  }

  /** Sets another map. */
  change(topology: Topology): void {
    this.#topology = topology;
    this.#points = new KnownPoints(topology);
    this.#deployed = "";
    this.tick();
  }

  /** Removes what has expired, and derives what is needed now. */
  tick(): void {
    const now = this.#now();
    for (const [name, router] of this.#routers)
      if (this.expiresNs(router) <= now || !this.#points.knows(name)) this.#routers.delete(name);
    this.#derive(now);
    for (const [key, { untilNs }] of this.#held) if (untilNs <= now) this.#held.delete(key);
    const known = new Set(this.segments().map((s) => segmentKey(s)));
    for (const key of this.#measured.keys()) if (!known.has(key)) this.#measured.delete(key);
  }

  expiresNs({ heardNs }: ReportedRouter): bigint {
    const heard = BigInt(heardNs);
    return later(heard, this.#listeningNs) + this.#options.holdNs;
  }

  #derive(now: bigint): void {
    const topology = this.#topology;
    const name = (r: number) => entryAt(topology.routers, r).name;
    const announced = (kind: ReportedRouter["kind"]) =>
      [...this.#routers.values()].filter((r) => r.kind === kind).map((r) => r.name);
    const mRouters = [...new Set([...topology.mRouters.map(name), ...announced("m-router")])].sort(byName);
    const mServers = topology.mServers
      ? [...new Set([...topology.mServers.map(name), ...announced("m-server")])].sort(byName)
      : null;
    const deployed = JSON.stringify([mRouters, mServers]);
    if (deployed === this.#deployed) return;
    this.#deployed = deployed;
    const before = this.#needs?.segments ?? [];
    this.#needs = neededSegments(topology, deployment(topology, mRouters, mServers));
    const current = new Set(this.#needs.segments.map((s) => segmentKey(s)));
    const untilNs = now + this.#options.holdNs;
    for (const segment of before)
      if (!current.has(segmentKey(segment))) this.#held.set(segmentKey(segment), { segment, untilNs });
    for (const key of current) this.#held.delete(key);
  }

  get topology(): Topology {
    return this.#topology;
  }

  get routers(): ReportedRouter[] {
    return [...this.#routers.values()].sort((a, b) => byName(a.name, b.name));
  }

  get ambiguousPairs(): number {
    return this.#needs?.ambiguousPairs ?? 0;
  }

  /** The m-set of a node by the map: "D", "D_2". */
  mSet(node: string): string[] {
    return this.#needs?.mSets.find((s) => s.node === node)?.members.map(memberLabel) ?? [];
  }

  /** Segments needed now, and those still held. */
  segments(): (NeededSegment & { untilNs: bigint | null; measured: Measured | null })[] {
    const measured = (s: NeededSegment) => this.#measured.get(segmentKey(s)) ?? null;
    return [
      ...(this.#needs?.segments ?? []).map((s) => ({ ...s, untilNs: null, measured: measured(s) })),
      ...[...this.#held.values()].map(({ segment, untilNs }) => ({
        ...segment,
        untilNs,
        measured: measured(segment),
      })),
    ];
  }

  /** The segments for the taps; with filters for all of them, or for none. */
  plannedSegments(): { from: string; to: string; filter?: string }[] {
    const own = this.segments().filter((s) => s.by === "taps");
    const filtered = own.some((s) => s.filter !== null);
    return own
      .filter((s) => (s.filter !== null) === filtered)
      .map(({ from, to, filter }) => ({ from, to, ...(filter === null ? {} : { filter }) }));
  }

  snapshot(): StationSnapshot {
    return {
      format: "hoptime.station/1",
      counts: this.counts,
      routers: this.routers,
      held: [...this.#held.values()].map(({ segment, untilNs }) => ({ segment, untilNs: `${untilNs}` })),
      measured: [...this.#measured].map(([key, value]) => ({ key, value })),
    };
  }

  #restore({ counts, routers, held, measured }: StationSnapshot): void {
    Object.assign(this.counts, counts);
    for (const router of routers) this.#routers.set(router.name, router);
    // Held segments stay held for their remaining time.
    this.#derive(this.#now());
    for (const { segment, untilNs } of held) {
      const key = segmentKey(segment);
      if (!this.#needs?.segments.some((s) => segmentKey(s) === key))
        this.#held.set(key, { segment, untilNs: BigInt(untilNs) });
    }
    for (const { key, value } of measured) this.#measured.set(key, value);
  }
}
