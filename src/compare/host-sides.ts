/**
 * Finds the side of the segment that hosts are on, from addresses alone: every packet that crosses the segment has its sender on one side and its receiver on
 * the other. Hosts joined by flows form a group, and within a group the relative order (from one side to the other) of any two flows is known, without clocks
 * or delays. Which of the two orders goes from BEFORE to AFTER is decided elsewhere (ways.ts, unmatched-ways.ts).
 *
 * How it fails: a group in which flows contradict each other (a host that sends to both sides of the segment) gives no information, and is marked as torn.
 */
import type { ExactMatcher } from "../match/matcher.ts";

/** A flow's group, and which of the two orders the flow has. */
export interface FlowPlace {
  group: number;
  order: 0 | 1;
}

export type Host = string | number;

const IPV6 = 1 << 27;

/** The addresses of a key that contains both: source, then destination. */
export function hostNames(words: ArrayLike<number>, at: number): [Host, Host] {
  const w = (i: number) => words[at + i] ?? 0;
  if ((w(1) & IPV6) === 0) return [w(3), w(2)];
  return [`${w(3)}:${w(2)}:${w(5)}:${w(4)}`, `${w(7)}:${w(6)}:${w(9)}:${w(8)}`];
}

export class HostSides {
  readonly #matcher: ExactMatcher;
  readonly #ids = new Map<Host, number>();
  /** Per host: another host of its group, and whether they are on opposite sides; a group's root refers to itself. */
  readonly #up: number[] = [];
  readonly #across: (0 | 1)[] = [];
  readonly #torn = new Set<number>();
  /** Groups with flows that cross the segment. */
  readonly #sure = new Set<number>();

  constructor(matcher: ExactMatcher) {
    this.#matcher = matcher;
  }

  /** Joins the hosts of a flow that crosses the segment. */
  add(flow: number): void {
    const hosts = this.#hostsOf(flow);
    if (hosts === null) return;
    this.#join(hosts);
    this.#sure.add(this.#rootOf(hosts[0]).root);
  }

  #join(hosts: [number, number]): void {
    const [from, to] = hosts.map((host) => this.#rootOf(host)) as [Rooted, Rooted];
    const across = (1 ^ from.across ^ to.across) as 0 | 1;
    if (from.root === to.root) {
      if (across === 1) this.#torn.add(from.root);
      return;
    }
    this.#up[to.root] = from.root;
    this.#across[to.root] = across;
    if (this.#torn.has(to.root)) this.#torn.add(from.root);
  }

  /** Joins the hosts of a flow that may not cross the segment: only if one of them is in no group with flows that do. Returns true if hosts were joined. */
  addUnsure(flow: number): boolean {
    const hosts = this.#hostsOf(flow);
    if (hosts === null) return false;
    const [from, to] = hosts.map((host) => this.#rootOf(host).root) as [number, number];
    if (from === to || (this.#sure.has(from) && this.#sure.has(to))) return false;
    const sure = this.#sure.has(from) || this.#sure.has(to);
    this.#join(hosts);
    if (sure) this.#sure.add(this.#rootOf(hosts[0]).root);
    return true;
  }

  /** Returns null if the flow's hosts are unknown, or contradict each other. */
  placeOf(flow: number): FlowPlace | null {
    const hosts = this.#hostsOf(flow);
    if (hosts === null) return null;
    const { root, across } = this.#rootOf(hosts[0]);
    return this.#torn.has(root) ? null : { group: root, order: across };
  }

  #hostsOf(flow: number): [number, number] | null {
    const { words, at } = this.#matcher.keyWords(flow);
    if (isToMany(words, at)) return null;
    const [from, to] = hostNames(words, at);
    return from === to ? null : [this.#idOf(from), this.#idOf(to)];
  }

  #idOf(host: Host): number {
    const known = this.#ids.get(host);
    if (known !== undefined) return known;
    const id = this.#up.length;
    this.#ids.set(host, id);
    this.#up.push(id);
    this.#across.push(0);
    return id;
  }

  #rootOf(host: number): Rooted {
    let root = host;
    let across = 0;
    for (let up = this.#up[root] ?? root; up !== root; up = this.#up[root] ?? root) {
      across ^= this.#across[root] ?? 0;
      root = up;
    }
    // Path compression: shortens the path to the root for later calls.
    let left = across;
    for (let at = host; at !== root; ) {
      const [up, own] = [this.#up[at] ?? root, this.#across[at] ?? 0];
      this.#up[at] = root;
      this.#across[at] = left as 0 | 1;
      left ^= own;
      at = up;
    }
    return { root, across: across as 0 | 1 };
  }
}

interface Rooted {
  root: number;
  across: 0 | 1;
}

/** Returns whether the destination is multicast or broadcast: many hosts, on any side. */
function isToMany(words: ArrayLike<number>, at: number): boolean {
  const w = (i: number) => words[at + i] ?? 0;
  if ((w(1) & IPV6) === 0) return w(2) >>> 28 === 0xe || w(2) >>> 0 === 0xffff_ffff;
  return w(7) >>> 24 === 0xff;
}
