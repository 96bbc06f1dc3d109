/**
 * Detects whether packets pass a point in both directions. A segment has one direction: both ends must count the same packets, and packets of the
 * way back would count at the wrong end. It shows in hosts that both send and receive, whoever their peers are, because a host is on one side of
 * the point. The result includes filters for the two directions: the interface's own marks (inbound, outbound) if captured, else the networks of
 * one side, learnt from which hosts exchange packets. The nearer side is found by TTL.
 */
import { UsageError } from "../base/errors.ts";
import { formatIpv4, formatIpv6, parseAddress } from "../capture/address.ts";
import { FLAG, META_HIGH, type PacketBatch } from "../capture/batch.ts";
import { directionLabel } from "../epoch/direction-label.ts";

/** Minimum share of the smaller direction: occasional replies (ICMP errors) are not traffic. */
const MIN_SHARE = 0.01;
/** Number of packets to examine before the verdict is final. */
const MAX_PACKETS = 10_000;
const MIN_PACKETS = 20;
/** Most networks in a filter; with more it is of no use. */
const MAX_NETWORKS = 8;
const INITIAL_TTLS = [32, 64, 128, 255];
/** Difference in hops that distinguishes near from far. */
const CLEAR_HOPS = 2;
/** A label must be a valid segment name (observer.ts). */
const LONGEST_LABEL = 64;

/** An IPv4 address as a number, or an IPv6 address as text of four words. */
type Address = number | string;

interface Host {
  /** Hosts it exchanged packets with. */
  peers: Map<Address, { sent: number; received: number }>;
  hops: number;
  packets: number;
  /** Packets that place it on the near side of the interface, and on the far side. */
  beyond: [near: number, far: number];
}

interface Sides {
  near: Set<Address>;
  far: Set<Address>;
  /** Packets of hosts whose side is uncertain. */
  unsure: number;
}

export interface TwoWay {
  /** Packet counts of the two directions. */
  packets: [number, number];
  /** Filter expressions for each direction; null if none was found. */
  filters: [string, string] | null;
  /** Networks of one side that separate the directions; null if uncertain. */
  networks: string[] | null;
}

export class DirectionCheck {
  readonly #maxPackets: number;
  #packets = 0;
  #marked: [inbound: number, outbound: number] = [0, 0];
  readonly #hosts = new Map<Address, Host>();

  constructor(maxPackets = MAX_PACKETS) {
    this.#maxPackets = maxPackets;
  }

  /** No more packets are needed. */
  get done(): boolean {
    return this.#packets >= this.#maxPackets;
  }

  /** Adds packets. Call before flow keys are masked, because it reads addresses. */
  add(batch: PacketBatch): void {
    const { flags, meta, addrA, addrB, addrC, addrD } = batch;
    const { inbound, outbound } = FLAG;
    const { ipv6 } = META_HIGH;
    const words = (column: Uint32Array, i: number) => `${column[2 * i + 1]!},${column[2 * i]!}`;
    for (let i = 0; i < batch.count && !this.done; i++) {
      this.#packets++;
      const flag = flags[i]!;
      if ((flag & inbound) !== 0) this.#marked[0]++;
      if ((flag & outbound) !== 0) this.#marked[1]++;
      const v6 = (meta[2 * i + 1]! & ipv6) !== 0;
      const from = v6 ? `${words(addrA, i)},${words(addrB, i)}` : addrA[2 * i + 1]!;
      const to = v6 ? `${words(addrC, i)},${words(addrD, i)}` : addrA[2 * i]!;
      // A host talking to itself, on loopback, is on no side.
      if (from !== to && !isSpecial(from) && !isSpecial(to))
        this.#count(from, to, flag & 0xff, flag & (inbound | outbound));
    }
  }

