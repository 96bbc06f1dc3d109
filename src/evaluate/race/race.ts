/**
 * Runs all estimators of the table on the same packets with an equal budget. Results: errors by flow size and by delay, coverage of the intervals, share of
 * flows answered, bytes exchanged, and CPU per packet. Estimators without `sizing` run with their defaults. This file does not depend on any particular
 * estimator.
 */
import { entryAt } from "../../base/lists.ts";
import { medianAgain, quantileSorted } from "../../base/math/regression.ts";
import { countOf, formatBytes } from "../../base/quantity.ts";
import { type Estimator, needsDelays, type ParameterValues } from "../../estimators/estimator.ts";
import { formatParameters, parseParameters } from "../../estimators/parameters.ts";
import { ESTIMATORS } from "../../estimators/table.ts";
import { errorSummary, type FlowErrors, type SizeClass } from "../flow-errors.ts";
import { type Budget, bitsOf, type Fixed, fitAll, isWithin, largestMemory } from "./budget.ts";
import type { ExpectedTraffic, JudgedFlow, RaceSegment } from "./segment.ts";

export const RACE_CLASSES: readonly SizeClass[] = [
  { from: 1, to: 9 },
  { from: 10, to: 99 },
  { from: 100, to: 999 },
  { from: 1000, to: null },
];

/** Only flows of at least this many packets are grouped by delay, and only if there are at least DELAY_FLOWS of them. */
export const DELAY_PACKETS = 10;
const DELAY_FLOWS = 40;
const QUARTERS = [0, 0.25, 0.5, 0.75] as const;

export interface RaceOptions {
  /** Null: the usual size of each estimator. */
  readonly budget: Budget | null;
  readonly estimators?: readonly Estimator[];
  /** Parameters set by the user. */
  readonly fixed?: Fixed;
}

/** Errors of the flows whose true mean is within one quarter of all flow means. */
export interface DelayErrors {
  readonly fromNs: number;
  readonly toNs: number;
  readonly flows: number;
  readonly answered: number;
  readonly median: number | null;
}

export interface RaceErrors extends FlowErrors {
  /** 95 % interval of the median in a repetition with as many flows (other hashes, similar traffic). Null without an answer. */
  readonly again: { readonly low: number; readonly high: number } | null;
}

export interface RaceRow {
  readonly estimator: string;
  /** Parameters that differ from the defaults, as the user types them. */
  readonly parameters: string;
  /** The estimator needs the delay of each packet (exact match, references), which the others do not have. */
  readonly needsDelays: boolean;
  /** Kind of packets that are injected for it. */
  readonly injected: "reference" | "probe" | null;
  /** The estimator also needs a tap at the sender. */
  readonly atSender: boolean;
  readonly usesList: boolean;
  readonly byPackets: boolean;
  /** The measured cost is within the budget. */
  readonly fits: boolean;
  /** Memory of one tap; the larger end. */
  readonly memoryBytes: number;
  /** Both ends together, per packet that arrived; on the wire, this includes injected packets. */
  readonly storedBits: number;
  readonly wireBits: number;
  /** Bits of the list of flows, if the estimator got one; not included in the bits above. */
  readonly listBits: number;
  /** CPU of one tap. */
  readonly cpuNsPerPacket: number;
  /** estimate - truth| / truth of the segment's mean; null without an answer. */
  readonly segmentError: number | null;
  readonly segmentInside: boolean | null;
  /** Share of all flows with an answer. */
  readonly answered: number;
  /** Share of all packets whose flow has an answer. */
  readonly answeredPackets: number;
  readonly classes: readonly RaceErrors[];
  /** For an estimator that answers only for the segment: errors if its mean is used for every flow. */
  readonly meanForAll: readonly FlowErrors[] | null;
  readonly delayClasses: readonly DelayErrors[];
}

export interface Race {
  readonly segment: string;
  readonly packets: number;
  readonly flows: number;
  readonly meanNs: number;
  /** Duration of the epoch: the whole traffic. */
  readonly epochNs: number;
  /** Largest absolute delay between the two captures, by their clocks; null for a simulation. */
  readonly longestNs: number | null;
  /** Cost of a table of all flows at the sender. */
  readonly list: { readonly memoryBytes: number; readonly bytes: number };
  readonly rows: readonly RaceRow[];
  readonly notes: readonly string[];
}

/** Estimators of the table that answer at least one kind of question. */
export function racing(estimators: readonly Estimator[] = ESTIMATORS): Estimator[] {
  return estimators.filter((e) => e.answers.length > 0);
}

