/**
 * Watches two points of one box live. Each interval has the exact delay, loss and jitter of the segment and of its flows. It is returned one window later,
 * because a packet may still arrive until then. A packet belongs to the interval in which it was sent; its loss is what was sent and not found.
 *
 * Memory: the intervals of a window, with up to MAX_FLOWS flows each (others are counted together), and the waiting packets (../delays/live-sender.ts).
 */
import { setTimeout } from "node:timers/promises";
import { checkNs, checkSeed } from "../base/checks.ts";
import { invalidValue } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import { LogHistogram } from "../base/math/log-histogram.ts";
import { earlier, later } from "../base/time.ts";
import { META_HIGH, type PacketBatch } from "../capture/batch.ts";
import { compileFilter } from "../capture/filter/filter.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { formatFlowKey } from "../capture/flow/flow-text.ts";
import type { Source } from "../capture/source/source.ts";
import { matchLive } from "../delays/live-sender.ts";

export interface WatchOptions {
  kernels: Kernels;
  sender: Source;
  receiver: Source;
  key: FlowKeySpec;
  seed: bigint;
  filter?: string | undefined;
  intervalNs?: number;
  /** Longest delay searched for. */
  windowNs?: number;
  /** How often completed intervals are looked for, ms. */
  lookMs?: number;
  /**
   * The signal that ends the sources. Captures are not read at the same pace, so packets of one not read by then are not lost: such intervals are
   * left out.
   */
  signal?: AbortSignal | undefined;
}

export interface WatchedLatency {
  meanNs: number;
  minNs: number;
  maxNs: number;
  p50Ns: number;
  p90Ns: number;
  p99Ns: number;
}

export interface WatchedFlow {
  flow: string;
  sent: number;
  lost: number;
  bytes: number;
  meanNs: number | null;
  maxNs: number | null;
  /** Mean difference between the delays of consecutive packets. */
  jitterNs: number | null;
}

export interface WatchedInterval {
  startNs: bigint;
  lengthNs: number;
  /** False if watching began or ended within the interval: packets in flight then look lost, or unseen at the sender. */
  complete: boolean;
  sent: number;
  lost: number;
  bytes: number;
  /** Packets seen at the receiver but not at the sender, counted in the interval of their arrival. */
  appeared: number;
  /** Null if no packet arrived. */
  latency: WatchedLatency | null;
  jitterNs: number | null;
  flows: WatchedFlow[];
  /** Packets of flows beyond MAX_FLOWS. */
  otherPackets: number;
  /** Packets dropped by the captures since their start. */
  dropped: [sender: number | null, receiver: number | null];
}

const WATCH_INTERVAL_NS = 1e9;
export const WATCH_WINDOW_NS = 1e9;
const MAX_FLOWS = 50_000;
const LOOK_MS = 50;
const KEY_WORDS = 10;

/** Yields completed intervals in order, including silent ones. Ends with both sources. */
export async function* watchPair(options: WatchOptions): AsyncGenerator<WatchedInterval> {
  const { kernels, sender, receiver, windowNs = WATCH_WINDOW_NS } = options;
  checkSeed(options.seed);
  if (options.intervalNs !== undefined) checkNs("interval", options.intervalNs);
  if (!(options.key instanceof FlowKeySpec))
    throw invalidValue("key", options.key, "FlowKeySpec.parse('5tuple')");
  const pair = matchLive(kernels, { sender, receiver, windowNs });
  const watch = new Watch(options);
  const filter = options.filter ? compileFilter(options.filter, kernels) : null;
  const mask = options.key.store(kernels);
  const take = (side: 0 | 1, batch: PacketBatch, originNs: bigint) => {
    const latestNs = originNs + BigInt(Math.floor(batch.timeNs[batch.count - 1] ?? 0));
    if (filter) {
      filter.select(batch);
      batch.compact();
    }
    kernels.call.keyFlows(batch.address, mask, options.seed);
    watch.take(side, batch, originNs, latestNs);
  };
  const readSender = async () => {
    for (let got = await pair.sender.next(); got; got = await pair.sender.next())
      take(0, got.batch, got.originNs);
    watch.end(0);
  };
  const readReceiver = async () => {
    for (let got = await receiver.next(); got; got = await receiver.next())
      for await (const owned of pair.delays.push(got.batch, got.originNs))
        take(1, owned.batch, owned.originNs);
    watch.end(1);
  };
  let failure: { error: unknown } | null = null;
  const done = new AbortController();
  const reading = Promise.all([readSender(), readReceiver()])
    .catch((error: unknown) => {
      failure = { error };
    })
    .finally(() => done.abort());
  try {
    while (!done.signal.aborted) {
      // Rejects when everything has been read.
      await setTimeout(options.lookMs ?? LOOK_MS, undefined, { signal: done.signal }).catch(() => {});
      yield* watch.over();
    }
    const failed = failure as { error: unknown } | null;
    if (failed) throw failed.error;
    yield* watch.over();
  } finally {
    for (const source of [sender, receiver]) source.close();
    await reading;
    pair.delays.free();
    filter?.free();
    kernels.free(mask);
  }
}