  #count(from: Address, to: Address, ttl: number, mark: number): void {
    const sender = this.#host(from);
    const receiver = this.#host(to);
    sender.hops += (INITIAL_TTLS.find((t) => t >= ttl) ?? 255) - ttl;
    sender.packets++;
    if (mark !== 0) {
      const inwards = (mark & FLAG.inbound) !== 0 ? 1 : 0;
      sender.beyond[inwards]++;
      receiver.beyond[inwards === 1 ? 0 : 1]++;
    }
    pairOf(sender, to).sent++;
    pairOf(receiver, from).received++;
  }

  /** Returns null if packets go one way only, or if there are too few to decide. */
  verdict(): TwoWay | null {
    let both = 0;
    for (const { peers } of this.#hosts.values()) {
      let [out, back] = [0, 0];
      for (const { sent, received } of peers.values()) {
        out += sent;
        back += received;
      }
      both += Math.min(out, back);
    }
    // A packet and its answer were counted at both hosts.
    if (this.#packets < MIN_PACKETS || both / 2 < MIN_SHARE * this.#packets) return null;
    const [inbound, outbound] = this.#marked;
    const networks = this.networks();
    if (this.#marksBoth())
      return { packets: [inbound, outbound], filters: ["inbound", "outbound"], networks };
    return { ...this.#bySides(), networks };
  }

  #bySides(): TwoWay {
    const { near, far } = this.#sides();
    let away = 0;
    let back = 0;
    for (const key of near) {
      for (const [peer, { sent, received }] of this.#hosts.get(key)?.peers ?? []) {
        if (near.has(peer)) continue;
        away += sent;
        back += received;
      }
    }
    const networks = networksOf(near, far);
    if (!networks) return { packets: [away, back], filters: null, networks: null };
    const side = (end: "src" | "dst") => networks.map((n) => `${end} net ${n}`).join(" or ");
    return { packets: [away, back], filters: [side("src"), side("dst")], networks: null };
  }

  /**
   * Returns networks that separate the directions, of the nearer side if possible. Null if the hosts' sides are uncertain or if it takes too many
   * networks.
   */
  networks(): string[] | null {
    return this.#networksOfSides()[0] ?? null;
  }

  /** Like `networks`, but always of the side that every point with these hosts would choose, wherever it is. */
  commonNetworks(): string[] | null {
    return this.#networksOfSides().sort(compareNetworks)[0] ?? null;
  }

  /** Networks of the nearer and of the farther side, if they exist. */
  #networksOfSides(): string[][] {
    const { near, far, unsure } = this.#marksBoth() ? this.#sidesByMarks() : this.#sides();
    if (unsure > MIN_SHARE * this.#packets) return [];
    return [networksOf(near, far), networksOf(far, near)].filter(
      (found) => found !== null && directionLabel("from", found).length <= LONGEST_LABEL,
    ) as string[][];
  }

  /** Share of the packets that go between these networks and all other hosts. */
  covered(networks: readonly string[]): number {
    const inside = insideOf(networks);
    let [all, crossing] = [0, 0];
    for (const [key, host] of this.#hosts) {
      const own = inside(key);
      for (const [peer, { sent }] of host.peers) {
        all += sent;
        if (own !== inside(peer)) crossing += sent;
      }
    }
    return all === 0 ? 0 : crossing / all;
  }

  #marksBoth(): boolean {
    return Math.min(...this.#marked) >= MIN_SHARE * this.#packets;
  }

  /** Inbound packets come from the far side of the interface; outbound packets go there. */
  #sidesByMarks(): Sides {
    const out: Sides = { near: new Set(), far: new Set(), unsure: 0 };
    for (const [key, { beyond, packets }] of this.#hosts) {
      // Seen on both sides: its packets pass twice.
      if (Math.abs(beyond[0] - beyond[1]) < 0.9 * (beyond[0] + beyond[1])) out.unsure += packets;
      else (beyond[0] > beyond[1] ? out.near : out.far).add(key);
    }
    // At the two ends of a link, inbound and outbound are swapped; hop counts are not.
    const [near, far] = [this.#meanHops(out.near), this.#meanHops(out.far)];
    return near <= far ? out : { near: out.far, far: out.near, unsure: out.unsure };
  }

  /**
   * The two hosts of a passing packet are on different sides, which splits each connected group of hosts into two sides. How the sides of different
   * groups correspond is derived from common networks or from hop counts.
   */
  #sides(): Sides {
    const out: Sides = { near: new Set(), far: new Set(), unsure: 0 };
    const known = new Map<string, number>();
    let gap = 0;
    for (const { sides, packets, odd } of this.#groups().sort((a, b) => b.packets - a.packets)) {
      out.unsure += odd;
      const [one, other] = [this.#meanHops(sides[0]), this.#meanHops(sides[1])];
      const shared = alike(sides[0], known) - alike(sides[1], known);
      const first = out.near.size + out.far.size === 0;
      if (first) gap = Math.abs(one - other);
      const byHops = Number.isFinite(one + other) && Math.abs(one - other) >= CLEAR_HOPS && gap >= CLEAR_HOPS;
      if (!first && shared === 0 && !byHops) out.unsure += packets;
      const firstIsNear = shared === 0 ? one <= other : shared > 0;
      const [near, far] = firstIsNear ? sides : [sides[1], sides[0]];
      for (const key of near) out.near.add(key);
      for (const key of far) out.far.add(key);
      for (const [keys, vote] of [
        [near, 1],
        [far, -1],
      ] as const)
        for (const key of keys)
          for (const name of networkNames(key)) known.set(name, (known.get(name) ?? 0) + vote);
    }
    return out;
  }

  #groups(): { sides: [Address[], Address[]]; packets: number; odd: number }[] {
    const side = new Map<Address, 0 | 1>();
    const groups: { sides: [Address[], Address[]]; packets: number; odd: number }[] = [];
    for (const start of this.#hosts.keys()) {
      if (side.has(start)) continue;
      const group = { sides: [[], []] as [Address[], Address[]], packets: 0, odd: 0 };
      const queue: [Address, 0 | 1][] = [[start, 0]];
      side.set(start, 0);
      for (let next = queue.pop(); next; next = queue.pop()) {
        const [key, which] = next;
        group.sides[which].push(key);
        for (const [peer, { sent }] of this.#hosts.get(key)?.peers ?? []) {
          group.packets += sent;
          const known = side.get(peer);
          if (known === which) group.odd += sent;
          if (known !== undefined) continue;
          const other = which === 0 ? 1 : 0;
          side.set(peer, other);
          queue.push([peer, other]);
        }
      }
      groups.push(group);
    }
    return groups;
  }

  #meanHops(keys: Iterable<Address>): number {
    let [hops, packets] = [0, 0];
    for (const key of keys) {
      hops += this.#hosts.get(key)?.hops ?? 0;
      packets += this.#hosts.get(key)?.packets ?? 0;
    }
    return packets === 0 ? Number.POSITIVE_INFINITY : hops / packets;
  }

  #host(address: Address): Host {
    let host = this.#hosts.get(address);
    if (!host) {
      host = { peers: new Map(), hops: 0, packets: 0, beyond: [0, 0] };
      this.#hosts.set(address, host);
    }
    return host;
  }
}

