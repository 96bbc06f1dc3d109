import { expect, it } from "vitest";
import { Combination } from "../collect/combine.ts";
import { decodeState, encodeState } from "./state-bytes.ts";

const interval = (valueNs: number, half: number) => ({
  valueNs,
  lowNs: valueNs - half,
  highNs: valueNs + half,
});

function state() {
  const combination = new Combination();
  for (const ns of [1000, 1500])
    combination.add({ mean: interval(ns, 20), stdev: interval(70, 5), packets: 9, lost: null, used: 9 });
  const bounded = { ...interval(60, 4), bound: true };
  combination.add({ mean: interval(900, 20), stdev: bounded, packets: 2, lost: null, used: 2 });
  combination.add({
    ...{ mean: { reason: "overflow", text: "too full" }, stdev: interval(1, 0) },
    ...{ packets: 3, lost: 1, used: 0 },
  });
  return combination.state();
}

it("is read as it was written", () => {
  expect(decodeState(encodeState(state()))).toEqual(state());
});

it("of version 1 is read without what it did not have, of another version not at all", () => {
  const bytes = encodeState(state());
  const old = Uint8Array.from([1, ...bytes.subarray(1, 1 + 8 * 26), ...bytes.subarray(1 + 8 * 32)]);
  const without = { meansWeight: 0, meansNs: 0, meansM2: 0, meansCurve: 0, lostKnown: 0, spreadBound: 0 };
  expect(decodeState(old)).toEqual({ ...state(), ...without });
  expect(() => decodeState(Uint8Array.from([9, ...bytes.subarray(1)]))).toThrow(/version/);
});

it("has every number in its own place", () => {
  const numbers = Object.entries(state()).filter(([name]) => !name.startsWith("why") || name === "whyCount");
  const distinct = {
    ...Object.fromEntries(numbers.map(([name], i) => [name, i + 0.5])),
    ...{ why: null, whyStdev: { reason: "overflow", text: "é" } },
  } as unknown as ReturnType<typeof state>;
  expect(decodeState(encodeState(distinct))).toEqual(distinct);
  expect(numbers.length).toBe(32);
});

it("of version 2 has the loss that it says, as far as that is all", () => {
  const known = { ...state(), packets: 21, lost: 1, lostKnown: 1, spreadBound: 0 };
  const second = (bytes: Uint8Array) =>
    Uint8Array.from([2, ...bytes.subarray(1, 1 + 8 * 30), ...bytes.subarray(1 + 8 * 32)]);
  expect(decodeState(second(encodeState(known)))).toEqual(known);
  const unknown = { ...known, lost: null };
  expect(decodeState(second(encodeState(unknown)))).toEqual({ ...unknown, lostKnown: 0 });
});
