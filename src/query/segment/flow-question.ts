/**
 * The part of a question that is about flows: which flows, and one estimator's answers for them in each epoch, combined by group.
 *
 * Flows are identified by their keys: hashes match only under the same seed, and an archive may hold several seeds. Records with different flow
 * keys can be combined only under a coarser key that both contain; the others are left out, with a note.
 */

import type { Kernels } from "../../base/kernels.ts";
import { countOf } from "../../base/quantity.ts";
import { FlowKeySpec } from "../../capture/flow/flow-key.ts";
import { parseFlowKey } from "../../capture/flow/flow-text.ts";
import { encodeFlowKey, hashFlowKey } from "../../capture/flow/flow-words.ts";
import { deviationInFlight } from "../../collect/cut-edges.ts";
import type { EpochEstimate } from "../../collect/estimate.ts";
import { namedFlows } from "../../collect/flow-lists.ts";
import { arrivedOfFlow } from "../../collect/in-flight.ts";
import { RecordedFlows } from "../../collect/recorded-flows.ts";
import type { EpochRecord } from "../../epoch/record.ts";
import { type Interval, isNoAnswer, type KnownFlows } from "../../estimators/estimator.ts";
import type { FlowRecord } from "../../flow-records/flow-records.ts";
import type { GroupAnswer } from "./answer.ts";
import { type EpochFacts, placeOf } from "./epoch-facts.ts";
import { FlowGroups } from "./groups.ts";
import type { Question } from "./question.ts";
import { NO_RANKING, type Wanted } from "./top-flows.ts";

/** Flows from another source, for epochs without a list of flows, hashed like the epoch's records. */
export class OtherFlows {
  readonly #kernels: Kernels;
  readonly #question: Question;
  readonly #records: readonly FlowRecord[] | null;
  readonly #hashed = new Map<string, RecordedFlows>();
  readonly #found: ReadonlyMap<string, readonly Uint32Array[]>;
  readonly #named = new Map<string, KnownFlows | null>();

  /** `found`: key words of flows named by the lists of other epochs, by key. */
  constructor(
    kernels: Kernels,
    question: Question,
    records: readonly FlowRecord[] | undefined,
    found: ReadonlyMap<string, readonly Uint32Array[]> = new Map(),
  ) {
    this.#kernels = kernels;
    this.#question = question;
    this.#records = records ?? null;
    this.#found = found;
  }

  of({ key, seed, epoch }: EpochRecord): KnownFlows | null {
    const spec = FlowKeySpec.parse(key);
    if (this.#records) {
      const name = `${key}/${seed}`;
      const known = this.#hashed.get(name) ?? new RecordedFlows(this.#kernels, this.#records, spec, seed);
      this.#hashed.set(name, known);
      return known.of({ startNs: Number(epoch.startNs), endNs: Number(epoch.endNs) });
    }
    const name = `${key}/${seed}`;
    const known = this.#named.get(name);
    if (known !== undefined) return known;
    const asked = this.#question.flows?.map((text) => encodeFlowKey(spec, parseFlowKey(text)));
    const named = (asked ?? this.#found.get(key) ?? []).map((words) => ({
      words,
      hash: hashFlowKey(this.#kernels, words, seed),
    }));
    const flows = named.length > 0 ? namedFlows(named) : null;
    this.#named.set(name, flows);
    return flows;
  }
}

function numberAt(values: Float64Array | undefined, i: number): number | null {
  const value = values?.[i];
  return value === undefined || Number.isNaN(value) ? null : value;
}

export class FlowQuestion {
  readonly #question: Question;
  readonly #facts: EpochFacts;
  readonly #wanted: Wanted;
  readonly #groups: FlowGroups;
  /** Key words of the requested flows; null: all. */
  readonly #names: Set<string> | null;
  /** Epochs left out because their key does not contain what is asked, by key. */
  readonly #leftOut = new Map<string, number>();
  /** Epochs whose list has only the heaviest flows, and the most packets a flow can have there without being listed. */
  #heavyEpochs = 0;
  #floor = 0;

