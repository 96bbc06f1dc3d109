/** Jitter within flows, estimated from simulated cells with known jitter. Fixed seeds. */
import { expect, it } from "vitest";
import { Random } from "../../base/random.ts";
import { jitterOfFlows, type OwnCells } from "./jitter.ts";

const FLOWS = 60;
const CELLS = 16;

/** Cells of one packet each; the flows' means are 0. */
function cellsOf(delay: (flow: number) => number): OwnCells {
  const own = {
    squares: new Float64Array(FLOWS),
    fourths: new Float64Array(FLOWS),
    freedom: new Float64Array(FLOWS).fill(CELLS - 1),
  };
  for (let f = 0; f < FLOWS; f++) {
    const delays = Array.from({ length: CELLS }, () => delay(f));
    const mean = delays.reduce((sum, x) => sum + x, 0) / CELLS;
    for (const x of delays) {
      own.squares[f]! += (x - mean) ** 2;
      own.fourths[f]! += (x - mean) ** 4;
    }
  }
  return own;
}

function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random.float())) * Math.cos(2 * Math.PI * random.float());
}

const alike = new Array(FLOWS).fill(100);

it("is that of all for a flow whose cells missed the rare slow times", () => {
  const random = new Random(314);
  // 3 % of the packets are twenty standard deviations slower: a variance of 1 + 400 x 0.03 x 0.97 = 12.6 for every flow. 61 % of the flows have none of
  // them.
  const { variance } = jitterOfFlows(
    cellsOf(() => normal(random) + (random.float() < 0.03 ? 20 : 0)),
    alike,
  );
  const lowest = Math.min(...variance);
  // By itself, a flow without slow packets has a variance of about 1; with one degree of freedom from the other flows it had 1.7.
  expect(lowest).toBeGreaterThan(5);
});

it("is a flow's own where flows differ and none has heavy tails", () => {
  const random = new Random(315);
  const deviation = Float64Array.from({ length: FLOWS }, () => Math.exp(0.8 * normal(random)));
  const { variance, shared } = jitterOfFlows(
    cellsOf((f) => deviation[f]! * normal(random)),
    alike,
  );
  expect(shared).toBeLessThan(4);
  const errors = [...variance]
    .map((v, f) => Math.abs(Math.log(v / deviation[f]! ** 2)))
    .sort((a, b) => a - b);
  // Chi-square with 15 degrees of freedom is off by a factor of 1.4 in the median of 60 flows; using the variance of other flows would be off by a factor
  // of 3.
  expect(errors[FLOWS / 2]!).toBeLessThan(0.6);
});
