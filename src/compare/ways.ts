/**
 * Which way each flow goes, from what clocks cannot spoil.
 *
 * - Time to live: routers take from it, so it is lower where a packet arrives.
 * - Answers: packets of two hosts that go both ways have differences (after - before) of `delay + offset` one way and `-delay + offset` the other. A
 *   packet between two of the opposite order is held against the line between these two: what the clocks did in between cancels, and what is left is the
 *   sum of two delays, above 0 if the two go from BEFORE to AFTER. Each such packet is a vote; a clock that is set spoils the one vote it falls into.
 * - Hosts: a host is on one side of the segment. Flows without answers go the way of other flows of their hosts.
 * - Neighbours: what is left is held against the decided flows around it in time.
 *
 * How it fails: two points that both see packets of either order in the same sequence (all that enters and all that leaves a switch) look like two
 * directions where answers take longer than questions by far, and no time to live says otherwise.
 */
import type { Kernels } from "../base/kernels.ts";
import type { ExactMatcher, KnownWays, MatchedPairs } from "../match/matcher.ts";

export type WayVerdict =
  | { kind: "unknown" }
  | { kind: "one-way" }
  | { kind: "two-way"; known: KnownWays; decidedBy: DecidedBy };

/** Flows by what their way was decided by. */
export interface DecidedBy {
  ttl: number;
  answers: number;
  hosts: number;
  neighbours: number;
  undecided: number;
}

/** Votes that delays of one direction would cast alike with at most this probability. */
const CHANCE = 0.01;
/** A flow's or host's packets that must agree. */
const AGREE = 0.9;
/** Votes of two hosts must lean one way by so much. */
const LEAN = 0.5;
/** Votes that a single wrong one does not turn. */
const STRONG_VOTES = 5;
/** Packets of the smaller direction, as a share of all, below which time to live shows one direction with a few oddities. */
const FEW = 0.001;
/** Packets that may keep their time to live where it shows one direction. */
const ODD = 0.01;
/** Packets whose time to live changed, as a share of all, from which on it decides. */
const MOST = 0.5;
const KEY_WORDS = 10;
/** Points kept for what is decided by its neighbours. */
const POINTS = 1 << 16;
/** Pairs held back at most: those of a trial. */
const HELD = 1 << 15;
/** Host pairs looked at for going both ways. */
const MAX_CANDIDATES = 1 << 16;
/** Points of an undecided flow that are held against decided ones. */
const MAX_VOTES = 64;
/** Points to either side that are looked at for decided ones. */
const FARTHEST = 2048;

