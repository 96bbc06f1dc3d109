/**
 * Everyday networks between two points, drawn from a seed, with the true values of every packet: which hosts communicate and how (a download with its reduced
 * acknowledgements, calls, DNS queries, multicast, one dominant flow, minutes of silence), over paths that differ by direction, timestamped by realistic
 * clocks. Different from random-scene.ts: packets answer packets, flows have roles, captures have ten packets or last an hour. Nothing here depends on how
 * hoptime works.
 */
import { Random } from "../../src/base/random.ts";
import { be32, bytes, ethernet, ipv4, stack, tcp, udp } from "./packets.ts";
import { pcapFile } from "./pcap-writer.ts";

export type Way = "forward" | "reverse";

export interface Crossing {
  way: Way;
  sentNs: number;
  /** Null: lost between the points. */
  arrivedNs: number | null;
  frame: Uint8Array;
}

export interface EverydayScene {
  seed: number;
  /** A description of what was drawn. */
  name: string;
  crossings: Crossing[];
  /** AFTER's clock minus BEFORE's at a true time. */
  aheadNs: (trueNs: number) => number;
  /** A clock was stepped or stopped. */
  stepped: boolean;
  /** Time of the clock event; the middle of the scene if it lasted all the time. */
  eventNs: number;
  /** Period in which a clock stood still or was slewed; the errors of packets in it cannot be known. */
  movingNs: readonly [number, number] | null;
  /** The difference of the clocks is linear. */
  even: boolean;
  /** Timestamps are multiples of this. */
  resolutionNs: number;
  /** Returns the timestamp as captured. */
  stampOf: (side: "before" | "after", trueNs: number) => bigint;
  files: { before: Buffer; after: Buffer };
}

const MS = 1e6;
const SECOND = 1e9;
const START_NS = 1_718_000_000_000_000_000n;

export function everydayScene(seed: number): EverydayScene {
  const dice = new Random(`everyday ${seed}`);
  const span = spanOf(dice);
  const links = { forward: linkOf(dice, span.ns), reverse: linkOf(dice, span.ns) };
  if (dice.bernoulli(0.6)) links.reverse = { ...links.forward, queue: links.reverse.queue };
  const network = new Network(dice, links, span.ns);
  const traffic = pick(dice, Object.keys(TRAFFIC)) as keyof typeof TRAFFIC;
  TRAFFIC[traffic](network, span.packets);
  const clock = clockOf(dice, span.ns);
  const resolutionNs = dice.bernoulli(0.1) ? MS : dice.bernoulli(0.4) ? 1000 : 1;
  const shuffled = dice.bernoulli(0.1);
  const crossings = network.crossings.sort((a, b) => a.sentNs - b.sentNs);
  const stampOf = (side: "before" | "after", trueNs: number) => {
    const ahead = side === "after" ? Math.round(clock.aheadNs(trueNs)) : 0;
    const ns = START_NS + BigInt(Math.round(trueNs)) + BigInt(ahead);
    return ns - (ns % BigInt(resolutionNs));
  };
  const file = (side: "before" | "after") => {
    const near = side === "before" ? "forward" : "reverse";
    const seen = crossings.flatMap(({ way, sentNs, arrivedNs, frame }) => {
      const at = way === near ? sentNs : arrivedNs;
      return at === null
        ? []
        : [{ at, timeNs: stampOf(side, at), frame: way === near ? frame : routed(frame, links[way].hops) }];
    });
    seen.sort((a, b) => a.at - b.at);
    // Several receive queues: packets less than a millisecond apart are written in a different order than they were timestamped.
    if (shuffled)
      for (let i = 1; i < seen.length; i++) {
        const [a, b] = [seen[i - 1], seen[i]];
        if (a && b && b.at - a.at < MS && dice.bernoulli(0.2)) [seen[i - 1], seen[i]] = [b, a];
      }
    return pcapFile(seen, { nano: resolutionNs < 1000 });
  };
  const { hops } = links.forward;
  return {
    seed,
    name: `${traffic}, ${crossings.length} packets in ${span.ns / SECOND} s, ${links.forward.minNs / MS} and ${links.reverse.minNs / MS} ms, ${hops} hops, ${clock.name}, stamps of ${resolutionNs} ns${shuffled ? ", shuffled" : ""}`,
    crossings,
    aheadNs: clock.aheadNs,
    stepped: clock.stepped,
    eventNs: clock.eventNs,
    even: clock.even,
    movingNs: clock.movingNs,
    resolutionNs,
    stampOf,
    files: { before: file("before"), after: file("after") },
  };
}

