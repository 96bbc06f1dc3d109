/** One estimator's part of a question: takes what the collector made of its epochs and combines it. */

import { countOf } from "../../base/quantity.ts";
import { type ClockState, joinClocks } from "../../capture/source/clock-state.ts";
import type { Collected } from "../../collect/collector.ts";
import { Combination, type Contribution, segmentContribution } from "../../collect/combine.ts";
import { CutEdges, delayBehind, deviationInFlight } from "../../collect/cut-edges.ts";
import { type CountedEpoch, epochLosses } from "../../collect/epoch-losses.ts";
import { type EpochEstimate, totalCounters } from "../../collect/estimate.ts";
import { LossTotal } from "../../collect/loss.ts";
import { type DelayLimits, limitsOf, packetsOf, spanOf } from "../../collect/tracks.ts";
import type { RecordCounters } from "../../epoch/record.ts";
import type {
  Estimator,
  Interval,
  KnownFlows,
  NoAnswer,
  SegmentEstimate,
} from "../../estimators/estimator.ts";
import { isNoAnswer } from "../../estimators/estimator.ts";
import type {
  GroupAnswer,
  MissingEpoch,
  OverlappingEpochs,
  PointSummary,
  RefusedEpoch,
  SegmentAnswer,
  SeriesRow,
} from "./answer.ts";
import { type EpochFacts, type EpochPlace, placeOf } from "./epoch-facts.ts";
import type { FlowQuestion } from "./flow-question.ts";
import { type LastEpoch, lastEpoch, type OwnEpoch } from "./last-epoch.ts";
import { answered, byClocks, wholeAnswer } from "./latency.ts";
import { Leaning } from "./leaning.ts";
import { NoteFolder } from "./note-folder.ts";
import type { Question } from "./question.ts";

/** Packets without an answer from this estimator, within the time asked about. */
interface Unanswered {
  place: EpochPlace;
  packets: number;
  limits: DelayLimits | null;
  why: NoAnswer;
  behind?: Behind;
}

/** An aligned epoch that only the receiver has: the key of its flows, and the flows. */
interface Behind {
  key: string;
  flows: () => KnownFlows | null;
}

type Estimated = Extract<Collected, { kind: "estimate" }>;

/** Totals of one point's records that an answer uses. */
interface EndTotal {
  records: number;
  bytes: number;
  counters: RecordCounters | null;
  filter: string;
  clock: ClockState | undefined;
}

const nothing = (): EndTotal => ({ records: 0, bytes: 0, counters: null, filter: "", clock: undefined });

export class EstimatorQuestion {
  readonly estimator: Estimator;
  readonly missing: MissingEpoch[] = [];
  readonly refused: RefusedEpoch[] = [];
  readonly overlapping = new Map<string, OverlappingEpochs>();
  /** Starts of the epochs used. */
  readonly usedStarts: bigint[] = [];
  readonly noteFolder = new NoteFolder();
  edges = 0;
  merged = 0;
  firstNs: bigint | null = null;
  lastNs: bigint | null = null;
  readonly #question: Question;
  readonly #facts: EpochFacts;
  readonly #flows: FlowQuestion | null;
  readonly #own = new Combination();
  readonly #all = new Combination();
  readonly #unanswered: Unanswered[] = [];
  /** Answered aligned epochs that both points have, in order of time. */
  readonly #aligned: { place: EpochPlace; packets: number; mean: Interval; stdev: Interval | NoAnswer }[] =
    [];
  readonly #edges = new CutEdges();
  readonly #borrowed = new Map<string, number>();
  readonly #series: SeriesRow[] = [];
  readonly #counted: (CountedEpoch & { place: EpochPlace })[] = [];
  readonly #loss = new LossTotal();
  readonly #ends = { sender: nothing(), receiver: nothing() };
  readonly #parameters = new Map<string, number>();
  #sent: number | null = null;
  #received: number | null = null;
  #unlisted = 0;
  readonly #leaning = new Leaning();
  readonly #epochs: OwnEpoch[] = [];
  /** Maximum over the epochs used: clock errors persist, so averaging over epochs does not reduce them. */
  #clockErrorNs = 0;

  /** `flows`: set if the question is about flows and the estimator answers for flows. */
  constructor(estimator: Estimator, question: Question, facts: EpochFacts, flows: FlowQuestion | null) {
    this.estimator = estimator;
    this.#question = question;
    this.#facts = facts;
    this.#flows = flows;
  }

