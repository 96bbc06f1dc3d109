/**
 * Turns records into estimates as they arrive. A collector watches the given segments: it pairs the records of their two ends by identity (identity.ts), from
 * whatever source, and estimates each pair once. A record that does not become an estimate is an event with its reason: no partner, too late, refused, or its
 * time is already covered.
 *
 * It has no clock of its own: `offer` takes a record, `advance` moves the watermark and returns what is ready, `finish` returns the rest. collect.ts drives it
 * from any stream of records; a query (query/segment) drives it from an archive. State: heads of the waiting records, bounded by the watermark and by
 * `maxWaiting` per segment and estimator; payloads are read when their pair is estimated.
 */
import { checkCount, checkList, isText } from "../base/checks.ts";
import { invalidValue } from "../base/errors.ts";
import { identityText } from "../epoch/identity.ts";
import { sealed } from "../epoch/merge.ts";
import type { EpochRecord } from "../epoch/record.ts";
import type { Estimator, KnownFlows } from "../estimators/estimator.ts";
import { findAmong, parseParameters } from "../estimators/parameters.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import { type ListedArrivals, withArrivals } from "./arrivals.ts";
import {
  checkQuestionParameters,
  type EpochEstimate,
  estimatePair,
  isRefusal,
  type ReadPair,
  type Refusal,
  readPair,
} from "./estimate.ts";
import { FlowLists, joinFlows } from "./flow-lists.ts";
import { interleave } from "./interleave.ts";
import type { RecordPair, Unpaired } from "./pair.ts";
import { PairQueue } from "./pair-queue.ts";
import type { RecordHandle } from "./record-handle.ts";

/** Two points, and the label that their records carry. */
export interface CollectedSegment {
  readonly from: string;
  readonly to: string;
  /** Name of the segment or class that the points observed; "" for all packets. */
  readonly label: string;
}

export interface CollectorOptions {
  segments: readonly CollectedSegment[];
  table?: readonly Estimator[];
  /** Estimators whose records are estimated; undefined: all of the table. Others are still used for lists of flows. */
  estimators?: readonly string[] | undefined;
  /** Confidence of the intervals (default 0.95). */
  confidence?: number | undefined;
  /** Query-time parameters by estimator: `decoder=bp`. */
  parameters?: Readonly<Record<string, string>> | undefined;
  /** Flows of an epoch if no record lists them. */
  flows?: ((record: EpochRecord) => KnownFlows | null) | undefined;
  /** Returns KnownFlows.asked for an epoch's list of flows with this key; null: all. */
  asked?: ((flows: KnownFlows, key: string) => Uint8Array | null) | undefined;
  /** Maximum number of waiting records, per segment and estimator (default 8192). */
  maxWaiting?: number;
}

interface Source {
  readonly segment: CollectedSegment;
  readonly estimator: string;
}

export type Collected =
  | (Source & {
      kind: "estimate";
      estimate: EpochEstimate;
      /** The flows that its per-flow answers are about. */
      flows: KnownFlows | null;
      /** The flows come from the epoch's own list. */
      listed: boolean;
      /** Flows that only the receiver lists in this epoch: their packets were in flight at the previous cut. */
      receiverOnly: KnownFlows | null;
    })
  | (Source & { kind: "refused"; refusal: Refusal })
  /** No partner came. `flows`: the epoch's flows as listed by that end. */
  | (Source & { kind: "unpaired"; unpaired: Unpaired<RecordHandle>; flows: () => KnownFlows | null })
  /** Its time is already covered by records of another cut, or of other settings. */
  | (Source & { kind: "overlapping"; pair: RecordPair<RecordHandle> });

/**
 * Outcome of offering a record: it waits, is a repetition, came too late, lists flows of an epoch that was estimated without it, or is of nothing that is
 * watched.
 */
export type Offered = "taken" | "repeated" | "late" | "late-list" | "not-watched";

const DEFAULT_WAITING = 8192;
export const DEFAULT_CONFIDENCE = 0.95;

interface Lane extends Source {
  readonly implementation: Estimator;
  readonly queue: PairQueue;
  /** Taken from the queue, but not estimated yet. */
  readonly taken: Set<RecordHandle>;
  readonly lists: FlowLists;
}

export class Collector {
  readonly #options: CollectorOptions;
  readonly #table: readonly Estimator[];
  readonly #lanes = new Map<string, Lane>();
  readonly #lists: Map<CollectedSegment, FlowLists>;

