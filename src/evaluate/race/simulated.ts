/** A race over a simulated segment; the simulation knows the true delays. One epoch over the whole scenario. */
import type { Kernels } from "../../base/kernels.ts";
import { entryAt } from "../../base/lists.ts";
import type { PacketBatch } from "../../capture/batch.ts";
import { FlowKeySpec } from "../../capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../../capture/reader.ts";
import {
  type Estimator,
  type FlowEstimate,
  type Interval,
  isNoAnswer,
  type KnownFlows,
  listsAllFlows,
  type NoAnswer,
  type Role,
  type SealedEpoch,
  type Tap,
} from "../../estimators/estimator.ts";
import { parseParameters } from "../../estimators/parameters.ts";
import { ESTIMATORS } from "../../estimators/table.ts";
import { RECEIVER, type Scenario, SENDER, SIMULATED_FLAG } from "../../simulate/scenario.ts";
import { simulate } from "../../simulate/simulate.ts";
import { FlowTruthTable } from "../../simulate/truth.ts";
import { withReferences } from "../rli-experiment.ts";
import { readTruth, type SegmentTruth } from "../run-segment.ts";
import { applyClockError, type ClockError, NO_CLOCK_ERROR, withoutClocks } from "./clock-error.ts";
import { hashOf, PacketQuestions } from "./packet-flows.ts";
import type {
  ContestantResult,
  ExpectedTraffic,
  JudgedFlow,
  RaceContestant,
  RaceSegment,
  SegmentResult,
} from "./segment.ts";
import { cpuPerRow, noCost, type TapCost, timed } from "./timed.ts";

const OWN = SIMULATED_FLAG.reference | SIMULATED_FLAG.probe;
const CONFIDENCE = 0.95;

export interface SimulatedOptions {
  /** All estimators of the race. If one needs injected packets, they are injected in every run, so that all runs have the same traffic. */
  readonly estimators: readonly Estimator[];
  /** Packets per reference, and per probe. */
  readonly injectEvery: number;
  readonly clock?: ClockError | undefined;
  /** Loss rates that the sizes must allow for. */
  readonly loss?: readonly number[];
}

interface Runner extends RaceContestant {
  readonly cost: TapCost;
  readonly sender: Tap | null;
  readonly receiver: Tap;
}

export function simulatedSegment(
  kernels: Kernels,
  name: string,
  given: Scenario,
  options: SimulatedOptions,
): RaceSegment {
  const { scenario, error } = withoutClocks(given);
  const clock = options.clock ?? error;
  let expected: Promise<ExpectedTraffic> | null = null;
  const measure = async (): Promise<ExpectedTraffic> => {
    const offered = await simulate(kernels, scenario).offered();
    const table = await simulate(kernels, scenario).flows();
    const flows = table.size;
    table.free();
    return { packets: offered.packets, flows, epochNs: offered.durationNs, loss: options.loss ?? [] };
  };
  const traffic = () => (expected ??= measure());
  return {
    name,
    expected: traffic,
    run: async (contestants, sizesOnly = false) =>
      runOver(kernels, injecting(scenario, options, await traffic()), contestants, clock, sizesOnly),
  };
}

/** Adds the references and probes that any of the estimators needs. */
function injecting(
  scenario: Scenario,
  { estimators, injectEvery }: SimulatedOptions,
  { packets, epochNs }: ExpectedTraffic,
): Scenario {
  const needs = (what: "reference" | "probe") => estimators.some((e) => e.needs.injected === what);
  const probed =
    needs("probe") && !scenario.probes
      ? {
          ...scenario,
          probes: { ratePps: Math.max(1e-3, (1e9 * packets) / Math.max(1, epochNs) / injectEvery) },
        }
      : scenario;
  if (!needs("reference") || scenario.inject) return probed;
  return withReferences(probed, { kind: "packets", every: injectEvery }, 0).scenario;
}

