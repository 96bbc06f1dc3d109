/**
 * Observes a point: Source -> DelaySource -> lanes (filter, key, cutter, taps) -> RecordSink. Runs until the source ends, on its own or by its
 * AbortSignal. Then the open epochs are sealed and everything sealed is durable. Memory is bounded (the taps, and records in flight), so it can run
 * for days.
 */

import type { UsageError } from "../base/errors.ts";
import type { CaptureStatistics } from "../capture/reader.ts";
import type { Source } from "../capture/source/source.ts";
import type { DelaySource, DelaySourceCounts } from "../delays/delay-source.ts";
import { delaysFromSource } from "../delays/delay-source.ts";
import type { OwnedBatch } from "../delays/reference-delays.ts";
import type { EpochRecord } from "../epoch/record.ts";
import type { TapState } from "../epoch/tap-state.ts";
import { BatchesAndTicks } from "./batches-and-ticks.ts";
import { checkEnds, checkObservation } from "./check-observation.ts";
import type { ControlSender } from "./control-sender.ts";
import { type TwoWay, twoWayError } from "./directions.ts";
import { type Lane, type LaneOptions, RunningLane } from "./lane.ts";
import type { ObserverOptions } from "./observer.ts";
import { Outbox, type RecordCounts } from "./outbox.ts";
import type { RecordSink } from "./record-sink.ts";

export interface ObserveOptions extends Omit<LaneOptions, "onRecord" | "delays"> {
  source: Source;
  sink: RecordSink;
  lanes: readonly Lane[];
  /** Where delays come from; default: the source itself, if it knows them. */
  delays?: DelaySource | null;
  onRecord?: (record: EpochRecord) => void;
  onProgress?: (doneBytes: number, totalBytes: number | null, packets: number) => void;
  /** Sends the control messages that cut epochs. */
  control?: ControlSender | null;
  /** Interval of ticks while no packet comes, ms. */
  tickMs?: number;
  /**
   * Two-way traffic ends the observation whenever it shows, because it can start again per direction. Otherwise only before the first record has
   * been released.
   */
  separable?: boolean;
}

export interface ObserveResult {
  captures: CaptureStatistics[];
  delays: DelaySourceCounts | null;
  lanes: { segment: string; packets: number; filtered: number; twoWay: TwoWay | null }[];
  memoryBytes: number;
  records: RecordCounts;
  /** Records written, by estimator. */
  written: Map<string, { records: number; bytes: number }>;
  /** Why records were refused; the first few reasons. */
  refusals: UsageError[];
  /** Number of epochs of the lane with the most. */
  epochs: number;
  /** Packets captured with fewer bytes than the digest covers; packets with a timestamp before their epoch. */
  short: number;
  backward: number;
}

const TICK_MS = 200;
/** Records are held back until traffic is known to be one-way; of a live stream no longer than this. */
const CHECK_MS = 1000;

export async function observe(options: ObserveOptions): Promise<ObserveResult> {
  checkEnds(options);
  const { source, sink } = options;
  const delays = options.delays ?? (source.knowsDelays ? delaysFromSource() : null);
  const outbox = new Outbox(sink, options.onRecord);
  const lanes: RunningLane[] = [];
  let packets = 0;
  let batches = 0;
  const totals = () => source.totals();
  const feed = (owned: OwnedBatch) => {
    for (const [i, lane] of lanes.entries()) lane.feed(owned, totals, i === lanes.length - 1);
  };
  const tick = (nowNs: bigint) => {
    for (const owned of delays?.tick(nowNs) ?? []) feed(owned);
    const beganNs = source.beganNs?.() ?? null;
    if (beganNs !== null) for (const lane of lanes) lane.begin(beganNs, totals);
    const heldNs = delays?.waitingSinceNs() ?? null;
    for (const lane of lanes) lane.tick(heldNs !== null && heldNs < nowNs ? heldNs : nowNs);
  };
  try {
    checkObservation(options);
    for (const lane of options.lanes) {
      const onRecord: ObserverOptions["onRecord"] = (record, encode) => outbox.put(record, encode);
      const state = source.clock ? tapState(source, outbox) : undefined;
      lanes.push(new RunningLane(lane, { ...options, delays: delays !== null, onRecord, state }));
    }
    const ways = new WayCheck(lanes, outbox, source.live, options.separable);
    options.control?.begin(lanes.map((lane) => lane.segment));
    const stream = new BatchesAndTicks(source, options.tickMs ?? TICK_MS);
    try {
      for (;;) {
        const got = stream.ready() ?? (await stream.next());
        if (got === null) break;
        if (typeof got === "bigint") tick(got);
        else {
          packets += got.batch.count;
          if (delays) for await (const owned of delays.push(got.batch, got.originNs)) feed(owned);
          else feed(got);
          if ((++batches & 63) === 0) {
            const { doneBytes, totalBytes } = source.progress();
            options.onProgress?.(doneBytes, totalBytes, packets);
          }
        }
        if (!ways.done) ways.look(packets, false);
        if (outbox.needsRoom) await outbox.room();
      }
    } finally {
      stream.end();
    }
    for (const owned of delays?.finish() ?? []) feed(owned);
    if (outbox.holding) ways.look(packets, true);
    const captures = source.statistics();
    for (const lane of lanes) lane.finish(lastOf(captures));
    await outbox.empty();
    return { captures, ...resultOf(lanes, outbox), delays: options.delays ? options.delays.counts() : null };
  } catch (error) {
    // Records sealed before the failure are valid and are kept, unless the traffic is refused as two-way.
    if (outbox.holding && lanes.every((lane) => !lane.directions?.verdict())) outbox.release();
    await flushQuietly(sink);
    throw error;
  } finally {
    for (const lane of lanes) lane.free();
    delays?.free();
    source.close();
  }
}

