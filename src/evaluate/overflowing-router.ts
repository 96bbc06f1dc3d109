/**
 * A small router with an overflowing queue: a few bursty flows, 8 Mbit/s, 32 kB, a few hundred packets per epoch, of which 15 to 25 % are lost and tens are in
 * flight at an epoch boundary. It is written as two captures, which are observed and queried as by an operator; the true values are known per epoch and flow.
 */
import type { Kernels } from "../base/kernels.ts";
import { Random } from "../base/random.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { CaptureReader } from "../capture/reader.ts";
import { MemorySource } from "../capture/source/memory-source.ts";
import { MemoryRecords } from "../collect/memory-records.ts";
import type { CutPlan } from "../epoch/cutter.ts";
import { PointObserver } from "../observe/observer.ts";
import { RECEIVER, SENDER } from "../simulate/scenario.ts";
import { tapPlan } from "./observed-run.ts";

export interface RouterTraffic {
  seed: number;
  durationS: number;
  /** Relative shares of the flows in packets. */
  shares: readonly number[];
  /** Packets per ms outside and during bursts; packets at the start of a burst; duration and interval of bursts in ms. */
  quiet?: number;
  busy?: number;
  atOnce?: number;
  burstMs?: number;
  everyMs?: number;
  rateBps?: number;
  queueBytes?: number;
  /** Token bucket: bytes that are sent at once after an idle period. */
  bucketBytes?: number;
  /** Random loss, independent of the queue. */
  loss?: number;
  /** Share of packets that are delayed by up to 3 ms more, so that others overtake them. */
  reorder?: number;
  /** Errors of the receiver's clock. */
  offsetNs?: number;
  skewPpm?: number;
}

export interface RouterPacket {
  flow: number;
  sentNs: number;
  /** Arrival time by the receiver's clock; null: lost. */
  arrivedNs: number | null;
  bytes: number;
}

const COVER = 64;
const ORIGIN_NS = 1_704_067_200_000_000_000n;
const MS = 1e6;

/** Returns the packets in order of sending. */
function routerPackets(traffic: RouterTraffic): RouterPacket[] {
  const { shares, quiet = 0.4, busy = 1.35, atOnce = 80, burstMs = 200, everyMs = 700 } = traffic;
  const {
    durationS,
    rateBps = 8e6,
    queueBytes = 32_000,
    bucketBytes = 16_000,
    loss = 0,
    reorder = 0,
  } = traffic;
  const random = new Random(traffic.seed);
  const packets: RouterPacket[] = [];
  const total = shares.reduce((sum, share) => sum + share, 0);
  const pick = () => {
    let at = random.float() * total;
    for (const [flow, share] of shares.entries()) if ((at -= share) < 0) return flow;
    return 0;
  };
  let [owed, burst, freeNs] = [0, 0, Number.NEGATIVE_INFINITY];
  // The sender's timer fires every 2 to 3 ms, and sometimes up to 20 ms later.
  for (let t = 0; t < durationS * 1000; ) {
    const step = 2 + (random.float() < 0.05 ? 20 * random.float() : random.float());
    owed = Math.min(45, owed + step * (t % everyMs < burstMs ? busy : quiet));
    t += step;
    if (Math.floor(t / everyMs) > burst) [burst, owed] = [Math.floor(t / everyMs), atOnce];
    for (let sentNs = t * MS; owed >= 1; owed--) {
      sentNs += 5_000 + Math.floor(10_000 * random.float());
      const flow = pick();
      const bytes = random.float() < 0.1 ? 80 : 728;
      // Token bucket: after an idle period, up to `bucketBytes` are sent at once. `freeNs` is when the link, at its rate, has sent all bytes so far.
      const perByteNs = 8e9 / rateBps;
      freeNs = Math.max(freeNs, sentNs - bucketBytes * perByteNs);
      const full = (freeNs - sentNs) / perByteNs + bytes > queueBytes;
      let arrivedNs: number | null = null;
      if (!full) {
        freeNs += bytes * perByteNs;
        arrivedNs = Math.max(freeNs, sentNs) + 15_000;
        if (random.float() < reorder) arrivedNs += 3 * MS * random.float();
        if (random.float() < loss) arrivedNs = null;
      }
      packets.push({ flow, sentNs: Math.round(sentNs), arrivedNs: byClock(arrivedNs, traffic), bytes });
    }
  }
  return packets.sort((a, b) => a.sentNs - b.sentNs);
}