function spanOf(dice: Random): { ns: number; packets: number } {
  const packets = Math.round(logBetween(dice, 10, dice.bernoulli(0.4) ? 200 : 3000));
  const ns = dice.bernoulli(0.25) ? 3600 * SECOND : logBetween(dice, 0.5 * SECOND, 600 * SECOND);
  return { ns, packets };
}

/** One direction of the path between the points. */
interface Link {
  minNs: number;
  /** Returns the queueing delay at a time. */
  queue: (trueNs: number) => number;
  jitterNs: number;
  loss: number;
  hops: 0 | 1 | 3;
}

function linkOf(dice: Random, spanNs: number): Link {
  const minNs = Math.round(logBetween(dice, 0.02 * MS, 60 * MS));
  const kind = dice.below(3);
  const steps = 200;
  const level: number[] = [];
  let now = 0;
  for (let i = 0; i <= steps; i++) {
    // A queue that fills and drains, slowly or in bursts.
    now = Math.max(0, now + (dice.float() - 0.55) * minNs * 0.4);
    level.push(kind === 0 ? 0 : kind === 1 ? now : dice.bernoulli(0.05) ? 3 * minNs * dice.float() : 0);
  }
  return {
    minNs,
    queue: (at) => level[Math.min(steps, Math.max(0, Math.floor((at / spanNs) * steps)))] ?? 0,
    jitterNs: minNs * logBetween(dice, 0.005, 0.3),
    loss: dice.bernoulli(0.5) ? 0 : logBetween(dice, 0.001, 0.05),
    hops: pick(dice, [0, 0, 1, 3] as const),
  };
}

class Network {
  readonly crossings: Crossing[] = [];
  #id = 0;
  readonly dice: Random;
  readonly links: Record<Way, Link>;
  readonly spanNs: number;

  constructor(dice: Random, links: Record<Way, Link>, spanNs: number) {
    this.dice = dice;
    this.links = links;
    this.spanNs = spanNs;
  }

  /** Sends a packet; returns its arrival time at the other point, or null if it is lost. */
  cross(way: Way, sentNs: number, { from, to, proto, sport, dport }: Flow, size: number): number | null {
    const link = this.links[way];
    const lost = this.dice.bernoulli(link.loss);
    const took = link.minNs + link.queue(sentNs) + this.dice.exponential(link.jitterNs);
    const arrivedNs = Math.round(sentNs + took);
    const id = ++this.#id;
    const fields = { ttl: 60, id: id & 0xffff, src: from, dst: to };
    const layers =
      proto === 6
        ? [ipv4({ proto, ...fields }), tcp({ sport, dport, seq: id })]
        : [ipv4({ proto, ...fields }), udp({ sport, dport })];
    const frame = stack([ethernet(0x0800), ...layers], bytes(be32(id), new Uint8Array(size)));
    this.crossings.push({ way, sentNs: Math.round(sentNs), arrivedNs: lost ? null : arrivedNs, frame });
    return lost ? null : arrivedNs;
  }
}

interface Flow {
  from: Uint8Array;
  to: Uint8Array;
  proto: 6 | 17;
  sport: number;
  dport: number;
}

const answer = ({ from, to, sport, dport, proto }: Flow): Flow => ({
  from: to,
  to: from,
  sport: dport,
  dport: sport,
  proto,
});
const other = (way: Way): Way => (way === "forward" ? "reverse" : "forward");

