import { expect, it } from "vitest";
import type { KnownFlows } from "../estimators/estimator.ts";
import { withArrivals } from "./arrivals.ts";

/** Flows by the lower half of their hash, in the given order. */
function list(flows: readonly [hash: number, packets: number][], complete = true): KnownFlows {
  return {
    count: flows.length,
    hash: Uint32Array.from(flows.flatMap(([hash]) => [hash, 0])),
    packets: Float64Array.from(flows, ([, packets]) => packets),
    bytes: new Float64Array(flows.length),
    keyWords: Uint32Array.from(flows.flatMap(([hash]) => [hash, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
    complete,
  };
}
const SENT = list([
  [1, 10],
  [4, 20],
  [9, 30],
]);

it("says how many packets of each flow arrived, and which flows arrived only", () => {
  const both = withArrivals(
    SENT,
    list([
      [1, 8],
      [5, 2],
      [9, 31],
      [12, 1],
    ]),
  );
  expect([...(both?.flows.received ?? [])]).toEqual([8, 0, 31]);
  expect([...(both?.flows.packets ?? [])]).toEqual([10, 20, 30]);
  expect([...(both?.receiverOnly?.hash ?? [])]).toEqual([5, 0, 12, 0]);
  expect([...(both?.receiverOnly?.packets ?? [])]).toEqual([2, 1]);
});

it("does not take a flow that a full table left out for one that did not arrive", () => {
  const both = withArrivals(SENT, list([[1, 8]], false));
  expect([...(both?.flows.received ?? [])]).toEqual([8, Number.NaN, Number.NaN]);
  expect(withArrivals({ ...SENT, complete: false }, list([[5, 2]]))?.receiverOnly).toBeNull();
});

it("lays no lists side by side that are in another order", () => {
  const mixed = list([
    [9, 1],
    [1, 1],
  ]);
  expect(withArrivals(SENT, mixed)).toBeNull();
  expect(withArrivals(mixed, SENT)).toBeNull();
});
