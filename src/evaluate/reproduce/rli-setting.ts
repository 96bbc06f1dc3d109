/** The traffic of RLI's studies, and RLI as published on it. */
import { type RliRun, rliAsWritten, runRli, type Scheme } from "../rli-experiment.ts";
import type { Contestant } from "../run-segment.ts";
import type { StudyContext } from "./study.ts";

export const UTILISATIONS = [0.55, 0.7, 0.88, 0.95];
/** The paper's low utilisation: figures 5 to 7, and 12. */
export const LOW = 0.2;
/** The paper's queues drain slower than an OC-192 input link, so 20 % utilisation needs a lower rate than the others. */
const LOW_PPS = 300_000;

export function rliSetting({ scale, seed }: StudyContext, utilisation: number) {
  const rate = utilisation <= LOW ? { ratePps: LOW_PPS } : {};
  return { utilisation, seed, traffic: { durationS: scale === "full" ? 10 : 1, ...rate } };
}

export function settingText(context: StudyContext): string {
  const { durationS } = rliSetting(context, 1).traffic;
  return `${durationS} s at 400,000 packets/s, heavy-tailed flows over one OC-192 input into one RED queue`;
}

/** Addition to the setting's text at low utilisation. */
export const LOW_TEXT = "300,000 packets/s at 20 %, where the queue has to drain slower than the input";

/** Runs RLI as published and our variant (AS_WRITTEN). */
export function runAsWritten(
  context: StudyContext,
  utilisation: number,
  scheme: Scheme,
  others: readonly Contestant[] = [],
): Promise<RliRun> {
  const options = { contestants: rliAsWritten };
  return runRli(context.kernels, rliSetting(context, utilisation), scheme, others, options);
}