/** Returns a flow whose first packet goes in this direction; clients and servers are on both sides. */
function flowOf(dice: Random, way: Way, proto: 6 | 17, dport: number, host = dice.below(40)): Flow {
  const [here, there] = way === "forward" ? [1, 2] : [2, 1];
  return {
    from: Uint8Array.of(10, here, 0, 1 + host),
    to: Uint8Array.of(10, there, 9, 1 + dice.below(3)),
    proto,
    sport: 20_000 + dice.below(20_000),
    dport,
  };
}

/** A download or upload of this many segments: the receiver acknowledges every `thin`-th. */
function bulk(net: Network, way: Way, fromNs: number, toNs: number, segments: number, thin: number): void {
  const flow = flowOf(net.dice, way, 6, 443);
  const gap = (toNs - fromNs) / segments;
  for (let i = 0; i < segments; i++) {
    const at = net.cross(way, fromNs + i * gap + 0.3 * gap * net.dice.float(), flow, 40);
    if (at !== null && i % thin === thin - 1)
      net.cross(other(way), at + 20_000 + net.dice.exponential(0.2 * MS), answer(flow), 0);
  }
}

/** Requests and their answers. */
function ask(
  net: Network,
  way: Way,
  count: number,
  dport: number,
  serviceNs: number,
  fromNs = 0,
  toNs = net.spanNs,
): void {
  for (let i = 0; i < count; i++) {
    const flow = flowOf(net.dice, way, 17, dport);
    const at = net.cross(way, fromNs + net.dice.float() * (toNs - fromNs), flow, 8);
    if (at !== null) net.cross(other(way), at + 50_000 + net.dice.exponential(serviceNs), answer(flow), 30);
  }
}

const TRAFFIC = {
  download: (net: Network, packets: number) =>
    bulk(net, "reverse", 0, net.spanNs, Math.ceil(packets * 0.8), 4),
  upload: (net: Network, packets: number) =>
    bulk(net, "forward", 0, net.spanNs, Math.ceil(packets * 0.9), 10),
  call: (net: Network, packets: number) => {
    const flow = flowOf(net.dice, "forward", 17, 4000);
    const each = Math.ceil(packets / 2);
    for (const [way, of] of [
      ["forward", flow],
      ["reverse", answer(flow)],
    ] as const)
      for (let i = 0; i < each; i++)
        net.cross(way, ((i + 0.2 * net.dice.float()) / each) * net.spanNs, of, 20);
  },
  names: (net: Network, packets: number) => ask(net, "forward", Math.ceil(packets / 2), 53, 10 * MS),
  bothAsk: (net: Network, packets: number) => {
    ask(net, "forward", Math.ceil(packets / 4), 53, 2 * MS);
    ask(net, "reverse", Math.ceil(packets / 4), 123, 1 * MS);
  },
  multicast: (net: Network, packets: number) => {
    const flow: Flow = { ...flowOf(net.dice, "forward", 17, 5004), to: Uint8Array.of(239, 1, 2, 3) };
    for (let i = 0; i < packets; i++) net.cross("forward", (i / packets) * net.spanNs, flow, 30);
  },
  oneWay: (net: Network, packets: number) => {
    const flows = Array.from({ length: 1 + net.dice.below(20) }, () => flowOf(net.dice, "forward", 17, 514));
    for (let i = 0; i < packets; i++)
      net.cross("forward", net.dice.float() * net.spanNs, pick(net.dice, flows), 30);
  },
  dominated: (net: Network, packets: number) => {
    bulk(net, "forward", 0, net.spanNs, Math.ceil(packets * 0.85), 20);
    ask(net, "forward", Math.ceil(packets * 0.03), 53, 5 * MS);
    ask(net, "reverse", Math.ceil(packets * 0.02), 53, 5 * MS);
  },
  silence: (net: Network, packets: number) => {
    const part = net.spanNs / 20;
    bulk(net, "forward", 0, part, Math.ceil(packets * 0.5), 3);
    ask(net, "forward", Math.ceil(packets * 0.15), 53, 5 * MS, net.spanNs - part, net.spanNs);
  },
  mixed: (net: Network, packets: number) => {
    bulk(net, "reverse", 0.1 * net.spanNs, 0.9 * net.spanNs, Math.ceil(packets * 0.3), 2);
    bulk(net, "forward", 0.3 * net.spanNs, 0.6 * net.spanNs, Math.ceil(packets * 0.2), 8);
    ask(net, "forward", Math.ceil(packets * 0.1), 53, 5 * MS);
    TRAFFIC.multicast(net, Math.ceil(packets * 0.05));
  },
};

