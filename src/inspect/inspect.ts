/**
 * Describes a capture: points, link types, time span, flows, how well packets can be distinguished, and the resolution of its timestamps. One pass with bounded
 * memory: identification fields are evaluated on the first two million IPv4 packets.
 */

import { checkText } from "../base/checks.ts";
import { Kernels, memoryError } from "../base/kernels.ts";
import { countOf } from "../base/quantity.ts";
import { FLAG, META_HIGH, type PacketBatch } from "../capture/batch.ts";
import { compileFilter } from "../capture/filter/filter.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { linkName } from "../capture/format/link-names.ts";
import { CaptureReader, type CaptureStatistics } from "../capture/reader.ts";
import { isOneCooked } from "../capture/source/point-names.ts";
import { lastBelieved, OutlierCounter, outlierText } from "../capture/timestamp-trust.ts";
import { TimestampQuality } from "../clock/timestamp-quality.ts";
import { PacketTimesWatch } from "../delays/packet-times.ts";
import { DistinctKeys, keyOf } from "./distinct-keys.ts";
import { OnTheWay } from "./on-the-way.ts";

const MAX_IDENTIFIED = 2_000_000;
/** Timestamps further than this from those around them are outliers, as in compare with its default matching window. */
const OUTLIER_NS = 5e9;

export interface InspectOptions {
  file: string;
  filter?: string | undefined;
  inner?: boolean;
  onProgress?: (doneBytes: number, totalBytes: number | null, packets: number) => void;
}

export interface InspectReport {
  format: "hoptime.inspect/1";
  file: string;
  capture: string;
  compressed: boolean;
  packets: number;
  ipPackets: number;
  ipv6Packets: number;
  fragments: number;
  bytes: number;
  firstNs: string | null;
  lastNs: string | null;
  durationNs: number | null;
  /** Interfaces of the capture; each may be an observation point. */
  points: {
    index: number;
    name: string | null;
    link: string;
    snapLength: number;
    resolution: string;
    packets: number;
    dropped: number | null;
  }[];
  skipped: Record<string, number>;
  dropped: number | null;
  flows: { fiveTuples: number; hostPairs: number; largestPackets: number; singlePackets: number };
  protocols: { proto: number; packets: number }[];
  /** Shares of IPv4 packets; null without IPv4. */
  ipid: { packets: number; zero: number; increasing: number; unique: number } | null;
  /** Share of packets whose digest occurs once; these can be matched unambiguously. */
  identity: {
    packets: number;
    uniqueDigests: number;
    coverBytes: number;
    shortestVisible: number | null;
  } | null;
  timestamps: ReturnType<TimestampQuality["report"]>;
  rates: { packetsPerSecond: number; bitsPerSecond: number } | null;
  /** Timestamps that a capture switch wrote into the packets, and the number of packets with one; null without any. */
  packetTimes: { layout: string; packets: number } | null;
  /** Tunnels in which packets are encapsulated, the most frequent first. */
  tunnels: { name: string; packets: number }[];
  /** Packets longer than any frame, because segments were merged (offload) before they were captured; null without any. */
  offload: { packets: number; longest: number } | null;
  partial: string | null;
  warnings: string[];
}

export async function inspectCapture(options: InspectOptions): Promise<InspectReport> {
  checkText("file", options?.file, "the path of a capture");
  const kernels = new Kernels();
  const reader = await CaptureReader.open(kernels, options.file, {
    key: FlowKeySpec.parse("5tuple"),
    inner: options.inner ?? false,
    filter: options.filter === undefined ? undefined : compileFilter(options.filter, kernels),
  });
  const seen = new SeenPackets(kernels, reader.batch.capacity);
  try {
    for (let ticks = 1; await reader.next(); ticks++) {
      seen.take(reader.batch, reader.originNs ?? 0n);
      seen.onTheWay.take(reader.batch);
      if ((ticks & 255) === 0)
        options.onProgress?.(reader.source.consumed(), reader.source.size, seen.packets);
    }
    const statistics = reader.statistics();
    statistics.warnings.push(...seen.onTheWay.warnings(options.inner ?? false));
    return report(statistics, reader.source.compressed, seen);
  } catch (error) {
    throw memoryError(error, "a record of each flow", "a ‘filter’ that leaves fewer flows") ?? error;
  } finally {
    reader.close();
    reader.free();
  }
}

