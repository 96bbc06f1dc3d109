/**
 * Generates a pair of captures, BEFORE and AFTER a queue, at well over a million packets per second. Heavy-tailed flows (Pareto 1.1) arrive in bursts at one
 * FIFO queue with a tail-drop limit, with a little random loss in addition. AFTER contains the packets as a router forwards them: other MAC addresses,
 * decremented TTL, updated IP checksum. Deterministic: the same options give the same bytes. Both files are classic pcap, nanoseconds, little-endian, Ethernet,
 * with whole packets of ~109 bytes on average unless `snapLength` cuts them.
 *
 * By default each burst belongs to one flow (3.4 consecutive packets of a flow), and new flows replace those that end. With `interleavedFlows`, this many flows
 * of heavy-tailed sizes send all the time, and each packet belongs to any of them, as on real links (1.01 to 1.26 consecutive packets of a flow).
 *
 *   node scripts/bench.mjs generate-captures --packets 5e6 --out bench/data/pair
 */
import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { Random } from "../src/base/random.ts";

export interface GenerateOptions {
  /** Packets in BEFORE. */
  packets: number;
  beforeFile: string;
  afterFile: string;
  seed?: number;
  /** Mean packets per second at BEFORE. */
  rate?: number;
  /** Offered load relative to the queue's drain rate. */
  utilisation?: number;
  /** Random loss in addition to that of the queue. */
  loss?: number;
  /** Tail-drop limit: packets that would wait longer are dropped. */
  queueLimitNs?: number;
  /** Constant part of the delay. */
  propagationNs?: number;
  /** Flows that send at the same time. */
  activeFlows?: number;
  /** Packets of the shortest flow; the sizes of the others are proportional to it. */
  shortestFlow?: number;
  /** Number of flows that send all the time, with interleaved packets instead of bursts; `activeFlows` and `shortestFlow` are then ignored. */
  interleavedFlows?: number;
  snapLength?: number;
  /** Share of flows that are IPv6, and that carry a VLAN tag at BEFORE. */
  ipv6Share?: number;
  vlanShare?: number;
}

/** True values of the pair, known by construction. */
export interface GeneratedPair {
  sent: number;
  received: number;
  lost: number;
  flows: number;
  /** Mean number of consecutive packets of one flow at BEFORE. */
  meanRun: number;
  meanDelayNs: number;
  minDelayNs: number;
  maxDelayNs: number;
  beforeBytes: number;
  afterBytes: number;
}

/** Incremented when the same options give other bytes or more results: benchmarks that keep files put it into their names. */
export const GENERATOR_VERSION = 3;

const START_SECONDS = 1_700_000_000;
const BUFFER_BYTES = 1 << 20;
/** Lengths on the wire and their cumulative shares; the mean is 109 B. */
const SIZES = [66, 90, 150, 222] as const;
const SHARES = [0.44, 0.64, 0.89, 1] as const;
const MEAN_SIZE = 66 * 0.44 + 90 * 0.2 + 150 * 0.25 + 222 * 0.11;
/** Probability that a burst continues: mean 8 packets, at a tenth of the mean gap. */
const BURST_GOES_ON = 0.875;
const BURST_SPEED = 0.1;

