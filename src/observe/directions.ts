/**
 * Do packets go both ways past a point? A segment has one direction: at both ends the same packets are to be counted, and those of the way back would be counted at the
 * wrong end. Hosts that answer each other show it. What separates the two ways is named as a filter: what the capture itself says of its interface (inbound, outbound),
 * else the networks of one side, learnt from who answers whom; which side is nearer is learnt from the time to live.
 */
import { UsageError } from "../base/errors.ts";
import { formatIpv4, formatIpv6 } from "../capture/address.ts";
import { FLAG, META_HIGH, type PacketBatch } from "../capture/batch.ts";

/** The smaller of the two directions must have this share of all packets: an answer now and then (ICMP errors) is not traffic. */
const MIN_SHARE = 0.01;
/** Packets that are looked at; then it is known. */
const MAX_PACKETS = 10_000;
const MIN_PACKETS = 20;
/** Networks that a filter may name before it is no help. */
const MAX_NETWORKS = 8;
const INITIAL_TTLS = [32, 64, 128, 255];

/** An IPv4 address as a number, an IPv6 address as four words in text. */
type Address = number | string;

interface Host {
  /** Hosts that it exchanged packets with. */
  peers: Map<Address, { sent: number; received: number }>;
  hops: number;
  packets: number;
}

export interface TwoWay {
  /** Packets of the two directions. */
  packets: [number, number];
  /** Expressions that let one direction through; null where none was found. */
  filters: [string, string] | null;
}

export class DirectionCheck {
  #packets = 0;
  #marked: [inbound: number, outbound: number] = [0, 0];
  readonly #hosts = new Map<Address, Host>();

  /** No more packets are needed. */
  get done(): boolean {
    return this.#packets >= MAX_PACKETS;
  }

  /** Before keys are masked: addresses are looked at. */
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
      if (!isSpecial(from) && !isSpecial(to)) this.#count(from, to, flag & 0xff);
    }
  }

  #count(from: Address, to: Address, ttl: number): void {
    const sender = this.#host(from);
    const receiver = this.#host(to);
    sender.hops += (INITIAL_TTLS.find((t) => t >= ttl) ?? 255) - ttl;
    sender.packets++;
    pairOf(sender, to).sent++;
    pairOf(receiver, from).received++;
  }

  /** Null where packets go one way, or there are too few to know. */
  verdict(): TwoWay | null {
    let answered = 0;
    for (const host of this.#hosts.values())
      for (const { sent, received } of host.peers.values()) answered += Math.min(sent, received);
    // Every pair was counted at both of its hosts.
    if (this.#packets < MIN_PACKETS || answered / 2 < MIN_SHARE * this.#packets) return null;
    const [inbound, outbound] = this.#marked;
    if (Math.min(inbound, outbound) >= MIN_SHARE * this.#packets)
      return { packets: [inbound, outbound], filters: ["inbound", "outbound"] };
    return this.#bySides();
  }

  #bySides(): TwoWay {
    const near = this.#nearSide();
    let away = 0;
    let back = 0;
    for (const [key, host] of this.#hosts) {
      if (!near.has(key)) continue;
      for (const [peer, { sent, received }] of host.peers) {
        if (near.has(peer)) continue;
        away += sent;
        back += received;
      }
    }
    const networks = this.#networks(near);
    if (!networks) return { packets: [away, back], filters: null };
    const side = (end: "src" | "dst") => networks.map((n) => `${end} net ${n}`).join(" or ");
    return { packets: [away, back], filters: [side("src"), side("dst")] };
  }

  /** Hosts that answer each other are on different sides; of each group of them, the side with fewer hops behind it is the near one. */
  #nearSide(): Set<Address> {
    const near = new Set<Address>();
    const side = new Map<Address, 0 | 1>();
    for (const start of this.#hosts.keys()) {
      if (side.has(start)) continue;
      const group: [Address[], Address[]] = [[], []];
      const queue: [Address, 0 | 1][] = [[start, 0]];
      side.set(start, 0);
      for (let next = queue.pop(); next; next = queue.pop()) {
        const [key, which] = next;
        group[which].push(key);
        for (const peer of this.#hosts.get(key)?.peers.keys() ?? []) {
          if (side.has(peer)) continue;
          const other = which === 0 ? 1 : 0;
          side.set(peer, other);
          queue.push([peer, other]);
        }
      }
      const [a, b] = [this.#meanHops(group[0]), this.#meanHops(group[1])];
      for (const key of a <= b ? group[0] : group[1]) near.add(key);
    }
    return near;
  }

  #meanHops(keys: readonly Address[]): number {
    let [hops, packets] = [0, 0];
    for (const key of keys) {
      hops += this.#hosts.get(key)?.hops ?? 0;
      packets += this.#hosts.get(key)?.packets ?? 0;
    }
    return packets === 0 ? Number.POSITIVE_INFINITY : hops / packets;
  }

  /** Networks with all hosts of the side and none of the other; null where that takes too many. */
  #networks(near: ReadonlySet<Address>): string[] | null {
    const out: string[] = [];
    for (const v6 of [false, true]) {
      const [inside, outside]: [bigint[], bigint[]] = [[], []];
      for (const address of this.#hosts.keys())
        if ((typeof address === "string") === v6)
          (near.has(address) ? inside : outside).push(bitsOf(address));
      if (!cover(inside, outside, v6 ? 128 : 32, out, v6)) return null;
    }
    return out.length === 0 ? null : out;
  }

  #host(address: Address): Host {
    let host = this.#hosts.get(address);
    if (!host) {
      host = { peers: new Map(), hops: 0, packets: 0 };
      this.#hosts.set(address, host);
    }
    return host;
  }
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

/** Of no one host: multicast, broadcast, unspecified, link-local. */
function isSpecial(address: Address): boolean {
  if (typeof address === "number") return address === 0 || address >>> 28 >= 14 || address >>> 16 === 0xa9fe;
  const first = Number.parseInt(address, 10);
  return first >>> 24 === 0xff || first >>> 22 === 0x3fa || address === "0,0,0,0";
}

/** Appends the fewest networks; false where there are too many. */
function cover(inside: bigint[], outside: bigint[], width: number, out: string[], v6: boolean): boolean {
  const visit = (ins: bigint[], outs: bigint[], depth: number): boolean => {
    const [first] = ins;
    if (first === undefined) return true;
    if (outs.length === 0) {
      // As short as the networks people give out, where nobody of the other side is in it.
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

/** What to do about it, with the filter for either way. */
export function twoWayError(lane: string, { packets: [one, other], filters }: TwoWay): UsageError {
  const where = lane === "" ? "the capture has" : `${lane}: its filter lets through`;
  const both = "packets of both directions, and a segment has one";
  const at =
    filters?.[0] === "inbound"
      ? "what is inbound at one point may be outbound at the other"
      : "the same at both points";
  const hint = filters
    ? `choose one (${at}): ‘filter '${filters[0]}'’ (${one} packets so far) or ‘filter '${filters[1]}'’ (${other}); ‘both-ways’ counts them together`
    : "choose one with a filter, the same at both points; ‘both-ways’ counts them together";
  return new UsageError("bad-option", `${where} ${both}`, hint);
}