/** Collects the totals over the packets, batch by batch. */
class SeenPackets {
  readonly #kernels: Kernels;
  readonly #flows: number;
  readonly #ids: number;
  readonly #perFlow: number[] = [];
  readonly #lastIpid: number[] = [];
  readonly #protocols = new Map<number, number>();
  readonly identification = new Identification();
  readonly perInterface = new Map<number, number>();
  readonly outliers = new OutlierCounter(OUTLIER_NS);
  readonly packetTimes = new PacketTimesWatch();
  readonly onTheWay = new OnTheWay();
  quality: TimestampQuality | null = null;
  packets = 0;
  ipv6 = 0;
  fragments = 0;

  constructor(kernels: Kernels, rows: number) {
    this.#kernels = kernels;
    this.#flows = kernels.call.flowsNew(8) >>> 0;
    this.#ids = kernels.alloc(rows * 4);
  }

  take(batch: PacketBatch, originNs: bigint): void {
    const { meta, flags, iface, ipid, digest, addrA, count } = batch;
    this.quality ??= new TimestampQuality({ originNs });
    this.quality.observe(batch.timeNs, count);
    this.packetTimes.observe(batch, originNs);
    this.outliers.observe(batch.timeNs, count, this.quality.takeBackNs());
    this.#kernels.call.flowsAssign(this.#flows, batch.address, this.#ids);
    const flowIds = this.#kernels.u32.subarray(this.#ids >>> 2, (this.#ids >>> 2) + count);
    for (let i = 0; i < count; i++) {
      const high = meta[2 * i + 1]!;
      const proto = high & 0xff;
      const flow = flowIds[i]!;
      if ((flags[i]! & FLAG.fragment) !== 0) this.fragments++;
      increase(this.#protocols, proto);
      increase(this.perInterface, iface[i]!);
      this.#perFlow[flow] = (this.#perFlow[flow] ?? 0) + 1;
      if ((high & META_HIGH.ipv6) !== 0) this.ipv6++;
      else {
        const step = this.#ipidStep(flow, ipid[i]!);
        this.identification.ipid(ipid[i]!, step, addrA[2 * i]!, addrA[2 * i + 1]!, proto);
      }
      this.identification.digest(digest[2 * i]!, digest[2 * i + 1]!);
    }
    this.packets += count;
  }

  /** Returns the IPID difference to the flow's previous packet; null for its first one. */
  #ipidStep(flow: number, ipid: number): number | null {
    const before = this.#lastIpid[flow];
    this.#lastIpid[flow] = ipid;
    return before === undefined ? null : (ipid - before + 65_536) % 65_536;
  }

