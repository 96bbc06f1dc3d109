/** The traffic that RLI's studies share, and RLI as written on it. */
import { type RliRun, rliAsWritten, runRli, type Scheme } from "../rli-experiment.ts";
import type { Contestant } from "../run-segment.ts";
import type { StudyContext } from "./study.ts";

export const UTILISATIONS = [0.55, 0.7, 0.88, 0.95];
/** The paper's low one: figures 5 to 7, and 12. */
export const LOW = 0.2;
/** The paper's queues drain at less than an OC-192 link brings: at 20 % a smaller load than at the others. */
const LOW_PPS = 300_000;

export function rliSetting({ scale, seed }: StudyContext, utilisation: number) {
  const rate = utilisation <= LOW ? { ratePps: LOW_PPS } : {};
  return { utilisation, seed, traffic: { durationS: scale === "full" ? 10 : 1, ...rate } };
}

export function settingText(context: StudyContext): string {
  const { durationS } = rliSetting(context, 1).traffic;
  return `${durationS} s at 400,000 packets/s, heavy-tailed flows over one OC-192 input into one RED queue`;
}

/** What a study with a low utilisation adds to that. */
export const LOW_TEXT = "300,000 packets/s at 20 %, where the queue has to drain slower than the input";

/** RLI as written, and ours beside it (AS_WRITTEN). */
export function runAsWritten(
  context: StudyContext,
  utilisation: number,
  scheme: Scheme,
  others: readonly Contestant[] = [],
): Promise<RliRun> {
  const options = { contestants: rliAsWritten };
  return runRli(context.kernels, rliSetting(context, utilisation), scheme, others, options);
}