/** Writes a pcap file in large pieces. */
class PcapSink {
  readonly bytes = Buffer.alloc(BUFFER_BYTES + 4096);
  readonly #fd: number;
  used = 0;
  total = 0;
  constructor(path: string, snapLength: number) {
    this.#fd = openSync(path, "w");
    this.bytes.writeUInt32LE(0xa1b23c4d, 0);
    this.bytes.writeUInt16LE(2, 4);
    this.bytes.writeUInt16LE(4, 6);
    this.bytes.writeUInt32LE(snapLength, 16);
    this.bytes.writeUInt32LE(1, 20);
    this.used = 24;
  }
  /** Starts a record of `captured` bytes; returns the offset of its frame. */
  record(timeNs: number, captured: number, wire: number): number {
    if (this.used > BUFFER_BYTES) this.flush();
    const { bytes, used } = this;
    const seconds = Math.floor(timeNs / 1e9);
    put32le(bytes, used, START_SECONDS + seconds);
    put32le(bytes, used + 4, timeNs - seconds * 1e9);
    put32le(bytes, used + 8, captured);
    put32le(bytes, used + 12, wire);
    this.used = used + 16 + captured;
    return used + 16;
  }
  flush(): void {
    for (let at = 0; at < this.used; ) at += writeSync(this.#fd, this.bytes, at, this.used - at);
    this.total += this.used;
    this.used = 0;
  }
  close(): void {
    this.flush();
    closeSync(this.#fd);
  }
}

function put32le(b: Uint8Array, at: number, v: number): void {
  b[at] = v;
  b[at + 1] = v >>> 8;
  b[at + 2] = v >>> 16;
  b[at + 3] = v >>> 24;
}
function put32(b: Uint8Array, at: number, v: number): void {
  b[at] = v >>> 24;
  b[at + 1] = v >>> 16;
  b[at + 2] = v >>> 8;
  b[at + 3] = v;
}
function put16(b: Uint8Array, at: number, v: number): void {
  b[at] = v >>> 8;
  b[at + 1] = v;
}

function ipChecksum(b: Uint8Array, at: number): number {
  let sum = 0;
  for (let i = 0; i < 20; i += 2) sum += (b[at + i]! << 8) | b[at + i + 1]!;
  sum = (sum & 0xffff) + (sum >>> 16);
  sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

const LINK_BYTES = 14;
const TAG_BYTES = 4;
/** Shape of the flow sizes. */
const PARETO = 1.1;

/** Draws one of n flows with a probability proportional to its size; sizes have a Pareto distribution (Walker's alias method). */
function flowDraw(n: number, random: Random): () => number {
  const weights = Float64Array.from({ length: n }, () => (1 - random.float()) ** (-1 / PARETO));
  const mean = weights.reduce((sum, w) => sum + w, 0) / n;
  const share = weights.map((w) => w / mean);
  const alias = Uint32Array.from({ length: n }, (_, i) => i);
  const small: number[] = [];
  const large: number[] = [];
  for (let i = 0; i < n; i++) (share[i]! < 1 ? small : large).push(i);
  for (;;) {
    const less = small.pop();
    const more = large.pop();
    if (less === undefined || more === undefined) break;
    alias[less] = more;
    share[more]! -= 1 - share[less]!;
    (share[more]! < 1 ? small : large).push(more);
  }
  for (const i of [...small, ...large]) share[i] = 1;
  return () => {
    const i = random.uint32() % n;
    return random.float() < share[i]! ? i : alias[i]!;
  };
}

export function generateCaptures(options: GenerateOptions): GeneratedPair {
  const {
    packets,
    seed = 1,
    rate = 500_000,
    utilisation = 0.85,
    loss = 0.001,
    queueLimitNs = 5_000_000,
    propagationNs = 20_000,
    interleavedFlows,
    activeFlows = interleavedFlows ?? 4096,
    shortestFlow = 1,
    snapLength = 65_535,
    ipv6Share = 0,
    vlanShare = 0,
  } = options;
  const random = new Random(seed);
  const before = new PcapSink(options.beforeFile, snapLength);
  const after = new PcapSink(options.afterFile, snapLength);
  const nsPerByte = (1e9 / rate / MEAN_SIZE) * utilisation;
  // Gaps within a burst are short, so gaps between bursts are longer to keep the mean gap at 1/rate.
  const meanGapNs = 1e9 / rate;
  const idleGapNs = (meanGapNs - BURST_GOES_ON * BURST_SPEED * meanGapNs) / (1 - BURST_GOES_ON);

  const source = new Uint32Array(activeFlows);
  const destination = new Uint32Array(activeFlows);
  const ports = new Uint32Array(activeFlows);
  const sequence = new Uint32Array(activeFlows);
  const left = new Float64Array(activeFlows);
  const kind = new Uint8Array(activeFlows); // 1 UDP, 2 IPv6, 4 VLAN
  let flows = 0;
  const startFlow = (f: number) => {
    flows++;
    source[f] = 0x0a000000 | (random.uint32() >>> 10);
    destination[f] = 0xc0a80000 | (random.uint32() >>> 16);
    ports[f] = ((1024 + (random.uint32() % 60_000)) << 16) | (random.uint32() % 7 === 0 ? 53 : 443);
    sequence[f] = random.uint32();
    left[f] = Math.min(1e7, Math.floor(shortestFlow * (1 - random.float()) ** (-1 / PARETO)));
    kind[f] =
      (random.float() < 0.2 ? 1 : 0) |
      (random.float() < ipv6Share ? 2 : 0) |
      (random.float() < vlanShare ? 4 : 0);
  };
  for (let f = 0; f < activeFlows; f++) startFlow(f);
  const draw = interleavedFlows === undefined ? null : flowDraw(interleavedFlows, random);
  if (draw) {
    left.fill(Number.POSITIVE_INFINITY);
    // The smallest flows may never be drawn.
    flows = 0;
  }
  const seen = new Uint8Array(activeFlows);

  let timeNs = 0;
  let queueFreeNs = 0;
  let current = 0;
  let runs = 0;
  let previous = -1;
  let received = 0;
  let delaySum = 0;
  let minDelayNs = Number.POSITIVE_INFINITY;
  let maxDelayNs = 0;
  let ipid = random.uint32() & 0xffff;
  for (let n = 0; n < packets; n++) {
    if (random.float() < BURST_GOES_ON) timeNs += Math.ceil(meanGapNs * BURST_SPEED * 2 * random.float());
    else {
      timeNs += Math.ceil(-Math.log(1 - random.float()) * idleGapNs);
      current = random.uint32() % activeFlows;
    }
    if (draw) {
      current = draw();
      flows += 1 - seen[current]!;
      seen[current] = 1;
    }
    const ended = left[current]! <= 0;
    if (ended) startFlow(current);
    left[current]!--;
    if (ended || current !== previous) runs++;
    previous = current;
    const u = random.float();
    const tagged = (kind[current]! & 4) !== 0;
    const v6 = (kind[current]! & 2) !== 0;
    // The IPv6 header is 20 bytes longer; the payloads are the same.
    const wire = SIZES[u < SHARES[0] ? 0 : u < SHARES[1] ? 1 : u < SHARES[2] ? 2 : 3] + (v6 ? 20 : 0);
    const udp = (kind[current]! & 1) !== 0;
    const link = tagged ? LINK_BYTES + TAG_BYTES : LINK_BYTES;
    const wireBefore = tagged ? wire + TAG_BYTES : wire;
    // A frame may be longer than its captured part: it is written completely, and the next record overwrites the rest.
    const at = before.record(timeNs, Math.min(wireBefore, snapLength), wireBefore);
    const b = before.bytes;
    put32(b, at, 0x02000000);
    put32(b, at + 4, 0x00010200);
    put32(b, at + 8, 0x00000002);
    if (tagged) put32(b, at + 12, 0x81000064);
    put16(b, at + link - 2, v6 ? 0x86dd : 0x0800);
    const ip = at + link;
    const ipLength = wire - LINK_BYTES;
    let l4 = ip + 20;
    if (v6) {
      l4 = ip + 40;
      put32(b, ip, 0x60000000);
      put16(b, ip + 4, ipLength - 40);
      b[ip + 6] = udp ? 17 : 6;
      b[ip + 7] = 64;
      b.fill(0, ip + 8, ip + 40);
      put32(b, ip + 8, 0x20010db8);
      put32(b, ip + 20, source[current]!);
      put32(b, ip + 24, 0x20010db8);
      put32(b, ip + 36, destination[current]!);
    } else {
      ipid = (ipid + 1) & 0xffff;
      put32(b, ip, 0x45000000 | ipLength);
      put32(b, ip + 4, (ipid << 16) | 0x4000);
      put32(b, ip + 8, 0x40000000 | (udp ? 17 << 16 : 6 << 16));
      put32(b, ip + 12, source[current]!);
      put32(b, ip + 16, destination[current]!);
      put16(b, ip + 10, ipChecksum(b, ip));
    }
    put32(b, l4, ports[current]!);
    const seq = sequence[current]!;
    let payload: number;
    if (udp) {
      put32(b, l4 + 4, (ip + ipLength - l4) << 16);
      payload = l4 + 8;
    } else {
      put32(b, l4 + 4, seq);
      put32(b, l4 + 8, seq ^ 0x5bd1e995);
      put32(b, l4 + 12, 0x5010ffff);
      put32(b, l4 + 16, 0x12340000);
      payload = l4 + 20;
    }
    sequence[current] = seq + ipLength;
    const frameEnd = at + wireBefore;
    // The payload depends on the packet number, so no two packets are equal.
    let fill = Math.imul(n + 1, 0x9e3779b1);
    for (; payload + 4 <= frameEnd; payload += 4) {
      put32(b, payload, fill);
      fill = (fill + 0x01010101) | 0;
    }
    for (; payload < frameEnd; payload++) b[payload] = fill;

    const startNs = Math.max(timeNs, queueFreeNs);
    if (startNs - timeNs > queueLimitNs || random.float() < loss) continue;
    queueFreeNs = Math.round(startNs + wire * nsPerByte);
    const delayNs = queueFreeNs - timeNs + propagationNs;
    delaySum += delayNs;
    if (delayNs < minDelayNs) minDelayNs = delayNs;
    if (delayNs > maxDelayNs) maxDelayNs = delayNs;
    received++;
    const out = after.record(timeNs + delayNs, Math.min(wire, snapLength), wire);
    const a = after.bytes;
    b.copy(a, out + LINK_BYTES - 2, ip - 2, ip - LINK_BYTES + Math.min(wire, snapLength));
    put32(a, out, 0x02000000);
    put32(a, out + 4, 0x00030200);
    put32(a, out + 8, 0x00000004);
    const ipOut = out + LINK_BYTES;
    if (v6) a[ipOut + 7] = 63;
    else {
      a[ipOut + 8] = 63;
      put16(a, ipOut + 10, 0);
      put16(a, ipOut + 10, ipChecksum(a, ipOut));
    }
  }
  before.close();
  after.close();
  return {
    sent: packets,
    received,
    lost: packets - received,
    flows,
    meanRun: packets / runs,
    meanDelayNs: delaySum / received,
    minDelayNs,
    maxDelayNs,
    beforeBytes: before.total,
    afterBytes: after.total,
  };
}

function main(): void {
  const given = new Map<string, string>();
  const args = process.argv.slice(2);
  for (let i = 0; i < args.length; i += 2) given.set(args[i]!.replace(/^--/, ""), args[i + 1] ?? "");
  const out = given.get("out") ?? join("bench", "data", "pair");
  given.delete("out");
  const numbers = Object.fromEntries([...given].map(([k, v]) => [k, Number(v)]));
  mkdirSync(out, { recursive: true });
  const started = performance.now();
  const pair = generateCaptures({
    packets: 1_000_000,
    ...numbers,
    beforeFile: join(out, "before.pcap"),
    afterFile: join(out, "after.pcap"),
  });
  const seconds = (performance.now() - started) / 1000;
  console.log(JSON.stringify({ out, ...pair, seconds, mpps: pair.sent / seconds / 1e6 }, null, 2));
}

// Not if this file is bundled into another benchmark.
if (/generate-captures\.\w+$/.test(process.argv[1] ?? "")) main();
