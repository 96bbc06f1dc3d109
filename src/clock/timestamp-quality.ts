/**
 * Quality of the timestamps of one capture, from their order in the file alone: resolution, backward steps, equal timestamps of neighbours, and the largest
 * gaps. Memory is constant at any packet rate.
 *
 * Limits: a backward step is only seen if no packet gap hides it; a gap may be silence or a clock stepped forward (the verdict compares both captures); batches
 * timestamped one after the other by software, at intervals longer than `minWireGapNs`, look like traffic.
 */
import { NeighboursBytes, NeighboursLayout } from "../base/kernel-layout.ts";
import type { Kernels } from "../base/kernels.ts";
import { resolutionNs } from "./resolution.ts";

export interface TimestampEvent {
  /** Timestamp before the event, in the time base of the timestamps fed. */
  atNs: number;
  sizeNs: number;
}

export interface TimestampReport {
  packets: number;
  /** Null: too few timestamps. 1: 1 ns or finer. */
  resolutionNs: number | null;
  backward: { count: number; largestNs: number; largest: TimestampEvent[] };
  batched: {
    /** Share of packets whose timestamp equals a neighbour's. */
    equalShare: number;
    /** Share of packets closer to a neighbour than frames can follow each other on a wire, equal timestamps included. */
    share: number;
    longestRun: number;
    /** A run of equal timestamps has more frames than a wire carries in one step of the timestamps: they were timestamped in batches. */
    impossible: boolean;
  };
  /** The largest forward gaps, largest first. */
  gaps: TimestampEvent[];
}

/** State of the scan over neighbouring timestamps (kernels/decode/neighbours.ts, field by field). */
export type TimestampNeighbours = Record<keyof typeof NeighboursLayout, number>;

/** Counts timestamps [from, to) in `near`; returns the first that is before the previous one, or more than `near.large` after it. */
export type TimestampScan = (near: TimestampNeighbours, from: number, to: number) => number;

const FIELDS = Object.keys(NeighboursLayout) as (keyof TimestampNeighbours)[];

/** 64-byte frames with preamble and gap follow each other every 6.72 ns at 100 Gbit/s. */
const DEFAULT_WIRE_GAP_NS = 6;
const KEPT_EVENTS = 8;
const KEPT_TIMESTAMPS = 4096;

export class TimestampQuality {
  readonly #minWireGapNs: number;
  /** The origin within its second: resolution is judged on absolute timestamps. */
  readonly #phaseNs: number;
  readonly #timestamps: number[] = [];
  #stride = 1;
  /** Index of the next timestamp to keep. */
  #nextKept = 0;
  #packets = 0;
  readonly #near: TimestampNeighbours;
  #backward = 0;
  #backwardEvents: TimestampEvent[] = [];
  /** The largest backward step since the last takeBackNs. */
  #recentBack = 0;
  #gaps: TimestampEvent[] = [];

