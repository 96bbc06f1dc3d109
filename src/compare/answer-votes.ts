/**
 * Votes of flows that answer each other on their directions, per pair of hosts (ways.ts).
 *
 * A conversation is all that two hosts send to each other. Its packets of either order are compared: each packet between two of the opposite order is a vote.
 * A place is twice the number of a conversation, plus 1 for packets from the host that was seen first.
 */
import { grown } from "../base/grown.ts";
import type { ExactMatcher } from "../match/matcher.ts";
import { hostNames } from "./host-sides.ts";

/** Consecutive votes share packets: the variance of their sum is this many times that of independent votes. */
const DEPENDENT = 2.2;
/** Quantile of the normal distribution, exceeded with a probability of 0.01. */
const UNLIKELY = 2.33;
/** Votes of two hosts must lean one way by at least this share. */
const LEAN = 0.5;

export class AnswerVotes {
  readonly #matcher: ExactMatcher;
  readonly #hosts = new Map<string | number, number>();
  readonly #conversations = new Map<number, number>();
  /** Per place: time and value of the last point. */
  #last = new Float64Array(4096);
  /** Per conversation: votes, and those that put order 1 above order 0. */
  #votes = new Uint32Array(1024);
  #above = new Uint32Array(1024);

  constructor(matcher: ExactMatcher) {
    this.#matcher = matcher;
  }

  /** Number of hosts seen. */
  get hosts(): number {
    return this.#hosts.size;
  }

  /** Numbers of a flow's source and destination host. */
  hostsOf(flow: number): [number, number] {
    const { words, at } = this.#matcher.keyWords(flow);
    return hostNames(words, at).map((name) => {
      const known = this.#hosts.get(name);
      if (known !== undefined) return known;
      this.#hosts.set(name, this.#hosts.size);
      return this.#hosts.size - 1;
    }) as [number, number];
  }

  placeOf(flow: number): number {
    const [from, to] = this.hostsOf(flow);
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

  /** If the previous point of the other order is between this point and the last one of its own order, it is compared with the line through these two. */
  vote(place: number, timeNs: number, valueNs: number): void {
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

  /** Returns whether hosts that answer each other lean more than delays of one direction explain: the sum of squares is that of as many normal values. */
  agree(): boolean {
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

  /** Direction of the packets at a place; 0 if fewer than `minVotes` votes were cast or they do not agree. */
  wayOf(place: number, minVotes: number): 0 | 1 | 2 {
    const n = this.#votes[place >> 1]!;
    const lean = 2 * this.#above[place >> 1]! - n;
    if (n < minVotes || Math.abs(lean) < LEAN * n) return 0;
    return lean > 0 === ((place & 1) === 1) ? 1 : 2;
  }

  /** Decides by which of the last packets of either order has the larger difference (after - before); 0 if there is only one order. */
  wayOfLast(place: number): 0 | 1 | 2 {
    const [own, other] = [2 * place, 2 * (place ^ 1)];
    const last = this.#last;
    if (!Number.isFinite(last[own]!) || !Number.isFinite(last[other]!)) return 0;
    const above = last[own + 1]! - last[other + 1]!;
    return above === 0 ? 0 : above > 0 ? 1 : 2;
  }
}

/** What the sum of n squared normal values exceeds with a probability of 0.01 (Wilson and Hilferty). */
function unlikelySquares(n: number): number {
  const part = 2 / (9 * n);
  return n * (1 - part + UNLIKELY * Math.sqrt(part)) ** 3;
}
