/**
 * Which way each flow goes, from what clocks cannot spoil.
 *
 * - Time to live: routers take from it, so it is lower where a packet arrives.
 * - Answers: packets of two hosts that go both ways have differences (after - before) of `delay + offset` one way and `-delay + offset` the other. A
 *   packet between two of the opposite order is held against the line between these two: what the clocks did in between cancels, and what is left is the
 *   sum of two delays, above 0 if the two go from BEFORE to AFTER. Each such packet is a vote; a clock that is set spoils the one vote it falls into.
 * - Groups: a packet goes from one side of the segment to the other, so hosts that are joined by flows are known to be on the same side or not (host-sides.ts). Where
 *   packets of two hosts are too few, those of a group are held against each other (group-votes.ts).
 * - Hosts: a host is on one side of the segment. Flows without answers go the way of other flows of their hosts.
 * - Neighbours: what is left is held against the decided flows around it in time.
 *
 * How it fails: two points that both see packets of either order in the same sequence (all that enters and all that leaves a switch) look like two
 * directions where answers take longer than questions by far, and no time to live says otherwise.
 */
import type { Kernels } from "../base/kernels.ts";
import type { KnownWays, MatchedPairs } from "../match/match-types.ts";
import type { ExactMatcher } from "../match/matcher.ts";
import { type GroupPoint, judgeGroups } from "./group-votes.ts";
import { HostSides, hostNames } from "./host-sides.ts";
import { decideByNeighbours } from "./way-neighbours.ts";

export type WayVerdict =
  /** `open`: flows of both orders are there, and too few packets for knowing whether they go both ways. */
  | { kind: "unknown"; open: boolean }
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

