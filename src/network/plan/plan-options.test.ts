/** Invalid options of a plan are reported with what was given and what is expected. */
import { expect, test } from "vitest";
import { UsageError } from "../../base/errors.ts";
import { parseTopology } from "../topology/topology-format.ts";
import { type PlanOptions, planUpgrades } from "./plan.ts";

const line = parseTopology("A B 1\nB C 1\n", "line.txt");

test.each<[string, Partial<PlanOptions>]>([
  ["upgrade", { upgrade: -1 }],
  ["upgrade", { upgrade: Number.NaN }],
  ["repeat", { repeat: 0 }],
  ["budget", { budget: Number.NaN }],
  ["strategy", { strategy: "best" as "greedy" }],
])("%s is refused: %o", (parameter, given) => {
  const value = Object.values(given)[0];
  const plan = () => planUpgrades(line, { upgrade: 1, ...given });
  expect(plan).toThrow(UsageError);
  expect(plan).toThrow(expect.objectContaining({ parameter, value, expected: expect.any(String) }));
});
