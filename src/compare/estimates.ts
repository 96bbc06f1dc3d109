/**
 * Estimators in `compare`: what two remote points would know. Beside the exact match, each capture runs through taps of its own, one epoch
 * over the whole capture, and only their sealed payloads meet; estimates stand beside the exact values.
 *
 * Taps see packets as the exact match does: filtered, keyed, and with the clock correction applied that it applies. A tap cannot know which way a
 * packet goes: where packets of both directions pass, the mean mixes them, and is withheld when that shows.
 */
import { Kernels } from "../base/kernels.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../capture/reader.ts";
import { RecordedFlows } from "../collect/recorded-flows.ts";
import type {
  Estimator,
  KnownFlows,
  ParameterValues,
  Role,
  SealedEpoch,
  Tap,
} from "../estimators/estimator.ts";
import { parseParameters } from "../estimators/parameters.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import type { FlowRecord } from "../flow-records/flow-records.ts";
import { type CompareOptions, type Comparison, openComparison, wholeReport } from "./compare.ts";
import { type PassClock, requireFiles, sealWithDelays } from "./delays.ts";
import { describeEstimate, type EstimateReport } from "./estimate-report.ts";
import { correctionLine, type PassPlan } from "./plan.ts";
import type { CompareReport } from "./report.ts";

export interface EstimatePlan {
  estimator: Estimator;
  parameters: ParameterValues;
  /** Names of parameters that were set on purpose; left out: all. Others may be chosen by what the captures hold. */
  given?: ReadonlySet<string> | undefined;
}

export interface CompareEstimateOptions {
  plans: readonly EstimatePlan[];
  /** Of the intervals (default 0.95). */
  confidence?: number;
  /** Packets per flow from elsewhere, instead of a flow table at BEFORE. */
  flowRecords?: readonly FlowRecord[] | undefined;
  /** What is to be said of them: sampled, incomplete. */
  flowRecordNotes?: readonly string[];
}

/** Compares the captures, and runs estimators over them as two points that exchange sketches would. */
export async function compareWithEstimates(
  options: CompareOptions,
  estimation: CompareEstimateOptions,
): Promise<CompareReport> {
  const comparison = await openWithEstimates(options, estimation);
  try {
    // Estimates of flows are compared with the exact ones, whichever are shown later.
    const perFlow = estimation.plans.some((p) => p.estimator.answers.includes("flow"));
    return wholeReport(comparison.view(perFlow ? "all" : (options.flows ?? "all")));
  } finally {
    comparison.free();
  }
}

/** The same for answers of any length (`openComparison`). */
export async function openWithEstimates(
  options: CompareOptions,
  { plans, confidence = 0.95, flowRecords, flowRecordNotes = [] }: CompareEstimateOptions,
): Promise<Comparison> {
  const companions = flowRecords ? [] : neededFlowLists(plans);
  // Those that must know delays get them when the comparison is done (compare-delays.ts).
  const told = plans.filter((p) => p.estimator.needs.delays);
  requireFiles(options, told);
  const counting = [...plans.filter((p) => !told.includes(p)), ...companions];
  const few = counting.flatMap((of) => {
    const other = of.given && of.estimator.tuning?.forFewFlows(of.parameters, of.given);
    return other ? [{ ...other, estimator: of.estimator, of }] : [];
  });
  const taps = new TapsOfBothEnds([...counting, ...few], options.seed ?? DEFAULT_SEED);
  try {
    const comparison = await openComparison({
      ...options,
      onRestart: (plan) => taps.restart(plan),
      onBatch: (side, batch, originNs) => taps.feed(side, batch, originNs),
    });
    const ends = taps.seal();
    const clock = taps.clock;
    const delayed = clock ? await sealWithDelays(options, told, clock) : [];
    const key = FlowKeySpec.parse(options.key);
    const lists = counting.map(({ estimator, parameters }, i): KnownFlows | null =>
      ends && estimator.flowList?.atSender ? estimator.flowList.read(ends.sender[i]!, parameters) : null,
    );
    const recorded = flowRecords
      ? new RecordedFlows(new Kernels(), flowRecords, key, taps.seed).of(null)
      : null;
    const flows = recorded ?? lists.find((l) => l !== null) ?? null;
    const report = comparison.view("all");
    const estimates: Record<string, EstimateReport> = {};
    for (const plan of plans) {
      const { estimator } = plan;
      const other = few.findIndex((o) => o.of === plan && flows !== null && flows.count <= o.maxFlows);
      const { parameters } = few[other] ?? plan;
      const d = told.indexOf(plan);
      const i = other < 0 ? counting.indexOf(plan) : counting.length + other;
      const estimate = describeEstimate({
        estimator,
        parameters,
        seed: taps.seed,
        ends:
          d >= 0
            ? delayed[d]
              ? { sender: null, receiver: delayed[d].receiver }
              : null
            : ends && { sender: ends.sender[i]!, receiver: ends.receiver[i]! },
        packets: delayed[d]?.packets ?? null,
        flows: estimator.answers.includes("flow") ? flows : null,
        flowListBytes:
          estimator.needs.flows === "required" && ends ? flowListBytes(counting, ends.sender) : 0,
        key,
        confidence,
        epochNs: taps.epochNs,
        report,
      });
      if (other >= 0) estimate.notes.push(...chosenFor(flows!.count, plan, parameters));
      estimates[estimator.name] = estimate;
    }
    const view: Comparison["view"] = (choice) => {
      const exact = comparison.view(choice);
      return { ...exact, notes: [...exact.notes, ...flowRecordNotes], estimates };
    };
    return { ...comparison, view };
  } finally {
    taps.free();
  }
}

