/** One estimator's part of a question: all its epochs, one after the other, and what they come to together. */

import type { ArchiveEntry } from "../../archive/names.ts";
import type { Kernels } from "../../base/kernels.ts";
import { FlowKeySpec } from "../../capture/flow/flow-key.ts";
import { parseFlowKey } from "../../capture/flow/flow-text.ts";
import { encodeFlowKey, hashFlowKey } from "../../capture/flow/flow-words.ts";
import { Combination, type Contribution, segmentContribution } from "../../collect/combine.ts";
import {
  type EpochEstimate,
  estimatePair,
  isRefusal,
  type ReadPair,
  type Refusal,
  readPair,
  totalCounters,
} from "../../collect/estimate.ts";
import { type FlowLists, namedFlows } from "../../collect/flow-lists.ts";
import { LossTotal } from "../../collect/loss.ts";
import type { Pairing, RecordPair } from "../../collect/pair.ts";
import type { RecordStore } from "../../collect/record-store.ts";
import { RecordedFlows } from "../../collect/recorded-flows.ts";
import type { EpochRecord, RecordCounters } from "../../epoch/record.ts";
import type { Estimator, KnownFlows } from "../../estimators/estimator.ts";
import type { FlowRecord } from "../../flow-records/flow-records.ts";
import type {
  GroupAnswer,
  MissingEpoch,
  PointSummary,
  RefusedEpoch,
  SegmentAnswer,
  SeriesRow,
} from "./answer.ts";
import { FlowGroups } from "./groups.ts";
import { answered } from "./latency.ts";
import { asksForFlows, DEFAULT_CONFIDENCE, type Question } from "./question.ts";

export interface EstimatorContext {
  archive: RecordStore;
  estimator: Estimator;
  question: Question;
  lists: FlowLists;
  kernels: Kernels;
  flowRecords?: readonly FlowRecord[] | undefined;
}

interface NamedFlow {
  words: Uint32Array;
  hash: [number, number];
}

