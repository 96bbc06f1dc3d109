/**
 * Direction of each flow, from evidence that clock errors cannot spoil.
 *
 * - Time to live: routers decrement it, so it is lower where a packet arrives.
 * - Answers: packets between two hosts that go both ways have differences (after - before) of `delay + offset` one way and `-delay + offset` the other. A
 *   packet between two of the opposite order is compared with the line between these two: clock changes in between cancel, and the sum of two delays remains,
 *   above 0 if the two go from BEFORE to AFTER. Each such packet is a vote; a clock step spoils only the vote during which it happens.
 * - Groups: a packet goes from one side of the segment to the other, so flows show which hosts are on the same side (host-sides.ts). If a host pair has too few
 *   packets, those of a group are compared with each other (group-votes.ts).
 * - Hosts: a host is on one side of the segment. Flows without answers go the way of other flows of their hosts.
 * - Neighbours: the remaining flows are compared with decided flows around them in time.
 *
 * How it fails: two points that both see packets of either order in the same sequence (everything that enters and leaves a switch) look like two directions if
 * answers take much longer than queries, and no TTL shows otherwise.
 */
import { grown } from "../base/grown.ts";
import type { Kernels } from "../base/kernels.ts";
import type { KnownWays, MatchedPairs } from "../match/match-types.ts";
import type { ExactMatcher } from "../match/matcher.ts";
import { AnswerVotes } from "./answer-votes.ts";
import { type GroupPoint, judgeGroups } from "./group-votes.ts";
import { HostSides, hostNames } from "./host-sides.ts";
import { decideByNeighbours } from "./way-neighbours.ts";

export type WayVerdict =
  /** `open`: flows of both orders exist, but too few packets to decide whether they go both ways. */
  | { kind: "unknown"; open: boolean }
  | { kind: "one-way" }
  | { kind: "two-way"; known: KnownWays; decidedBy: DecidedBy };

/** Number of flows by the evidence that decided their direction. */
export interface DecidedBy {
  ttl: number;
  answers: number;
  hosts: number;
  neighbours: number;
  undecided: number;
}

/** Share of a flow's or host's packets that must agree. */
const AGREE = 0.9;
/** Flows of a host must lean one way by at least this share. */
const LEAN = 0.5;
/** Number of votes that a single wrong one does not turn. */
const STRONG_VOTES = 5;
/** If the smaller direction has at most this share of the packets, the TTL shows one direction with a few outliers. */
const FEW = 0.001;
/** Share of packets that may keep their TTL although it shows one direction. */
const ODD = 0.01;
/** If the TTL of this share of the packets changed, it decides. */
const MOST = 0.5;
/** Points kept for the decision by neighbours. */
const POINTS = 1 << 16;
/** Maximum number of pairs held back: those of a trial. */
const HELD = 1 << 15;
/** Maximum number of host pairs examined for packets both ways. */
const MAX_CANDIDATES = 1 << 16;

