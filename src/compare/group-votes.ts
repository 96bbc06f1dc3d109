/**
 * Which order of flows goes from BEFORE to AFTER, for groups of hosts (host-sides.ts) of which few packets are known: those of both orders are held against each other, group by
 * group, and it is asked how often delays of one direction alone would have parted so.
 *
 * - By votes: a packet between two of the other order is above or below the line through them, whatever the clocks did in between. How many votes agree is compared with what they
 *   do where the orders are dealt anew among the packets of each group.
 * - By one level: all packets of one order lie above all of the other. Steady clocks alone show it, and few packets are enough.
 */
import { lgamma } from "../base/math/special.ts";
import { Random } from "../base/random.ts";

/** A packet of a group, in order of time. */
export interface GroupPoint {
  group: number;
  order: 0 | 1;
  timeNs: number;
  /** after - before. */
  valueNs: number;
}

export type GroupVerdict =
  /** By group, the order that goes from BEFORE to AFTER. */
  | { kind: "known"; forward: Map<number, 0 | 1> }
  /** Packets of both orders differ by no more than those of one: they all go the same way. */
  | { kind: "one-way" }
  /** Packets of both orders are there, and too few to know. */
  | { kind: "open" }
  /** There is one order only. */
  | { kind: "no" };

/** Each of the two tests may be wrong this often. */
const CHANCE = 0.005;
const DEALS = 999;
/** Orders dealt anew that agree as well this often: they do not matter. */
const AT_RANDOM = 0.1;
/** Points looked at. */
const MAX_POINTS = 2048;
/** Packets of the smaller order from which on two directions would show. */
const ENOUGH = 24;

export function judgeGroups(points: readonly GroupPoint[]): GroupVerdict {
  const all = mixedGroups(points);
  const stride = Math.ceil(all.length / MAX_POINTS);
  const mixed = stride > 1 ? mixedGroups(all.filter((_, i) => i % stride === 0)) : all;
  if (mixed.length === 0) return { kind: "no" };
  const { leans, chance } = castVotes(mixed);
  if (chance <= CHANCE) {
    const known = [...leans].filter(([, lean]) => lean !== 0);
    return { kind: "known", forward: new Map(known.map(([group, lean]) => [group, lean > 0 ? 1 : 0])) };
  }
  const forward = byLevel(mixed);
  if (forward) return { kind: "known", forward };
  const ones = mixed.reduce((n, p) => n + p.order, 0);
  const enough = Math.min(ones, mixed.length - ones) >= ENOUGH && chance > AT_RANDOM;
  return { kind: enough ? "one-way" : "open" };
}

/** Points of groups that have both orders, in order of time. */
function mixedGroups(points: readonly GroupPoint[]): GroupPoint[] {
  const orders = new Map<number, number>();
  for (const { group, order } of points) orders.set(group, (orders.get(group) ?? 0) | (1 << order));
  return points.filter(({ group }) => orders.get(group) === 3).sort((a, b) => a.timeNs - b.timeNs);
}

/** Votes of points whose groups are numbered from 0, counted over and over for other orders of the same points. */
class Votes {
  readonly #points: readonly GroupPoint[];
  readonly #groups: Uint32Array;
  /** By group: votes for order 1 above order 0, less those against. */
  readonly leans: Int32Array;
  /** By group and order: time and value of the last point. */
  readonly #last: Float64Array;

  constructor(points: readonly GroupPoint[], groups: Uint32Array, count: number) {
    this.#points = points;
    this.#groups = groups;
    this.leans = new Int32Array(count);
    this.#last = new Float64Array(4 * count);
  }

  /** Fills `leans`; returns the sum of their sizes. */
  count(orders: Uint8Array): number {
    const [last, leans, groups] = [this.#last, this.leans, this.#groups];
    last.fill(Number.NaN);
    leans.fill(0);
    for (const [i, { timeNs, valueNs }] of this.#points.entries()) {
      const order = orders[i]!;
      const own = 4 * groups[i]! + 2 * order;
      const other = own ^ 2;
      // False where there is none yet.
      if (last[own]! < last[other]! && timeNs > last[own]!) {
        const part = (last[other]! - last[own]!) / (timeNs - last[own]!);
        const above = last[own + 1]! + part * (valueNs - last[own + 1]!) - last[other + 1]!;
        leans[groups[i]!]! += Math.sign(order === 1 ? above : -above);
      }
      last[own] = timeNs;
      last[own + 1] = valueNs;
    }
    return leans.reduce((sum, lean) => sum + Math.abs(lean), 0);
  }
}

/** The lean of each group, and how often orders dealt anew among its points agree as well; not looked at further where that is often. */
function castVotes(points: readonly GroupPoint[]): { leans: Map<number, number>; chance: number } {
  const numbers = new Map<number, number>();
  const members: number[][] = [];
  const groups = new Uint32Array(points.length);
  for (const [i, { group }] of points.entries()) {
    const number = numbers.get(group) ?? numbers.size;
    numbers.set(group, number);
    groups[i] = number;
    const list = members[number];
    if (list) list.push(i);
    else members.push([i]);
  }
  const votes = new Votes(points, groups, numbers.size);
  const orders = Uint8Array.from(points, (p) => p.order);
  const found = votes.count(orders);
  const leans = new Map([...numbers].map(([group, number]) => [group, votes.leans[number] ?? 0]));
  const random = new Random("orders of groups");
  let asGood = 1;
  for (let deal = 0; deal < DEALS && asGood <= AT_RANDOM * (DEALS + 1); deal++) {
    for (const list of members) shuffle(orders, list, random);
    if (votes.count(orders) >= found) asGood++;
  }
  return { leans, chance: asGood / (DEALS + 1) };
}

function shuffle(orders: Uint8Array, members: readonly number[], random: Random): void {
  for (let i = members.length - 1; i > 0; i--) {
    const [a, b] = [members[i] ?? 0, members[random.below(i + 1)] ?? 0];
    [orders[a], orders[b]] = [orders[b] ?? 0, orders[a] ?? 0];
  }
}

/** Where one level parts the orders of all groups, and chance hardly would: k groups may each be either way, n and m packets lie so in one of C(n + m, m) cases. */
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
