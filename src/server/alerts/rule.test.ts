/** One alert rule for one target: hold times, recovery, values between the two limits. */
import { expect, it } from "vitest";
import { parseCondition } from "./condition.ts";
import { RuleState } from "./rule.ts";

const S = 1_000_000_000n;
function rule(when: string, clear?: number) {
  const condition = parseCondition(when);
  if (condition.kind !== "threshold") throw new Error("a threshold");
  return new RuleState({ condition, clear: clear ?? condition.limit, forNs: 3n * S, clearAfterNs: 2n * S });
}

function run(state: RuleState, values: readonly (number | null | [number, number, number])[]): string[] {
  return values.flatMap((v, i) => {
    const measured =
      v === null
        ? null
        : typeof v === "number"
          ? { value: v, low: v, high: v }
          : { value: v[0], low: v[1], high: v[2] };
    const change = state.push(measured, BigInt(i + 1) * S, BigInt(i + 2) * S);
    return change ? [`${change.change} ${i}`] : [];
  });
}

it("begins when it has held for its time, and ends when the value has been back", () => {
  expect(run(rule("mean > 10ns"), [20, 20, 20, 20, 5, 5, 5])).toEqual(["began 2", "ended 5"]);
  expect(run(rule("mean > 10ns"), [20, 20, 5, 20, 20, 5])).toEqual([]);
  expect(run(rule("coverage < 50%"), [0.9, 0.1, 0.2, 0.3, 0.9, 0.9])).toEqual(["began 3", "ended 5"]);
});

it("holds only where the whole interval is beyond the limit", () => {
  const unsure: [number, number, number] = [12, 9, 15];
  expect(run(rule("mean > 10ns"), [unsure, unsure, unsure, unsure])).toEqual([]);
  // An uncertain value does not count as recovered while the value itself is beyond the limit.
  expect(run(rule("mean > 10ns"), [20, 20, 20, unsure, unsure, unsure, 1, 1])).toEqual([
    "began 2",
    "ended 7",
  ]);
});

it("does not end between the two limits, nor by epochs without an answer", () => {
  expect(run(rule("mean > 10ns", 5), [20, 20, 20, 8, 8, 8, 8])).toEqual(["began 2"]);
  expect(run(rule("mean > 10ns"), [20, 20, 20, null, null, null])).toEqual(["began 2"]);
  expect(run(rule("mean > 10ns"), [20, null, 20, 20])).toEqual(["began 2"]);
});

it("leaves epochs alone that come again", () => {
  const state = rule("mean > 10ns");
  expect(run(state, [20, 20, 20])).toEqual(["began 2"]);
  expect(run(state, [1, 1, 1])).toEqual([]);
  expect(state.active).toBe(true);
});
