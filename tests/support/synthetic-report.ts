/** Reports like those of `hoptime compare`, from generated packets with known delays: a queue fills up twice. */
import type {
  CaptureSummary,
  CompareReport,
  FlowReport,
  HeatMap,
  IntervalReport,
  Latency,
  SegmentReport,
} from "../../src/compare/report.ts";

const START_NS = 1_714_737_600_000_000_000n; // 2024-05-03 12:00:00 UTC

export interface SyntheticOptions {
  packets?: number;
  flows?: number;
  seconds?: number;
  seed?: number;
  reverse?: boolean;
  /** Added to every delay: a clock that is behind makes some delays negative. */
  offsetNs?: number;
}

interface Packet {
  atNs: number;
  flow: number;
  delayNs: number | null;
}

/** A small seeded generator (mulberry32), so that every run gets the same page. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function syntheticReport(options: SyntheticOptions = {}): CompareReport {
  const { packets = 60_000, flows = 240, seconds = 90, seed = 7, reverse = true, offsetNs = 0 } = options;
  const forward = makePackets(seeded(seed), packets, flows, seconds, offsetNs);
  const backward = reverse ? makePackets(seeded(seed + 1), packets >> 2, flows, seconds, offsetNs) : [];
  const segment = segmentOf(forward);
  const capture = (file: string, count: number, lateNs: bigint): CaptureSummary => ({
    file,
    format: "pcapng, Ethernet, ns, snap 128",
    packets: count + 154,
    ipPackets: count,
    bytes: count * 731,
    firstNs: String(START_NS + lateNs),
    lastNs: String(START_NS + BigInt(seconds) * 1_000_000_000n + lateNs),
    skipped: { "not IP (ARP)": 112, "not IP (LLDP)": 42 },
    dropped: null,
    partial: null,
  });
  return {
    format: "hoptime.compare/1",
    hoptime: "0.1.0",
    options: { window: "10s", clock: "deskew", epoch: "1s", key: "5-tuple", filter: null, top: 20 },
    before: capture("/captures/2024-05-03/edge-fra1-eth2.pcapng", segment.sent, 0n),
    after: capture("/captures/2024-05-03/core-ams3-et-0-0-1.pcapng.gz", segment.received, 812_345n),
    segment,
    reverse: reverse ? segmentOf(backward) : null,
    flows: flowsOf(forward, seeded(seed + 2)),
    reverseFlows: reverse ? flowsOf(backward, seeded(seed + 3)) : [],
    intervals: intervalsOf(forward, seconds),
    cdf: cdfOf(forward),
    heat: heatOf(forward, seconds),
    clock: {
      mode: "deskew",
      trust: "good",
      lines: [
        "Both clocks run at the same rate within 0.08 ppm, after removing a skew of 1.42 ppm.",
        "No negative delay, no jump and no backward timestamp was found.",
        "Timestamps have a resolution of 1 ns at both points.",
      ],
      skewPpm: 1.42,
      skewUncertaintyPpm: 0.08,
      offsetNs: 0,
      backward: { before: 0, after: 0 },
    },
    direction: {
      order: "as-given",
      evidence: [
        "99.98 % of the matched packets are later in the second file.",
        "The TTL is lower by one in the second file.",
      ],
    },
    notes: [
      "Snap lengths differ (128 and 96 bytes): packets are matched on what both contain.",
      "Neither file says how many packets its capture dropped: loss may include capture loss.",
    ],
  };
}

/** Reports with many flows; their numbers are random, because measuring a million packets would take too long. */
export function reportWithFlows(count: number): CompareReport {
  const random = seeded(count);
  const base = syntheticReport({ packets: 20_000 });
  base.flows = Array.from({ length: count }, (_, i) => {
    const sent = Math.ceil(1 / (random() + 1e-5));
    const lost = random() < 0.2 ? Math.floor(sent * random() * 0.1) : 0;
    const p50Ns = 50_000 * Math.exp(random() * 3);
    return flowReport(i, random, sent, lost, {
      count: sent - lost,
      meanNs: p50Ns * 1.2,
      stdevNs: p50Ns * 0.4,
      minNs: p50Ns * 0.7,
      maxNs: p50Ns * (3 + 8 * random()),
      p50Ns,
      p90Ns: p50Ns * 1.6,
      p99Ns: p50Ns * (2 + random()),
      p999Ns: p50Ns * 3,
      jitterNs: sent > 1 ? p50Ns * 0.2 : null,
    });
  });
  return base;
}