export class EstimatorQuestion {
  readonly name: string;
  readonly missing: MissingEpoch[] = [];
  readonly refused: RefusedEpoch[] = [];
  /** Starts of the epochs that were used. */
  readonly usedStarts: bigint[] = [];
  edges = 0;
  merged = 0;
  firstNs: bigint | null = null;
  lastNs: bigint | null = null;
  readonly #context: EstimatorContext;
  readonly #total = new Combination();
  readonly #series: SeriesRow[] = [];
  readonly #said = new Map<string, { note: string; epochs: number; weight: number }>();
  readonly #loss = new LossTotal();
  #groups: FlowGroups | null = null;
  #named: NamedFlow[] = [];
  #recorded: RecordedFlows | null = null;
  #counters: { sent: RecordCounters | null; received: RecordCounters | null } = {
    sent: null,
    received: null,
  };
  #records = { sender: 0, receiver: 0, senderBytes: 0, receiverBytes: 0 };
  #filters = { sender: "", receiver: "" };
  #parameters = "";
  #sent: number | null = null;
  #received: number | null = null;
  #withoutFlows = 0;

  constructor(context: EstimatorContext) {
    this.#context = context;
    this.name = context.estimator.name;
  }

  /** It can tell flows apart. */
  get answersFlows(): boolean {
    return this.#context.estimator.answers.includes("flow");
  }

  run(pairing: Pairing): void {
    const { archive, estimator, question } = this.#context;
    for (const { entry, missing, reason } of pairing.unpaired) {
      const point = question.between[missing === "sender" ? 0 : 1];
      const { startNs, endNs } = entry.epoch;
      this.missing.push({ estimator: this.name, point, startNs: `${startNs}`, endNs: `${endNs}`, reason });
    }
    for (const pair of pairing.pairs) {
      const read = readPair(archive, estimator, pair);
      if (isRefusal(read)) {
        this.#refuse(read);
        continue;
      }
      const record = (read.sender ?? read.receiver)!.record;
      const flows = this.#flows(pair, record);
      const asked = question.parameters?.[this.name];
      const estimate = estimatePair(estimator, read, {
        confidence: question.confidence ?? DEFAULT_CONFIDENCE,
        flows,
        ...(asked === undefined ? {} : { parameters: asked }),
      });
      if (isRefusal(estimate)) this.#refuse(estimate);
      else this.#take(estimate, pair, read, flows);
    }
  }

  #refuse({ startNs, endNs, file, reason }: Refusal): void {
    this.refused.push({ estimator: this.name, startNs: `${startNs}`, endNs: `${endNs}`, file, reason });
  }

  /** The flows of an epoch, where the question is about flows and the estimator can answer it. */
  #flows(pair: RecordPair, record: EpochRecord): KnownFlows | null {
    const { question, estimator, lists, kernels } = this.#context;
    if (!asksForFlows(question) || !(estimator.answers.includes("flow") || estimator.flowList)) return null;
    if (!this.#groups) {
      this.#groups = new FlowGroups(record.key, question.group);
      const spec = FlowKeySpec.parse(record.key);
      this.#named = (question.flows ?? []).map((text) => {
        const words = encodeFlowKey(spec, parseFlowKey(text));
        return { words, hash: hashFlowKey(kernels, words, record.seed) };
      });
      for (const { words } of this.#named) this.#groups.expect(words);
    }
    const listed = lists.of(pair.senders, record) ?? lists.of(pair.receivers, record);
    if (listed) return listed;
    if (this.#context.flowRecords) {
      const spec = FlowKeySpec.parse(record.key);
      this.#recorded ??= new RecordedFlows(kernels, this.#context.flowRecords, spec, record.seed);
      const { startNs, endNs } = record.epoch;
      return this.#recorded.of({ startNs: Number(startNs), endNs: Number(endNs) });
    }
    this.#withoutFlows++;
    return this.#named.length > 0 ? namedFlows(this.#named) : null;
  }

  #take(estimate: EpochEstimate, pair: RecordPair, read: ReadPair, flows: KnownFlows | null): void {
    const { answer, startNs, endNs, edge, merged } = estimate;
    const index = this.usedStarts.push(startNs) - 1;
    if (edge) this.edges++;
    this.merged += merged;
    if (this.firstNs === null || startNs < this.firstNs) this.firstNs = startNs;
    if (this.lastNs === null || endNs > this.lastNs) this.lastNs = endNs;
    this.#parameters = estimate.parameters;
    this.#counters = {
      sent: totalCounters([this.#counters.sent, estimate.sent]),
      received: totalCounters([this.#counters.received, estimate.received]),
    };
    this.#records.sender += pair.senders.length;
    this.#records.receiver += pair.receivers.length;
    this.#records.senderBytes += this.#bytes(pair.senders);
    this.#records.receiverBytes += this.#bytes(pair.receivers);
    this.#filters = {
      sender: read.sender?.record.filter ?? "",
      receiver: read.receiver?.record.filter ?? "",
    };
    const weight = answer.segment?.received ?? answer.segment?.sent ?? 0;
    this.#say(new Set([...answer.notes, ...(answer.segment?.notes ?? [])]), weight);
    const contribution = segmentContribution(answer);
    const { segment } = answer;
    if (contribution && segment) {
      this.#total.add(contribution);
      const { mode } = (read.sender ?? read.receiver)!.record.epoch;
      this.#loss.add(segment, { mode, startNs, endNs });
      if (segment.sent !== null) this.#sent = (this.#sent ?? 0) + segment.sent;
      if (segment.received !== null) this.#received = (this.#received ?? 0) + segment.received;
      const { sent, received, lost } = segment;
      const span = { startNs: `${startNs}`, endNs: `${endNs}` };
      this.#series.push({ ...span, sent, received, lost, edge, merged, ...answered(segment) });
    }
    if (flows) this.#takeFlows(estimate, flows, index);
  }

  /** Epochs say the same with other numbers: the one with the most packets speaks for all. */
  #say(notes: Iterable<string>, weight: number): void {
    for (const note of notes) {
      const kind = note.replace(/\d[\d.,]*(e[+-]\d+)?/g, "#");
      const known = this.#said.get(kind);
      if (!known) {
        this.#said.set(kind, { note, epochs: 1, weight });
        continue;
      }
      known.epochs++;
      if (weight > known.weight) {
        known.weight = weight;
        known.note = note;
      }
    }
  }

  #takeFlows({ answer }: EpochEstimate, flows: KnownFlows, index: number): void {
    const wanted =
      this.#context.question.flows === undefined ? null : new Set(this.#named.map((f) => f.hash.join()));
    const epoch = { index, shared: answer.segment?.mean ?? null };
    for (const { flow, mean, stdev, packets, lost } of answer.flows) {
      if (wanted && !wanted.has(`${flows.hash[2 * flow]},${flows.hash[2 * flow + 1]}`)) continue;
      const known = flows.packets[flow]!;
      const size = packets ?? (Number.isNaN(known) ? null : known);
      const contribution: Contribution = { mean, stdev, packets: size, lost, used: size ?? 0 };
      this.#groups!.add(flows, flow, contribution, epoch);
    }
  }

  segmentAnswer(): SegmentAnswer {
    const { estimator } = this.#context;
    const total = this.#total.result();
    const bytes = this.#records.senderBytes + this.#records.receiverBytes;
    const packets = this.#sent ?? this.#received;
    const { lost } = this.#loss;
    const lossKnown = lost !== null && this.#sent !== null && this.#sent > 0;
    return {
      title: estimator.title,
      parameters: this.#parameters,
      epochs: this.usedStarts.length,
      sent: this.#sent,
      received: this.#received,
      lost,
      lossRate: lossKnown ? lost / this.#sent! : null,
      ...(this.usedStarts.length === 0
        ? { latency: null, reason: "no-packets: no epoch has a usable record at both points" }
        : estimator.answers.includes("segment")
          ? answered(total)
          : { latency: null, reason: "not-supported: it answers for flows, not for the segment" }),
      packetsUsed: total.used,
      coverage: this.#received === null || this.#received === 0 ? null : total.used / this.#received,
      bytes,
      bitsPerPacket: packets === null || packets === 0 ? null : (8 * bytes) / packets,
      series: this.#series,
      notes: [...this.#said.values()].map(({ note, epochs }) =>
        epochs === 1 ? note : `${note} (so or alike in ${epochs} epochs)`,
      ),
    };
  }

  groupAnswers(): GroupAnswer[] {
    const answers = this.#groups?.answers(this.name) ?? [];
    const { top } = this.#context.question;
    return top === undefined ? answers : answers.slice(0, top);
  }

  points(): PointSummary[] {
    const { between } = this.#context.question;
    const { sender, receiver, senderBytes, receiverBytes } = this.#records;
    const none = { packets: 0, short: 0, backward: 0, skipped: {}, dropped: null };
    const summary = (role: "sender" | "receiver", counters: RecordCounters | null): PointSummary => {
      const { packets, short, backward, skipped, dropped } = counters ?? none;
      const own =
        role === "sender"
          ? { records: sender, bytes: senderBytes }
          : { records: receiver, bytes: receiverBytes };
      const name = between[role === "sender" ? 0 : 1];
      return { name, role, ...own, packets, short, backward, skipped, dropped, filter: this.#filters[role] };
    };
    return [summary("sender", this.#counters.sent), summary("receiver", this.#counters.received)];
  }

  /** Sentences about what limits the answer. */
  notes(): string[] {
    const notes: string[] = [];
    const [from, to] = this.points() as [PointSummary, PointSummary];
    if (this.edges > 0) {
      notes.push(
        `in ${count(this.edges, "epoch")} a capture began or ended: packets missing there may never have been captured`,
      );
    }
    for (const point of [from, to]) {
      if (point.dropped)
        notes.push(
          `${point.name}: the capture says that it dropped ${point.dropped} packets: part of the loss may be its own`,
        );
      if (point.short > 0)
        notes.push(
          `${point.name}: ${point.short} packets are cut within what tells packets apart: use a smaller ‘cover’ at both points`,
        );
    }
    if (from.records > 0 && to.records > 0 && from.filter !== to.filter) {
      notes.push(`the points were observed with different filters: '${from.filter}' and '${to.filter}'`);
    }
    if (this.#withoutFlows > 0 && !this.#context.lists.empty) {
      notes.push(`in ${count(this.#withoutFlows, "epoch")} there is no list of flows`);
    }
    return notes;
  }

  #bytes(entries: readonly ArchiveEntry[]): number {
    return entries.reduce((sum, entry) => sum + this.#context.archive.sizeOf(entry), 0);
  }
}

function count(n: number, what: string): string {
  return `${n} ${what}${n === 1 ? "" : "s"}`;
}
