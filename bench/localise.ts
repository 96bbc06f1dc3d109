/**
 * Measures how large a spike must be for the localiser to blame the right segment, how often it blames a segment without a spike, and whether its confidence is
 * calibrated.
 *
 *   node scripts/bench.mjs localise [runs] [delay|loss|confidence]
 *
 * Six segments, 160 epochs of one second, ordinary noise and loss of src/evaluate/path-noise.ts, spikes of 2 to 13 epochs: delay in multiples of the segment's
 * ordinary queueing delay, loss in percent in addition to an ordinary 0.1 %.
 */

import { blameOutcomes, type Judged, OUTCOMES, statedConfidence } from "../src/evaluate/localise-trials.ts";
import { anyDelay, anyLoss, delayTrial, lossTrial, type Trial } from "../src/evaluate/path-noise.ts";

const runs = Number(process.argv[2] ?? 500);
const part = process.argv[3] ?? "all";
const say = (line: string) => process.stdout.write(`${line}\n`);
const percent = (share: number | null) => (share === null ? "–" : `${(100 * share).toFixed(1)} %`);

function table(
  heading: string,
  sizes: readonly (readonly [string, (i: number) => Trial])[],
  judged: Judged,
): void {
  say(`\n${heading.padEnd(26)}${OUTCOMES.map((o) => o.padStart(12)).join("")}   (${runs} runs each)`);
  for (const [name, make] of sizes) {
    const shares = blameOutcomes(make, runs, judged);
    say(`${name.padEnd(26)}${OUTCOMES.map((o) => percent(shares[o]).padStart(12)).join("")}`);
  }
}

function reliability(heading: string, make: (i: number) => Trial, judged: Judged): void {
  say(`\n${heading}: ${4 * runs} paths, half of them with a spike of any size`);
  say("stated confidence    verdicts   stated on average       right");
  for (const { low, high, verdicts, stated, right } of statedConfidence(make, 4 * runs, judged))
    say(
      `${`${percent(low)} to ${percent(high)}`.padEnd(22)} ${String(verdicts).padStart(6)}  ${percent(stated).padStart(18)}  ${percent(right).padStart(10)}`,
    );
}

if (part === "all" || part === "delay")
  table(
    "delay (x ordinary)",
    [0, 10, 20, 50, 100, 200, 500, 1000].map(
      (times) =>
        [
          times === 0 ? "none" : `${times} x`,
          (i: number) => delayTrial(`bench ${times} ${i}`, () => times),
        ] as const,
    ),
    "delay",
  );
if (part === "all" || part === "loss")
  table(
    "loss (from 0.1 %)",
    [
      ["none", (i: number) => lossTrial(`bench loss none ${i}`, () => 0, { rate: 0.001 })],
      ["none, any ordinary", (i: number) => lossTrial(`bench loss any ${i}`, () => 0)],
      ...[0.005, 0.01, 0.02, 0.05, 0.2].map(
        (rate) =>
          [
            `${100 * rate} %`,
            (i: number) => lossTrial(`bench loss ${rate} ${i}`, () => rate - 0.001, { rate: 0.001 }),
          ] as const,
      ),
      ...[0.005, 0.01, 0.02].map(
        (rate) =>
          [
            `${100 * rate} %, one by one`,
            (i: number) =>
              lossTrial(`bench single ${rate} ${i}`, () => rate - 0.001, { rate: 0.001, burst: 1 }),
          ] as const,
      ),
    ],
    "loss",
  );
if (part === "all" || part === "confidence") {
  reliability("confidence, delay", (i) => delayTrial(`bench confidence ${i}`, anyDelay), "delay");
  reliability("confidence, loss", (i) => lossTrial(`bench loss confidence ${i}`, anyLoss), "loss");
}
