/**
 * All estimators of the table on the same packets, at equal memory: errors of flows by size, how often intervals hold, what is answered, what is exchanged, and CPU per packet.
 * An estimator that has no sizes of its own to choose runs as it is. Nothing here knows an estimator by name.
 */
import { UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import { entryAt } from "../base/lists.ts";
import {
  type Estimator,
  isNoAnswer,
  needsDelays,
  type ParameterValues,
  type SizeRequest,
  type Tap,
} from "../estimators/estimator.ts";
import { formatParameters, parseParameters } from "../estimators/parameters.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import type { Scenario } from "../simulate/scenario.ts";
import { type FlowErrors, flowErrors, type SizeClass } from "./flow-errors.ts";
import { withReferences } from "./rli-experiment.ts";
import { type Contestant, runSegment } from "./run-segment.ts";

export const RACE_CLASSES: readonly SizeClass[] = [
  { from: 1, to: 9 },
  { from: 10, to: 99 },
  { from: 100, to: 999 },
  { from: 1000, to: null },
];

/** A class of fewer flows says nothing. */
const FEW = 5;

export interface RaceOptions {
  /** Bytes that one tap may hold; null: each estimator's usual size. */
  readonly memoryBytes: number | null;
  readonly estimators?: readonly Estimator[];
  /** Packets and flows that are expected, and loss to be ready for. */
  readonly expected: Pick<SizeRequest, "packets" | "flows" | "loss" | "epochNs">;
  /** One reference packet for so many, for estimators that use them. */
  readonly referenceEvery?: number;
}

export interface RaceRow {
  readonly estimator: string;
  readonly parameters: string;
  /** It works with each packet's delay (exact match, references), which others do not have. */
  readonly needsDelays: boolean;
  /** The memory was met by a size of its own; false: it has no sizes, or none that small. */
  readonly sized: boolean;
  /** Of one tap, the larger end. */
  readonly memoryBytes: number;
  /** Both ends, per packet that arrived. */
  readonly bitsPerPacket: number;
  /** Of one tap. */
  readonly cpuNsPerPacket: number;
  /** |estimate - truth| / truth of the segment's mean; null without an answer. */
  readonly segmentError: number | null;
  readonly segmentInside: boolean | null;
  readonly classes: readonly FlowErrors[];
}

export interface Race {
  readonly packets: number;
  readonly flows: number;
  readonly meanNs: number;
  readonly rows: readonly RaceRow[];
}

interface Cost {
  ns: number;
  rows: number;
  memoryBytes: number;
}

export async function runRace(kernels: Kernels, scenario: Scenario, options: RaceOptions): Promise<Race> {
  const chosen = (options.estimators ?? ESTIMATORS).filter((e) => e.answers.length > 0);
  const contestants = chosen.map((estimator) => prepare(estimator, options));
  const injected = withReferences(scenario, { kind: "packets", every: options.referenceEvery ?? 100 }, 0);
  const run = await runSegment(
    kernels,
    injected.scenario,
    contestants.map((c) => c.contestant),
  );
  const { truth } = run;
  const rows = run.entries.map((entry, i): RaceRow => {
    const { contestant, cost, sized } = entryAt(contestants, i);
    const mean = entry.answer.segment?.mean;
    const answered = mean && !isNoAnswer(mean) ? mean : null;
    return {
      estimator: entry.name,
      parameters: changedParameters(contestant.estimator, contestant.parameters),
      needsDelays: needsDelays(contestant.estimator, contestant.parameters),
      sized,
      memoryBytes: cost.memoryBytes,
      bitsPerPacket: (8 * (entry.senderBytes + entry.receiverBytes)) / truth.packets,
      cpuNsPerPacket: cost.ns / Math.max(1, cost.rows),
      segmentError: answered ? Math.abs(answered.valueNs / truth.meanNs - 1) : null,
      segmentInside: answered ? answered.lowNs <= truth.meanNs && truth.meanNs <= answered.highNs : null,
      classes: flowErrors(truth, entry.answer.flows, RACE_CLASSES),
    };
  });
  return { packets: truth.packets, flows: truth.flows.count, meanNs: truth.meanNs, rows };
}

/** What is to be typed: parameters of the sketch that are not the default. */
function changedParameters(estimator: Estimator, values: ParameterValues): string {
  const usual = formatParameters(estimator, parseParameters(estimator, ""), true).split(",");
  const own = formatParameters(estimator, values, true).split(",");
  return own.filter((setting) => !usual.includes(setting)).join(",");
}

function prepare(
  estimator: Estimator,
  options: RaceOptions,
): { contestant: Contestant; cost: Cost; sized: boolean } {
  const sizes = chooseSize(estimator, options);
  const cost: Cost = { ns: 0, rows: 0, memoryBytes: 0 };
  return {
    contestant: { name: estimator.name, estimator: timed(estimator, cost), parameters: sizes.parameters },
    cost,
    sized: sizes.sized,
  };
}

function chooseSize(
  estimator: Estimator,
  { memoryBytes, expected }: RaceOptions,
): { parameters: ParameterValues; sized: boolean } {
  if (memoryBytes !== null && estimator.sizing) {
    try {
      const { parameters } = estimator.sizing.size({
        ...expected,
        ...{ flowPackets: null, variation: 1, error: null, flowSize: null, memoryBytes, fixed: {} },
      });
      return { parameters, sized: true };
    } catch (error) {
      // Nothing of that size can work: it runs as it usually does, and the row says so.
      if (!(error instanceof UsageError)) throw error;
    }
  }
  return { parameters: parseParameters(estimator, ""), sized: false };
}

/** The same estimator with its updates timed. */
function timed(estimator: Estimator, cost: Cost): Estimator {
  return {
    ...estimator,
    createTap: (context, parameters): Tap => {
      const tap = estimator.createTap(context, parameters);
      return {
        get memoryBytes() {
          return tap.memoryBytes;
        },
        begin: (...given) => tap.begin(...given),
        update: (batch, from, to) => {
          const before = process.cpuUsage();
          tap.update(batch, from, to);
          const { user, system } = process.cpuUsage(before);
          cost.ns += 1e3 * (user + system);
          cost.rows += to - from;
        },
        seal: () => {
          cost.memoryBytes = Math.max(cost.memoryBytes, tap.memoryBytes);
          return tap.seal();
        },
        free: () => tap.free(),
      };
    },
    merge: (a, b, parameters) => estimator.merge(a, b, parameters),
    rebase: (sealed, earlierNs, parameters) => estimator.rebase(sealed, earlierNs, parameters),
    estimate: (input) => estimator.estimate(input),
    complete: (values) => estimator.complete(values),
  };
}

export interface Recommendation {
  readonly estimator: string;
  /** As `observe` takes it. */
  readonly parameters: string;
  /** Flows of so many packets and more err by so much in the median, with the kind of delay that was tried last. */
  readonly from: number;
  readonly medianError: number;
  readonly bitsPerPacket: number;
}

/** Errors below this are alike. */
const EXACT = 1e-4;

/**
 * Which to take, of those that need no more than the two points' packets: the smallest error over all classes of flows that the traffic has (the geometric mean of their medians, over all
 * races), of those that answer nine of ten flows. Within a fifth of the best, the one that exchanges least. Null where none answers.
 */
export function recommend(races: readonly Race[]): Recommendation | null {
  const [first] = races;
  if (!first) return null;
  const judged = first.rows.flatMap((row, i) => {
    const found = races.flatMap((race) => entryAt(race.rows, i).classes.filter((c) => c.flows >= FEW));
    const usable = found.length > 0 && found.every((c) => c.answered >= 0.9 * c.flows && c.median !== null);
    if (!usable || row.needsDelays) return [];
    const logs = found.map((c) => Math.log(Math.max(EXACT, c.median ?? 1)));
    const large = found.reduce((max, c) => (c.from >= max.from ? c : max));
    return [{ row, error: Math.exp(logs.reduce((a, b) => a + b, 0) / logs.length), large }];
  });
  const best = judged.reduce((min, j) => Math.min(min, j.error), Infinity);
  const [chosen] = judged
    .filter((j) => j.error <= 1.2 * best)
    .sort((a, b) => a.row.bitsPerPacket - b.row.bitsPerPacket);
  if (!chosen) return null;
  const { row, large } = chosen;
  return {
    estimator: row.estimator,
    parameters: row.parameters,
    from: large.from,
    medianError: large.median ?? Number.NaN,
    bitsPerPacket: row.bitsPerPacket,
  };
}
