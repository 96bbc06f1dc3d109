/**
 * Two captures of traffic between two points, made from random choices, with the true values of every packet: when it was sent and arrived by a perfect clock,
 * its direction, and the timestamps of each point's clock. Nothing here depends on how hoptime works.
 */
import { Random } from "../../src/base/random.ts";
import { be32, bytes, ethernet, ipv4, mpls, stack, tcp, udp, vlan } from "./packets.ts";
import { erfFile, PcapngWriter, pcapFile } from "./pcap-writer.ts";

export type Way = "forward" | "reverse";
/** A clock: its error at a true time (ns since the scene's start). */
export interface ClockShape {
  offsetNs: number;
  ppm: number;
  /** From `atNs` (true time) on, the clock shows `sizeNs` more. */
  steps: { atNs: number; sizeNs: number }[];
  /** Slow wander: amplitude and period of a sine. */
  wanderNs: number;
  wanderPeriodNs: number;
}
export const STEADY: ClockShape = { offsetNs: 0, ppm: 0, steps: [], wanderNs: 0, wanderPeriodNs: 1e9 };

export interface PathShape {
  minNs: number;
  /** Mean of the exponential queueing delay; 0 for none. */
  queueNs: number;
  /** Queueing delay that rises linearly over the scene by this much. */
  rampNs: number;
  /** Packets leave in order of arrival. */
  fifo: boolean;
  loss: number;
  /** Mean length of a run of losses. */
  burst: number;
  duplicates: number;
}

export type FileFormat = "pcap" | "pcap-us" | "pcapng" | "erf";
export interface CaptureShape {
  format: FileFormat;
  snapLength: number;
  layers: "plain" | "vlan" | "mpls";
  /** Period in which the point captured, in true time. */
  fromNs: number;
  toNs: number;
}

export interface Scene {
  seed: number;
  packets: number;
  spanNs: number;
  flows: number;
  /** Share of packets from AFTER to BEFORE. */
  reverseShare: number;
  /** Share of the reverse packets that belong to unidirectional flows with their own hosts. */
  unanswered: number;
  /** Reverse packets start at this share of the scene. */
  reverseFrom: number;
  /** The path decrements the TTL. */
  routed: boolean;
  /** Share of packets that are identical to others. */
  repeats: number;
  /** Identifications and payloads repeat after this many packets; 0: never. */
  wrap: number;
  tcp: boolean;
  forward: PathShape;
  reverse: PathShape;
  before: CaptureShape;
  after: CaptureShape;
  /** AFTER's clock; BEFORE has true time. */
  clock: ClockShape;
}

export interface TruePacket {
  n: number;
  way: Way;
  flow: number;
  sentNs: number;
  /** Null: lost. */
  arrivedNs: number | null;
  /** When it arrived, or would have arrived. */
  dueNs: number;
  /** Arrival times of copies made by the path. */
  copiesNs: number[];
  repeated: boolean;
}

export interface MadeScene {
  scene: Scene;
  packets: TruePacket[];
  files: { before: Buffer; after: Buffer };
}

const PATH: PathShape = {
  minNs: 3e6,
  queueNs: 1e6,
  rampNs: 0,
  fifo: false,
  loss: 0,
  burst: 1,
  duplicates: 0,
};
const CAPTURE: CaptureShape = {
  format: "pcap",
  snapLength: 65_535,
  layers: "plain",
  fromNs: Number.NEGATIVE_INFINITY,
  toNs: Number.POSITIVE_INFINITY,
};

/** Returns a scene with the given choices, and simple ones for the rest. */
export function sceneOf(choices: SceneChoices = {}): Scene {
  const { forward, reverse, before, after, clock, ...plain } = choices;
  return {
    seed: 1,
    packets: 2000,
    spanNs: 10e9,
    flows: 20,
    reverseShare: 0,
    unanswered: 0,
    reverseFrom: 0,
    routed: false,
    repeats: 0,
    wrap: 0,
    tcp: false,
    ...plain,
    forward: { ...PATH, ...forward },
    reverse: { ...PATH, ...reverse },
    before: { ...CAPTURE, ...before },
    after: { ...CAPTURE, ...after },
    clock: { ...STEADY, ...clock },
  };
}
export type SceneChoices = Partial<Omit<Scene, "forward" | "reverse" | "before" | "after" | "clock">> & {
  forward?: Partial<PathShape>;
  reverse?: Partial<PathShape>;
  before?: Partial<CaptureShape>;
  after?: Partial<CaptureShape>;
  clock?: Partial<ClockShape>;
};

/** Returns AFTER's clock error at a true time. */
export function clockErrorNs(
  { offsetNs, ppm, steps, wanderNs, wanderPeriodNs }: ClockShape,
  trueNs: number,
): number {
  let error = offsetNs + (ppm * trueNs) / 1e6 + wanderNs * Math.sin((2 * Math.PI * trueNs) / wanderPeriodNs);
  for (const { atNs, sizeNs } of steps) if (trueNs >= atNs) error += sizeNs;
  return Math.round(error);
}

const START_NS = 1_700_000_000_000_000_000n;

export function makeScene(scene: Scene): MadeScene {
  const random = new Random(scene.seed);
  const packets = travel(scene, random);
  return {
    scene,
    packets,
    files: { before: capture(scene, packets, "before"), after: capture(scene, packets, "after") },
  };
}