export async function runRace(segment: RaceSegment, options: RaceOptions): Promise<Race> {
  const { budget, fixed } = options;
  const chosen = racing(options.estimators);
  const contestants = await fitAll(segment, chosen, budget, fixed);
  const whole = await segment.run(contestants);
  const expected = await segment.expected();
  const { epochNs } = expected;
  const rows = whole.results.map((result, i): RaceRow => {
    const { estimator, parameters } = entryAt(contestants, i);
    const bits = bitsOf(result, whole);
    const { segment: mean, flows } = result;
    return {
      estimator: estimator.name,
      parameters: changedParameters(estimator, parameters),
      needsDelays: needsDelays(estimator, parameters),
      injected: estimator.needs.injected ?? null,
      atSender: estimator.needs.sender,
      usesList: result.usesList,
      byPackets: result.byPackets,
      fits: isWithin(budget, result, whole),
      memoryBytes: result.memoryBytes,
      storedBits: bits.stored,
      wireBits: bits.wire,
      listBits: bits.list,
      cpuNsPerPacket: result.cpuNsPerPacket,
      segmentError: mean ? Math.abs(mean.valueNs / whole.meanNs - 1) : null,
      segmentInside: mean ? mean.lowNs <= whole.meanNs && whole.meanNs <= mean.highNs : null,
      answered: flows.filter((f) => f.answer).length / Math.max(1, flows.length),
      answeredPackets: packetsOf(flows.filter((f) => f.answer)) / Math.max(1, packetsOf(flows)),
      classes: RACE_CLASSES.map((c) => classErrors(flows, c)),
      meanForAll:
        mean && !estimator.answers.includes("flow")
          ? RACE_CLASSES.map((c) =>
              classErrors(
                flows.map((f) => ({ ...f, answer: mean })),
                c,
              ),
            )
          : null,
      delayClasses: delayErrors(flows),
    };
  });
  const { packets, flows, meanNs, longestNs, list } = whole;
  const notes = [...whole.notes, ...cutNotes(budget, expected)];
  return { segment: segment.name, packets, flows, meanNs, epochNs, longestNs, list, rows, notes };
}

function packetsOf(flows: readonly JudgedFlow[]): number {
  return flows.reduce((sum, f) => sum + f.packets, 0);
}

/** Says that the budget in memory is more than the packets can use. */
function cutNotes(budget: Budget | null, expected: ExpectedTraffic): string[] {
  const largest = largestMemory(expected);
  if (budget?.kind !== "memory" || budget.bytes <= largest) return [];
  return [
    `sizes up to ${formatBytes(largest)} were tried: more is of no use to ${countOf(expected.packets, "packet")} in one epoch`,
  ];
}

/** Returns the sketch parameters that are not the default. */
function changedParameters(estimator: Estimator, values: ParameterValues): string {
  const usual = formatParameters(estimator, parseParameters(estimator, ""), true).split(",");
  const own = formatParameters(estimator, values, true).split(",");
  return own.filter((setting) => !usual.includes(setting)).join(",");
}

interface Errors {
  readonly errors: readonly number[];
  readonly widths: readonly number[];
  readonly within: number;
}

function errorsOf(flows: readonly JudgedFlow[]): Errors {
  const errors: number[] = [];
  const widths: number[] = [];
  let within = 0;
  for (const { exactNs, answer } of flows) {
    if (!answer || exactNs === 0) continue;
    errors.push(Math.abs((answer.valueNs - exactNs) / exactNs));
    widths.push((answer.highNs - answer.lowNs) / Math.abs(exactNs));
    if (answer.lowNs <= exactNs && exactNs <= answer.highNs) within++;
  }
  const up = (a: number, b: number) => a - b;
  return { errors: errors.sort(up), widths: widths.sort(up), within };
}

/** With fewer errors than this, their spread is unknown; the largest error is used as the limit. */
const FEW_ERRORS = 8;

/** With few flows that share cells, the errors are correlated; half the median width of their intervals then is the limit. */
export function errorAgain(errors: readonly number[], widths: readonly number[]): RaceErrors["again"] {
  const again = medianAgain(errors);
  if (again === null || errors.length >= FEW_ERRORS) return again;
  return { low: again.low, high: Math.max(again.high, (quantileSorted(widths, 0.5) ?? 0) / 2) };
}

function classErrors(flows: readonly JudgedFlow[], { from, to }: SizeClass): RaceErrors {
  const own = flows.filter((f) => f.packets >= from && f.packets <= (to ?? Infinity));
  const { errors, widths, within } = errorsOf(own);
  return {
    from,
    to,
    flows: own.length,
    ...errorSummary(errors, widths, within),
    again: errorAgain(errors, widths),
  };
}

function delayErrors(flows: readonly JudgedFlow[]): DelayErrors[] {
  const large = flows.filter((f) => f.packets >= DELAY_PACKETS).sort((a, b) => a.exactNs - b.exactNs);
  if (large.length < DELAY_FLOWS) return [];
  return QUARTERS.map((share) => {
    const own = large.slice(Math.floor(share * large.length), Math.floor((share + 0.25) * large.length));
    const { errors } = errorsOf(own);
    return {
      ...{ fromNs: entryAt(own, 0).exactNs, toNs: entryAt(own, -1).exactNs },
      ...{ flows: own.length, answered: errors.length, median: quantileSorted(errors, 0.5) },
    };
  });
}