/** Two captures without common packets. */
export function emptyReport(): CompareReport {
  const base = syntheticReport({ packets: 1000, reverse: false });
  const reason = "no packet was seen in both captures";
  return {
    ...base,
    before: { ...base.before, file: "monday.pcap" },
    after: {
      ...base.after,
      file: "tuesday.pcap",
      firstNs: String(START_NS + 86_400_000_000_000n),
      lastNs: String(START_NS + 86_490_000_000_000n),
    },
    segment: {
      ...base.segment,
      matched: 0,
      lost: 0,
      lossRate: null,
      duplicates: 0,
      reordered: 0,
      reorderExtent: null,
      head: base.segment.sent,
      latency: null,
      reason,
    },
    flows: base.flows
      .slice(0, 5)
      .map((flow) => ({ ...flow, matched: 0, lost: 0, latency: null, reason: "no packet matched" })),
    intervals: [],
    cdf: [],
    heat: null,
    clock: {
      mode: "deskew",
      trust: "unusable",
      lines: ["Without matched packets nothing can be said about the clocks."],
    },
    direction: { order: "unclear", evidence: [] },
    notes: [],
  };
}

function makePackets(
  random: () => number,
  count: number,
  flows: number,
  seconds: number,
  offsetNs: number,
): Packet[] {
  const packets: Packet[] = [];
  for (let i = 0; i < count; i++) {
    const atNs = ((i + random()) / count) * seconds * 1e9;
    const share = atNs / (seconds * 1e9);
    const bump = (centre: number, width: number) => Math.exp(-(((share - centre) / width) ** 2));
    const load = bump(0.32, 0.05) + 0.7 * bump(0.74, 0.09);
    const flow = Math.floor(flows * random() ** 3);
    const queueNs = -Math.log(1 - random()) * (18_000 + 900_000 * load);
    const delayNs = 212_000 + (flow % 3) * 41_000 + queueNs + offsetNs;
    const lost = random() < 0.0004 + 0.03 * Math.max(0, load - 0.55);
    packets.push({ atNs, flow, delayNs: lost ? null : delayNs });
  }
  return packets;
}

function latencyOf(delays: number[]): Latency | null {
  if (delays.length === 0) return null;
  const sorted = [...delays].sort((a, b) => a - b);
  const rank = (q: number) => sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)]!;
  const meanNs = delays.reduce((a, b) => a + b, 0) / delays.length;
  let steps = 0;
  for (let i = 1; i < delays.length; i++) steps += Math.abs(delays[i]! - delays[i - 1]!);
  return {
    count: delays.length,
    meanNs,
    stdevNs: Math.sqrt(delays.reduce((sum, d) => sum + (d - meanNs) ** 2, 0) / delays.length),
    minNs: sorted[0]!,
    maxNs: sorted[sorted.length - 1]!,
    p50Ns: rank(0.5),
    p90Ns: rank(0.9),
    p99Ns: rank(0.99),
    p999Ns: rank(0.999),
    jitterNs: delays.length > 1 ? steps / (delays.length - 1) : null,
  };
}

const arrived = (packets: Packet[]): number[] =>
  packets.flatMap((p) => (p.delayNs === null ? [] : [p.delayNs]));

function segmentOf(packets: Packet[]): SegmentReport {
  const delays = arrived(packets);
  const lost = packets.length - delays.length;
  return {
    sent: packets.length,
    received: delays.length + 3,
    matched: delays.length,
    lost,
    lossRate: packets.length > 0 ? lost / packets.length : null,
    appeared: 3,
    duplicates: 2,
    reordered: 17,
    reorderExtent: { max: 5, mean: 1.6 },
    head: 12,
    tail: 9,
    undecided: 0,
    ambiguous: 4,
    linkLocal: 0,
    mirrored: 0,
    latency: latencyOf(delays),
  };
}

