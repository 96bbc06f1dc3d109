/**
 * Finds which order of flows goes from BEFORE to AFTER, for groups of hosts (host-sides.ts) with few packets: compares the packets of both orders group by
 * group, and computes how often delays of one direction alone would separate like this.
 *
 * - By votes: a packet between two of the other order is above or below the line through them, whatever the clocks did in between. The number of votes that
 *   agree is compared with the number after shuffling the orders among the packets of each group.
 * - By sizes: the same, weighted by how far a packet is above or below the line, up to a few times the median: a handful of packets that are all a round trip
 *   below is stronger evidence than their number.
 * - By one level: all packets of one order are above all of the other. Only steady clocks show it, but then few packets are enough.
 * - By neighbours, after removing the drift: a packet is compared with the previous one of its group if that is of the other order. Comparisons of two packets
 *   give more votes than lines do, but need the drift between the two: the median change of all packets' differences over a number of packets.
 */
import { lgamma } from "../base/math/special.ts";
import { Random } from "../base/random.ts";

/** A packet of a group, in time order. */
export interface GroupPoint {
  group: number;
  order: 0 | 1;
  timeNs: number;
  /** after - before. */
  valueNs: number;
}

export type GroupVerdict =
  /** The order of each group that goes from BEFORE to AFTER. */
  | { kind: "known"; forward: Map<number, 0 | 1> }
  /** Packets of the two orders differ no more than packets of one order: they all go the same way. */
  | { kind: "one-way" }
  /** Packets of both orders exist, but too few to decide. */
  | { kind: "open" }
  /** Only one order exists. */
  | { kind: "no" };

/** False-positive probability of each test. */
const CHANCE = 0.005;
const DEALS = 999;
/** If shuffled orders agree as well this often, the orders do not matter. */
const AT_RANDOM = 0.1;
/** Maximum number of points used. */
const MAX_POINTS = 2048;
/** With this many packets of the smaller order, two directions would show. */
const ENOUGH = 24;
/** If this share of the packets has the same difference as the previous one, timestamps are so coarse that a round trip may be below their resolution. */
const COARSE = 0.25;

export function judgeGroups(points: readonly GroupPoint[]): GroupVerdict {
  const all = mixedGroups(points);
  const stride = Math.ceil(all.length / MAX_POINTS);
  const mixed = stride > 1 ? mixedGroups(all.filter((_, i) => i % stride === 0)) : all;
  if (mixed.length === 0) return { kind: "no" };
  const byLines = castVotes(mixed, lineVotes);
  const forward =
    byLines.forward ??
    castVotes(mixed, sizeVotes).forward ??
    byLevel(mixed) ??
    castVotes(withoutDrift(mixed), neighbourVotes).forward;
  if (forward) return { kind: "known", forward };
  const { chance } = byLines;
  const ones = mixed.reduce((n, p) => n + p.order, 0);
  const enough = Math.min(ones, mixed.length - ones) >= ENOUGH && chance > AT_RANDOM && !areCoarse(mixed);
  return { kind: enough ? "one-way" : "open" };
}

function areCoarse(points: readonly GroupPoint[]): boolean {
  const same = points.filter(({ valueNs }, i) => valueNs === points[i - 1]?.valueNs).length;
  return same >= COARSE * points.length;
}

/** Returns the points of groups with both orders, in time order. */
function mixedGroups(points: readonly GroupPoint[]): GroupPoint[] {
  const orders = new Map<number, number>();
  for (const { group, order } of points) orders.set(group, (orders.get(group) ?? 0) | (1 << order));
  return points.filter(({ group }) => orders.get(group) === 3).sort((a, b) => a.timeNs - b.timeNs);
}

/** Points of several groups, numbered from 0, in columns: votes are counted many times, with different orders. */
interface Columns {
  group: Uint32Array;
  timeNs: Float64Array;
  valueNs: Float64Array;
  /** Per group: votes for order 1 above order 0, minus those against. */
  leans: Float64Array;
  /** Median size of a vote; null until needed. */
  usualNs: number | null;
  /** Per group and order: time and value of the last point. */
  last: Float64Array;
}

/** Fills `leans`; returns the unit of the sum of their sizes. */
type Vote = (columns: Columns, orders: Uint8Array) => number;

/** Weight of a vote, by how far the point is above the line. */
type Weigh = (aboveNs: number) => number;

/** Compares a point between two points of the other order with the line through them. */
function voteByLines(
  { group, timeNs, valueNs, leans, last }: Columns,
  orders: Uint8Array,
  weigh: Weigh,
): void {
  for (let i = 0; i < orders.length; i++) {
    const [order, t, v] = [orders[i]!, timeNs[i]!, valueNs[i]!];
    const own = 4 * group[i]! + 2 * order;
    const other = own ^ 2;
    // False if there is none yet.
    if (last[own]! < last[other]! && t > last[own]!) {
      const part = (last[other]! - last[own]!) / (t - last[own]!);
      const above = last[own + 1]! + part * (v - last[own + 1]!) - last[other + 1]!;
      leans[group[i]!]! += weigh(order === 1 ? above : -above);
    }
    last[own] = t;
    last[own + 1] = v;
  }
}

const lineVotes: Vote = (columns, orders) => {
  voteByLines(columns, orders, Math.sign);
  return 1;
};

/** Maximum weight of a single vote, in medians. */
const MOST_WEIGHT = 4;

/** In units of the median with the actual orders. */
const sizeVotes: Vote = (columns, orders) => {
  columns.usualNs ??= usualSize(columns, orders);
  const { usualNs } = columns;
  voteByLines(columns, orders, (above) => Math.max(-MOST_WEIGHT, Math.min(MOST_WEIGHT, above / usualNs)));
  return 1;
};