interface Clock {
  name: string;
  aheadNs: (trueNs: number) => number;
  stepped: boolean;
  eventNs: number;
  even: boolean;
  movingNs: readonly [number, number] | null;
}

function clockOf(dice: Random, spanNs: number): Clock {
  const sign = dice.bernoulli(0.5) ? 1 : -1;
  const offset =
    sign * pick(dice, [0, 0, 0, 0.0003, 0.002, 0.005, 0.05, 0.8, 37, 3600, -7200, 1.718e9]) * SECOND;
  const base: Clock = {
    name: `${offset / SECOND} s ahead`,
    aheadNs: () => offset,
    stepped: false,
    eventNs: spanNs / 2,
    even: true,
    movingNs: null,
  };
  const kinds: ((c: Clock) => Clock)[] = [
    (c) => c,
    (c) => drifting(c, (dice.bernoulli(0.5) ? 1 : -1) * logBetween(dice, 1, 200)),
    (c) => {
      const at = dice.float() * spanNs;
      const slewed = beside(
        c,
        `slewed at ${at / SECOND} s`,
        (t) => 500e-6 * Math.min(60 * SECOND, Math.max(0, t - at)),
        false,
        at,
      );
      return { ...slewed, movingNs: [at, at + 60 * SECOND] };
    },
    (c) => {
      const [at, size] = [dice.float() * spanNs, sign * logBetween(dice, 0.1 * MS, 50 * MS)];
      return beside(c, `set by ${size / MS} ms at ${at / SECOND} s`, (t) => (t >= at ? size : 0), true, at);
    },
    (c) => {
      const at = dice.float() * spanNs;
      return beside(
        c,
        `set by ${-sign} s at ${at / SECOND} s`,
        (t) => (t >= at ? -sign * SECOND : 0),
        true,
        at,
      );
    },
    (c) => {
      const [at, size] = [dice.float() * spanNs, logBetween(dice, 50 * MS, SECOND)];
      const still = beside(
        c,
        `stood still for ${size / MS} ms at ${at / SECOND} s`,
        (t) => -Math.min(size, Math.max(0, t - at)),
        true,
        at,
      );
      return { ...still, movingNs: [at, at + size] };
    },
    (c) => {
      const [amplitude, period] = [logBetween(dice, 0.02 * MS, 3 * MS), spanNs / (1 + 4 * dice.float())];
      return beside(
        c,
        `wanders by ${amplitude / MS} ms`,
        (t) => amplitude * Math.sin((2 * Math.PI * t) / period),
        false,
      );
    },
  ];
  return pick(dice, [kinds[0], kinds[0], kinds[1], kinds[1], ...kinds.slice(2)] as typeof kinds)(base);
}

const drifting = (clock: Clock, ppm: number) => ({
  ...beside(clock, `${ppm} ppm`, (t) => (ppm * t) / 1e6, false),
  even: true,
});
const beside = (
  { name, aheadNs, stepped, eventNs }: Clock,
  more: string,
  moreNs: (t: number) => number,
  steps: boolean,
  atNs = eventNs,
): Clock => ({
  name: `${name}, ${more}`,
  aheadNs: (t) => aheadNs(t) + moreNs(t),
  stepped: stepped || steps,
  eventNs: atNs,
  movingNs: null,
  even: false,
});

/** Decrements the TTL as routers do. */
function routed(frame: Uint8Array, hops: number): Uint8Array {
  if (hops === 0) return frame;
  const out = Uint8Array.from(frame);
  out[22] = (out[22] ?? 0) - hops;
  return out;
}

function pick<T>(dice: Random, list: readonly T[]): T {
  return list[dice.below(list.length)] as T;
}

function logBetween(dice: Random, low: number, high: number): number {
  return low * (high / low) ** dice.float();
}