/** Order: fewer networks first, then by text. Points with different networks agree on the first. */
export function compareNetworks(a: readonly string[], b: readonly string[]): number {
  const [one, other] = [a.join(), b.join()];
  return a.length - b.length || (one < other ? -1 : one > other ? 1 : 0);
}

/** Returns networks that contain all hosts of the side and none of the other; null if it takes too many. */
function networksOf(near: ReadonlySet<Address>, far: ReadonlySet<Address>): string[] | null {
  const out: string[] = [];
  for (const v6 of [false, true]) {
    const bits = (side: ReadonlySet<Address>) =>
      [...side].filter((address) => (typeof address === "string") === v6).map(bitsOf);
    if (!cover(bits(near), bits(far), v6 ? 128 : 32, out, v6)) return null;
  }
  return out.length === 0 ? null : out;
}

/** The usual network of an address, and a larger one. */
function networkNames(address: Address): string[] {
  if (typeof address === "number") return [`${address >>> 8}/24`, `${address >>> 16}/16`];
  const [first, second] = address.split(",");
  return [`${first},${second}/64`, `${first},${Number(second) >>> 16}/48`];
}

/** Score: how much the hosts share networks with the near side rather than the far one. */
function alike(hosts: readonly Address[], known: ReadonlyMap<string, number>): number {
  let sum = 0;
  for (const host of hosts) for (const name of networkNames(host)) sum += Math.sign(known.get(name) ?? 0);
  return sum;
}

function insideOf(networks: readonly string[]): (address: Address) => boolean {
  const parsed = networks.flatMap((network) => {
    const [text = "", length = ""] = network.split("/");
    const address = parseAddress(text);
    if (!address) return [];
    const v6 = address.version === 6;
    const bits = address.words.reduce((sum, word) => (sum << 32n) | BigInt(word), 0n);
    const shift = BigInt((v6 ? 128 : 32) - Number(length));
    return [{ v6, shift, prefix: bits >> shift }];
  });
  return (address) => {
    const bits = bitsOf(address);
    return parsed.some((n) => n.v6 === (typeof address === "string") && bits >> n.shift === n.prefix);
  };
}