  flows(): InspectReport["flows"] {
    return {
      fiveTuples: this.#perFlow.length,
      hostPairs: countHostPairs(this.#kernels, this.#flows),
      largestPackets: this.#perFlow.reduce((maximum, n) => Math.max(maximum, n), 0),
      singlePackets: this.#perFlow.filter((n) => n === 1).length,
    };
  }

  protocols(): InspectReport["protocols"] {
    return [...this.#protocols]
      .map(([proto, packets]) => ({ proto, packets }))
      .sort((a, b) => b.packets - a.packets);
  }
}

function increase(counts: Map<number, number>, key: number): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

function report(s: CaptureStatistics, compressed: boolean, seen: SeenPackets): InspectReport {
  const outliers = seen.outliers.report();
  const largestNs = s.firstNs !== null && s.lastNs !== null ? Number(s.lastNs - s.firstNs) : null;
  const durationNs = largestNs === null ? null : lastBelieved(outliers, largestNs);
  const lastNs =
    durationNs === null || s.firstNs === null ? null : s.firstNs + BigInt(Math.round(durationNs));
  const warnings = [...s.warnings];
  if (outliers.count > 0)
    warnings.push(`${outlierText(outliers)}: left out of the capture's duration and rates`);
  const timed = seen.packetTimes.report();
  if (timed)
    warnings.push(
      `${countOf(timed.packets, "packet")} with the timestamp of a capture switch: ${timed.title}; ‘delays ${timed.layout}’ reads them when the point is observed`,
    );
  return {
    format: "hoptime.inspect/1",
    file: s.file,
    capture: s.format,
    compressed,
    packets: s.packets,
    ipPackets: s.ipPackets,
    ipv6Packets: seen.ipv6,
    fragments: seen.fragments,
    bytes: s.bytes,
    firstNs: s.firstNs?.toString() ?? null,
    lastNs: lastNs?.toString() ?? null,
    durationNs,
    points: pointsOf(s, seen.perInterface),
    skipped: s.skipped,
    dropped: s.dropped,
    flows: seen.flows(),
    protocols: seen.protocols(),
    ipid: seen.identification.ipidReport(),
    identity: seen.identification.identityReport(s.shorts[0]?.[0] ?? null),
    timestamps: (seen.quality ?? new TimestampQuality()).report(),
    rates:
      durationNs !== null && durationNs > 0
        ? { packetsPerSecond: (s.packets / durationNs) * 1e9, bitsPerSecond: (s.bytes * 8e9) / durationNs }
        : null,
    packetTimes: timed && { layout: timed.layout, packets: timed.packets },
    tunnels: seen.onTheWay.tunnels(),
    offload: seen.onTheWay.offload(),
    partial: s.partial,
    warnings,
  };
}

function pointsOf(s: CaptureStatistics, perInterface: ReadonlyMap<number, number>): InspectReport["points"] {
  const [first] = s.interfaces;
  const numbers = [...perInterface.keys()].sort((a, b) => a - b);
  const listed =
    first === undefined
      ? numbers.map(erfInterface)
      : isOneCooked(s.interfaces) && numbers.length > 0
        ? // One name for all interfaces together.
          numbers.map((index) => ({ ...first, index, name: null, description: null }))
        : s.interfaces;
  return listed.map((p) => ({
    index: p.index,
    name: p.name ?? p.description,
    link: linkName(p.link),
    snapLength: p.snapLength,
    resolution: p.resolution,
    packets: perInterface.get(p.index) ?? 0,
    dropped: p.dropped,
  }));
}

function erfInterface(index: number) {
  return {
    index,
    name: null,
    description: null,
    link: 197,
    snapLength: 65_535,
    resolution: "2^-32 s",
    dropped: null,
  };
}

/** Counts the distinct address pairs of the flows; both directions are one pair. */
function countHostPairs(kernels: Kernels, flows: number): number {
  const pairs = new Set<string>();
  const count = kernels.call.flowsCount(flows) >>> 0;
  for (let id = 0; id < count; id++) {
    const at = ((kernels.call.flowsRecord(flows, id) >>> 0) + 16) >>> 2;
    const w = kernels.u32.subarray(at, at + 8);
    const v6 = w[2] !== 0 || w[3] !== 0 || w[4] !== 0 || w[5] !== 0 || w[6] !== 0 || w[7] !== 0;
    const a = v6 ? `${w[0]}.${w[1]}.${w[2]}.${w[3]}` : `${w[1]}`;
    const b = v6 ? `${w[4]}.${w[5]}.${w[6]}.${w[7]}` : `${w[0]}`;
    pairs.add(a < b ? `${a}|${b}` : `${b}|${a}`);
  }
  return pairs.size;
}

/** Measures how well packets can be distinguished: by IPID, as simple matchers do, and by digest, as hoptime does. */
class Identification {
  #ipv4 = 0;
  #zero = 0;
  #stepped = 0;
  #increasing = 0;
  readonly #ipids = new DistinctKeys();
  readonly #digests = new DistinctKeys();

  ipid(ipid: number, step: number | null, source: number, destination: number, proto: number): void {
    if (this.#ipv4 >= MAX_IDENTIFIED) return;
    this.#ipv4++;
    if (ipid === 0) this.#zero++;
    if (step !== null) {
      this.#stepped++;
      if (step >= 1 && step <= 64) this.#increasing++;
    }
    this.#ipids.add(keyOf(source, destination, (proto << 16) | ipid));
  }

  /** 53 bits of the digest are enough to distinguish two million packets. */
  digest(low: number, high: number): void {
    if (this.#digests.count >= MAX_IDENTIFIED) return;
    this.#digests.add((high & 0x1f_ffff) * 0x1_0000_0000 + low);
  }

  ipidReport(): InspectReport["ipid"] {
    if (this.#ipv4 === 0) return null;
    return {
      packets: this.#ipv4,
      zero: this.#zero / this.#ipv4,
      increasing: this.#stepped === 0 ? 0 : this.#increasing / this.#stepped,
      unique: this.#ipids.once() / this.#ipv4,
    };
  }

  identityReport(shortestVisible: number | null): InspectReport["identity"] {
    const packets = this.#digests.count;
    if (packets === 0) return null;
    return {
      packets,
      uniqueDigests: this.#digests.once() / packets,
      coverBytes: 128,
      shortestVisible,
    };
  }
}