/** Returns the true times of every packet. */
function travel(scene: Scene, random: Random): TruePacket[] {
  const packets: TruePacket[] = [];
  const times = Array.from({ length: scene.packets }, () => Math.floor(random.float() * scene.spanNs)).sort(
    (a, b) => a - b,
  );
  const busyUntil = { forward: 0, reverse: 0 };
  const losing = { forward: 0, reverse: 0 };
  for (const [n, sentNs] of times.entries()) {
    const mayReverse = sentNs >= scene.reverseFrom * scene.spanNs;
    const way: Way = mayReverse && random.float() < scene.reverseShare ? "reverse" : "forward";
    const path = scene[way];
    const queue = path.queueNs > 0 ? random.exponential(path.queueNs) : 0;
    const ramp = (path.rampNs * sentNs) / scene.spanNs;
    let arrivedNs = sentNs + path.minNs + Math.round(queue + ramp);
    if (path.fifo) arrivedNs = busyUntil[way] = Math.max(arrivedNs, busyUntil[way] + 1);
    if (losing[way] === 0 && random.float() < path.loss / path.burst)
      losing[way] = path.burst <= 1 ? 1 : 1 + random.below(2 * path.burst - 1);
    const lost = losing[way] > 0;
    if (lost) losing[way]--;
    const copied = !lost && random.float() < path.duplicates;
    packets.push({
      n,
      way,
      flow: random.below(scene.flows),
      sentNs,
      arrivedNs: lost ? null : arrivedNs,
      dueNs: arrivedNs,
      copiesNs: copied ? [arrivedNs + 1 + random.below(100_000)] : [],
      repeated: random.float() < scene.repeats,
    });
  }
  return packets;
}

interface Seen {
  trueNs: number;
  timeNs: bigint;
  frame: Uint8Array;
}

/** Returns the capture of one point, in order of true time. */
function capture(scene: Scene, packets: readonly TruePacket[], side: "before" | "after"): Buffer {
  const shape = scene[side];
  const seen: Seen[] = [];
  for (const packet of packets) {
    const near = packet.way === "forward" ? "before" : "after";
    const at =
      side === near
        ? [packet.sentNs]
        : packet.arrivedNs === null
          ? []
          : [packet.arrivedNs, ...packet.copiesNs];
    if (at.length === 0) continue;
    const frame = frameOf(scene, packet, shape.layers, side === near || !scene.routed ? 64 : 63);
    for (const trueNs of at) {
      if (trueNs < shape.fromNs || trueNs >= shape.toNs) continue;
      seen.push({ trueNs, timeNs: stampOf(scene, side, trueNs), frame });
    }
  }
  seen.sort((a, b) => a.trueNs - b.trueNs);
  return fileOf(seen, shape);
}

/** Returns the timestamp of the point's clock. */
export function stampOf(scene: Scene, side: "before" | "after", trueNs: number): bigint {
  const error = side === "after" ? clockErrorNs(scene.clock, trueNs) : 0;
  const ns = START_NS + BigInt(Math.round(trueNs)) + BigInt(error);
  return scene[side].format === "pcap-us" ? ns - (ns % 1000n) : ns;
}

/** Returns whether the flow has no packets in the other direction. */
export function isLonely(scene: Scene, { way, flow }: TruePacket): boolean {
  return way === "reverse" && flow < scene.unanswered * scene.flows;
}

/** Returns client and server of a flow; unidirectional flows have their own hosts. */
export function flowOf(scene: Scene, packet: TruePacket) {
  const { way, flow } = packet;
  const lonely = isLonely(scene, packet);
  const client = { address: Uint8Array.of(10, lonely ? 9 : 0, flow >> 8, flow & 255), port: 2000 + flow };
  const server = { address: Uint8Array.of(192, 168, lonely ? 9 : 1, flow % 7), port: 443 };
  return way === "forward" ? { from: client, to: server } : { from: server, to: client };
}

/** Returns the number that distinguishes a packet from others of its flow. */
export function numberOf(scene: Scene, { repeated, n }: TruePacket): number {
  if (repeated) return 0xffff_ffff;
  return scene.wrap > 0 ? n % scene.wrap : n;
}

function frameOf(scene: Scene, packet: TruePacket, layers: CaptureShape["layers"], ttl: number): Uint8Array {
  const { from, to } = flowOf(scene, packet);
  const number = numberOf(scene, packet);
  // The bytes of a stream: payloads are shorter than this, so that no segment contains bytes of another one.
  const seq = (number * 64) >>> 0;
  const ports = { sport: from.port, dport: to.port };
  const fields = { ttl, id: number & 0xffff, src: from.address, dst: to.address };
  const inner = scene.tcp
    ? [ipv4({ proto: 6, ...fields }), tcp({ ...ports, seq })]
    : [ipv4({ proto: 17, ...fields }), udp(ports)];
  const payload = bytes(be32(number), new Uint8Array(24 + (number % 5) * (packet.repeated ? 0 : 8)));
  const outer =
    layers === "vlan"
      ? [ethernet(0x8100), vlan(7, 0x0800)]
      : layers === "mpls"
        ? [ethernet(0x8847), mpls(100, 200)]
        : [ethernet(0x0800)];
  return stack([...outer, ...inner], payload);
}

function fileOf(seen: readonly Seen[], { format, snapLength }: CaptureShape): Buffer {
  if (format === "erf") return erfFile(seen.map(({ timeNs, frame }) => ({ timeNs, frame })));
  if (format === "pcapng") {
    const writer = new PcapngWriter().section().interface({ resolution: 9, snapLength });
    for (const { timeNs, frame } of seen)
      writer.enhanced({ ticks: timeNs, frame: frame.subarray(0, snapLength), wire: frame.length });
    return writer.done();
  }
  return pcapFile(seen, { nano: format === "pcap", snapLength });
}
