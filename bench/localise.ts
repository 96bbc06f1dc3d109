/**
 * How large a spike must be for the localiser to blame the right segment, how often it blames when there is none, and whether its confidence is what it says.
 *
 *   node scripts/bench.mjs localise [runs] [delay|loss|confidence]
 *
 * Six segments, 160 epochs of one second, ordinary noise and loss of src/evaluate/path-noise.ts, spikes of 2 to 13 epochs: of delay in multiples of the
 * segment's ordinary queueing, of loss in percent on top of an ordinary 0.1 %.
 */

import {
  anyDelay,
  anyLoss,
  delayTrial,
  lossTrial,
  outcomeOf,
  statements,
  type Trial,
} from "../src/evaluate/path-noise.ts";
import { localise } from "../src/network/localise/localise.ts";

const runs = Number(process.argv[2] ?? 500);
const part = process.argv[3] ?? "all";
const say = (line: string) => process.stdout.write(`${line}\n`);
const percent = (share: number) => `${(100 * share).toFixed(1)} %`;

function table(heading: string, sizes: readonly (readonly [string, (i: number) => Trial])[], loss: boolean) {
  const outcomes = ["right", "wrong", "cannot tell", "missed"] as const;
  say(`\n${heading.padEnd(26)}${outcomes.map((o) => o.padStart(12)).join("")}   (${runs} runs each)`);
  for (const [name, make] of sizes) {
    const tally = new Map<string, number>();
    for (let i = 0; i < runs; i++) {
      const trial = make(i);
      const { spikes, lossSpikes } = localise(trial.path.points, trial.path.estimates);
      const outcome = outcomeOf(trial, loss ? lossSpikes : spikes);
      tally.set(outcome, (tally.get(outcome) ?? 0) + 1);
    }
    say(
      `${name.padEnd(26)}${outcomes.map((o) => percent((tally.get(o) ?? 0) / runs).padStart(12)).join("")}`,
    );
  }
}

/** What was said with a confidence between two bounds: how often it should be right, and how often it is. */
function reliability(heading: string, make: (i: number) => Trial, loss: boolean) {
  const all = Array.from({ length: 4 * runs }, (_, i) => make(i)).flatMap((trial) => {
    const { spikes, lossSpikes } = localise(trial.path.points, trial.path.estimates);
    return statements(trial, loss ? lossSpikes : spikes);
  });
  say(`\n${heading}: ${4 * runs} paths, half of them with a spike of any size`);
  say("stated confidence        said   stated on average       right");
  for (const [low, high] of [
    [0.4, 0.7],
    [0.7, 0.9],
    [0.9, 0.98],
    [0.98, 0.999],
    [0.999, 1],
  ] as const) {
    const said = all.filter((s) => s.confidence >= low && (s.confidence < high || high === 1));
    const mean = said.reduce((sum, s) => sum + s.confidence, 0) / Math.max(1, said.length);
    const right = said.filter((s) => s.right).length / Math.max(1, said.length);
    say(
      `${`${percent(low)} to ${percent(high)}`.padEnd(22)} ${String(said.length).padStart(6)}  ${(said.length > 0 ? percent(mean) : "–").padStart(18)}  ${(said.length > 0 ? percent(right) : "–").padStart(10)}`,
    );
  }
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
    false,
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
    true,
  );
if (part === "all" || part === "confidence") {
  reliability("confidence, delay", (i) => delayTrial(`bench confidence ${i}`, anyDelay), false);
  reliability("confidence, loss", (i) => lossTrial(`bench loss confidence ${i}`, anyLoss), true);
}
