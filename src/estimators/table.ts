/** The list of estimators: one line each. Nothing else registers them. */
import { globalMean } from "./baselines/global-mean/global-mean.ts";
import { multiflow } from "./baselines/multiflow/multiflow.ts";
import { probes } from "./baselines/probes/probes.ts";
import { sds } from "./baselines/sds/sds.ts";
import { trajectory } from "./baselines/trajectory/trajectory.ts";
import { colate } from "./colate/colate.ts";
import { colateLiteral } from "./colate/literal/literal.ts";
import type { Estimator } from "./estimator.ts";
import { flowTable } from "./flows/flows.ts";
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
