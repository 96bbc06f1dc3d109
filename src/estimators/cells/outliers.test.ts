import { describe, expect, it } from "vitest";
import { hostileRows, sealRows } from "../../../tests/support/hostile-rows.ts";
import { Kernels } from "../../base/kernels.ts";
import { isNoAnswer, type SealedEpoch } from "../estimator.ts";
import { parseParameters } from "../parameters.ts";
import { findEstimator } from "../table.ts";

const kernels = new Kernels();
const rows = hostileRows("outliers", 3000).map((row, i) => ({ ...row, timeNs: i * 1000 }));
const YEAR_NS = 365 * 86_400e9;

function seal(name: string, text: string, move: (i: number) => number): SealedEpoch {
  const estimator = findEstimator(name);
  const tap = estimator.createTap({ kernels, role: "sender", seed: 3n }, parseParameters(estimator, text));
  tap.begin(0);
  const moved = rows.map((row, i) => ({ ...row, timeNs: row.timeNs + move(i) }));
  return sealRows(kernels, tap, moved);
}

const CASES = [
  ["lda", ""],
  ["lds", "rows=2,columns=600,k=2,rates=1"],
  ["colate", "n=1024,m=4"],
  ["trajectory", "rate=0.5"],
] as const;

describe.each(CASES)("%s", (name, text) => {
  const estimator = findEstimator(name);
  const ask = (move: (i: number) => number) =>
    estimator.estimate({
      ...{
        parameters: parseParameters(estimator, text),
        seed: 3n,
        flows: null,
        confidence: 0.95,
        epochNs: 1e9,
      },
      sender: seal(name, text, () => 0),
      receiver: seal(name, text, move),
    });

  it("loses what one wrong timestamp touches, and no more", () => {
    for (const off of [YEAR_NS, -50 * YEAR_NS]) {
      const { segment } = ask((i) => 7000 + (i === 1234 ? off : 0));
      expect(segment?.mean).toMatchObject({ valueNs: expect.closeTo(7000, 3) });
      expect(segment?.coverage).toBeGreaterThan(name === "trajectory" ? 0.4 : 0.9);
    }
  });

  it("refuses ends whose timestamps do not fit together, by name", () => {
    // A different error for every packet, up to years.
    const { segment } = ask((i) => ((i * 7919) % 3000) * 1e14);
    if (!segment || !isNoAnswer(segment.mean)) throw new Error("an answer was given");
    expect(segment.mean.text).toMatch(/do not fit together|fewer than two sampled/);
  });

  it("stays right with clocks a minute apart", () => {
    expect(ask(() => 60e9).segment?.mean).toMatchObject({ valueNs: expect.closeTo(60e9, -3) });
  });

  it.runIf(name === "colate")("refuses clocks that are further apart than its sums reach", () => {
    const { segment } = ask(() => 60 * 3600e9);
    expect(segment?.mean).toMatchObject({ reason: "overflow" });
  });
});
