/**
 * A point being observed: Source -> DelaySource -> lanes (filter, key, cutter, taps) -> RecordSink. Runs until the source ends, which the AbortSignal that the source was
 * made with does too. Then the open epochs are sealed and everything sealed is durable. Held: the taps' memory, and records on their way, which are bounded; so it runs for days.
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
  /** Where delays come from; left out: from nowhere, or from the source itself. */
  delays?: DelaySource | null;
  onRecord?: (record: EpochRecord) => void;
  onProgress?: (doneBytes: number, totalBytes: number | null, packets: number) => void;
  /** Sends the messages that epochs are cut by. */
  control?: ControlSender | null;
  /** How often time is looked at while no packet comes, ms. */
  tickMs?: number;
  /** Packets of both directions end observation whenever they show: it can begin anew by direction. Else only before the first record is out of hand. */
  separable?: boolean;
}

export interface ObserveResult {
  captures: CaptureStatistics[];
  delays: DelaySourceCounts | null;
  lanes: { segment: string; packets: number; filtered: number; twoWay: TwoWay | null }[];
  memoryBytes: number;
  records: RecordCounts;
  /** Of the records written, by estimator. */
  written: Map<string, { records: number; bytes: number }>;
  /** Why records were refused: the first few. */
  refusals: UsageError[];
  /** Epochs of the lane that has most of them. */
  epochs: number;
  /** Packets cut within the digest's cover, and those with a timestamp before their epoch. */
  short: number;
  backward: number;
}

const TICK_MS = 200;
/** Records wait until it is known that packets go one way: a live stream's no longer than this. */
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
    // What was sealed before is good: it is kept, whatever came then. But not what is refused.
    if (outbox.holding && lanes.every((lane) => !lane.directions?.verdict())) outbox.release();
    await flushQuietly(sink);
    throw error;
  } finally {
    for (const lane of lanes) lane.free();
    delays?.free();
    source.close();
  }
}

/** Lets records go when it is known that the packets of each lane go one way; TwoWayError where they do not. */
class WayCheck {
  readonly #lanes: readonly RunningLane[];
  readonly #outbox: Outbox;
  readonly #live: boolean;
  readonly #separable: boolean;
  #from = performance.now();
  /** Nothing is left to look for. */
  done = false;

  constructor(lanes: readonly RunningLane[], outbox: Outbox, live: boolean, separable = false) {
    this.#lanes = lanes;
    this.#outbox = outbox;
    this.#live = live;
    this.#separable = separable;
  }

  look(packets: number, ended: boolean): void {
    const known = this.#lanes.every((lane) => lane.directions?.done ?? true);
    // Of what may have to be observed by other lanes, nothing is kept before it shows.
    const shown = packets > 0 || !this.#separable;
    const long = this.#live && shown && performance.now() - this.#from > CHECK_MS;
    if (!known && !long && !ended && !this.#outbox.isFull) return;
    for (const { segment, directions } of this.#lanes) {
      const found = directions?.verdict() ?? null;
      if (found && directions) throw twoWayError(segment, found, directions);
    }
    // A link that is quiet, or silent, may begin to go both ways later.
    this.done = known || (packets > 0 && !this.#separable);
    this.#from = performance.now();
    if (this.#outbox.holding) this.#outbox.release();
  }
}

/** For when something else has failed already, which is what is reported. */
export async function flushQuietly(sink: RecordSink): Promise<void> {
  try {
    await sink.flush();
  } catch {}
}

/** CPU time counts since it was last asked for. */
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

/** Reduced by hand: Math.max knows no bigint. Undefined where there was no packet. */
function lastOf(captures: readonly CaptureStatistics[]): bigint | undefined {
  let last: bigint | undefined;
  for (const { lastNs } of captures)
    if (lastNs !== null && (last === undefined || lastNs > last)) last = lastNs;
  return last;
}
