/**
 * Answers questions from rows: latency and loss over time in any step, flows over a time range. Fast, because nothing is estimated; the rules are
 * those of answers from records.
 */
import { UsageError } from "../base/errors.ts";
import { grouped } from "../base/grouped.ts";
import { earlier, later } from "../base/time.ts";
import type { Combination } from "../collect/combine.ts";
import type { CutEdges } from "../collect/cut-edges.ts";
import { type CountedEpoch, type EpochLoss, epochLosses } from "../collect/epoch-losses.ts";
import { isNoAnswer } from "../estimators/estimator.ts";
import type { ResultsStore } from "./results-store.ts";
import { bucketOf, type RowSelection } from "./row-selection.ts";
import {
  asRolledUp,
  combineFlow,
  combineRows,
  type FlowRow,
  type SegmentRow,
  STEPS,
  type Step,
} from "./rows.ts";
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
  /** Latency of all packets. Null with a reason if nothing bounds the packets without an answer. */
  latency: MeanLatency | null;
  reason: string | null;
  /** Share of the packets that have an answer. */
  answered: number | null;
  sent: number | null;
  received: number | null;
  /** Loss beyond packets in flight at aligned cuts; `lostLow` and `lostHigh` are its bounds. */
  lost: number | null;
  lostLow: number | null;
  lostHigh: number | null;
  lossRate: number | null;
  dropped: number | null;
  /** Possible error of the points' clocks, included in the interval; null if unknown. */
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
  /** Where the next page begins; null on the last page. */
  next: string | null;
}

const SECOND_NS = 1_000_000_000n;
/** Most rows one question may read: some kB of memory each while it is answered. */
const MAX_ROWS = 20_000;
const TOO_LONG = "ask for shorter steps, or for whole minutes or hours";

/** The coarsest rows that steps of this length can be made of. */
export function stepFor(stepNs: bigint): Step {
  const fitting = STEPS.filter(
    (s) => s === 0 || (stepNs >= BigInt(s) * SECOND_NS && stepNs % (BigInt(s) * SECOND_NS) === 0n),
  );
  return fitting.at(-1) ?? 0;
}

/** Steps read before and after the page: an epoch's loss depends on its neighbours, which may be on another page. */
const AROUND = 32;

/** Returns delay and loss over time. `stepNs` 0: one point per epoch. At most `limit` points from `cursorNs` on; the rest begins at `next`. */
export async function latencySeries(
  store: ResultsStore,
  selection: RowSelection,
  stepNs: bigint,
  limit: number,
  cursorNs: bigint | null = null,
): Promise<Series> {
  const { from, to, label, estimator } = selection;
  const page = await readPage(store, selection, { stepNs, limit, cursorNs });
  const groups = grouped(page.rows, ({ startNs }) => (stepNs === 0n ? startNs : bucketNs(startNs, stepNs)));
  const steps: MadeRow[] = [];
  for (const [startNs, list] of groups) {
    // The last step may be incomplete.
    if (page.cutNs !== null && (stepNs === 0n ? startNs >= page.cutNs : startNs + stepNs > page.cutNs)) break;
    const endNs = stepNs === 0n ? (list.at(-1)?.endNs ?? startNs) : startNs + stepNs;
    const made = combineRows(list, { step: 0, startNs, endNs });
    if (made) steps.push(made);
  }
  const losses = epochLosses(steps.map(({ row }) => countedEpoch(row)));
  const first = steps.findIndex(({ row }) => row.startNs >= page.firstNs);
  const behind = first < 0 ? steps.length : first;
  const last = Math.min(steps.length, behind + limit);
  const points = steps.slice(behind, last).map((made, i) => pointOf(made, losses[behind + i]));
  const nextNs = steps[last]?.row.startNs ?? page.restNs;
  if (points.length === 0 && page.cutNs !== null)
    throw new UsageError("bad-question", `more than ${MAX_ROWS} epochs in a step`, TOO_LONG);
  return {
    from,
    to,
    label,
    estimator,
    stepNs: `${stepNs}`,
    points,
    next: nextNs === null ? null : `${nextNs}`,
  };
}

interface Page {
  rows: SegmentRow[];
  cutNs: bigint | null;
  /** Rows before this are not part of the page. */
  firstNs: bigint;
  /** Where unread rows may begin; null if everything was read. */
  restNs: bigint | null;
}

/** Reads the rows of one page and a few around it. The page begins at the first row at or after the cursor. */
async function readPage(
  store: ResultsStore,
  selection: RowSelection,
  { stepNs, limit, cursorNs }: { stepNs: bigint; limit: number; cursorNs: bigint | null },
): Promise<Page> {
  const step = stepFor(stepNs);
  const { fromNs, toNs } = selection;
  const beginNs = cursorNs === null ? fromNs : later(cursorNs, fromNs);
  const foundNs = later((await store.firstFrom({ ...selection, fromNs: beginNs }, step)) ?? toNs, beginNs);
  const continues = beginNs > fromNs;
  if (stepNs === 0n) {
    const before = continues ? await store.lastRows({ ...selection, toNs: foundNs }, AROUND) : [];
    const own = { ...selection, fromNs: foundNs };
    const { rows, cutNs } = await store.coveringRows(own, 0, Math.min(MAX_ROWS, limit + AROUND));
    return { rows: [...before, ...rows], cutNs, firstNs: foundNs, restNs: cutNs };
  }
  const firstNs = bucketNs(foundNs, stepNs);
  const reachNs = firstNs + stepNs * BigInt(limit + AROUND);
  const range = {
    ...selection,
    fromNs: continues ? later(fromNs, firstNs - stepNs * BigInt(AROUND)) : foundNs,
    toNs: earlier(toNs, reachNs),
  };
  const { rows, cutNs } = await store.coveringRows(range, step, MAX_ROWS);
  const restNs = cutNs === null ? reachNs : bucketNs(cutNs, stepNs);
  return { rows, cutNs, firstNs, restNs: restNs < toNs ? restNs : null };
}

