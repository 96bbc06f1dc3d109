import { describe, expect, it } from "vitest";
import { hostileRows, sealRows } from "../../../tests/support/hostile-rows.ts";
import { FormatError } from "../../base/errors.ts";
import { Kernels } from "../../base/kernels.ts";
import { isNoAnswer, type SealedEpoch } from "../estimator.ts";
import { readKnownFlows } from "../flows/payload.ts";
import { parseParameters } from "../parameters.ts";
import { findEstimator } from "../table.ts";
import { saltedSeed } from "./salt.ts";

const SEED = 7n;
const kernels = new Kernels();
const rows = hostileRows("salt", 2000);

/** Each flow has its own delay, `apartNs` more than the previous one. */
function seal(name: string, text: string, salt: bigint, delayNs = 0, apartNs = 0): SealedEpoch {
  const estimator = findEstimator(name);
  const tap = estimator.createTap({ kernels, role: "sender", seed: SEED }, parseParameters(estimator, text));
  // A later start makes times earlier, so a delay is subtracted from the start.
  tap.begin(-delayNs, undefined, salt);
  const apart = rows.map((row) => ({ ...row, timeNs: row.timeNs + apartNs * ((row.address[0] ?? 0) % 7) }));
  return sealRows(kernels, tap, apart);
}

const CASES = [
  ["lds", "rows=2,columns=60,k=2,rates=1"],
  ["colate", "n=128,m=2,vectors=1"],
] as const;

describe.each(CASES)("%s in epochs of different salt", (name, text) => {
  const estimator = findEstimator(name);
  const parameters = parseParameters(estimator, text);
  const flows = readKnownFlows(seal("flows", "", 0n));
  const ask = (sender: SealedEpoch, receiver: SealedEpoch) =>
    estimator.estimate({ parameters, seed: SEED, sender, receiver, flows, confidence: 0.95, epochNs: 1e9 });

  it("is placed anew, so that ends and parts of different epochs do not go together", () => {
    const [first, second] = [seal(name, text, 1n), seal(name, text, 2n)];
    expect(Buffer.compare(first.payload, second.payload)).not.toBe(0);
    expect(() => estimator.merge(first, second, parameters)).toThrow(FormatError);
    expect(() => ask(first, second)).toThrow(FormatError);
    expect(() => ask(first, seal(name, text, 0n))).toThrow(/different epochs|another epoch/);
    expect(estimator.merge(first, seal(name, text, 1n), parameters).packets).toBe(2 * rows.length);
  });

  it("answers the same question from any of them", () => {
    for (const salt of [0n, 1n, 1n << 63n]) {
      const { segment } = ask(seal(name, text, salt), seal(name, text, salt, 5000));
      expect(segment?.mean).toMatchObject({ valueNs: expect.closeTo(5000, 3) });
    }
  });

  it("repeats all of its errors where flows are placed alike in every epoch, and part of them where they are not", () => {
    const repeats = (salt: bigint) =>
      ask(seal(name, text, salt), seal(name, text, salt, 5000, 1000)).flows.flatMap(({ mean }) =>
        isNoAnswer(mean) ? [] : [mean.repeats ?? 0],
      );
    expect(repeats(0n).every((share) => share === 1)).toBe(true);
    expect(Math.min(...repeats(3n))).toBeLessThan(1);
  });

  it("keeps its salt when its times are moved", () => {
    const moved = estimator.rebase(seal(name, text, 9n), 1000, parameters);
    expect(Buffer.compare(moved.payload, seal(name, text, 9n, 1000).payload)).toBe(0);
  });
});

it("leaves the seed as it is without a salt, and changes it with any", () => {
  expect(saltedSeed(SEED, 0n)).toBe(SEED);
  const seeds = new Set(Array.from({ length: 1000 }, (_, i) => saltedSeed(SEED, BigInt(i))));
  expect(seeds.size).toBe(1000);
});
