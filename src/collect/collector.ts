/**
 * Records in, estimates out, as they arrive. A collector watches the given segments: it pairs the records of their two ends by identity (identity.ts),
 * whatever source they come from, and estimates each pair once. A record that does not become an estimate is an event with its reason: no partner, too late,
 * refused, or its time is already covered.
 *
 * It has no clock of its own: `offer` takes a record, `advance` moves the watermark and returns what is ready, `finish` returns the rest.
 * collect.ts drives it from any stream of records; a question (query/segment) from an archive. State: heads of the records that wait, bounded by the
 * watermark and by `maxWaiting` per segment and estimator; payloads are read when their pair is estimated.
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
  /** Of the segment or class that the points were observed by; "" for all packets. */
  readonly label: string;
}

export interface CollectorOptions {
  segments: readonly CollectedSegment[];
  table?: readonly Estimator[];
  /** Estimators whose records are estimated; all of the table where left out. Others still list flows. */
  estimators?: readonly string[] | undefined;
  /** Of the intervals (default 0.95). */
  confidence?: number | undefined;
  /** Parameters of the answer, by estimator: `decoder=bp`. */
  parameters?: Readonly<Record<string, string>> | undefined;
  /** Flows of an epoch where no record lists them. */
  flows?: ((record: EpochRecord) => KnownFlows | null) | undefined;
  /** KnownFlows.asked of an epoch's list, whose flows have such a key; null: all. */
  asked?: ((flows: KnownFlows, key: string) => Uint8Array | null) | undefined;
  /** Records that may wait, per segment and estimator (default 8192). */
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
      /** What its per-flow answers are about. */
      flows: KnownFlows | null;
      /** The flows are those of the epoch's own list. */
      listed: boolean;
      /** Flows that the receiver alone lists in this epoch: their packets were in flight at the cut before. */
      receiverOnly: KnownFlows | null;
    })
  | (Source & { kind: "refused"; refusal: Refusal })
  /** No partner came. `flows`: those of the epoch, as that end lists them. */
  | (Source & { kind: "unpaired"; unpaired: Unpaired<RecordHandle>; flows: () => KnownFlows | null })
  /** Its time is answered by records of another cut, or of other settings. */
  | (Source & { kind: "overlapping"; pair: RecordPair<RecordHandle> });

/** What becomes of a record: it waits, came before, came too late, lists flows of an epoch that was estimated without it, or belongs to nothing that is watched. */
export type Offered = "taken" | "repeated" | "late" | "late-list" | "not-watched";

const DEFAULT_WAITING = 8192;
export const DEFAULT_CONFIDENCE = 0.95;

interface Lane extends Source {
  readonly implementation: Estimator;
  readonly queue: PairQueue;
  /** Taken from the queue, and not estimated yet. */
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

  /** Records that wait for a partner. */
  get waiting(): number {
    let n = 0;
    for (const { queue } of this.#lanes.values()) n += queue.waiting;
    return n;
  }

  /** Names (epoch/identity.ts) of those, and of records whose estimate is still to be made while `advance` goes on. */
  *waitingNames(): Generator<string> {
    for (const { queue, taken } of this.#lanes.values()) {
      yield* queue.waitingNames();
      for (const record of taken) yield identityText(record);
    }
  }

  /** Of these, those that wait for nothing but their other end. */
  *aloneNames(): Generator<string> {
    for (const { queue } of this.#lanes.values()) yield* queue.aloneNames();
  }

  /** Records that will be read yet: those that wait, and lists of flows. */
  *wanted(): Generator<RecordHandle> {
    for (const { queue, taken } of this.#lanes.values()) {
      yield* queue.waitingRecords();
      yield* taken;
    }
    for (const lists of this.#lists.values()) yield* lists.records();
  }

  /** Does anything list the flows of epochs? */
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
        // A tap of the other role is that of the neighbouring segment.
        if (record.role !== "none" && record.role !== end) continue;
        if (this.#lists.get(segment)?.add(record) === "late") best = "late-list";
        const outcome = this.#lane(segment, record.estimator)?.queue.add(end, record);
        if (outcome && best !== "taken") best = outcome;
      }
    }
    return best;
  }

  /** Estimates that are ready, and what is given up because its epoch ended at or before the watermark: of each estimator in order of time, estimators in turn, so that none is behind the others. */
  *advance(watermarkNs: bigint): Generator<Collected> {
    yield* interleave([...this.#lanes.values()].map((lane) => this.#drain(lane, watermarkNs)));
    const { maxWaiting = DEFAULT_WAITING } = this.#options;
    for (const lists of this.#lists.values()) lists.forget(watermarkNs, maxWaiting);
  }

  /** Of these, what estimators give that answer about the segment alone: little work, which need not wait for that of the others. */
  *advanceSegments(watermarkNs: bigint): Generator<Collected> {
    const quick = [...this.#lanes.values()].filter(({ implementation }) => isSegmentsOnly(implementation));
    yield* interleave(quick.map((lane) => this.#drain(lane, watermarkNs)));
  }

  /** Nothing more is to come: everything that waits is estimated or given up, one estimator after the other, each in order of time. */
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
    // The list of an epoch's flows may come a little after the sketch that needs it.
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
    // The list is used whatever is asked: with it, the mean of the segment is known better too.
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

  /** The sender has seen every packet. Where this estimator keeps nothing there, the receiver's list has what it counted, and the sender's is better than none. */
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
      // It is named as unpaired already; what is wrong with it besides changes nothing.
      return null;
    }
  }
}

/** What a stream of records would show late, or never: a segment that no record is of, an estimator that there is not. */
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

/** The heavy flows that a sketch found by itself. A list that cannot be read is none: the estimate says what is wrong with the payload. */
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
