/**
 * The same studies with several seeds: how often each level is reached, and which verdicts result. A level holds if 90 % of the runs reach it and if the median
 * is no worse than the reference simulation's value, if that is given.
 */
import { entryAt } from "../../base/lists.ts";
import { writeQuantity } from "../../present/figure/axis-scale.ts";
import { allThresholds, markdownTable } from "./report.ts";
import type { Reproduction } from "./reproduction.ts";
import { isMet, type Scale, type Threshold, type Verdict } from "./study.ts";

/** Minimum share of the runs that have to reach a level. */
const REACHED = 0.9;

export interface LevelOverSeeds {
  readonly id: string;
  readonly what: string;
  readonly limit: number;
  readonly sense: Threshold["sense"];
  readonly quantity: Threshold["quantity"];
  readonly reference?: number | undefined;
  /** By seed. */
  readonly values: readonly number[];
  readonly reached: number;
  readonly holds: boolean;
}

export interface VerdictOverSeeds {
  readonly id: string;
  readonly verdicts: readonly Verdict[];
  readonly same: boolean;
}

export interface OverSeeds {
  readonly format: "hoptime.reproduction-seeds/1";
  readonly version: string;
  readonly scale: Scale;
  readonly seeds: readonly number[];
  readonly levels: readonly LevelOverSeeds[];
  readonly verdicts: readonly VerdictOverSeeds[];
}

export function overSeeds(runs: readonly Reproduction[]): OverSeeds {
  const first = entryAt(runs, 0);
  const lists = runs.map(allThresholds);
  const levels = entryAt(lists, 0).map(({ finding, threshold }): LevelOverSeeds => {
    const { what, limit, sense, quantity, reference } = threshold;
    const own = lists.map((list) => {
      const found = list.find(
        (t) => t.finding.id === finding.id && t.threshold.what === what && t.threshold.sense === sense,
      );
      if (!found) throw new Error(`a run has no level '${what}' of ${finding.id}`);
      return found.threshold;
    });
    const reached = own.filter(isMet).length;
    const values = own.map((t) => t.value);
    const middle = middleOf(values);
    const asReference = reference === undefined || isMet({ ...threshold, value: middle, limit: reference });
    return {
      id: finding.id,
      ...{ what, limit, sense, quantity, reference, values, reached },
      holds: reached >= REACHED * runs.length && asReference,
    };
  });
  const verdicts = first.findings.map(({ id }): VerdictOverSeeds => {
    const own = runs.map(
      (run) =>
        entryAt(
          run.findings.filter((f) => f.id === id),
          0,
        ).verdict,
    );
    return { id, verdicts: own, same: new Set(own).size === 1 };
  });
  const { version, scale } = first;
  return {
    ...{ format: "hoptime.reproduction-seeds/1", version, scale, seeds: runs.map((run) => run.seed) },
    ...{ levels, verdicts },
  };
}

function middleOf(values: readonly number[]): number {
  return entryAt(
    values.toSorted((a, b) => a - b),
    values.length >> 1,
  );
}

/** Formats the minimum, median and maximum. */
export function levelCells({
  id,
  what,
  limit,
  sense,
  quantity,
  reference,
  values,
  reached,
  holds,
}: LevelOverSeeds): string[] {
  const sorted = values.toSorted((a, b) => a - b);
  const write = (value: number) => writeQuantity(value, quantity);
  return [
    ...[id, what, `${sense} ${write(limit)}`],
    ...[0, sorted.length >> 1, -1].map((i) => write(entryAt(sorted, i))),
    reference === undefined ? "–" : write(reference),
    `${reached} of ${values.length}${holds ? "" : reached >= REACHED * values.length ? ": median short of the reference" : ": too few"}`,
  ];
}

export const LEVEL_COLUMNS = [
  ...["id", "level", "limit", "least", "median", "largest"],
  ...["reference", "reached"],
] as const;

export function seedsMarkdown(result: OverSeeds, command: string): string {
  const { levels, verdicts, seeds, scale } = result;
  const changing = verdicts.filter((v) => !v.same);
  const counts = (own: readonly Verdict[]) =>
    [...new Set(own)].map((v) => `${v} ${own.filter((o) => o === v).length}`).join(", ");
  return [
    "# Reproduction over seeds",
    "",
    `Made by \`${command}\` (scale ${scale}, seeds ${seeds.join(", ")}). A level holds where it is reached in nine of ten runs, and where the median is no worse than what the reference simulation gave, if that is given: ${levels.filter((l) => l.holds).length} of ${levels.length} hold.`,
    "",
    markdownTable(LEVEL_COLUMNS, levels.map(levelCells)),
    "",
    changing.length === 0
      ? "Every verdict is the same with all seeds."
      : `Verdicts that differ between seeds: ${changing.map((v) => `${v.id} (${counts(v.verdicts)})`).join("; ")}. All others are the same with all seeds.`,
    "",
  ].join("\n");
}
