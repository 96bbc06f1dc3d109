/**
 * Estimators in `compare`: what two remote points would know. In addition to the exact match, each capture is fed to taps of its own, in one epoch over the
 * whole capture, and only their sealed payloads are combined; the report shows the estimates next to the exact values.
 *
 * Taps see packets as the exact match does: filtered, keyed, each direction separately, and with the same clock correction. A clock offset above any delay is
 * subtracted from what they see, and added back to their answers.
 */

import { Kernels } from "../base/kernels.ts";
import { entryAt } from "../base/lists.ts";
import { countOf } from "../base/quantity.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../capture/reader.ts";
import { RecordedFlows } from "../collect/recorded-flows.ts";
import {
  type Estimator,
  type KnownFlows,
  listsAllFlows,
  needsDelays,
  type ParameterValues,
  type Role,
  type SealedEpoch,
} from "../estimators/estimator.ts";
import { parseParameters } from "../estimators/parameters.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import type { FlowRecord } from "../flow-records/flow-records.ts";
import {
  type CompareOptions,
  type Comparison,
  openComparison,
  type Reading,
  wholeReport,
} from "./compare.ts";
import { requireFiles, sealWithDelays } from "./delays.ts";
import { describeEstimate, type EstimateReport } from "./estimate-report.ts";
import type { CompareReport, ReportView } from "./report.ts";
import { type WayName, WayReader } from "./way-reader.ts";

export interface EstimatePlan {
  estimator: Estimator;
  parameters: ParameterValues;
  /** Names of parameters that were set explicitly; undefined: all. The others may be adapted to the captures. */
  given?: ReadonlySet<string> | undefined;
}

export interface CompareEstimateOptions {
  plans: readonly EstimatePlan[];
  /** Confidence of the intervals (default 0.95). */
  confidence?: number;
  /** Packets per flow from flow records, instead of a flow table at BEFORE. */
  flowRecords?: readonly FlowRecord[] | undefined;
  /** Notes on the flow records: sampled, incomplete. */
  flowRecordNotes?: readonly string[];
}

/** Compares the captures, and runs estimators over them like two points that exchange sketches. */
export async function compareWithEstimates(
  options: CompareOptions,
  estimation: CompareEstimateOptions,
): Promise<CompareReport> {
  const comparison = await openWithEstimates(options, estimation);
  try {
    // Flow estimates are compared with the exact values of all flows, whichever are shown.
    const perFlow = estimation.plans.some((p) => p.estimator.answers.includes("flow"));
    return wholeReport(comparison.view(perFlow ? "all" : (options.flows ?? "all")));
  } finally {
    comparison.free();
  }
}

/** The same for results of any length (`openComparison`). */
export async function openWithEstimates(
  options: CompareOptions,
  estimation: CompareEstimateOptions,
): Promise<Comparison> {
  requireFiles(options, estimation.plans);
  const comparison = await openComparison(options);
  try {
    const report = comparison.view("all");
    const estimates: Record<string, EstimateReport> = {};
    for (const way of comparison.reading.twoWay ? WAYS : WAYS.slice(0, 1)) {
      const found = await estimateWay(options, estimation, comparison, way, report);
      for (const [name, estimate] of found) {
        const forward = estimates[name];
        if (forward) forward.reverse = estimate;
        else estimates[name] = estimate;
      }
    }
    const view: Comparison["view"] = (choice) => {
      const exact = comparison.view(choice);
      return { ...exact, notes: [...exact.notes, ...(estimation.flowRecordNotes ?? [])], estimates };
    };
    return { ...comparison, view };
  } catch (error) {
    comparison.free();
    throw error;
  }
}

const WAYS = ["forward", "reverse"] as const;

/** Estimates the packets of one direction. */
async function estimateWay(
  options: CompareOptions,
  { plans, confidence = 0.95, flowRecords }: CompareEstimateOptions,
  { reading }: Comparison,
  way: WayName,
  report: ReportView,
): Promise<[string, EstimateReport][]> {
  const seed = options.seed ?? DEFAULT_SEED;
  const companions = flowRecords ? [] : neededFlowLists(plans);
  const keeping = (plan: EstimatePlan) => withAllFlows(plan, reading.matcher.flowCount);
  const needing = plans.filter((p) => needsDelays(p.estimator, p.parameters));
  const counting = [...plans.filter((p) => !needing.includes(p)), ...companions].map(keeping);
  const few = counting.flatMap((of, at) => {
    const other = of.given && of.estimator.tuning?.forFewFlows?.(of.parameters, of.given);
    return other ? [{ ...other, estimator: of.estimator, at }] : [];
  });
  const { ends, startNs, epochNs } = await sealBothEnds(options, reading, way, [...counting, ...few]);
  const delayed =
    startNs === null ? [] : await sealWithDelays(options, reading, way, needing.map(keeping), startNs);
  const key = FlowKeySpec.parse(options.key);
  const lists = counting.map(({ estimator, parameters }, i): KnownFlows | null =>
    ends && listsAllFlows(estimator)
      ? (estimator.flowList?.read(entryAt(ends.sender, i), parameters) ?? null)
      : null,
  );
  const recorded = flowRecords ? new RecordedFlows(new Kernels(), flowRecords, key, seed).of(null) : null;
  // A list made for this purpose comes last: use it rather than one with a bound set by the user.
  const flows = recorded ?? lists.findLast((l) => l !== null) ?? null;
  return plans.map((plan) => {
    const { estimator } = plan;
    const d = needing.indexOf(plan);
    const place = counting.findIndex((c) => c.estimator === estimator);
    const other = few.findIndex((o) => o.at === place && flows !== null && flows.count <= o.maxFlows);
    const { parameters } = few[other] ?? counting[place] ?? keeping(plan);
    const i = other < 0 ? place : counting.length + other;
    const estimate = describeEstimate({
      estimator,
      parameters,
      seed,
      way,
      ends:
        d >= 0
          ? delayed[d]
            ? { sender: null, receiver: delayed[d].receiver }
            : null
          : ends && { sender: entryAt(ends.sender, i), receiver: entryAt(ends.receiver, i) },
      packets: delayed[d]?.packets ?? null,
      flows: estimator.answers.includes("flow") ? flows : null,
      flowListBytes: estimator.needs.flows === "required" && ends ? flowListBytes(counting, ends.sender) : 0,
      key,
      confidence,
      epochNs,
      commonNs: way === "forward" ? reading.commonNs : -reading.commonNs,
      clock: reading.plan.correction.kind === "none" ? null : (report.clock.uncertainty ?? null),
      report,
    });
    if (other >= 0 && flows) estimate.notes.push(...chosenFor(flows.count, plan, parameters));
    return [estimator.name, estimate];
  });
}