  constructor(options: CollectorOptions) {
    checkCollector(options);
    this.#options = options;
    this.#table = options.table ?? ESTIMATORS;
    for (const [name, asked] of Object.entries(options.parameters ?? {})) {
      const estimator = this.#table.find((e) => e.name === name);
      if (estimator) checkQuestionParameters(estimator, asked);
    }
    this.#lists = new Map(options.segments.map((segment) => [segment, new FlowLists(this.#table)]));
  }

  /** Number of records waiting for a partner. */
  get waiting(): number {
    let n = 0;
    for (const { queue } of this.#lanes.values()) n += queue.waiting;
    return n;
  }

  /** Yields the names (epoch/identity.ts) of waiting records, and of records whose estimate is still pending while `advance` runs. */
  *waitingNames(): Generator<string> {
    for (const { queue, taken } of this.#lanes.values()) {
      yield* queue.waitingNames();
      for (const record of taken) yield identityText(record);
    }
  }

  /** Yields the names of those that wait only for their other end. */
  *aloneNames(): Generator<string> {
    for (const { queue } of this.#lanes.values()) yield* queue.aloneNames();
  }

  /** Yields the records that will still be read: waiting ones, and lists of flows. */
  *wanted(): Generator<RecordHandle> {
    for (const { queue, taken } of this.#lanes.values()) {
      yield* queue.waitingRecords();
      yield* taken;
    }
    for (const lists of this.#lists.values()) yield* lists.records();
  }

  /** Whether any record lists the flows of epochs. */
  get listsFlows(): boolean {
    const own = [...this.#lanes.values()].some(({ implementation }) => implementation.flowList?.heavyOnly);
    return own || [...this.#lists.values()].some((lists) => !lists.empty);
  }

  offer(record: RecordHandle): Offered {
    let best: Offered = "not-watched";
    for (const segment of this.#options.segments) {
      if (record.segment !== segment.label) continue;
      for (const end of ["sender", "receiver"] as const) {
        if (record.point !== (end === "sender" ? segment.from : segment.to)) continue;
        // A tap of the other role belongs to the neighbouring segment.
        if (record.role !== "none" && record.role !== end) continue;
        if (this.#lists.get(segment)?.add(record) === "late") best = "late-list";
        const outcome = this.#lane(segment, record.estimator)?.queue.add(end, record);
        if (outcome && best !== "taken") best = outcome;
      }
    }
    return best;
  }

  /**
   * Yields estimates that are ready, and records given up because their epoch ended at or before the watermark: in time order per estimator, with estimators in
   * turn, so that none lags behind.
   */
  *advance(watermarkNs: bigint): Generator<Collected> {
    yield* interleave([...this.#lanes.values()].map((lane) => this.#drain(lane, watermarkNs)));
    const { maxWaiting = DEFAULT_WAITING } = this.#options;
    for (const lists of this.#lists.values()) lists.forget(watermarkNs, maxWaiting);
  }

  /** Yields only the results of estimators that answer for the segment alone: this is little work, and need not wait for the others. */
  *advanceSegments(watermarkNs: bigint): Generator<Collected> {
    const quick = [...this.#lanes.values()].filter(({ implementation }) => isSegmentsOnly(implementation));
    yield* interleave(quick.map((lane) => this.#drain(lane, watermarkNs)));
  }

  /** Ends the input: everything that waits is estimated or given up, one estimator after the other, each in time order. */
  *finish(): Generator<Collected> {
    for (const lane of this.#lanes.values()) yield* this.#drain(lane, null);
  }

  #lane(segment: CollectedSegment, estimator: string): Lane | null {
    const name = JSON.stringify([segment.from, segment.to, segment.label, estimator]);
    const known = this.#lanes.get(name);
    if (known) return known;
    const { estimators, maxWaiting = DEFAULT_WAITING } = this.#options;
    const implementation = this.#table.find((e) => e.name === estimator);
    const lists = this.#lists.get(segment);
    if (!implementation || !lists || (estimators && !estimators.includes(estimator))) return null;
    const ends = implementation.needs.sender ? "both" : "receiver";
    const lane: Lane = {
      segment,
      estimator,
      implementation,
      queue: new PairQueue({ ends, maxWaiting }),
      taken: new Set(),
      lists,
    };
    this.#lanes.set(name, lane);
    return lane;
  }

  *#drain(lane: Lane, watermarkNs: bigint | null): Generator<Collected> {
    const { segment, estimator, implementation, lists, taken } = lane;
    // The list of an epoch's flows may come slightly after the sketch that needs it.
    const complete = ({ senders, receivers }: RecordPair<RecordHandle>) =>
      implementation.needs.flows === "none" ||
      (implementation.flowList !== undefined && !lists.seen) ||
      ((lists.has(senders) || lists.has(receivers)) && !lists.awaits(senders) && !lists.awaits(receivers));
    const { pairs, unpaired, overlapping } = lane.queue.take(watermarkNs, complete);
    for (const one of unpaired) {
      const flows = () => this.#ofUnpaired(lane, one.entry);
      yield { kind: "unpaired", segment, estimator, unpaired: one, flows };
    }
    for (const pair of overlapping) yield { kind: "overlapping", segment, estimator, pair };
    for (const { senders, receivers } of pairs) for (const one of [...senders, ...receivers]) taken.add(one);
    for (const pair of pairs) {
      const event = this.#estimate(lane, pair);
      for (const one of [...pair.senders, ...pair.receivers]) taken.delete(one);
      yield event;
    }
  }

  #estimate(lane: Lane, pair: RecordPair<RecordHandle>): Collected {
    const { segment, estimator, implementation } = lane;
    const read = readPair(implementation, pair);
    if (isRefusal(read)) return { kind: "refused", segment, estimator, refusal: read };
    // The list is used whatever is queried: it also improves the mean of the segment.
    const wanted = implementation.answers.includes("flow") || implementation.flowList !== undefined;
    if (wanted) for (const end of [pair.senders, pair.receivers]) lane.lists.use(end);
    const both = wanted ? this.#listed(lane, pair, read.record) : null;
    const listed = wanted ? joinFlows(both?.flows ?? null, heavyFlows(lane, read)) : null;
    const named = wanted && !listed?.complete ? (this.#options.flows?.(read.record) ?? null) : null;
    const flows = joinFlows(listed, named);
    const estimate = estimatePair(implementation, pair, read, {
      confidence: this.#options.confidence ?? DEFAULT_CONFIDENCE,
      parameters: this.#options.parameters?.[estimator],
      flows: flows && this.#withAsked(flows, read.record.key),
    });
    if (isRefusal(estimate)) return { kind: "refused", segment, estimator, refusal: estimate };
    const receiverOnly = both?.receiverOnly ?? null;
    return { kind: "estimate", segment, estimator, estimate, flows, listed: listed !== null, receiverOnly };
  }

  #withAsked(flows: KnownFlows, key: string): KnownFlows {
    const asked = this.#options.asked?.(flows, key) ?? null;
    return asked ? { ...flows, asked } : flows;
  }

  /** The sender saw every packet. If this estimator keeps nothing there, the receiver's list has what it counted, and the sender's is better than none. */
  #listed(
    { segment, lists }: Lane,
    pair: RecordPair<RecordHandle>,
    like: EpochRecord,
  ): ListedArrivals | null {
    const { senders, receivers } = pair;
    const [sent, received] = [lists.of(senders, like), lists.of(receivers, like)];
    if (sent && received) return withArrivals(sent, received) ?? { flows: sent, receiverOnly: null };
    const flows = sent ?? received ?? lists.of(receivers, like, segment.from);
    return flows && { flows, receiverOnly: null };
  }

  #ofUnpaired({ lists, implementation }: Lane, entry: RecordHandle): KnownFlows | null {
    if (!implementation.answers.includes("flow")) return null;
    try {
      return lists.of([entry], entry.read());
    } catch {
      // It is reported as unpaired already; a further error changes nothing.
      return null;
    }
  }
}

/** Rejects what a stream of records would show late, or never: an invalid segment, an unknown estimator. */
function checkCollector({ segments, estimators, table, maxWaiting, confidence }: CollectorOptions): void {
  const isSegment = (one: unknown) => {
    const { from, to, label } = (one ?? {}) as Partial<CollectedSegment>;
    return isText(from) && isText(to) && isText(label);
  };
  checkList("segments", segments, "a list of { from, to, label }", isSegment);
  if (estimators !== undefined) {
    checkList("estimators", estimators, "a list of names", isText);
    for (const name of estimators) findAmong(table ?? ESTIMATORS, name);
  }
  checkCount("maxWaiting", maxWaiting, 1, "bad-option");
  if (confidence !== undefined && !(confidence > 0 && confidence < 1))
    throw invalidValue("confidence", confidence, "a share between 0 and 1, e.g. 0.95");
}

const isSegmentsOnly = ({ answers }: Estimator) => answers.every((about) => about === "segment");

/** Returns the heavy flows that a sketch found itself. An unreadable list counts as none: the estimate reports what is wrong with the payload. */
function heavyFlows({ implementation }: Lane, { sender, receiver }: ReadPair): KnownFlows | null {
  const list = implementation.flowList;
  const record = (implementation.needs.sender ? sender : receiver)?.record;
  if (!list?.heavyOnly || !record) return null;
  try {
    return list.read(sealed(record), parseParameters(implementation, record.parameters));
  } catch {
    return null;
  }
}
