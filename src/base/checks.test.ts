import { expect, it } from "vitest";
import { checkBigNs, checkChoice, checkCount, checkNs, checkText } from "./checks.ts";
import { UsageError } from "./errors.ts";

const fault = (check: () => void) => {
  try {
    check();
  } catch (error) {
    if (error instanceof UsageError) return [error.parameter, error.value, error.expected];
    throw error;
  }
  return null;
};

it("names the parameter, what was given and what is expected", () => {
  const bigNs = "ns as a bigint, e.g. 1_000_000_000n";
  expect(fault(() => checkBigNs("from", 5))).toEqual(["from", 5, bigNs]);
  expect(fault(() => checkBigNs("from", Number.NaN))).toEqual(["from", Number.NaN, bigNs]);
  expect(fault(() => checkNs("window", "1s"))).toEqual(["window", "1s", "a time above 0, in ns"]);
  expect(fault(() => checkNs("window", 5n))).toEqual(["window", 5n, "a time above 0, in ns"]);
  expect(fault(() => checkChoice("sort", undefined, ["mean", "p99"]))).toEqual([
    "sort",
    undefined,
    "mean or p99",
  ]);
  const atLeast = "a whole number of at least 1";
  for (const top of [0, 1.5, Number.NaN, "3", 3n])
    expect(fault(() => checkCount("top", top, 1, "bad-option"))).toEqual(["top", top, atLeast]);
  expect(fault(() => checkText("point", { name: "A" }, "a name"))).toEqual([
    "point",
    '{"name":"A"}',
    "a name",
  ]);
});

it("takes what the types ask for", () => {
  checkBigNs("from", undefined);
  checkBigNs("from", 0n);
  checkNs("window", 1);
  checkChoice("sort", "mean", ["mean", "p99"]);
  checkCount("top", undefined, 1, "bad-option");
  checkCount("top", 0, 0, "bad-option");
  checkText("point", "A", "a name");
});