function byClock(ns: number | null, { offsetNs = 0, skewPpm = 0 }: RouterTraffic): number | null {
  return ns === null ? null : Math.round(ns * (1 + 1e-6 * skewPpm) + offsetNs);
}

export interface RouterRun {
  records: MemoryRecords;
  packets: RouterPacket[];
}

export async function observeRouter(
  kernels: Kernels,
  traffic: RouterTraffic,
  cut: CutPlan,
  estimators: readonly string[],
): Promise<RouterRun> {
  const packets = routerPackets(traffic);
  const numbered = packets.map((packet, id) => ({ ...packet, id }));
  const sent = numbered.map((p) => ({ ...p, timeNs: p.sentNs }));
  const arrived = numbered.flatMap((p) => (p.arrivedNs === null ? [] : [{ ...p, timeNs: p.arrivedNs }]));
  arrived.sort((a, b) => a.timeNs - b.timeNs);
  const records = new MemoryRecords();
  const seed = BigInt(traffic.seed);
  for (const [point, role, seen] of [
    [SENDER, "sender", sent],
    [RECEIVER, "receiver", arrived],
  ] as const) {
    const taps = estimators.map(tapPlan).filter((p) => role === "receiver" || p.estimator.needs.sender);
    const observer = new PointObserver({
      ...{ kernels, point, role, taps, cut, seed, key: "5tuple", cover: COVER },
      onRecord: (record, options) => records.add(record, options),
    });
    const bytes = captureOf(seen);
    const reader = await CaptureReader.of(kernels, new MemorySource(point, bytes), null, {
      seed,
      cover: COVER,
      key: FlowKeySpec.parse(),
    });
    try {
      while (await reader.next()) observer.feed(reader.batch, reader.originNs ?? 0n);
      observer.finish();
    } finally {
      observer.free();
      reader.close();
    }
  }
  return { records, packets };
}

interface Written {
  id: number;
  flow: number;
  timeNs: number;
  bytes: number;
}

/** Returns the flow's name as `query` prints it. */
export function flowText(flow: number): string {
  return `udp 10.1.0.1:${4000 + flow} > 10.2.0.1:9000`;
}

const KEPT = 60;

/** Writes raw IPv4/UDP packets with a sequence number in the payload. */
function captureOf(packets: readonly Written[]): Buffer {
  const out = Buffer.alloc(24 + packets.length * (16 + KEPT));
  out.writeUInt32LE(0xa1b23c4d, 0);
  out.writeUInt16LE(2, 4);
  out.writeUInt16LE(4, 6);
  out.writeUInt32LE(65_535, 16);
  out.writeUInt32LE(101, 20);
  let at = 24;
  for (const { id, flow, timeNs, bytes } of packets) {
    const ns = ORIGIN_NS + BigInt(timeNs);
    out.writeUInt32LE(Number(ns / 1_000_000_000n), at);
    out.writeUInt32LE(Number(ns % 1_000_000_000n), at + 4);
    out.writeUInt32LE(KEPT, at + 8);
    out.writeUInt32LE(bytes, at + 12);
    at += 16;
    out.writeUInt8(0x45, at);
    out.writeUInt16BE(bytes, at + 2);
    out.writeUInt16BE(id & 0xffff, at + 4);
    out.writeUInt8(64, at + 8);
    out.writeUInt8(17, at + 9);
    out.set([10, 1, 0, 1, 10, 2, 0, 1], at + 12);
    out.writeUInt16BE(4000 + flow, at + 20);
    out.writeUInt16BE(9000, at + 22);
    out.writeUInt16BE(bytes - 20, at + 24);
    out.writeUInt32BE(id, at + 28);
    at += KEPT;
  }
  return out;
}

export function routerTimeNs(ns: number): bigint {
  return ORIGIN_NS + BigInt(Math.round(ns));
}