  get name(): string {
    return this.estimator.name;
  }

  /** Whether the estimator distinguishes flows. */
  get answersFlows(): boolean {
    return this.estimator.answers.includes("flow");
  }

  take(event: Collected): void {
    if (event.kind === "estimate") this.#takeEstimate(event);
    else if (event.kind === "refused") {
      const { startNs, endNs, source, reason, packets, limits } = event.refusal;
      this.refused.push({
        estimator: this.name,
        startNs: `${startNs}`,
        endNs: `${endNs}`,
        file: source,
        reason,
      });
      this.#unanswered.push({
        place: { startNs, endNs },
        packets,
        limits,
        why: { reason: "no-usable-cells", text: "its records are not usable" },
      });
    } else if (event.kind === "unpaired") this.#takeUnpaired(event);
    else this.#takeOverlapping(event);
  }

  #takeUnpaired(event: Extract<Collected, { kind: "unpaired" }>): void {
    const { entry, missing, reason } = event.unpaired;
    const point = this.#question.between[missing === "sender" ? 0 : 1];
    const { startNs, endNs } = entry.epoch;
    this.missing.push({ estimator: this.name, point, startNs: `${startNs}`, endNs: `${endNs}`, reason });
    if (missing === "sender" && entry.epoch.mode === "aligned")
      this.#loss.addReceiverOnly(startNs, entry.packets);
    this.#unanswered.push({
      place: { startNs, endNs },
      packets: entry.packets,
      limits: limitsOf({ senders: [entry], receivers: [] }),
      why: { reason: "no-packets", text: `${point} has no record of the epoch` },
      ...(missing === "sender" && entry.epoch.mode === "aligned"
        ? { behind: { key: entry.key, flows: event.flows } }
        : {}),
    });
  }

  #takeOverlapping({ pair }: Extract<Collected, { kind: "overlapping" }>): void {
    const [first] = [...pair.receivers, ...pair.senders];
    if (!first) return;
    const { startNs, endNs } = spanOf(pair);
    const { mode } = first.epoch;
    const known = this.overlapping.get(mode);
    const packets = packetsOf(pair);
    if (!known) {
      this.overlapping.set(mode, {
        estimator: this.name,
        cut: mode,
        epochs: 1,
        packets,
        firstNs: `${startNs}`,
        lastNs: `${endNs}`,
      });
      return;
    }
    known.epochs++;
    known.packets += packets;
    if (startNs < BigInt(known.firstNs)) known.firstNs = `${startNs}`;
    if (endNs > BigInt(known.lastNs)) known.lastNs = `${endNs}`;
  }

  #takeEstimate(event: Estimated): void {
    const { estimate, flows, receiverOnly } = event;
    const { answer, startNs, endNs, edge, merged } = estimate;
    const index = this.usedStarts.push(startNs) - 1;
    if (edge) this.edges++;
    this.merged += merged;
    if (this.firstNs === null || startNs < this.firstNs) this.firstNs = startNs;
    const { segment } = answer;
    if (this.lastNs === null || endNs > this.lastNs) this.lastNs = endNs;
    this.#takeEnds(estimate);
    this.#clockErrorNs = Math.max(this.#clockErrorNs, estimate.clockErrorNs);
    const weight = segment?.received ?? segment?.sent ?? 0;
    this.#parameters.set(estimate.parameters, (this.#parameters.get(estimate.parameters) ?? 0) + weight + 1);
    this.noteFolder.add(new Set([...answer.notes, ...(segment?.notes ?? [])]), weight);
    const contribution = segment ? segmentContribution(segment, Number(endNs - startNs)) : null;
    this.#facts.add(this.name, estimate, contribution);
    if (contribution && segment) this.#takeSegment(estimate, segment, contribution);
    if (!flows && this.answersFlows) this.#unlisted++;
    if (flows) this.#flows?.take(estimate, flows, index);
    if (receiverOnly && segment?.inFlight)
      this.#flows?.takeInFlight(receiverOnly, segment.inFlight, estimate.key, index);
  }

  #takeSegment(estimate: EpochEstimate, segment: SegmentEstimate, contribution: Contribution): void {
    const { startNs, endNs, mode, edge, merged } = estimate;
    const { sent, received, lost } = segment;
    if (isNoAnswer(contribution.mean)) {
      const packets = contribution.packets ?? 0;
      const { limits } = estimate;
      this.#unanswered.push({ place: placeOf(estimate), packets, limits, why: contribution.mean });
    } else {
      this.#own.add(contribution);
      this.#all.add(contribution);
      const { mean, stdev, packets } = contribution;
      // A mean over all packets leaves none out.
      const left = segment.packetsUsed < (packets ?? 0);
      if (left && mode === "aligned" && estimate.sender && estimate.receiver)
        this.#aligned.push({ place: placeOf(estimate), packets: packets ?? 0, mean, stdev });
    }
    this.#epochs.push({ segment, mode, span: { startNs, endNs }, place: placeOf(estimate) });
    if (sent !== null) this.#sent = (this.#sent ?? 0) + sent;
    if (received !== null) this.#received = (this.#received ?? 0) + received;
    const { leansNs } = segment;
    this.#leaning.add(leansNs, received);
    const span = { startNs: `${startNs}`, endNs: `${endNs}` };
    this.#series.push({
      ...{ ...span, sent, received, lost, lostLow: lost, lostHigh: lost, edge, merged },
      ...(leansNs === undefined ? {} : { leansNs }),
      ...byClocks(answered(segment), estimate.clockErrorNs),
    });
    this.#counted.push({
      ...{ mode, startNs, endNs, sent, received, lost, edge, used: segment.packetsUsed },
      meanNs: isNoAnswer(segment.mean) ? null : segment.mean.valueNs,
      stdevNs: isNoAnswer(segment.stdev) ? null : segment.stdev.valueNs,
      place: placeOf(estimate),
    });
  }

  #takeEnds({ sender, receiver }: EpochEstimate): void {
    for (const [total, end] of [
      [this.#ends.sender, sender],
      [this.#ends.receiver, receiver],
    ] as const) {
      if (!end) continue;
      total.records += end.records;
      total.bytes += end.bytes;
      total.counters = totalCounters([total.counters, end.counters]);
      total.filter = end.filter;
      total.clock = joinClocks(total.clock, end.clock);
    }
  }

  /**
   * Called after all epochs of all estimators were taken. Epochs without an answer count with what other estimators know of them, provided this
   * estimator has answers of its own; otherwise there is no total for them to be part of.
   */
  complete(): void {
    const { firstNs, lastNs } = this;
    const last = this.#takeLosses();
    for (const { place, packets, mean, stdev } of this.#aligned) {
      const stdevNs = isNoAnswer(stdev) ? this.#facts.stdevNs(place) : stdev.valueNs;
      this.#edges.add({ ...place, packets, meanNs: mean.valueNs, stdevNs });
    }
    for (const { place, packets, limits, why, behind } of this.#unanswered) {
      if (packets === 0) continue;
      if (behind && place.startNs === lastNs && last) {
        this.#takeBehind(packets, last, behind, place);
        continue;
      }
      // Time before the first or after the last epoch that both points have is outside the answer.
      if (firstNs === null || lastNs === null || place.endNs <= firstNs || place.startNs >= lastNs) continue;
      const none: Contribution = { mean: why, stdev: why, packets, lost: null, used: 0 };
      this.#own.add(none);
      const other = this.#own.answers > 0 ? this.#facts.instead(this.name, place) : null;
      if (other) {
        this.#all.add({ ...other.contribution, packets, lost: null, used: 0 });
        this.#borrowed.set(other.estimator, (this.#borrowed.get(other.estimator) ?? 0) + 1);
      } else this.#all.add({ ...none, bounds: this.#facts.segmentBounds(place, limits) });
    }
  }

  /**
   * Adds up the losses. The mean delay determines how many packets may be in flight at a cut; an epoch without a mean uses another estimator's.
   * Returns the last epoch if it is aligned.
   */
  #takeLosses(): LastEpoch | null {
    let last: LastEpoch | null = null;
    for (const { segment, mode, span, place } of this.#epochs) {
      const mean = isNoAnswer(segment.mean)
        ? (this.#facts.instead(this.name, place)?.contribution.mean ?? segment.mean)
        : segment.mean;
      this.#loss.add({ ...segment, mean }, { mode, ...span });
      if (span.endNs === this.lastNs)
        last = mode === "aligned" ? lastEpoch({ ...segment, mean }, span) : null;
    }
    return last;
  }

  /** Takes packets sent in the sender's last epoch that arrived after it. Estimators that need only the receiver have measured them. */
  #takeBehind(packets: number, last: LastEpoch, { key, flows }: Behind, place: EpochPlace): void {
    const { perNs, missing, meanNs } = last;
    // More than were missing cannot have been in flight: the sender's capture ended before the traffic did.
    if (packets > missing) return;
    this.#received = (this.#received ?? 0) + packets;
    const mean = delayBehind(packets, perNs, meanNs);
    const stdev = deviationInFlight(mean);
    const one: Contribution = { mean, stdev, packets, lost: null, used: 0, modelled: true };
    if (this.#own.answers > 0) {
      this.#own.add(one);
      this.#all.add({ ...one, mean: this.#facts.instead(this.name, place)?.contribution.mean ?? mean });
    }
    const listed = this.#flows && flows();
    if (listed) this.#flows?.takeInFlight(listed, mean, key, this.usedStarts.length);
  }

  segmentAnswer(without: ReadonlySet<string>): SegmentAnswer {
    const { sender, receiver } = this.#ends;
    const own = this.#edges.complete(this.#own.result());
    const bytes = sender.bytes + receiver.bytes;
    const packets = this.#sent ?? this.#received;
    const { lost } = this.#loss;
    const lossRate = lost !== null && this.#sent ? lost / this.#sent : null;
    const whole = wholeAnswer(own, this.#edges.complete(this.#all.result()));
    const none = this.#noAnswer();
    return {
      title: this.estimator.title,
      parameters: [...this.#parameters].sort((a, b) => b[1] - a[1])[0]?.[0] ?? "",
      epochs: this.usedStarts.length,
      sent: this.#sent,
      received: this.#received,
      lost,
      lossRate,
      ...byClocks(whole, this.#clockErrorNs),
      ...(this.#clockErrorNs > 0 ? { clockErrorNs: this.#clockErrorNs } : {}),
      ...this.#leaning.answer(this.#received),
      ...(none === null ? {} : { latency: null, reason: none }),
      packetsUsed: own.used,
      coverage: this.#received === null || this.#received === 0 ? null : own.used / this.#received,
      bytes,
      bitsPerPacket: packets === null || packets === 0 ? null : (8 * bytes) / packets,
      borrowed: [...this.#borrowed].map(([estimator, epochs]) => ({ estimator, epochs })),
      series: this.#seriesRows(),
      notes: [...this.#settingNotes(), ...this.noteFolder.texts(without)],
    };
  }

  /** The loss of an aligned epoch is derived from its neighbours too; the bounds are tighter the more is known of its delays, from any estimator. */
  #seriesRows(): SeriesRow[] {
    const known = this.#counted.map((e) => ({ ...e, stdevNs: e.stdevNs ?? this.#facts.stdevNs(e.place) }));
    const losses = epochLosses(known);
    return this.#series.map((row, i) => {
      const { lost = null, low = null, high = null } = losses[i] ?? {};
      return { ...row, lost, lostLow: low, lostHigh: high };
    });
  }

  #noAnswer(): string | null {
    if (this.usedStarts.length === 0) return "no-packets: no epoch has a usable record at both points";
    if (!this.estimator.answers.includes("segment"))
      return "not-supported: per-flow estimator, no value for the segment";
    return null;
  }

  #settingNotes(): string[] {
    const notes: string[] = [];
    if (this.#parameters.size > 1)
      notes.push(
        `its parameters changed between epochs (${this.#parameters.size} settings): each epoch uses its own`,
      );
    for (const [estimator, epochs] of this.#borrowed)
      notes.push(`no answer in ${countOf(epochs, "epoch")}: the mean of ${estimator} is used there`);
    return notes;
  }

  groupAnswers(): GroupAnswer[] {
    return (this.#flows?.answers(this.name) ?? []).map((group) => byClocks(group, this.#clockErrorNs));
  }

  /** Summary of one point's records; empty if there are none. */
  point(role: "sender" | "receiver"): PointSummary {
    const { records, bytes, counters, filter, clock } = this.#ends[role];
    const none = { packets: 0, short: 0, backward: 0, skipped: {}, dropped: null };
    const { packets, short, backward, skipped, dropped } = counters ?? none;
    const name = this.#question.between[role === "sender" ? 0 : 1];
    const summary = { name, role, records, bytes, packets, short, backward, skipped, dropped, filter };
    if (!clock) return summary;
    const { id: _, ...state } = clock;
    return { ...summary, clock: state };
  }

  get clockErrorNs(): number {
    return this.#clockErrorNs;
  }

  /** Number of epochs without a list of flows. */
  get unlisted(): number {
    return this.#unlisted;
  }

  get flowNotes(): string[] {
    return this.#flows?.notes() ?? [];
  }
}