export class WayEvidence {
  readonly #matcher: ExactMatcher;
  readonly #kernels: Kernels;
  /** Per flow: its place among the conversations; -1: not examined. */
  #place = new Int32Array(1024).fill(-1);
  #ttlLower = new Uint32Array(1024);
  #ttlHigher = new Uint32Array(1024);
  /** Pairs of the flow, without those of identical packets. */
  #pairs = new Uint32Array(1024);
  readonly #answers: AnswerVotes;
  /** A sample of all points, every #stride-th. */
  readonly #points = {
    flow: new Uint32Array(POINTS),
    timeNs: new Float64Array(POINTS),
    valueNs: new Float64Array(POINTS),
  };
  #kept = 0;
  #stride = 1;
  #seen = 0;
  /** The first pairs, until it is known that packets go both ways: most captures contain one direction. */
  #held: { flow: Uint32Array; timeNs: Float64Array; valueNs: Float64Array; count: number } | null = {
    flow: new Uint32Array(HELD),
    timeNs: new Float64Array(HELD),
    valueNs: new Float64Array(HELD),
    count: 0,
  };

  constructor(kernels: Kernels, matcher: ExactMatcher) {
    this.#kernels = kernels;
    this.#matcher = matcher;
    this.#answers = new AnswerVotes(matcher);
  }

  /** Number of pairs taken. */
  get seen(): number {
    return this.#seen;
  }

  /** Processes the pairs held back, and all later ones directly. */
  release(): void {
    const held = this.#held;
    if (!held) return;
    this.#held = null;
    for (let i = 0; i < held.count; i++) this.#look(held.flow[i]!, held.timeNs[i]!, held.valueNs[i]!);
  }

  /** Takes the pairs of one stride, in both directions as the pass assigned them, in time order. */
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

  /** All go one way: no merging needed. */
  #takeOne(pairs: MatchedPairs): void {
    const { f64, u32 } = this.#kernels;
    const [flows, sends, differences] = [pairs.flows >>> 2, pairs.sends >>> 3, pairs.differences >>> 3];
    const held = this.#held;
    let i = 0;
    // Copied as blocks: one by one they take a fiftieth of a large comparison's time, in vain if packets go one way.
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
    if (this.#place[flow]! < 0) this.#place[flow] = this.#answers.placeOf(flow);
    this.#pairs[flow]!++;
    const ttl = tagged >>> 30;
    if (ttl === 1) this.#ttlLower[flow]!++;
    else if (ttl === 2) this.#ttlHigher[flow]!++;
    this.#answers.vote(this.#place[flow]!, timeNs, valueNs);
    if (this.#seen++ % this.#stride === 0) this.#keep(flow, timeNs, valueNs);
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

  /** Decides the direction of every flow of the pass. */
  decide(): WayVerdict {
    this.release();
    const { flows } = this.#matcher;
    const shown = new Uint8Array(flows.count);
    const byTtl = this.#decideByTtl(shown);
    if (byTtl === "one-way" && !this.#onlyBack(shown)) return { kind: "one-way" };
    // With routers on the way of one direction only, the TTL does not show whether packets go both ways, but the direction of those that pass routers.
    const ways = byTtl === "unknown" ? new Uint8Array(flows.count) : shown.slice();
    if (byTtl === "unknown" && !this.#answers.agree()) {
      const groups = this.#decideByGroups(ways);
      if (groups === "one-way") return { kind: "one-way" };
      if (groups !== "known") return { kind: "unknown", open: groups === "open" };
    }
    for (const [id, way] of shown.entries()) if (way !== 0) ways[id] = way;
    let known = count(ways);
    const decidedBy: DecidedBy = { ttl: count(shown), answers: 0, hosts: 0, neighbours: 0, undecided: 0 };
    decidedBy.answers = known - decidedBy.ttl;
    const by = (what: "answers" | "hosts" | "neighbours", decide: () => void) => {
      decide();
      const now = count(ways);
      decidedBy[what] += now - known;
      known = now;
    };
    // A clock step spoils single votes: hosts with few votes are decided after those with many, and after what these show of their neighbours.
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

  /** "unknown": most packets keep their TTL, or those of one direction do; then directions of flows that show it are set nevertheless. */
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
    // Packets of one direction, and a few outliers.
    if (Math.max(forward, reverse) > (1 - ODD) * all && Math.min(forward, reverse) <= FEW * all)
      return "one-way";
    if (forward + reverse <= MOST * all) ways.fill(0);
    else if (Math.min(forward, reverse) > FEW * all) return "two-way";
    else if (this.#answersGoAlong(ways)) return "one-way";
    return "unknown";
  }

  /** Returns whether hosts' packets to each other pass routers in the same direction, as the TTL shows: both orders go one way, however long answers take. */
  #answersGoAlong(ways: Uint8Array): boolean {
    const pairs = new Map<number, number>();
    const shown = new Map<number, number>();
    for (let id = 0; id < ways.length; id++) {
      if (!this.#placed(id)) continue;
      const place = this.#place[id]!;
      pairs.set(place, (pairs.get(place) ?? 0) + this.#pairs[id]!);
      if (ways[id] !== 0) shown.set(place, (shown.get(place) ?? 0) + this.#pairs[id]!);
    }
    let [along, all] = [0, 0];
    for (const [place, n] of pairs) {
      const answers = pairs.get(place ^ 1) ?? 0;
      if (answers === 0) continue;
      const least = Math.min(n, answers);
      all += least;
      if ((shown.get(place) ?? 0) >= AGREE * n && (shown.get(place ^ 1) ?? 0) >= AGREE * answers)
        along += least;
    }
    return along > 0 && along >= AGREE * all;
  }

  /**
   * All matched packets come from AFTER's side, and there are flows that go there: packets go both ways, and those of one direction were not seen at both
   * points.
   */
  #onlyBack(ways: Uint8Array): boolean {
    if (!ways.includes(2) || ways.includes(1)) return false;
    const all = ways.slice();
    this.#decideByHosts(all);
    return all.includes(1);
  }

  /** Compares packets of groups of hosts; groups that contradict themselves are left out. */
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

  #decideByAnswers(ways: Uint8Array, minVotes: number): void {
    for (let id = 0; id < ways.length; id++) {
      if (ways[id] !== 0 || !this.#placed(id)) continue;
      ways[id] = this.#answers.wayOf(this.#place[id]!, minVotes);
    }
  }

  /** What two hosts send to each other goes opposite ways, whatever decided one of them; otherwise their last packets are compared. */
  #decideByOpposites(ways: Uint8Array): void {
    const wayOf = new Map<number, number>();
    for (let id = 0; id < ways.length; id++)
      if (ways[id] !== 0 && this.#placed(id)) wayOf.set(this.#place[id]!, ways[id]!);
    for (let id = 0; id < ways.length; id++) {
      if (ways[id] !== 0 || !this.#placed(id)) continue;
      const place = this.#place[id]!;
      const [same, opposite] = [wayOf.get(place), wayOf.get(place ^ 1)];
      ways[id] = same ?? (opposite === undefined ? this.#answers.wayOfLast(place) : 3 - opposite);
    }
  }

  #decideByNeighbours(ways: Uint8Array): void {
    const placeOf = (flow: number) => (this.#placed(flow) ? this.#place[flow]! : -2 * flow - 2);
    decideByNeighbours(ways, this.#points, this.#kept, placeOf);
  }

  /** Decides flows of hosts with a known side, including flows without matched packets. */
  #decideByHosts(ways: Uint8Array): void {
    const near = new Int32Array(this.#answers.hosts);
    const all = new Uint32Array(this.#answers.hosts);
    const open: number[] = [];
    for (let id = 0; id < ways.length; id++) {
      if (ways[id] === 0) {
        open.push(id);
        continue;
      }
      const [from, to] = this.#answers.hostsOf(id);
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
      const [from, to] = this.#answers.hostsOf(id);
      const lean = side(from) - side(to);
      if (lean !== 0) ways[id] = lean > 0 ? 1 : 2;
    }
  }
}

/** Returns whether packets seem to go both ways: two hosts sent to each other, or TTLs fall and rise. */
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

function count(ways: Uint8Array): number {
  return ways.reduce((n, way) => n + (way === 0 ? 0 : 1), 0);
}