async function runOver(
  kernels: Kernels,
  scenario: Scenario,
  contestants: readonly RaceContestant[],
  clock: ClockError,
  sizesOnly: boolean,
): Promise<SegmentResult> {
  const listing = ESTIMATORS.find(listsAllFlows);
  const companion = listing ? [{ estimator: listing, parameters: parseParameters(listing) }] : [];
  const runners = [...contestants, ...companion].map((c) => openTaps(kernels, c));
  const [received, sent] = [new FlowTruthTable(kernels), new FlowTruthTable(kernels)];
  const questions = new PacketQuestions();
  const asks = !sizesOnly && contestants.some((c) => c.estimator.packets);
  const mask = FlowKeySpec.parse().store(kernels);
  const injected = { reference: 0, probe: 0 };
  let lastNs = 0;
  try {
    for await (const { point, batch } of simulate(kernels, scenario).observe([SENDER, RECEIVER])) {
      kernels.call.keyFlows(batch.address, mask, DEFAULT_SEED);
      if (point === SENDER) {
        countInjected(batch, injected);
        sent.updateKeyed(batch);
      } else {
        received.updateKeyed(batch);
        if (clock !== NO_CLOCK_ERROR) applyClockError(batch, clock);
        lastNs = batch.timeNs[batch.count - 1] ?? lastNs;
      }
      update(runners, point === SENDER ? "sender" : "receiver", batch);
      if (asks && point === RECEIVER) questions.note(batch);
    }
    const truth = readTruth(received);
    const flows = listOf(sent);
    const sealed = runners.map(({ sender, receiver }) => ({
      sender: sender?.seal() ?? null,
      receiver: receiver.seal(),
    }));
    const judge = new Judge(truth, flows);
    const results = contestants.map((contestant, i): ContestantResult => {
      const own = entryAt(sealed, i);
      const { cost } = entryAt(runners, i);
      const kind = contestant.estimator.needs.injected;
      const answers = sizesOnly
        ? { segment: null, flows: [], byPackets: false }
        : answersOf(kernels, contestant, own, { flows, judge, questions, epochNs: lastNs });
      return {
        ...{ senderBytes: own.sender?.payload.length ?? 0, receiverBytes: own.receiver.payload.length },
        injectedBytes: kind ? injected[kind] : 0,
        memoryBytes: cost.memoryBytes,
        cpuNsPerPacket: cpuPerRow(cost),
        usesList: contestant.estimator.needs.flows !== "none",
        ...answers,
      };
    });
    const list = {
      memoryBytes: runners[contestants.length]?.cost.memoryBytes ?? 0,
      bytes: sealed[contestants.length]?.sender?.payload.length ?? 0,
    };
    return {
      packets: truth.packets,
      flows: truth.flows.count,
      meanNs: truth.meanNs,
      longestNs: null,
      list,
      results,
      notes: [],
    };
  } finally {
    for (const { sender, receiver } of runners) {
      sender?.free();
      receiver.free();
    }
    received.free();
    sent.free();
    kernels.free(mask);
  }
}

function openTaps(kernels: Kernels, { estimator, parameters }: RaceContestant): Runner {
  const cost = noCost();
  const open = (role: Role): Tap => {
    const tap = timed(estimator, cost).createTap({ kernels, role, seed: DEFAULT_SEED }, parameters);
    tap.begin(0, 0n);
    return tap;
  };
  const sender = estimator.needs.sender ? open("sender") : null;
  return { estimator, parameters, cost, sender, receiver: open("receiver") };
}

/** First updates the estimators that recognise injected packets, then removes these packets and updates the others. */
function update(runners: readonly Runner[], end: Role, batch: PacketBatch): void {
  for (const runner of runners)
    if (runner.estimator.needs.injected) runner[end]?.update(batch, 0, batch.count);
  dropInjected(batch);
  for (const runner of runners)
    if (!runner.estimator.needs.injected) runner[end]?.update(batch, 0, batch.count);
}