/** Votes that follow each other share packets: their sums vary so many times as much as those of votes that do not. */
const DEPENDENT = 2.2;
/** Of a normal distribution, exceeded with a probability of 0.01. */
const UNLIKELY = 2.33;
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
/** Points kept for what is decided by its neighbours. */
const POINTS = 1 << 16;
/** Pairs held back at most: those of a trial. */
const HELD = 1 << 15;
/** Host pairs looked at for going both ways. */
const MAX_CANDIDATES = 1 << 16;

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
    if (one.count === 0 || other.count === 0) {
      this.#takeOne(one.count === 0 ? other : one);
      return;
    }
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

  /** All go one way: nothing is to be put in order. */
  #takeOne(pairs: MatchedPairs): void {
    const { f64, u32 } = this.#kernels;
    const [flows, sends, differences] = [pairs.flows >>> 2, pairs.sends >>> 3, pairs.differences >>> 3];
    const held = this.#held;
    let i = 0;
    // Together: one by one they take a fiftieth of a large comparison's time, for nothing where packets go one way.
    if (held) {
      i = Math.min(pairs.count, HELD - held.count);
      held.flow.set(u32.subarray(flows, flows + i), held.count);
      held.timeNs.set(f64.subarray(sends, sends + i), held.count);
      held.valueNs.set(f64.subarray(differences, differences + i), held.count);
      held.count += i;
      if (held.count === HELD) this.release();
    }
    for (; i < pairs.count; i++) this.#look(u32[flows + i]!, f64[sends + i]!, f64[differences + i]!);
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
    if (byTtl === "one-way" && !this.#onlyBack(ways)) return { kind: "one-way" };
    const decidedBy: DecidedBy = { ttl: count(ways), answers: 0, hosts: 0, neighbours: 0, undecided: 0 };
    if (byTtl === "unknown" && !this.#votesAgree()) {
      const groups = this.#decideByGroups(ways);
      if (groups === "one-way") return { kind: "one-way" };
      if (groups !== "known") return { kind: "unknown", open: groups === "open" };
      decidedBy.answers = count(ways);
    }
    let known = count(ways);
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
    by("answers", () => this.#decideByOpposites(ways));
    decidedBy.undecided = ways.length - known;
    return { kind: "two-way", known: this.#matcher.knownWays(ways), decidedBy };
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

  /** All that was matched comes from AFTER's side, and there are flows that go there: packets go both ways, and those of one way were not seen at both points. */
  #onlyBack(ways: Uint8Array): boolean {
    if (!ways.includes(2) || ways.includes(1)) return false;
    const all = ways.slice();
    this.#decideByHosts(all);
    return all.includes(1);
  }

  /** Packets of groups of hosts held against each other; those of groups that contradict themselves are left out. */
  #decideByGroups(ways: Uint8Array): "known" | "one-way" | "open" | "no" {
    const sides = new HostSides(this.#matcher);
    const crosses = (id: number) => (this.#pairs[id] ?? 0) > 0;
    for (let id = 0; id < ways.length; id++) if (crosses(id)) sides.add(id);
    const places = Array.from(ways, (_, id) => (crosses(id) ? sides.placeOf(id) : null));
    const { flow, timeNs, valueNs } = this.#points;
    const points: GroupPoint[] = [];
    for (let i = 0; i < this.#kept; i++) {
      const place = places[flow[i]!];
      if (place) points.push({ ...place, timeNs: timeNs[i]!, valueNs: valueNs[i]! });
    }
    const verdict = judgeGroups(points);
    if (verdict.kind !== "known") return verdict.kind;
    for (const [id, place] of places.entries()) {
      const forward = place ? verdict.forward.get(place.group) : undefined;
      if (forward !== undefined) ways[id] = forward === place?.order ? 1 : 2;
    }
    return "known";
  }

  #placed(flow: number): boolean {
    return flow < this.#place.length && this.#place[flow]! >= 0;
  }

  /** Whether hosts that answer each other lean so much that delays of one direction would hardly do it: the sum of squares is that of as many normal values. */
  #votesAgree(): boolean {
    let sum = 0;
    let asked = 0;
    for (let c = 0; c < this.#conversations.size; c++) {
      const n = this.#votes[c]!;
      if (n === 0) continue;
      asked++;
      sum += (2 * this.#above[c]! - n) ** 2 / n;
    }
    return asked > 0 && sum > DEPENDENT * unlikelySquares(asked);
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

  /** What two hosts send to each other goes opposite ways, whatever decided one of them; where nothing did, their last packets are held against each other. */
  #decideByOpposites(ways: Uint8Array): void {
    const wayOf = new Map<number, number>();
    for (let id = 0; id < ways.length; id++)
      if (ways[id] !== 0 && this.#placed(id)) wayOf.set(this.#place[id]!, ways[id]!);
    for (let id = 0; id < ways.length; id++) {
      if (ways[id] !== 0 || !this.#placed(id)) continue;
      const place = this.#place[id]!;
      const [same, opposite] = [wayOf.get(place), wayOf.get(place ^ 1)];
      ways[id] = same ?? (opposite === undefined ? this.#wayOfLast(place) : 3 - opposite);
    }
  }

  /** By which of the last packets of either order shows more (after - before); 0 where there is one order only. */
  #wayOfLast(place: number): number {
    const [own, other] = [2 * place, 2 * (place ^ 1)];
    const last = this.#last;
    if (!Number.isFinite(last[own]!) || !Number.isFinite(last[other]!)) return 0;
    const above = last[own + 1]! - last[other + 1]!;
    return above === 0 ? 0 : above > 0 ? 1 : 2;
  }

  #decideByNeighbours(ways: Uint8Array): void {
    const placeOf = (flow: number) => (this.#placed(flow) ? this.#place[flow]! : -2 * flow - 2);
    decideByNeighbours(ways, this.#points, this.#kept, placeOf);
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

/** What the sum of n squared normal values exceeds with a probability of 0.01 (Wilson and Hilferty). */
function unlikelySquares(n: number): number {
  const part = 2 / (9 * n);
  return n * (1 - part + UNLIKELY * Math.sqrt(part)) ** 3;
}

function grown<T extends Uint32Array | Float64Array>(old: T, fresh: T): T {
  fresh.set(old);
  return fresh;
}

function count(ways: Uint8Array): number {
  return ways.reduce((n, way) => n + (way === 0 ? 0 : 1), 0);
}