/** Lets an estimator keep all flows: with both captures present none needs to be evicted. */
function withAllFlows(plan: EstimatePlan, flows: number): EstimatePlan {
  const { estimator, parameters, given = new Set<string>() } = plan;
  return { ...plan, parameters: estimator.tuning?.keepFlows?.(parameters, given, flows) ?? parameters };
}

/** Notes the parameters that were adapted. */
function chosenFor(flows: number, { parameters }: EstimatePlan, chosen: ParameterValues): string[] {
  const changed = Object.keys(chosen).filter((name) => chosen[name] !== parameters[name]);
  return changed.map(
    (name) =>
      `${name}=${chosen[name]} chosen for ${countOf(flows, "flow")} (default ${parameters[name]}): set it at both points when they are observed separately`,
  );
}

/** A list of flows, kept at the sender, for estimators that need one, if none was requested. */
function neededFlowLists(plans: readonly EstimatePlan[]): EstimatePlan[] {
  const listing = ESTIMATORS.find(listsAllFlows);
  const needed = plans.some((p) => p.estimator.answers.includes("flow"));
  const isWhole = (p: EstimatePlan) => listsAllFlows(p.estimator) && (p.given?.size ?? 0) === 0;
  if (!needed || !listing || plans.some(isWhole)) return [];
  return [{ estimator: listing, parameters: parseParameters(listing) }];
}

function flowListBytes(plans: readonly EstimatePlan[], sealed: readonly SealedEpoch[]): number {
  const at = plans.findIndex((p) => listsAllFlows(p.estimator));
  return at < 0 ? 0 : entryAt(sealed, at).payload.length;
}

interface SealedEnds {
  /** Null without any packet. */
  ends: { sender: SealedEpoch[]; receiver: SealedEpoch[] } | null;
  /** Time of the first packet (start of the epoch), ns since 1970, and the length of the epoch. */
  startNs: bigint | null;
  epochNs: number;
}

/** Runs taps at both ends of one direction, in one epoch over both captures. */
async function sealBothEnds(
  options: CompareOptions,
  reading: Reading,
  way: WayName,
  plans: readonly EstimatePlan[],
): Promise<SealedEnds> {
  const { kernels } = reading;
  const seed = options.seed ?? DEFAULT_SEED;
  const sides = [0, 1] as const;
  const make = (role: Role) =>
    plans.map(({ estimator, parameters }) => estimator.createTap({ kernels, role, seed }, parameters));
  const taps = way === "forward" ? [make("sender"), make("receiver")] : [make("receiver"), make("sender")];
  const readers = [
    await WayReader.open(options, reading, 0, way),
    await WayReader.open(options, reading, 1, way),
  ] as const;
  let startNs: bigint | null = null;
  let endNs = 0n;
  try {
    for (const side of sides) {
      const reader = readers[side];
      while (await reader.next()) {
        const { batch, originNs } = reader;
        startNs ??= originNs;
        const shiftNs = Number(originNs - startNs);
        const last = originNs + BigInt(Math.ceil(batch.count > 0 ? batch.timeNs[batch.count - 1]! : 0));
        if (last > endNs) endNs = last;
        for (const tap of entryAt(taps, side)) {
          tap.begin(-shiftNs, originNs);
          tap.update(batch, 0, batch.count);
        }
      }
    }
    if (startNs === null) return { ends: null, startNs, epochNs: 0 };
    const sealed = taps.map((side) => side.map((t) => t.seal())) as [SealedEpoch[], SealedEpoch[]];
    const [sender, receiver] = way === "forward" ? sealed : [sealed[1], sealed[0]];
    return { ends: { sender, receiver }, startNs, epochNs: Number(endNs - startNs) };
  } finally {
    for (const tap of taps.flat()) tap.free();
    for (const reader of readers) reader.free();
  }
}