function dropInjected(batch: PacketBatch): void {
  const { flags, count, kernels } = batch;
  const select = batch.column("select");
  let own = 0;
  for (let i = 0; i < count; i++) {
    const regular = (flags[i]! & OWN) === 0;
    kernels.u8[select + i] = regular ? 1 : 0;
    if (!regular) own++;
  }
  if (own > 0) batch.compact();
}

function countInjected(
  { flags, wireLength, count }: PacketBatch,
  into: Record<"reference" | "probe", number>,
) {
  for (let i = 0; i < count; i++) {
    if ((flags[i]! & SIMULATED_FLAG.reference) !== 0) into.reference += wireLength[i]!;
    else if ((flags[i]! & SIMULATED_FLAG.probe) !== 0) into.probe += wireLength[i]!;
  }
}

/** Returns the list of flows that a flow table at the sender has. */
function listOf(table: FlowTruthTable): KnownFlows {
  const count = table.size;
  const keyWords = new Uint32Array(10 * count);
  for (let i = 0; i < count; i++) keyWords.set(table.keyWords(i), 10 * i);
  const [packets, bytes] = [table.column("sent"), table.column("bytes")];
  return { count, hash: table.hashes(), packets, bytes, keyWords, complete: true };
}

/** True values by index in the sender's list. */
class Judge {
  readonly #packets: Float64Array;
  readonly #exactNs: Float64Array;
  readonly #flows: KnownFlows;

  constructor(truth: SegmentTruth, flows: KnownFlows) {
    const places = new Map<bigint, number>();
    for (let i = 0; i < truth.flows.count; i++) places.set(hashOf(truth.flows.hash, i), i);
    this.#flows = flows;
    this.#packets = new Float64Array(flows.count);
    this.#exactNs = new Float64Array(flows.count);
    for (let f = 0; f < flows.count; f++) {
      const at = places.get(hashOf(flows.hash, f));
      if (at === undefined) continue;
      this.#packets[f] = truth.flows.packets[at]!;
      this.#exactNs[f] = truth.flowMeanNs[at]!;
    }
  }

  /** Returns every flow of which at least one packet arrived. */
  flows(answerOf: (flow: number) => Interval | null): JudgedFlow[] {
    const out: JudgedFlow[] = [];
    for (let f = 0; f < this.#flows.count; f++) {
      if (this.#packets[f] === 0) continue;
      out.push({ packets: this.#packets[f]!, exactNs: this.#exactNs[f]!, answer: answerOf(f) });
    }
    return out;
  }

  hash(flow: number): bigint {
    return hashOf(this.#flows.hash, flow);
  }
}

interface Asked {
  readonly flows: KnownFlows;
  readonly judge: Judge;
  readonly questions: PacketQuestions;
  readonly epochNs: number;
}

function answersOf(
  kernels: Kernels,
  { estimator, parameters }: RaceContestant,
  sealed: { sender: SealedEpoch | null; receiver: SealedEpoch },
  { flows, judge, questions, epochNs }: Asked,
): Pick<ContestantResult, "segment" | "flows" | "byPackets"> {
  const input = { parameters, seed: DEFAULT_SEED, ...sealed, flows, confidence: CONFIDENCE, epochNs };
  const answer = estimator.estimate(input);
  const segment = intervalOf(answer.segment?.mean);
  const found = new Map<number, Interval>();
  for (const flow of answer.flows) noteAnswer(found, flow);
  const asked =
    found.size === 0 && estimator.packets ? questions.ask(kernels, sealed.receiver, estimator.packets) : null;
  if (asked && asked.size > 0)
    return { segment, flows: judge.flows((f) => asked.get(judge.hash(f)) ?? null), byPackets: true };
  return { segment, flows: judge.flows((f) => found.get(f) ?? null), byPackets: false };
}

function noteAnswer(into: Map<number, Interval>, { flow, mean }: FlowEstimate): void {
  const interval = intervalOf(mean);
  if (interval) into.set(flow, interval);
}

function intervalOf(mean: Interval | NoAnswer | undefined): Interval | null {
  return mean && !isNoAnswer(mean) ? mean : null;
}
