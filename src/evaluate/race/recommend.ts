/** Which estimator to take, and why, from races over the kinds of delay that the traffic may meet. */
import { entryAt } from "../../base/lists.ts";
import type { Race, RaceErrors, RaceRow } from "./race.ts";

/** A class of fewer flows says nothing. */
export const FEW = 5;
/** Errors below this are alike, and count as this. */
export const EXACT = 1e-4;
/** An error within so much of the best is as good; the fewer bits decide. */
const ALIKE = 1.2;
const ANSWERED = 0.9;

export interface Recommendation {
  readonly estimator: string;
  /** As `observe` takes it. */
  readonly parameters: string;
  readonly row: RaceRow;
  /** What was judged: flows of all classes that the traffic has enough of, or the mean of all packets where there are too few flows. */
  readonly by: "flows" | "segment";
  /** Geometric mean of the median errors over the classes and races, or of the segment's errors. */
  readonly error: number;
  /** Its largest class of flows: packets from, and the largest median over the races, of how many flows, and where it may lie another time; null where the segment was judged. */
  readonly large: {
    readonly from: number;
    readonly medianError: number;
    readonly flows: number;
    readonly again: RaceErrors["again"];
  } | null;
  /** How many could be judged: within the budget, and with an answer for nine of ten flows of every size and of nine of ten packets. */
  readonly judged: number;
  /** The next best, with its error. */
  readonly next: { readonly estimator: string; readonly error: number; readonly wireBits: number } | null;
  /** It errs a little more than the best, and exchanges less. */
  readonly cheaper: boolean;
}

/** What comes nearest where nothing can be recommended. */
export interface Nearest {
  readonly estimator: string;
  /** Within the budget in every race. */
  readonly fits: boolean;
  /** The race in which it answers the least, by its segment, and what it did there. */
  readonly segment: string;
  readonly row: RaceRow;
  /** The sizes of flows that it answers the fewest of there; null where there is none of enough flows. */
  readonly worst: {
    readonly from: number;
    readonly to: number | null;
    readonly flows: number;
    readonly answered: number;
  } | null;
}

export interface Advice {
  /** Of those that need no more than the packets at the two points, and packets of our own. */
  readonly twoPoints: Recommendation | null;
  /** Where twoPoints is null: why, by the one that is nearest. */
  readonly nearest: Nearest | null;
  /** Of all, where the receiver knows each packet's delay; null where nothing is gained by it. */
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

/** By estimator, then by race. */
function byEstimator(races: readonly Race[], allowed: (row: RaceRow) => boolean): RaceRow[][] {
  const rows = (races[0]?.rows ?? []).map((_, i) => races.map((race) => entryAt(race.rows, i)));
  return rows.filter((own) => own.every(allowed));
}

/** Of those within the budget, the one whose worst class is answered best; else the smallest of all. */
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

/** It answers for some flow of a class that is judged. */
function answersFlows(rows: readonly RaceRow[]): boolean {
  return rows.some((row) => row.classes.some((c) => c.flows >= FEW && c.answered > 0));
}

/** The same estimator in all races; none where it leaves one of ten flows out, or flows of one in ten packets. */
function judgeFlows(rows: readonly RaceRow[]): Judged[] {
  const found = rows.flatMap((row) => row.classes.filter((c) => c.flows >= FEW));
  // Classes of few flows may hold most of the packets.
  if (rows.some((row) => row.answeredPackets < ANSWERED)) return [];
  // Of few flows one may be missing.
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