export class WayEvidence {
  readonly #matcher: ExactMatcher;
  readonly #kernels: Kernels;
  /** By flow: its conversation (-1: not looked at) * 2 + whether it goes from the lower host to the higher. */
  #place = new Int32Array(1024).fill(-1);
  #ttlLower = new Uint32Array(1024);
  #ttlHigher = new Uint32Array(1024);
  /** Pairs of the flow; those of packets that look alike are not among them. */
  #pairs = new Uint32Array(1024);
  readonly #hosts = new Map<string | number, number>();
  readonly #conversations = new Map<number, number>();
  /** By conversation and order: the last point. By conversation: votes, and those for order 1 above order 0. */
  #last = new Float64Array(4096);
  #votes = new Uint32Array(1024);
  #above = new Uint32Array(1024);
  /** A sample of all points, every #stride-th. */
  readonly #points = {
    flow: new Uint32Array(POINTS),
    timeNs: new Float64Array(POINTS),
    valueNs: new Float64Array(POINTS),
  };
  #kept = 0;
  #stride = 1;
  #seen = 0;
  /** The first pairs, until it is known that packets go both ways: most captures hold one direction. */
  #held: { flow: Uint32Array; timeNs: Float64Array; valueNs: Float64Array; count: number } | null = {
    flow: new Uint32Array(HELD),
    timeNs: new Float64Array(HELD),
    valueNs: new Float64Array(HELD),
    count: 0,
  };

  constructor(kernels: Kernels, matcher: ExactMatcher) {
    this.#kernels = kernels;
    this.#matcher = matcher;
  }

  /** Pairs taken. */
  get seen(): number {
    return this.#seen;
  }

  /** What was held back is looked at, and what comes from now on. */
  release(): void {
    const held = this.#held;
    if (!held) return;
    this.#held = null;
    for (let i = 0; i < held.count; i++) this.#look(held.flow[i]!, held.timeNs[i]!, held.valueNs[i]!);
  }

  /** Takes the pairs of one stride, both directions as the pass has put them, in order of time. */
  take(one: MatchedPairs, other: MatchedPairs): void {
    const { f64, u32 } = this.#kernels;
    const time = (pairs: MatchedPairs, i: number) =>
      i < pairs.count ? f64[(pairs.sends >>> 3) + i]! : Number.POSITIVE_INFINITY;
    let i = 0;
    let j = 0;
    let [ti, tj] = [time(one, 0), time(other, 0)];
    while (i < one.count || j < other.count) {
      if (ti <= tj) {
        this.#add(u32[(one.flows >>> 2) + i]!, ti, f64[(one.differences >>> 3) + i]!);
        ti = time(one, ++i);
      } else {
        this.#add(u32[(other.flows >>> 2) + j]!, tj, f64[(other.differences >>> 3) + j]!);
        tj = time(other, ++j);
      }
    }
  }

  #add(tagged: number, timeNs: number, valueNs: number): void {
    const held = this.#held;
    if (!held) {
      this.#look(tagged, timeNs, valueNs);
      return;
    }
    held.flow[held.count] = tagged;
    held.timeNs[held.count] = timeNs;
    held.valueNs[held.count++] = valueNs;
    if (held.count === HELD) this.release();
  }

  #look(tagged: number, timeNs: number, valueNs: number): void {
    const flow = tagged & 0x3fff_ffff;
    if (flow >= this.#place.length) this.#growFlows(flow);
    if (this.#place[flow]! < 0) this.#place[flow] = this.#placeOf(flow);
    this.#pairs[flow]!++;
    const ttl = tagged >>> 30;
    if (ttl === 1) this.#ttlLower[flow]!++;
    else if (ttl === 2) this.#ttlHigher[flow]!++;
    this.#vote(this.#place[flow]!, timeNs, valueNs);
    if (this.#seen++ % this.#stride === 0) this.#keep(flow, timeNs, valueNs);
  }

  /** The point before it in the other order lies between this one and the last of its own order: it is held against the line through them. */
  #vote(place: number, timeNs: number, valueNs: number): void {
    const own = 2 * place;
    const other = 2 * (place ^ 1);
    const last = this.#last;
    const [fromNs, betweenNs] = [last[own]!, last[other]!];
    if (fromNs < betweenNs && betweenNs <= timeNs) {
      const level = last[own + 1]!;
      const at = level + ((valueNs - level) * (betweenNs - fromNs)) / (timeNs - fromNs);
      const conversation = place >> 1;
      const above = at > last[other + 1]!;
      this.#votes[conversation]!++;
      if (above === ((place & 1) === 1)) this.#above[conversation]!++;
    }
    last[own] = timeNs;
    last[own + 1] = valueNs;
  }

  #keep(flow: number, timeNs: number, valueNs: number): void {
    const points = this.#points;
    if (this.#kept === POINTS) {
      for (const column of [points.flow, points.timeNs, points.valueNs])
        for (let i = 0; i < POINTS / 2; i++) column[i] = column[2 * i]!;
      this.#kept = POINTS / 2;
      this.#stride *= 2;
    }
    points.flow[this.#kept] = flow;
    points.timeNs[this.#kept] = timeNs;
    points.valueNs[this.#kept++] = valueNs;
  }

  #growFlows(flow: number): void {
    const room = 2 ** Math.ceil(Math.log2(flow + 2));
    const place = new Int32Array(room).fill(-1);
    place.set(this.#place);
    this.#place = place;
    this.#ttlLower = grown(this.#ttlLower, new Uint32Array(room));
    this.#ttlHigher = grown(this.#ttlHigher, new Uint32Array(room));
    this.#pairs = grown(this.#pairs, new Uint32Array(room));
  }

  #hostsOf(flow: number): [number, number] {
    const { words, at } = this.#matcher.keyWords(flow);
    return hostNames(words, at).map((name) => {
      const known = this.#hosts.get(name);
      if (known !== undefined) return known;
      this.#hosts.set(name, this.#hosts.size);
      return this.#hosts.size - 1;
    }) as [number, number];
  }

  #placeOf(flow: number): number {
    const [from, to] = this.#hostsOf(flow);
    const key = Math.min(from, to) * 2 ** 26 + Math.max(from, to);
    let conversation = this.#conversations.get(key);
    if (conversation === undefined) {
      conversation = this.#conversations.size;
      this.#conversations.set(key, conversation);
      if (conversation >= this.#votes.length) {
        this.#votes = grown(this.#votes, new Uint32Array(2 * this.#votes.length));
        this.#above = grown(this.#above, new Uint32Array(2 * this.#above.length));
        this.#last = grown(this.#last, new Float64Array(2 * this.#last.length));
      }
      this.#last[4 * conversation] = this.#last[4 * conversation + 2] = Number.POSITIVE_INFINITY;
    }
    return 2 * conversation + (from < to ? 1 : 0);
  }

  /** The way of every flow of the pass. */
  decide(): WayVerdict {
    this.release();
    const { flows } = this.#matcher;
    const ways = new Uint8Array(flows.count);
    const byTtl = this.#decideByTtl(ways);
    if (byTtl === "one-way") return { kind: "one-way" };
    if (byTtl === "unknown" && !this.#votesAgree()) return { kind: "unknown" };
    const decidedBy: DecidedBy = { ttl: count(ways), answers: 0, hosts: 0, neighbours: 0, undecided: 0 };
    let known = decidedBy.ttl;
    const by = (what: "answers" | "hosts" | "neighbours", decide: () => void) => {
      decide();
      const now = count(ways);
      decidedBy[what] += now - known;
      known = now;
    };
    // A clock that is set spoils single votes: hosts with few of them come after those with many, and after what these show of their neighbours.
    by("answers", () => this.#decideByAnswers(ways, STRONG_VOTES));
    if (known > 0) {
      by("hosts", () => this.#decideByHosts(ways));
      by("neighbours", () => this.#decideByNeighbours(ways));
    }
    by("answers", () => this.#decideByAnswers(ways, 1));
    by("hosts", () => this.#decideByHosts(ways));
    by("neighbours", () => this.#decideByNeighbours(ways));
    decidedBy.undecided = ways.length - known;
    const keys = new Uint32Array(KEY_WORDS * ways.length);
    for (let id = 0; id < ways.length; id++) {
      const { words, at } = this.#matcher.keyWords(id);
      keys.set(words.subarray(at, at + KEY_WORDS), KEY_WORDS * id);
    }
    return { kind: "two-way", known: { keys, ways }, decidedBy };
  }

  /** "unknown": most packets keep their time to live. */
  #decideByTtl(ways: Uint8Array): "one-way" | "two-way" | "unknown" {
    const packets = [0, 0, 0];
    for (let id = 0; id < ways.length; id++) {
      const matched = this.#pairs[id] ?? 0;
      const [lower, higher] = [this.#ttlLower[id] ?? 0, this.#ttlHigher[id] ?? 0];
      const way = lower > 0 && lower >= AGREE * matched ? 1 : higher > 0 && higher >= AGREE * matched ? 2 : 0;
      packets[way]! += matched;
      ways[id] = way;
    }
    const [none, forward, reverse] = packets as [number, number, number];
    const all = none + forward + reverse;
    // Packets of one kind, and a few whose time to live does something else.
    if (Math.max(forward, reverse) > (1 - ODD) * all && Math.min(forward, reverse) <= FEW * all)
      return "one-way";
    if (forward + reverse > MOST * all && Math.min(forward, reverse) > FEW * all) return "two-way";
    ways.fill(0);
    return "unknown";
  }

  #placed(flow: number): boolean {
    return flow < this.#place.length && this.#place[flow]! >= 0;
  }

  /** Whether hosts that answer each other lean so much that delays of one direction would hardly do it. */
  #votesAgree(): boolean {
    let ln = 0;
    for (let c = 0; c < this.#conversations.size; c++) {
      const n = this.#votes[c]!;
      const lean = Math.abs(2 * this.#above[c]! - n);
      if (n > 0) ln += Math.min(0, Math.LN2 - (lean * lean) / (2 * n));
    }
    return ln < Math.log(CHANCE);
  }

  #decideByAnswers(ways: Uint8Array, minVotes: number): void {
    for (let id = 0; id < ways.length; id++) {
      if (ways[id] !== 0 || !this.#placed(id)) continue;
      const place = this.#place[id]!;
      const n = this.#votes[place >> 1]!;
      const lean = 2 * this.#above[place >> 1]! - n;
      if (n < minVotes || Math.abs(lean) < LEAN * n) continue;
      ways[id] = lean > 0 === ((place & 1) === 1) ? 1 : 2;
    }
  }

  /** Flows of hosts whose side is known, also those without matched packets. */
  #decideByHosts(ways: Uint8Array): void {
    const near = new Int32Array(this.#hosts.size);
    const all = new Uint32Array(this.#hosts.size);
    const open: number[] = [];
    for (let id = 0; id < ways.length; id++) {
      if (ways[id] === 0) {
        open.push(id);
        continue;
      }
      const [from, to] = this.#hostsOf(id);
      if (from >= near.length || to >= near.length) continue;
      near[from]! += ways[id] === 1 ? 1 : -1;
      near[to]! += ways[id] === 1 ? -1 : 1;
      all[from]!++;
      all[to]!++;
    }
    const side = (host: number) =>
      host < near.length && Math.abs(near[host]!) >= Math.max(1, LEAN * all[host]!)
        ? Math.sign(near[host]!)
        : 0;
    for (const id of open) {
      const [from, to] = this.#hostsOf(id);
      const lean = side(from) - side(to);
      if (lean !== 0) ways[id] = lean > 0 ? 1 : 2;
    }
  }

  /** Points of undecided flows held against the nearest decided ones in time. */
  #decideByNeighbours(ways: Uint8Array): void {
    const { flow, timeNs, valueNs } = this.#points;
    const order = Array.from({ length: this.#kept }, (_, i) => i).sort((a, b) => timeNs[a]! - timeNs[b]!);
    const lean = new Map<number, { votes: number; sum: number }>();
    const step = (at: number, way: number, by: 1 | -1): number | null => {
      for (let k = at + by; k >= 0 && k < order.length && Math.abs(k - at) < FARTHEST; k += by)
        if (ways[flow[order[k]!]!] === way) return order[k]!;
      return null;
    };
    /** What a packet of that way would have shown then: on the line between the nearest two, so that drift cancels. */
    const levelAt = (at: number, way: number): number | null => {
      const [a, b] = [step(at, way, -1), step(at, way, 1)];
      if (a === null || b === null) return a === null ? (b === null ? null : valueNs[b]!) : valueNs[a]!;
      const span = timeNs[b]! - timeNs[a]!;
      const part = span > 0 ? (timeNs[order[at]!]! - timeNs[a]!) / span : 0.5;
      return valueNs[a]! + part * (valueNs[b]! - valueNs[a]!);
    };
    for (const [at, i] of order.entries()) {
      const id = flow[i]!;
      if (ways[id] !== 0) continue;
      const so = lean.get(id) ?? { votes: 0, sum: 0 };
      if (so.votes === MAX_VOTES) continue;
      const [forward, reverse] = [levelAt(at, 1), levelAt(at, 2)];
      // Packets of one way are above those of the other at any time: where they are not, a clock was set in between.
      if (forward === null || reverse === null || forward <= reverse) continue;
      so.votes++;
      so.sum += Math.sign(valueNs[i]! - (forward + reverse) / 2);
      lean.set(id, so);
    }
    for (const [id, { sum }] of lean) if (sum !== 0) ways[id] = sum > 0 ? 1 : 2;
  }
}

/** Packets seem to go both ways: two hosts have sent to each other, or times to live fall and rise. */
export function maybeBothWays(matcher: ExactMatcher): boolean {
  const totals = [matcher.total(1), matcher.total(2)];
  const sum = (pick: (t: (typeof totals)[number]) => number) => totals.reduce((n, t) => n + pick(t), 0);
  const few = FEW * sum((t) => t.matched);
  if (
    Math.min(
      sum((t) => t.ttl.lower),
      sum((t) => t.ttl.higher),
    ) > few
  )
    return true;
  const seen = new Set<string>();
  for (const id of matcher.bothWays(MAX_CANDIDATES)) {
    const { words, at } = matcher.keyWords(id);
    const [from, to] = hostNames(words, at);
    if (seen.has(`${to} ${from}`)) return true;
    seen.add(`${from} ${to}`);
  }
  return false;
}

/** The addresses of a key that has both: source, then destination. */
export function hostNames(words: ArrayLike<number>, at: number): [string | number, string | number] {
  const w = (i: number) => words[at + i]!;
  if ((w(1) & (1 << 27)) === 0) return [w(3), w(2)];
  return [`${w(3)}:${w(2)}:${w(5)}:${w(4)}`, `${w(7)}:${w(6)}:${w(9)}:${w(8)}`];
}

function grown<T extends Uint32Array | Float64Array>(old: T, fresh: T): T {
  fresh.set(old);
  return fresh;
}

function count(ways: Uint8Array): number {
  return ways.reduce((n, way) => n + (way === 0 ? 0 : 1), 0);
}
