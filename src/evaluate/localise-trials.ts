/**
 * Measures whether the localiser blames the right segment and whether its confidence is calibrated, over many paths with ordinary noise, with or without a
 * spike (path-noise.ts).
 */
import { localise } from "../network/localise/localise.ts";
import { outcomeOf, type Statement, statements, type Trial } from "./path-noise.ts";

export const OUTCOMES = ["right", "wrong", "undecided", "missed"] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** What is evaluated: spikes of delay or of loss. */
export type Judged = "delay" | "loss";

/** Returns the shares of the outcomes over `runs` trials. */
export function blameOutcomes(
  make: (run: number) => Trial,
  runs: number,
  judged: Judged,
): Record<Outcome, number> {
  const shares: Record<Outcome, number> = { right: 0, wrong: 0, undecided: 0, missed: 0 };
  for (let run = 0; run < runs; run++) {
    const trial = make(run);
    shares[outcomeOf(trial, spikesOf(trial, judged))] += 1 / runs;
  }
  return shares;
}

export interface Reliability {
  readonly low: number;
  readonly high: number;
  readonly verdicts: number;
  /** Null without verdicts. */
  readonly stated: number | null;
  readonly right: number | null;
}

const BINS = [0.4, 0.7, 0.9, 0.98, 0.999, 1] as const;

/** Compares, for verdicts within a range of confidence, how often they should be right with how often they are. */
export function statedConfidence(make: (run: number) => Trial, runs: number, judged: Judged): Reliability[] {
  const all: Statement[] = [];
  for (let run = 0; run < runs; run++) {
    const trial = make(run);
    all.push(...statements(trial, spikesOf(trial, judged)));
  }
  return BINS.slice(1).map((high, i) => {
    const low = BINS[i] ?? 0;
    const verdicts = all.filter((s) => s.confidence >= low && (s.confidence < high || high === 1));
    const share = (sum: number) => (verdicts.length > 0 ? sum / verdicts.length : null);
    return {
      low,
      high,
      verdicts: verdicts.length,
      stated: share(verdicts.reduce((sum, s) => sum + s.confidence, 0)),
      right: share(verdicts.filter((s) => s.right).length),
    };
  });
}

function spikesOf({ path }: Trial, judged: Judged) {
  const { spikes, lossSpikes } = localise(path.points, path.estimates);
  return judged === "loss" ? lossSpikes : spikes;
}
