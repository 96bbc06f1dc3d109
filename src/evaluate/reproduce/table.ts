/** All studies, in the order of the report. */
import { UsageError } from "../../base/errors.ts";
import { beyondStudies } from "./beyond.ts";
import { colateStudies } from "./colate.ts";
import { ldaStudies } from "./lda.ts";
import { ldsStudies } from "./lds.ts";
import { ldsWeights } from "./lds-weights.ts";
import { mapleStudies } from "./maple.ts";
import { mplaneStudies } from "./mplane.ts";
import { rliStudies } from "./rli.ts";
import { rliOtherStudies } from "./rli-others.ts";
import type { Study } from "./study.ts";

export const STUDIES: readonly Study[] = [
  ...ldaStudies,
  ...mplaneStudies,
  ...ldsStudies,
  ldsWeights,
  ...rliStudies,
  ...rliOtherStudies,
  ...mapleStudies,
  ...colateStudies,
  ...beyondStudies,
];

/** Returns the studies for these findings, studies or papers; all of them for `all` or an empty list. */
export function chooseStudies(names: readonly string[], studies: readonly Study[] = STUDIES): Study[] {
  if (names.length === 0 || names.includes("all")) return [...studies];
  const isNamed = (study: Study, name: string) =>
    study.name === name || study.paper === name || study.heads.some((head) => head.id === name);
  for (const name of names) {
    if (!studies.some((study) => isNamed(study, name)))
      throw new UsageError(
        "bad-parameter",
        `there is no experiment '${name}'`,
        `there are: ${studies.flatMap((study) => study.heads.map((head) => head.id)).join(", ")}`,
      );
  }
  return studies.filter((study) => names.some((name) => isNamed(study, name)));
}