interface FlowSums {
  words: Uint32Array;
  sent: number;
  matched: number;
  bytes: number;
  sum: number;
  max: number;
  last: number;
  jitter: number;
}

interface Sums {
  sent: number;
  matched: number;
  bytes: number;
  appeared: number;
  sum: number;
  min: number;
  max: number;
  histogram: LogHistogram;
  flows: Map<number, FlowSums>;
  others: number;
}

class Watch {
  readonly #options: WatchOptions;
  readonly #intervalNs: number;
  /** By interval number since 1970. */
  readonly #open = new Map<number, Sums>();
  readonly #passedNs: [bigint | null, bigint | null] = [null, null];
  readonly #ended: [boolean, boolean] = [false, false];
  /** The first interval not returned yet. */
  #next: number | null = null;
  #first: number | null = null;
  #last = Number.NEGATIVE_INFINITY;

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#intervalNs = options.intervalNs ?? WATCH_INTERVAL_NS;
  }

  take(side: 0 | 1, batch: PacketBatch, originNs: bigint, latestNs: bigint): void {
    this.#passedNs[side] = later(this.#passedNs[side] ?? latestNs, latestNs);
    const lengthNs = this.#intervalNs;
    const first = Number(originNs / BigInt(lengthNs));
    const shift = Number(originNs % BigInt(lengthNs));
    // Once for all rows, because each call makes new views of the kernels' memory.
    const rows = columnsOf(batch);
    const { timeNs, delayNs, wireLength, count } = batch;
    const began = this.#beganAfter(originNs);
    for (let i = 0; i < count; i++) {
      const delay = side === 0 ? 0 : delayNs[i]!;
      const sentNs = Number.isNaN(delay) ? timeNs[i]! : timeNs[i]! - delay;
      if (sentNs < began) continue;
      const at = first + Math.floor((sentNs + shift) / lengthNs);
      const sums = this.#at(at);
      // Already returned: the packet came later than the window.
      if (!sums) continue;
      if (side === 0) this.#sent(sums, rows, i, wireLength[i]!);
      else if (Number.isNaN(delay)) sums.appeared++;
      else this.#arrived(sums, rows, i, delay);
    }
  }

  end(side: 0 | 1): void {
    this.#ended[side] = true;
  }

  /** Interfaces are opened one after the other: packets sent before both were open do not count as lost. */
  #beganAfter(originNs: bigint): number {
    const { sender, receiver } = this.#options;
    const [a, b] = [sender.beganNs?.() ?? null, receiver.beganNs?.() ?? null];
    return a === null || b === null ? Number.NEGATIVE_INFINITY : Number(later(a, b) - originNs);
  }

  /** Yields the intervals whose packets have all arrived or are lost. */
  *over(): Generator<WatchedInterval> {
    const { sender, receiver, windowNs = WATCH_WINDOW_NS } = this.#options;
    const passed = [sender, receiver].map((source, side) => {
      const [clockNs, rowsNs] = [source.nowNs(), this.#passedNs[side] ?? null];
      return clockNs === null || rowsNs === null ? (clockNs ?? rowsNs) : later(clockNs, rowsNs);
    });
    const [a = null, b = null] = passed;
    const cut = this.#options.signal?.aborted === true && !(sender.live && receiver.live);
    const all = this.#ended[0] && this.#ended[1] && !cut;
    if (this.#next === null || (!all && (a === null || b === null))) return;
    const untilNs = all || a === null || b === null ? null : earlier(a, b) - BigInt(windowNs);
    const end = untilNs === null ? this.#last + 1 : Number(untilNs / BigInt(this.#intervalNs));
    for (; this.#next < end; this.#next++) {
      const sums = this.#open.get(this.#next) ?? emptySums();
      this.#open.delete(this.#next);
      yield this.#result(this.#next, sums, untilNs !== null && this.#next !== this.#first);
    }
  }

  #at(index: number): Sums | null {
    this.#next ??= index;
    this.#first ??= index;
    if (index < this.#next) return null;
    this.#last = Math.max(this.#last, index);
    let sums = this.#open.get(index);
    if (!sums) {
      sums = emptySums();
      this.#open.set(index, sums);
    }
    return sums;
  }

  #sent(sums: Sums, rows: Columns, i: number, bytes: number): void {
    sums.sent++;
    sums.bytes += bytes;
    const flow = flowOf(sums, rows, i);
    if (!flow) {
      sums.others++;
      return;
    }
    flow.sent++;
    flow.bytes += bytes;
  }

  #arrived(sums: Sums, rows: Columns, i: number, delay: number): void {
    sums.matched++;
    sums.sum += delay;
    if (delay < sums.min) sums.min = delay;
    if (delay > sums.max) sums.max = delay;
    sums.histogram.add(delay);
    const flow = flowOf(sums, rows, i);
    if (!flow) return;
    if (flow.matched > 0) flow.jitter += Math.abs(delay - flow.last);
    flow.last = delay;
    flow.matched++;
    flow.sum += delay;
    if (delay > flow.max) flow.max = delay;
  }

  #result(index: number, sums: Sums, complete: boolean): WatchedInterval {
    const { sender, receiver, key } = this.#options;
    const flows = [...sums.flows.values()];
    const steps = flows.reduce((n, f) => n + Math.max(0, f.matched - 1), 0);
    const jitter = flows.reduce((n, f) => n + f.jitter, 0);
    return {
      startNs: BigInt(index) * BigInt(this.#intervalNs),
      lengthNs: this.#intervalNs,
      complete,
      sent: sums.sent,
      lost: Math.max(0, sums.sent - sums.matched),
      bytes: sums.bytes,
      appeared: sums.appeared,
      latency: latencyOf(sums),
      jitterNs: steps > 0 ? jitter / steps : null,
      flows: flows.map((f) => ({
        flow: formatFlowKey(key.describe(f.words)),
        sent: f.sent,
        lost: Math.max(0, f.sent - f.matched),
        bytes: f.bytes,
        meanNs: f.matched > 0 ? f.sum / f.matched : null,
        maxNs: f.matched > 0 ? f.max : null,
        jitterNs: f.matched > 1 ? f.jitter / (f.matched - 1) : null,
      })),
      otherPackets: sums.others,
      dropped: [sender.totals().dropped, receiver.totals().dropped],
    };
  }
}