function pairOf(host: Host, peer: Address): { sent: number; received: number } {
  let pair = host.peers.get(peer);
  if (!pair) {
    pair = { sent: 0, received: 0 };
    host.peers.set(peer, pair);
  }
  return pair;
}

function bitsOf(address: Address): bigint {
  if (typeof address === "number") return BigInt(address);
  return address.split(",").reduce((bits, word) => (bits << 32n) | BigInt(word), 0n);
}

/** Not a single host's address: multicast, broadcast, unspecified, link-local. */
function isSpecial(address: Address): boolean {
  if (typeof address === "number") return address === 0 || address >>> 28 >= 14 || address >>> 16 === 0xa9fe;
  const first = Number.parseInt(address, 10);
  return first >>> 24 === 0xff || first >>> 22 === 0x3fa || address === "0,0,0,0";
}

/** Appends the smallest set of covering networks. Returns false if there are too many. */
function cover(inside: bigint[], outside: bigint[], width: number, out: string[], v6: boolean): boolean {
  const visit = (ins: bigint[], outs: bigint[], depth: number): boolean => {
    const [first] = ins;
    if (first === undefined) return true;
    if (outs.length === 0) {
      // Widened to the usual network size if no host of the other side is inside.
      const usual = v6 ? 64 : 24;
      const shared = Math.min(sharedBits(ins, width), usual);
      const length = Math.max(depth, shared);
      const shift = BigInt(width - length);
      out.push(`${format((first >> shift) << shift, v6)}/${length}`);
      return out.length <= MAX_NETWORKS;
    }
    if (depth === width) return false;
    const bit = BigInt(width - depth - 1);
    const half = (list: bigint[], value: bigint) => list.filter((x) => ((x >> bit) & 1n) === value);
    return visit(half(ins, 0n), half(outs, 0n), depth + 1) && visit(half(ins, 1n), half(outs, 1n), depth + 1);
  };
  return visit(inside, outside, 0);
}

function sharedBits(list: readonly bigint[], width: number): number {
  const [first = 0n] = list;
  let differ = 0n;
  for (const x of list) differ |= x ^ first;
  return width - (differ === 0n ? 0 : differ.toString(2).length);
}

function format(bits: bigint, v6: boolean): string {
  const words = v6 ? [96n, 64n, 32n, 0n].map((s) => Number((bits >> s) & 0xffff_ffffn)) : [Number(bits)];
  return v6 ? formatIpv6(words) : formatIpv4(words[0] ?? 0);
}

/** A lane matches packets of both directions. */
export class TwoWayError extends UsageError {
  /** Segment of the lane. */
  readonly segment: string;
  /** The packets seen so far. */
  readonly check: DirectionCheck;

  constructor(segment: string, problem: string, hint: string, check: DirectionCheck) {
    super("bad-option", problem, hint);
    this.segment = segment;
    this.check = check;
  }
}

export function twoWayError(lane: string, found: TwoWay, check: DirectionCheck): TwoWayError {
  const { problem, hint } = twoWayText(lane, found);
  return new TwoWayError(lane, problem, hint, check);
}

/** Error text and hint, with a filter for each direction. */
export function twoWayText(
  lane: string,
  { packets: [one, other], filters }: TwoWay,
): { problem: string; hint: string } {
  const where = lane === "" ? "the capture has" : `${lane}: its filter matches`;
  const both = "packets of both directions, and a segment has one";
  const at =
    filters?.[0] === "inbound"
      ? "what is inbound at one point may be outbound at the other"
      : "the same at both points";
  const live = filters?.[0] === "inbound" ? ", of an interface ‘direction in’ or ‘direction out’" : "";
  const hint = filters
    ? `choose one (${at}): ‘filter '${filters[0]}'’ (${one} packets so far) or ‘filter '${filters[1]}'’ (${other})${live}; ‘both-ways’ counts them together`
    : "choose one with a filter, the same at both points; ‘both-ways’ counts them together";
  return { problem: `${where} ${both}`, hint };
}
