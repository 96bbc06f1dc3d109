/** Questions that rows answer: latency and loss over time in any step, flows over a time. Quick, because nothing is estimated; the rules are those of answers from records. */
import { UsageError } from "../base/errors.ts";
import { later } from "../base/time.ts";
import type { Combination } from "../collect/combine.ts";
import type { CutEdges } from "../collect/cut-edges.ts";
import { type CountedEpoch, type EpochLoss, epochLosses } from "../collect/epoch-losses.ts";
import { isNoAnswer } from "../estimators/estimator.ts";
import type { ResultsStore } from "./results-store.ts";
import { bucketOf, type RowSelection } from "./row-selection.ts";
import { combineFlow, combineRows, type FlowRow, type SegmentRow, STEPS, type Step } from "./rows.ts";
import { clockNs } from "./tables.ts";

export interface MeanLatency {
  meanNs: number;
  lowNs: number;
  highNs: number;
  stdevNs: number | null;
}

export interface SeriesPoint {
  startNs: string;
  endNs: string;
  /** Of all packets; null with the reason where nothing bounds those without an answer. */
  latency: MeanLatency | null;
  reason: string | null;
  /** Share of the packets that have an answer. */
  answered: number | null;
  sent: number | null;
  received: number | null;
  /** Beyond what may be in flight at the cuts of epochs that are cut by time; `lostLow` and `lostHigh`: what that leaves possible. */
  lost: number | null;
  lostLow: number | null;
  lostHigh: number | null;
  lossRate: number | null;
  dropped: number | null;
  /** What the clocks of both ends may be off by, which is part of the interval; null where nothing is known of them. */
  clockNs: number | null;
  epochs: number;
  missing: number;
  refused: number;
  edges: number;
}

export interface Series {
  from: string;
  to: string;
  label: string;
  estimator: string;
  stepNs: string;
  points: SeriesPoint[];
  /** Where the next page begins; null where there is no more. */
  next: string | null;
}

const SECOND_NS = 1_000_000_000n;
/** Rows that one question may read. */
const MAX_ROWS = 100_000;

/** The coarsest rows that a step can be made of. */
export function stepFor(stepNs: bigint): Step {
  const fitting = STEPS.filter(
    (s) => s === 0 || (stepNs >= BigInt(s) * SECOND_NS && stepNs % (BigInt(s) * SECOND_NS) === 0n),
  );
  return fitting.at(-1) ?? 0;
}

/** `stepNs` 0: as the epochs are. At most `limit` points; the rest begins at `next`. */
export async function latencySeries(
  store: ResultsStore,
  selection: RowSelection,
  stepNs: bigint,
  limit: number,
): Promise<Series> {
  const { from, to, label, estimator } = selection;
  const step = stepFor(stepNs);
  // A page begins with something, and no more is read than is given, where the steps tell how much that is.
  const firstNs = (await store.firstFrom(selection, step)) ?? selection.toNs;
  const fromNs = later(firstNs, selection.fromNs);
  const reachNs = stepNs === 0n ? null : bucketNs(fromNs, stepNs) + stepNs * BigInt(limit);
  const toNs = reachNs !== null && reachNs < selection.toNs ? reachNs : selection.toNs;
  const rows = await store.coveringRows({ ...selection, fromNs, toNs }, step);
  if (rows.length > MAX_ROWS)
    throw new UsageError(
      "bad-question",
      `more than ${MAX_ROWS} epochs`,
      "ask for longer steps, or less time",
    );
  const groups = new Map<bigint, SegmentRow[]>();
  for (const row of rows) {
    const start = stepNs === 0n ? row.startNs : bucketNs(row.startNs, stepNs);
    const known = groups.get(start);
    if (known) known.push(row);
    else groups.set(start, [row]);
  }
  const steps: MadeRow[] = [];
  let next: string | null = toNs < selection.toNs ? `${toNs}` : null;
  for (const [startNs, list] of groups) {
    // One more than is given, because the loss of an epoch is known by the next.
    if (steps.length > limit) break;
    if (steps.length === limit) next = `${startNs}`;
    const endNs = stepNs === 0n ? (list.at(-1)?.endNs ?? startNs) : startNs + stepNs;
    const made = combineRows(list, { step: 0, startNs, endNs });
    if (made) steps.push(made);
  }
  const losses = epochLosses(steps.map(({ row }) => countedEpoch(row)));
  const points = steps.slice(0, limit).map((made, i) => pointOf(made, losses[i]));
  return { from, to, label, estimator, stepNs: `${stepNs}`, points, next };
}

function bucketNs(ns: bigint, stepNs: bigint): bigint {
  return ns - (((ns % stepNs) + stepNs) % stepNs);
}

type MadeRow = NonNullable<ReturnType<typeof combineRows>>;

/** `loss`: where more is known of it than from the row alone. */
export function pointOf({ row, combination, edges }: MadeRow, loss?: EpochLoss | null): SeriesPoint {
  const { latency, reason, answered } = latencyOf(combination, edges);
  const { sent, received, dropped, epochs, missing, refused } = row;
  const found = loss === undefined ? epochLosses([countedEpoch(row)])[0] : loss;
  const lost = found?.lost ?? null;
  return {
    startNs: `${row.startNs}`,
    endNs: `${row.endNs}`,
    latency,
    reason,
    answered,
    sent,
    received,
    lost,
    lostLow: found?.low ?? null,
    lostHigh: found?.high ?? null,
    lossRate: lost !== null && sent !== null && sent > 0 ? lost / sent : null,
    dropped,
    clockNs: clockNs(row.state),
    epochs,
    missing,
    refused,
    edges: row.edges,
  };
}