function bucketNs(ns: bigint, stepNs: bigint): bigint {
  return ns - (((ns % stepNs) + stepNs) % stepNs);
}

type MadeRow = NonNullable<ReturnType<typeof combineRows>>;

/** `loss`: if more is known about it than from the row alone. */
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

/** Converts a row to the input of the loss calculation. */
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
  /** Null also if the loss of any epoch is unknown, because the sum of the others would be mistaken for the total. */
  lost: number | null;
  /** Lower bound: the loss of the epochs in which it is known. */
  lostLow: number;
  epochs: number;
  latency: MeanLatency | null;
  reason: string | null;
  answered: number | null;
}

/** A flow's loss and its lower bound. */
function flowLoss(combination: Combination) {
  const { lost, lostLow } = combination.result();
  return { lost, lostLow };
}

/** Returns the flows with the most packets in a time range. */
export async function topFlows(
  store: ResultsStore,
  selection: RowSelection,
  most: number,
): Promise<FlowSummary[]> {
  const names = await store.flows.top(selection, coarsest(selection), most);
  const byFlow = grouped(await store.flows.rows(selection, names, 3600), flowOf);
  return names.flatMap((flow) => summaryOf(flow, byFlow.get(flow) ?? [], selection) ?? []);
}

/** Returns one flow's summary over a time range; null if no row has it. */
export async function oneFlow(
  store: ResultsStore,
  selection: RowSelection,
  flow: string,
): Promise<FlowSummary | null> {
  return summaryOf(flow, await store.flows.rows(selection, [flow], 3600), selection);
}

export type FlowPoint = Omit<FlowSummary, "flow"> & { startNs: string };

/** Returns one flow over time, per epoch or per step: at most `limit` points from `cursorNs` on; the rest begins at `next`. */
export async function flowSeries(
  store: ResultsStore,
  selection: RowSelection,
  flow: string,
  { stepNs, limit, cursorNs = null }: { stepNs: bigint; limit: number; cursorNs?: bigint | null },
): Promise<{ points: FlowPoint[]; next: string | null }> {
  const step = stepFor(stepNs);
  const startOf = (ns: bigint) => (stepNs === 0n ? ns : bucketNs(ns, stepNs));
  // A minute or hour that reaches into the range counts whole.
  const beginNs = cursorNs === null ? selection.fromNs : later(cursorNs, selection.fromNs);
  const around = { ...selection, fromNs: bucketOf(beginNs, step) };
  const most = stepNs === 0n ? Math.min(MAX_ROWS, limit) : MAX_ROWS;
  const { rows, cutNs } = await store.flows.rowsUpTo(around, [flow], step, most);
  const all = [...grouped(rows, (row) => startOf(row.startNs))];
  const steps = cutNs === null ? all : all.filter(([startNs]) => startNs < startOf(cutNs));
  if (steps.length === 0 && cutNs !== null)
    throw new UsageError("bad-question", `more than ${MAX_ROWS} epochs in a step`, TOO_LONG);
  const points = steps.slice(0, limit).flatMap(([startNs, list]): FlowPoint[] => {
    const made = combineFlow(asRolledUp(list, step), { step: 0, startNs, endNs: startNs + stepNs });
    return made ? [{ startNs: `${startNs}`, ...flowCounts(made) }] : [];
  });
  const nextNs = steps[limit]?.[0] ?? (cutNs === null ? null : startOf(cutNs));
  return { points, next: nextNs === null ? null : `${nextNs}` };
}

/** Returns a summary of every flow in a time range, with one query. */
export async function allFlows(store: ResultsStore, selection: RowSelection): Promise<FlowSummary[]> {
  const byFlow = grouped(await store.flows.allRows(selection, 0), flowOf);
  return [...byFlow].flatMap(([flow, rows]) => summaryOf(flow, rows, selection) ?? []);
}

const flowOf = (row: FlowRow): string => row.flow;

function summaryOf(
  flow: string,
  rows: readonly FlowRow[],
  { fromNs, toNs }: RowSelection,
): FlowSummary | null {
  const made = combineFlow(asRolledUp(rows, 3600), { step: 0, startNs: fromNs, endNs: toNs });
  return made && { flow, ...flowCounts(made) };
}

function flowCounts({
  row,
  combination,
}: NonNullable<ReturnType<typeof combineFlow>>): Omit<FlowSummary, "flow"> {
  const { packets, answers } = row.state;
  return {
    packets,
    bytes: row.bytes,
    ...flowLoss(combination),
    epochs: answers,
    ...latencyOf(combination, null),
  };
}

/** The coarsest step for ranking flows: short enough that a flow it does not keep cannot be among the largest. */
function coarsest({ fromNs, toNs }: RowSelection): Step {
  const fits = STEPS.filter((s) => s === 0 || toNs - fromNs >= 360n * BigInt(s) * SECOND_NS);
  return fits.at(-1) ?? 0;
}