function flowsOf(packets: Packet[], random: () => number): FlowReport[] {
  const byFlow = new Map<number, Packet[]>();
  for (const packet of packets) {
    const list = byFlow.get(packet.flow);
    if (list) list.push(packet);
    else byFlow.set(packet.flow, [packet]);
  }
  return [...byFlow]
    .map(([flow, list]) => {
      const delays = arrived(list);
      return flowReport(flow, random, list.length, list.length - delays.length, latencyOf(delays));
    })
    .sort((a, b) => b.sent - a.sent);
}

function flowReport(
  flow: number,
  random: () => number,
  sent: number,
  lost: number,
  latency: Latency | null,
): FlowReport {
  const v6 = flow % 9 === 8;
  const address = (side: number) =>
    v6
      ? `2001:db8:${side}::${(1 + Math.floor(random() * 4000)).toString(16)}`
      : `10.${side}.${flow & 255}.${1 + Math.floor(random() * 250)}`;
  const proto = [6, 6, 6, 17, 17, 1][flow % 6]!;
  const id = Array.from(
    { length: 27 },
    () => "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[Math.floor(random() * 64)],
  );
  return {
    key: {
      src: address(1),
      dst: address(2),
      proto,
      sport: proto === 1 ? null : 1024 + Math.floor(random() * 60_000),
      dport: proto === 1 ? null : [443, 443, 53, 8080, 5060][flow % 5]!,
    },
    communityId: `1:${id.join("")}=`,
    sent,
    received: sent - lost,
    matched: sent - lost,
    lost,
    appeared: 0,
    duplicates: 0,
    reordered: flow % 4,
    bytes: sent * (64 + (flow % 1300)),
    latency,
    ...(latency === null && { reason: "every packet was lost" }),
  };
}

function intervalsOf(packets: Packet[], seconds: number): IntervalReport[] {
  const slots: Packet[][] = Array.from({ length: seconds }, () => []);
  for (const packet of packets) slots[Math.min(seconds - 1, Math.floor(packet.atNs / 1e9))]!.push(packet);
  return slots.map((slot, i) => {
    const delays = arrived(slot);
    return {
      startNs: String(START_NS + BigInt(i) * 1_000_000_000n),
      endNs: String(START_NS + BigInt(i + 1) * 1_000_000_000n),
      sent: slot.length,
      matched: delays.length,
      lost: slot.length - delays.length,
      latency: latencyOf(delays),
    };
  });
}

function cdfOf(packets: Packet[]): CompareReport["cdf"] {
  const sorted = arrived(packets).sort((a, b) => a - b);
  const points = Math.min(400, sorted.length);
  const cdf: CompareReport["cdf"] = [];
  for (let i = 1; i <= points; i++) {
    // Denser towards the tail, like log buckets seen from above.
    const share = 1 - (1 - i / points) ** 3;
    const at = Math.max(0, Math.ceil(share * sorted.length) - 1);
    if (sorted[at]! > (cdf.at(-1)?.delayNs ?? Number.NEGATIVE_INFINITY)) {
      cdf.push({ delayNs: sorted[at]!, share: (at + 1) / sorted.length });
    }
  }
  return cdf;
}

function heatOf(packets: Packet[], seconds: number): HeatMap {
  const columns = 180;
  const rows = 120;
  const delayEdgesNs = Array.from({ length: rows + 1 }, (_, i) => 1e3 * 10 ** ((i / rows) * 6));
  const columnWidthNs = Math.ceil((seconds * 1e9) / columns);
  const counts = Array.from({ length: columns }, () => new Array<number>(rows).fill(0));
  for (const { atNs, delayNs } of packets) {
    if (delayNs === null) continue;
    const row = Math.floor((Math.log10(Math.max(delayNs, 1e3) / 1e3) / 6) * rows);
    counts[Math.min(columns - 1, Math.floor(atNs / columnWidthNs))]![Math.min(rows - 1, row)]! += 1;
  }
  return {
    delayEdgesNs,
    columnStartNs: counts.map((_, i) => String(START_NS + BigInt(i) * BigInt(columnWidthNs))),
    columnWidthNs,
    counts,
  };
}