  /** `originNs`: the absolute time of timestamp 0. `minWireGapNs`: minimum spacing of frames on this link. */
  constructor(options: { originNs?: bigint; minWireGapNs?: number } = {}) {
    this.#minWireGapNs = options.minWireGapNs ?? DEFAULT_WIRE_GAP_NS;
    this.#phaseNs = Number((options.originNs ?? 0n) % 1_000_000_000n);
    this.#near = {
      previous: 0,
      close: this.#minWireGapNs,
      large: Number.POSITIVE_INFINITY,
      equals: 0,
      closes: 0,
      run: 1,
      longest: 1,
      wasEqual: 0,
      wasClose: 0,
    };
  }

  /** Adds the first n timestamps of the next packets of the file, in file order. `scan` scans the same timestamps if the caller has a faster way. */
  observe(timeNs: Float64Array, n: number, scan?: TimestampScan): void {
    let i = 0;
    while (i < n) {
      i = this.#skip(timeNs, i, n, scan);
      if (i === n) return;
      const time = timeNs[i++]!;
      if (!Number.isFinite(time)) continue;
      if (this.#packets > 0) this.#follow(time);
      if (this.#packets === this.#nextKept) this.#keep(time);
      this.#packets++;
      this.#near.previous = time;
    }
  }

  /** Skips timestamps that only need to be counted, or kept: neither after one of the largest gaps, nor before the previous timestamp. */
  #skip(timeNs: Float64Array, from: number, n: number, scan?: TimestampScan): number {
    if (this.#packets === 0 || this.#gaps.length < KEPT_EVENTS) return from;
    const to = (scan ?? scanOf(timeNs))(this.#near, from, n);
    for (let i = from; i < to; ) {
      const step = Math.min(this.#nextKept - this.#packets, to - i);
      i += step;
      this.#packets += step;
      if (i === to) break;
      this.#keep(timeNs[i]!);
      i++;
      this.#packets++;
    }
    return to;
  }

  /** Returns the largest backward step since the last call; 0: none. */
  takeBackNs(): number {
    const back = this.#recentBack;
    this.#recentBack = 0;
    return back;
  }

  report(): TimestampReport {
    const packets = this.#packets;
    const resolution = resolutionNs(this.#timestamps);
    return {
      packets,
      resolutionNs: resolution,
      backward: {
        count: this.#backward,
        largestNs: this.#backwardEvents[0]?.sizeNs ?? 0,
        largest: this.#backwardEvents.map((e) => ({ ...e })),
      },
      batched: {
        equalShare: packets === 0 ? 0 : this.#near.equals / packets,
        share: packets === 0 ? 0 : this.#near.closes / packets,
        longestRun: packets === 0 ? 0 : this.#near.longest,
        impossible: resolution !== null && (this.#near.longest - 1) * this.#minWireGapNs > resolution,
      },
      gaps: this.#gaps.map((e) => ({ ...e })),
    };
  }

  #follow(time: number): void {
    const near = this.#near;
    const gap = time - near.previous;
    countNeighbour(near, gap);
    if (gap < 0) {
      this.#backward++;
      insertLargest(this.#backwardEvents, { atNs: near.previous, sizeNs: -gap });
      if (-gap > this.#recentBack) this.#recentBack = -gap;
    } else if (this.#gaps.length < KEPT_EVENTS || gap > near.large) {
      insertLargest(this.#gaps, { atNs: near.previous, sizeNs: gap });
      near.large = this.#gaps.at(-1)?.sizeNs ?? 0;
    }
  }

  /** Keeps every stride-th timestamp; when full, every other one is dropped and the stride doubles. */
  #keep(time: number): void {
    if (this.#timestamps.length === KEPT_TIMESTAMPS) {
      for (let i = 0; i < KEPT_TIMESTAMPS / 2; i++) this.#timestamps[i] = this.#timestamps[2 * i]!;
      this.#timestamps.length = KEPT_TIMESTAMPS / 2;
      this.#stride *= 2;
    }
    this.#timestamps.push(time + this.#phaseNs);
    this.#nextKept = (Math.floor(this.#packets / this.#stride) + 1) * this.#stride;
  }
}

function countNeighbour(near: TimestampNeighbours, gap: number): void {
  const equal = gap === 0;
  const close = gap >= 0 && gap < near.close;
  // A packet counts once, whether the previous or the next packet is too close.
  if (equal) near.equals += 2 - near.wasEqual;
  if (close) near.closes += 2 - near.wasClose;
  near.wasEqual = equal ? 1 : 0;
  near.wasClose = close ? 1 : 0;
  near.run = equal ? near.run + 1 : 1;
  near.longest = Math.max(near.longest, near.run);
}

function scanOf(timeNs: Float64Array): TimestampScan {
  return (near, from, to) => {
    let i = from;
    for (; i < to; i++) {
      const time = timeNs[i]!;
      const gap = time - near.previous;
      if (!(gap >= 0 && gap <= near.large)) break;
      countNeighbour(near, gap);
      near.previous = time;
    }
    return i;
  };
}

/** Scans a column in kernel memory. */
export class KernelScan {
  readonly #kernels: Kernels;
  readonly #state: number;

  constructor(kernels: Kernels) {
    this.#kernels = kernels;
    this.#state = kernels.alloc(NeighboursBytes);
  }

  /** `times`: address of the column. */
  of(times: number): TimestampScan {
    const kernels = this.#kernels;
    const state = this.#state;
    return (near, from, to) => {
      for (const field of FIELDS) kernels.writeF64(state + NeighboursLayout[field], near[field]);
      const end = kernels.call.neighboursTake(state, times, from, to) >>> 0;
      for (const field of FIELDS) near[field] = kernels.readF64(state + NeighboursLayout[field]);
      return end;
    };
  }

  free(): void {
    this.#kernels.free(this.#state);
  }
}

function insertLargest(events: TimestampEvent[], event: TimestampEvent): void {
  const smaller = events.findIndex((kept) => kept.sizeNs < event.sizeNs);
  const at = smaller < 0 ? events.length : smaller;
  if (at >= KEPT_EVENTS) return;
  events.splice(at, 0, event);
  if (events.length > KEPT_EVENTS) events.pop();
}