/** Releases records once the packets of each lane are known to go one way. Throws TwoWayError otherwise. */
class WayCheck {
  readonly #lanes: readonly RunningLane[];
  readonly #outbox: Outbox;
  readonly #live: boolean;
  readonly #separable: boolean;
  #from = performance.now();
  /** No further check is needed. */
  done = false;

  constructor(lanes: readonly RunningLane[], outbox: Outbox, live: boolean, separable = false) {
    this.#lanes = lanes;
    this.#outbox = outbox;
    this.#live = live;
    this.#separable = separable;
  }

  look(packets: number, ended: boolean): void {
    const known = this.#lanes.every((lane) => lane.directions?.done ?? true);
    // If the lanes may still be replaced, nothing is released before packets have come.
    const shown = packets > 0 || !this.#separable;
    const long = this.#live && shown && performance.now() - this.#from > CHECK_MS;
    if (!known && !long && !ended && !this.#outbox.isFull) return;
    for (const { segment, directions } of this.#lanes) {
      const found = directions?.verdict() ?? null;
      if (found && directions) throw twoWayError(segment, found, directions);
    }
    // A quiet or silent link may become two-way later.
    this.done = known || (packets > 0 && !this.#separable);
    this.#from = performance.now();
    if (this.#outbox.holding) this.#outbox.release();
  }
}

/** For use after another failure, which is the one to report. */
export async function flushQuietly(sink: RecordSink): Promise<void> {
  try {
    await sink.flush();
  } catch {}
}

/** CPU time is counted since the previous call. */
export function tapState(source: Pick<Source, "clock">, outbox: Outbox): () => TapState {
  let before = process.cpuUsage();
  return () => {
    const clock = source.clock?.() ?? null;
    const { user, system } = process.cpuUsage(before);
    before = process.cpuUsage();
    const effort = { cpuNs: 1000 * (user + system), queue: outbox.waiting };
    return { ...(clock ? { clock } : {}), effort };
  };
}

function resultOf(lanes: readonly RunningLane[], outbox: Outbox): Omit<ObserveResult, "captures" | "delays"> {
  const sum = (pick: (lane: RunningLane) => number) => lanes.reduce((n, lane) => n + pick(lane), 0);
  return {
    lanes: lanes.map(({ segment, packets, filtered, directions }) => ({
      ...{ segment, packets, filtered, twoWay: directions?.verdict() ?? null },
    })),
    memoryBytes: sum((lane) => lane.memoryBytes),
    records: outbox.counts,
    written: outbox.written,
    refusals: outbox.refusals,
    epochs: Math.max(...lanes.map((lane) => lane.sums.epochs)),
    short: sum((lane) => lane.sums.short),
    backward: sum((lane) => lane.sums.backward),
  };
}

/** A loop, because Math.max does not take bigint. Undefined if there was no packet. */
function lastOf(captures: readonly CaptureStatistics[]): bigint | undefined {
  let last: bigint | undefined;
  for (const { lastNs } of captures)
    if (lastNs !== null && (last === undefined || lastNs > last)) last = lastNs;
  return last;
}
