/** The delay of a segment in 120 × 28 px: the mean as a line, the interval as a band, loss as ticks below; gaps stay gaps. */
import type { SegmentOverview } from "../api/types.ts";
import { delayText } from "./text.ts";

const WIDTH = 120;
const HEIGHT = 28;
const PLOT = 23;

type Line = Pick<SegmentOverview, "meanNs" | "lowNs" | "highNs" | "lossRate">;

/** Returns runs of consecutive steps with an answer. */
function runsOf(values: readonly (number | null)[]): number[][] {
  const runs: number[][] = [];
  let run: number[] = [];
  for (const [i, value] of values.entries()) {
    if (value !== null) run.push(i);
    else if (run.length > 0) {
      runs.push(run);
      run = [];
    }
  }
  if (run.length > 0) runs.push(run);
  return runs;
}

export function Sparkline({ line, label }: { line: Line; label: string }) {
  const { meanNs, lowNs, highNs, lossRate } = line;
  // Older values are requested after the newest ones.
  if (meanNs.length === 0) return <span class="spark-none" />;
  const known = meanNs.filter((v) => v !== null);
  if (known.length === 0) return <span class="muted spark-none">no data</span>;
  const low = Math.min(...known);
  // An interval may be far wider than the variation of the line, so the band is cut instead of flattening the line.
  const high = Math.max(...known, low * 1.1);
  const room = (high - low) * 0.25;
  const x = (i: number) => ((i + 0.5) / meanNs.length) * WIDTH;
  const y = (ns: number) =>
    Math.max(0, Math.min(PLOT, PLOT - 1 - ((ns - low + room) / (high - low + 2 * room)) * (PLOT - 2)));
  const at = (i: number, ns: number) => `${x(i).toFixed(1)} ${y(ns).toFixed(1)}`;
  const runs = runsOf(meanNs);
  const shade = runs.map((run) => {
    const up = run.map((i) => at(i, highNs[i] ?? meanNs[i] ?? 0));
    const down = [...run].reverse().map((i) => at(i, lowNs[i] ?? meanNs[i] ?? 0));
    return `M${[...up, ...down].join("L")}Z`;
  });
  const path = runs.map((run) => {
    const [only] = run;
    if (run.length === 1 && only !== undefined) return `M${at(only, meanNs[only] ?? 0)}h1`;
    return `M${run.map((i) => at(i, meanNs[i] ?? 0)).join("L")}`;
  });
  const lossy = lossRate.flatMap((rate, i) => (rate !== null && rate > 0.0005 ? [i] : []));
  const text = `${label}: delay between ${delayText(low)} and ${delayText(Math.max(...known))}${lossy.length > 0 ? `, loss in ${lossy.length} of ${meanNs.length} steps` : ""}`;
  return (
    <svg
      class="spark"
      width={WIDTH}
      height={HEIGHT}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={text}
    >
      <title>{text}</title>
      <path class="spark-shade" d={shade.join("")} />
      <path class="spark-line" d={path.join("")} />
      <path class="spark-loss" d={lossy.map((i) => `M${x(i).toFixed(1)} ${HEIGHT}V${HEIGHT - 4}`).join("")} />
    </svg>
  );
}
