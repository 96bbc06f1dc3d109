/** The traffic that RLI's studies share. */
import type { StudyContext } from "./study.ts";

export const UTILISATIONS = [0.55, 0.7, 0.88, 0.95];

export function rliSetting({ scale, seed }: StudyContext, utilisation: number) {
  return { utilisation, seed, traffic: { durationS: scale === "full" ? 10 : 1 } };
}

export function settingText(context: StudyContext): string {
  const { durationS } = rliSetting(context, 1).traffic;
  return `${durationS} s at 400,000 packets/s, heavy-tailed flows over one OC-192 input into one RED queue`;
}
