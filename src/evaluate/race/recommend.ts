/** Recommends an estimator, with reasons, from races over the kinds of delay that the traffic may have. */
import { entryAt } from "../../base/lists.ts";
import type { Race, RaceErrors, RaceRow } from "./race.ts";

/** Minimum number of flows of a class that is evaluated. */
export const FEW = 5;
/** Errors below this count as equal to it. */
export const EXACT = 1e-4;
/** Errors within this factor of the best count as equal; the smaller number of bits decides. */
const ALIKE = 1.2;
const ANSWERED = 0.9;

export interface Recommendation {
  readonly estimator: string;
  /** Parameters in the syntax of `observe`. */
  readonly parameters: string;
  readonly row: RaceRow;
  /** Basis of the decision: the flows of all classes with enough flows, or the mean of all packets if there are too few flows. */
  readonly by: "flows" | "segment";
  /** Geometric mean of the median errors over the classes and races, or of the segment's errors. */
  readonly error: number;
  /**
   * The class of the largest flows: its minimum packets, the largest median error over the races, the number of flows, and the interval of the median in a
   * repetition; null if the segment was the basis.
   */
  readonly large: {
    readonly from: number;
    readonly medianError: number;
    readonly flows: number;
    readonly again: RaceErrors["again"];
  } | null;
  /** Number of candidates: estimators within the budget that answer for 90 % of the flows of every size and for 90 % of the packets. */
  readonly judged: number;
  /** The second best, with its error. */
  readonly next: { readonly estimator: string; readonly error: number; readonly wireBits: number } | null;
  /** Its error is slightly above the best, and it exchanges less. */
  readonly cheaper: boolean;
}

/** The closest estimator if none can be recommended. */
export interface Nearest {
  readonly estimator: string;
  /** True if it is within the budget in every race. */
  readonly fits: boolean;
  /** Segment of the race in which it answers the smallest share, and its row there. */
  readonly segment: string;
  readonly row: RaceRow;
  /** The flow size with the smallest share of answers there; null if no size has enough flows. */
  readonly worst: {
    readonly from: number;
    readonly to: number | null;
    readonly flows: number;
    readonly answered: number;
  } | null;
}

export interface Advice {
  /** Recommendation among estimators that need only the packets at the two points, and injected packets. */
  readonly twoPoints: Recommendation | null;
  /** If twoPoints is null: the closest estimator, as a reason. */
  readonly nearest: Nearest | null;
  /** Recommendation among all estimators, if the receiver knows each packet's delay; null if this brings no advantage. */
  readonly withDelays: Recommendation | null;
}

export function recommend(races: readonly Race[]): Advice {
  const alone = (row: RaceRow) => !row.needsDelays;
  const twoPoints = choose(races, alone);
  const all = choose(races, () => true);
  const gained = all?.row.needsDelays && (twoPoints === null || all.error < twoPoints.error / 1.5);
  const nearest = twoPoints === null ? nearestOf(races, alone) : null;
  return { twoPoints, nearest, withDelays: gained ? all : null };
}

/** Groups the rows by estimator; within a group they are in order of the races. */
function byEstimator(races: readonly Race[], allowed: (row: RaceRow) => boolean): RaceRow[][] {
  const rows = (races[0]?.rows ?? []).map((_, i) => races.map((race) => entryAt(race.rows, i)));
  return rows.filter((own) => own.every(allowed));
}

/** Of the estimators within the budget, returns the one with the best answered worst class; if none is, the smallest of all. */
function nearestOf(races: readonly Race[], allowed: (row: RaceRow) => boolean): Nearest | null {
  const share = ({ worst, row }: Pick<Nearest, "worst" | "row">) =>
    Math.min(row.answeredPackets, worst ? worst.answered / worst.flows : 0);
  const found = byEstimator(races, allowed).map((own): Nearest => {
    const fits = own.every((r) => r.fits);
    const byRace = own.map((row, i): Nearest => {
      const classes = row.classes.filter((c) => c.flows >= FEW);
      const [worst = null] = classes.toSorted((a, b) => a.answered / a.flows - b.answered / b.flows);
      return { estimator: row.estimator, fits, segment: entryAt(races, i).segment, row, worst };
    });
    return byRace.reduce((least, one) => (share(one) < share(least) ? one : least));
  });
  const fitting = found.filter((n) => n.fits);
  const [nearest = null] =
    fitting.length > 0
      ? fitting.toSorted((a, b) => share(b) - share(a) || b.row.answered - a.row.answered)
      : found.toSorted((a, b) => a.row.memoryBytes - b.row.memoryBytes);
  return nearest;
}

interface Judged {
  readonly row: RaceRow;
  readonly error: number;
  readonly large: Recommendation["large"];
}

function choose(races: readonly Race[], allowed: (row: RaceRow) => boolean): Recommendation | null {
  const open = byEstimator(races, (row) => row.fits && allowed(row));
  const byFlows = open.flatMap(judgeFlows);
  const judged = byFlows.length > 0 || open.some(answersFlows) ? byFlows : open.flatMap(judgeSegment);
  const ranked = judged.toSorted((a, b) => a.error - b.error);
  const [best] = ranked;
  if (!best) return null;
  const alike = ranked.filter((j) => j.error <= ALIKE * best.error);
  const taken = alike.reduce((least, j) => (j.row.wireBits < least.row.wireBits ? j : least));
  const next = ranked.find((j) => j !== taken);
  return {
    estimator: taken.row.estimator,
    parameters: taken.row.parameters,
    row: taken.row,
    by: byFlows.length > 0 ? "flows" : "segment",
    error: taken.error,
    large: taken.large,
    judged: judged.length,
    next: next ? { estimator: next.row.estimator, error: next.error, wireBits: next.row.wireBits } : null,
    cheaper: taken !== best,
  };
}

/** Returns whether it answers for any flow of an evaluated class. */
function answersFlows(rows: readonly RaceRow[]): boolean {
  return rows.some((row) => row.classes.some((c) => c.flows >= FEW && c.answered > 0));
}

/** Evaluates an estimator over all races; returns nothing if it lacks answers for more than 10 % of the flows of a class, or of the packets. */
function judgeFlows(rows: readonly RaceRow[]): Judged[] {
  const found = rows.flatMap((row) => row.classes.filter((c) => c.flows >= FEW));
  // Classes with few flows may contain most of the packets.
  if (rows.some((row) => row.answeredPackets < ANSWERED)) return [];
  // Rounded down: with few flows, one may be missing.
  if (
    found.length === 0 ||
    found.some((c) => c.answered < Math.floor(ANSWERED * c.flows) || c.median === null)
  )
    return [];
  const from = Math.max(...found.map((c) => c.from));
  const worst = found
    .filter((c) => c.from === from)
    .reduce((most, c) => ((c.median ?? 1) > (most.median ?? 1) ? c : most));
  const large = { from, medianError: worst.median ?? 1, flows: worst.answered, again: worst.again };
  const error = geometric(found.map((c) => c.median ?? 1));
  return [{ row: entryAt(rows, -1), error, large }];
}

function judgeSegment(rows: readonly RaceRow[]): Judged[] {
  const errors = rows.flatMap((row) => row.segmentError ?? []);
  if (errors.length < rows.length) return [];
  return [{ row: entryAt(rows, -1), error: geometric(errors), large: null }];
}

function geometric(errors: readonly number[]): number {
  const logs = errors.map((e) => Math.log(Math.max(EXACT, e)));
  return Math.exp(logs.reduce((a, b) => a + b, 0) / logs.length);
}
