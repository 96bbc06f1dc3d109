import { expect, it } from "vitest";
import { LogHistogram } from "../../base/math/log-histogram.ts";
import { QuantileMerge } from "./quantile-merge.ts";

const SHARES = [0.5, 0.9, 0.99];

function distribution(values: readonly number[]) {
  const delays = new LogHistogram();
  for (const value of values) delays.add(value);
  return {
    delays,
    quantiles: SHARES.map((share) => ({ share, valueNs: delays.quantile(share) ?? Number.NaN })),
  };
}

/** An empty queue in the first epoch, a long one in the second. */
const short = Array.from({ length: 600 }, (_, i) => 1e6 + 20_000 * i);
const long = Array.from({ length: 400 }, (_, i) => 140e6 + 50_000 * i);

it("gives the quantiles of all packets where epochs have their distributions", () => {
  const merge = new QuantileMerge();
  for (const values of [short, long]) merge.add(distribution(values), values.length);
  const all = [...short, ...long].sort((a, b) => a - b);
  // A bucket's middle is within 0.39 % of every value in it.
  for (const { share, valueNs } of merge.result() ?? [])
    expect(Math.abs(valueNs / all[Math.ceil(share * all.length) - 1]! - 1)).toBeLessThan(0.0041);
  expect(merge.result()).toHaveLength(3);
});

it("does with quantiles alone what can be done, and has none where a part has none", () => {
  const merge = new QuantileMerge();
  merge.add(distribution(short), short.length);
  merge.add({ quantiles: distribution(long).quantiles }, long.length);
  const [, p90] = merge.result() ?? [];
  expect(p90?.valueNs).toBeGreaterThan(140e6);
  merge.add({}, 5);
  expect(merge.result()).toBeNull();
});