function emptySums(): Sums {
  return {
    ...{ sent: 0, matched: 0, bytes: 0, appeared: 0, sum: 0, others: 0 },
    min: Number.POSITIVE_INFINITY,
    max: Number.NEGATIVE_INFINITY,
    histogram: new LogHistogram(),
    flows: new Map(),
  };
}

function latencyOf({ matched, sum, min, max, histogram }: Sums): WatchedLatency | null {
  if (matched === 0) return null;
  const at = (q: number) => histogram.quantile(q, min, max) ?? sum / matched;
  return {
    ...{ meanNs: sum / matched, minNs: min, maxNs: max },
    ...{ p50Ns: at(0.5), p90Ns: at(0.9), p99Ns: at(0.99) },
  };
}

interface Columns {
  hash: Uint32Array;
  /** meta and the four address halves: a key as FlowKeySpec.describe reads it. */
  key: [Uint32Array, Uint32Array, Uint32Array, Uint32Array, Uint32Array];
}

function columnsOf({ flowHash, meta, addrA, addrB, addrC, addrD }: PacketBatch): Columns {
  return { hash: flowHash, key: [meta, addrA, addrB, addrC, addrD] };
}

/**
 * Returns a row's flow by its key; null if there are too many. The hash only gives the first place to look: flows with equal hashes stay separate.
 */
function flowOf({ flows }: Sums, rows: Columns, i: number): FlowSums | null {
  let at = (rows.hash[2 * i + 1]! & 0xf_ffff) * 0x1_0000_0000 + rows.hash[2 * i]!;
  for (let flow = flows.get(at); flow; flow = flows.get(++at)) if (isKey(flow.words, rows, i)) return flow;
  if (flows.size >= MAX_FLOWS) return null;
  const words = new Uint32Array(KEY_WORDS);
  for (const [k, column] of rows.key.entries())
    words.set([column[2 * i] ?? 0, column[2 * i + 1] ?? 0], 2 * k);
  const sums = { sent: 0, matched: 0, bytes: 0, sum: 0, max: Number.NEGATIVE_INFINITY, last: 0, jitter: 0 };
  const made: FlowSums = { words, ...sums };
  flows.set(at, made);
  return made;
}

/** Compares keys. For IPv4, the first address column holds both addresses and the others are unused. */
function isKey(words: Uint32Array, { key: [meta, a, b, c, d] }: Columns, i: number): boolean {
  const is = (column: Uint32Array, at: number) =>
    words[at] === column[2 * i] && words[at + 1] === column[2 * i + 1];
  if (!is(meta, 0) || !is(a, 2)) return false;
  return (words[1]! & META_HIGH.ipv6) === 0 || (is(b, 4) && is(c, 6) && is(d, 8));
}