/** What was set otherwise than by default. */
function chosenFor(flows: number, { parameters }: EstimatePlan, chosen: ParameterValues): string[] {
  const changed = Object.keys(chosen).filter((name) => chosen[name] !== parameters[name]);
  return changed.map(
    (name) =>
      `${name}=${chosen[name]} was chosen for ${flows} flows, where ${name}=${parameters[name]} is the default: two points that are to do the same must be told so`,
  );
}

/** A list of flows, kept at the sender, for estimators that cannot do without and where none was asked for. */
function neededFlowLists(plans: readonly EstimatePlan[]): EstimatePlan[] {
  const listing = ESTIMATORS.find((e) => e.flowList?.atSender);
  const needed = plans.some((p) => p.estimator.answers.includes("flow"));
  if (!needed || !listing || plans.some((p) => p.estimator.flowList?.atSender)) return [];
  return [{ estimator: listing, parameters: parseParameters(listing) }];
}

function flowListBytes(plans: readonly EstimatePlan[], sealed: readonly SealedEpoch[]): number {
  const at = plans.findIndex((p) => p.estimator.flowList?.atSender);
  return at < 0 ? 0 : sealed[at]!.payload.length;
}

/** Taps at BEFORE and AFTER, started anew with every pass of the comparison. */
class TapsOfBothEnds {
  readonly seed: bigint;
  readonly #plans: readonly EstimatePlan[];
  /** By side; made with the first batch, whose memory they share. */
  #taps: Tap[][] = [[], []];
  #plan: PassPlan | null = null;
  /** ns since 1970 of the epoch's start: the first packet. */
  #startNs: bigint | null = null;
  #endNs = 0n;
  #times = new Float64Array(0);

  constructor(plans: readonly EstimatePlan[], seed: bigint) {
    this.#plans = plans;
    this.seed = seed;
  }

  get epochNs(): number {
    return this.#startNs === null ? 0 : Number(this.#endNs - this.#startNs);
  }

  /** How the last pass reads the captures; null where it has seen no packet. */
  get clock(): PassClock | null {
    if (!this.#plan || this.#startNs === null) return null;
    return { plan: this.#plan, startNs: this.#startNs, seed: this.seed };
  }

  restart(plan: PassPlan): void {
    this.free();
    this.#plan = plan;
    this.#startNs = null;
    this.#endNs = 0n;
  }

  feed(side: 0 | 1, batch: PacketBatch, originNs: bigint): void {
    this.#startNs ??= originNs;
    if (this.#taps[0]!.length < this.#plans.length) this.#open(batch);
    const shiftNs = Number(originNs - this.#startNs);
    const last = batch.count > 0 ? batch.timeNs[batch.count - 1]! : 0;
    const endNs = originNs + BigInt(Math.ceil(last));
    if (endNs > this.#endNs) this.#endNs = endNs;
    const corrected = side === 1 && this.#correct(batch, shiftNs);
    for (const tap of this.#taps[side]!) {
      tap.begin(-shiftNs, originNs);
      tap.update(batch, 0, batch.count);
    }
    if (corrected) batch.timeNs.set(this.#times.subarray(0, batch.count));
  }

  /** Null when no packet was seen at all. */
  seal(): { sender: SealedEpoch[]; receiver: SealedEpoch[] } | null {
    if (this.#startNs === null) return null;
    return { sender: this.#taps[0]!.map((t) => t.seal()), receiver: this.#taps[1]!.map((t) => t.seal()) };
  }

  free(): void {
    for (const tap of this.#taps.flat()) tap.free();
    this.#taps = [[], []];
  }

  #open(batch: PacketBatch): void {
    const { kernels } = batch;
    const make = (role: Role) =>
      this.#plans.map(({ estimator, parameters }) =>
        estimator.createTap({ kernels, role, seed: this.seed }, parameters),
      );
    this.#taps = [make("sender"), make("receiver")];
  }

  /** AFTER's stamps as the exact match corrects them; the batch's own are kept aside. False where nothing is corrected. */
  #correct(batch: PacketBatch, shiftNs: number): boolean {
    const { offsetNs, slope, pivotNs } = correctionLine(this.#plan?.correction ?? { kind: "none" });
    if (offsetNs === 0 && slope === 0) return false;
    const { timeNs, count } = batch;
    if (this.#times.length < batch.capacity) this.#times = new Float64Array(batch.capacity);
    this.#times.set(timeNs.subarray(0, count));
    const aligned = shiftNs - (this.#plan?.alignNs ?? 0);
    for (let i = 0; i < count; i++) {
      const t = timeNs[i]!;
      timeNs[i] = Math.round(t - offsetNs - slope * (t + aligned - pivotNs));
    }
    return true;
  }
}