/** A row as losses are counted by. */
export function countedEpoch(row: SegmentRow): CountedEpoch {
  const { mode, startNs, endNs, sent, received, lost, state } = row;
  const known = state.weight > 0;
  const spread = known && state.whyStdev === null && state.spreadWeight > 0;
  return {
    ...{ mode, startNs, endNs, sent, received, lost, edge: row.edges > 0 || row.missing > 0 },
    used: state.used,
    meanNs: known ? state.meanNs : null,
    stdevNs: spread ? Math.sqrt(state.spreadM2 / state.spreadWeight) : null,
  };
}

export function latencyOf(
  combination: Combination,
  edges: CutEdges | null,
): { latency: MeanLatency | null; reason: string | null; answered: number | null } {
  const plain = combination.result();
  const combined = edges ? edges.complete(plain) : plain;
  const { whole, stdev, answered, complete } = combined;
  if (isNoAnswer(whole)) return { latency: null, reason: `${whole.reason}: ${whole.text}`, answered };
  const { valueNs: meanNs, lowNs, highNs } = whole;
  const stdevNs = complete && !isNoAnswer(stdev) ? stdev.valueNs : null;
  return { latency: { meanNs, lowNs, highNs, stdevNs }, reason: null, answered };
}

export interface FlowSummary {
  flow: string;
  packets: number | null;
  bytes: number | null;
  /** Null also where that of an epoch is not known: a sum of the others would pass for all. */
  lost: number | null;
  /** In the epochs in which it is known: so many at least. */
  lostLow: number;
  epochs: number;
  latency: MeanLatency | null;
  reason: string | null;
  answered: number | null;
}

/** What is known of a flow's loss. */
function flowLoss(combination: Combination) {
  const { lost, lostLow } = combination.result();
  return { lost, lostLow };
}

/** The flows with the most packets in a time. */
export async function topFlows(
  store: ResultsStore,
  selection: RowSelection,
  most: number,
): Promise<FlowSummary[]> {
  const names = await store.flows.top(selection, coarsest(selection), most);
  const byFlow = grouped(await store.flows.rows(selection, names, 3600));
  return names.flatMap((flow) => summaryOf(flow, byFlow.get(flow) ?? [], selection) ?? []);
}

/** One flow over a time; null where no row has it. */
export async function oneFlow(
  store: ResultsStore,
  selection: RowSelection,
  flow: string,
): Promise<FlowSummary | null> {
  return summaryOf(flow, await store.flows.rows(selection, [flow], 3600), selection);
}

/** One flow over time, epoch by epoch or step by step. */
export async function flowSeries(
  store: ResultsStore,
  selection: RowSelection,
  flow: string,
  stepNs: bigint,
  limit: number,
): Promise<(Omit<FlowSummary, "flow"> & { startNs: string })[]> {
  const groups = new Map<bigint, FlowRow[]>();
  const step = stepFor(stepNs);
  // A minute or an hour that reaches into the time counts whole.
  const around = { ...selection, fromNs: bucketOf(selection.fromNs, step) };
  for (const row of await store.flows.rows(around, [flow], step)) {
    const start = stepNs === 0n ? row.startNs : bucketNs(row.startNs, stepNs);
    const known = groups.get(start);
    if (known) known.push(row);
    else groups.set(start, [row]);
  }
  return [...groups].slice(0, limit).flatMap(([startNs, rows]) => {
    const made = combineFlow(rows, { step: 0, startNs, endNs: startNs + stepNs });
    if (!made) return [];
    const { packets, answers } = made.row.state;
    return [
      {
        startNs: `${startNs}`,
        packets,
        bytes: made.row.bytes,
        ...flowLoss(made.combination),
        epochs: answers,
        ...latencyOf(made.combination, null),
      },
    ];
  });
}

/** Every flow that has rows in a time, each as one: one question for all of them. */
export async function allFlows(store: ResultsStore, selection: RowSelection): Promise<FlowSummary[]> {
  const byFlow = grouped(await store.flows.allRows(selection, 0));
  return [...byFlow].flatMap(([flow, rows]) => summaryOf(flow, rows, selection) ?? []);
}

function grouped(rows: readonly FlowRow[]): Map<string, FlowRow[]> {
  const byFlow = new Map<string, FlowRow[]>();
  for (const row of rows) {
    const known = byFlow.get(row.flow);
    if (known) known.push(row);
    else byFlow.set(row.flow, [row]);
  }
  return byFlow;
}

function summaryOf(
  flow: string,
  rows: readonly FlowRow[],
  { fromNs, toNs }: RowSelection,
): FlowSummary | null {
  const made = combineFlow(rows, { step: 0, startNs: fromNs, endNs: toNs });
  if (!made) return null;
  const { packets, answers } = made.row.state;
  return {
    flow,
    packets,
    bytes: made.row.bytes,
    ...flowLoss(made.combination),
    epochs: answers,
    ...latencyOf(made.combination, null),
  };
}

/** Steps that flows are ranked by: short enough that what a step does not keep is no flow of the largest. */
function coarsest({ fromNs, toNs }: RowSelection): Step {
  const fits = STEPS.filter((s) => s === 0 || toNs - fromNs >= 360n * BigInt(s) * SECOND_NS);
  return fits.at(-1) ?? 0;
}