function usualSize(columns: Columns, orders: Uint8Array): number {
  const sizes: number[] = [];
  const scratch = { ...columns, leans: columns.leans.slice(), last: columns.last.slice() };
  voteByLines(scratch, orders, (above) => sizes.push(Math.abs(above)));
  return Math.max(1, sizes.sort((a, b) => a - b)[sizes.length >> 1] ?? 1);
}

/**
 * Compares a point with the previous one if that is of the other order. Orders in long runs have few votes, and more after shuffling: so shares are compared.
 */
const neighbourVotes: Vote = ({ group, timeNs, valueNs, leans, last }, orders) => {
  let votes = 0;
  for (let i = 0; i < orders.length; i++) {
    const order = orders[i]!;
    const own = 4 * group[i]! + 2 * order;
    const other = own ^ 2;
    if (!(last[own]! > last[other]!) && !Number.isNaN(last[other]!)) {
      const above = valueNs[i]! - last[other + 1]!;
      votes++;
      leans[group[i]!]! += Math.sign(order === 1 ? above : -above);
    }
    last[own] = timeNs[i]!;
    last[own + 1] = valueNs[i]!;
  }
  return Math.max(1, votes);
};

/** Removes the drift of the clocks: the median slope between points some distance apart, which neither two levels nor a clock step moves. */
function withoutDrift(points: readonly GroupPoint[]): GroupPoint[] {
  const apart = Math.ceil(Math.sqrt(points.length));
  const slopes: number[] = [];
  for (let i = apart; i < points.length; i++) {
    const [a, b] = [points[i - apart], points[i]];
    if (a && b && b.timeNs > a.timeNs) slopes.push((b.valueNs - a.valueNs) / (b.timeNs - a.timeNs));
  }
  const slope = slopes.sort((a, b) => a - b)[slopes.length >> 1] ?? 0;
  const zeroNs = points[0]?.timeNs ?? 0;
  return points.map((p) => ({ ...p, valueNs: p.valueNs - slope * (p.timeNs - zeroNs) }));
}

/** Returns how often shuffled orders of each group agree as well (shuffling stops early if often), and the directions that the votes show if rarely. */
function castVotes(
  points: readonly GroupPoint[],
  vote: Vote,
): { forward: Map<number, 0 | 1> | null; chance: number } {
  const numbers = new Map<number, number>();
  const members: number[][] = [];
  for (const [i, { group }] of points.entries()) {
    const number = numbers.get(group) ?? numbers.size;
    numbers.set(group, number);
    const list = members[number];
    if (list) list.push(i);
    else members.push([i]);
  }
  const columns: Columns = {
    group: Uint32Array.from(points, (p) => numbers.get(p.group) ?? 0),
    timeNs: Float64Array.from(points, (p) => p.timeNs),
    valueNs: Float64Array.from(points, (p) => p.valueNs),
    leans: new Float64Array(numbers.size),
    usualNs: null,
    last: new Float64Array(4 * numbers.size),
  };
  const agree = (orders: Uint8Array): number => {
    columns.last.fill(Number.NaN);
    columns.leans.fill(0);
    const unit = vote(columns, orders);
    return columns.leans.reduce((sum, lean) => sum + Math.abs(lean), 0) / unit;
  };
  const orders = Uint8Array.from(points, (p) => p.order);
  const found = agree(orders);
  const leans = columns.leans.slice();
  const random = new Random("orders of groups");
  let asGood = 1;
  for (let deal = 0; deal < DEALS && asGood <= AT_RANDOM * (DEALS + 1); deal++) {
    for (const list of members) shuffle(orders, list, random);
    if (agree(orders) >= found) asGood++;
  }
  const chance = asGood / (DEALS + 1);
  const decided = [...numbers].filter(([, number]) => leans[number] !== 0);
  const forward = decided.map(([group, number]): [number, 0 | 1] => [
    group,
    (leans[number] ?? 0) > 0 ? 1 : 0,
  ]);
  return { forward: chance <= CHANCE ? new Map(forward) : null, chance };
}

function shuffle(orders: Uint8Array, members: readonly number[], random: Random): void {
  for (let i = members.length - 1; i > 0; i--) {
    const [a, b] = [members[i] ?? 0, members[random.below(i + 1)] ?? 0];
    [orders[a], orders[b]] = [orders[b] ?? 0, orders[a] ?? 0];
  }
}

/**
 * Returns the orders above, if one level separates the orders of all groups and chance hardly explains it: k groups may each be either way, and n and m packets
 * separate like this in one of C(n + m, m) cases.
 */
function byLevel(points: readonly GroupPoint[]): Map<number, 0 | 1> | null {
  const sums = new Map<number, { n: [number, number]; sum: [number, number] }>();
  const zeroNs = points[0]?.valueNs ?? 0;
  for (const { group, order, valueNs } of points) {
    const so = sums.get(group) ?? { n: [0, 0], sum: [0, 0] };
    so.n[order]++;
    so.sum[order] += valueNs - zeroNs;
    sums.set(group, so);
  }
  const forward = new Map<number, 0 | 1>();
  for (const [group, { n, sum }] of sums) forward.set(group, sum[1] / n[1] > sum[0] / n[0] ? 1 : 0);
  let [above, below] = [0, 0];
  let [lowNs, highNs] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const { group, order, valueNs } of points) {
    if (forward.get(group) === order) {
      above++;
      lowNs = Math.min(lowNs, valueNs);
    } else {
      below++;
      highNs = Math.max(highNs, valueNs);
    }
  }
  const ln = forward.size * Math.LN2 - (lgamma(above + below + 1) - lgamma(above + 1) - lgamma(below + 1));
  return lowNs > highNs && ln < Math.log(CHANCE) ? forward : null;
}