  /** `key`: the key by which most records distinguish flows; `wanted`: groups to keep. */
  constructor(question: Question, key: string, facts: EpochFacts, wanted: Wanted = NO_RANKING) {
    this.#question = question;
    this.#facts = facts;
    this.#wanted = wanted;
    this.#groups = new FlowGroups(key, question.group);
    this.#names = question.flows === undefined ? null : new Set();
    const spec = FlowKeySpec.parse(key);
    for (const text of question.flows ?? []) {
      const words = encodeFlowKey(spec, parseFlowKey(text));
      this.#names?.add(words.join());
      this.#groups.expect(words);
    }
  }

  take(estimate: EpochEstimate, flows: KnownFlows, index: number): void {
    const groups = this.#groups;
    if (!groups.covers(estimate.key)) {
      this.#leftOut.set(estimate.key, (this.#leftOut.get(estimate.key) ?? 0) + 1);
      return;
    }
    const { answer } = estimate;
    if (flows.heavy && !flows.complete) {
      this.#heavyEpochs++;
      this.#floor = Math.max(this.#floor, flows.heavy.floor);
    }
    const place = placeOf(estimate);
    const epoch = { index, shared: answer.segment?.mean ?? null };
    for (const flowAnswer of answer.flows) {
      const { flow, mean, stdev, packets, lost, lostLow } = flowAnswer;
      const group = groups.find(flows, flow, this.#names);
      if (!group || !this.#wanted.has(group.words)) continue;
      const size = packets ?? numberAt(flows.packets, flow);
      const arrived = arrivedOfFlow(flowAnswer, size, numberAt(flows.received, flow));
      const bounds = isNoAnswer(mean) && arrived !== null ? this.#facts.flowBounds(place, arrived) : null;
      const contribution = { mean, stdev, packets: size, arrived, lost, lostLow, used: arrived ?? 0, bounds };
      groups.add(group, flows, flowAnswer, contribution, epoch);
    }
  }

  /**
   * Adds flows whose packets were in flight at an aligned cut: they arrived in an epoch in which nobody sent them, and count with the delay of
   * packets in flight.
   */
  takeInFlight(flows: KnownFlows, inFlight: Interval, key: string, index: number): void {
    const groups = this.#groups;
    if (!groups.covers(key)) return;
    const epoch = { index, shared: null };
    const bytes = new Float64Array(flows.count);
    for (let flow = 0; flow < flows.count; flow++) {
      const group = groups.find(flows, flow, this.#names);
      if (!group || !this.#wanted.has(group.words)) continue;
      const arrived = numberAt(flows.packets, flow);
      // Sent in the epoch before, and counted there, also as missing.
      const lost = arrived === null ? null : -arrived;
      const flowAnswer = { flow, mean: inFlight, stdev: deviationInFlight(inFlight), packets: 0, lost };
      groups.add(
        group,
        { ...flows, bytes },
        flowAnswer,
        { ...flowAnswer, arrived, used: 0, modelled: true },
        epoch,
      );
    }
  }

  answers(estimator: string): GroupAnswer[] {
    const answers = this.#groups.answers(estimator);
    const { top } = this.#question;
    return top === undefined ? answers : answers.slice(0, top);
  }

  notes(): string[] {
    const { top, group } = this.#question;
    const heavy = this.#heavyEpochs > 0 && top !== undefined;
    const found = `flows were found by the sketch: a flow of more than ${countOf(this.#floor, "packet")} in an epoch is never missed, smaller ones may be`;
    const rest = group === undefined ? "" : "; groups are of the flows found";
    return [...(heavy ? [`${found}${rest}`] : []), ...this.#leftOutNotes()];
  }

  #leftOutNotes(): string[] {
    return [...this.#leftOut].map(
      ([key, epochs]) =>
        `flows of ${countOf(epochs, "epoch")} are left out: they were observed with key ${key}`,
    );
  }
}
