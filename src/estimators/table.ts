/** The list of estimators, one line each. The first is the default. Nothing else registers them. */

import { colate } from "./colate/colate.ts";
import type { Estimator } from "./estimator.ts";
import { flowTable } from "./flows/flows.ts";
import { colateLiteral } from "./lab/colate-literal/literal.ts";
import { globalMean } from "./lab/global-mean/global-mean.ts";
import { multiflow } from "./lab/multiflow/multiflow.ts";
import { probes } from "./lab/probes/probes.ts";
import { sds } from "./lab/sds/sds.ts";
import { trajectory } from "./lab/trajectory/trajectory.ts";
import { lda } from "./lda/lda.ts";
import { lds } from "./lds/lds.ts";
import { maple } from "./maple/maple.ts";
import { findAmong } from "./parameters.ts";
import { rli } from "./rli/rli.ts";

export const ESTIMATORS: readonly Estimator[] = [
  lda,
  flowTable,
  lds,
  rli,
  maple,
  colate,
  colateLiteral,
  sds,
  probes,
  trajectory,
  multiflow,
  globalMean,
];

export function findEstimator(name: string): Estimator {
  return findAmong(ESTIMATORS, name);
}
