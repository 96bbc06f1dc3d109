import { expect, test } from "vitest";
import { makeBatch } from "../../tests/support/small-batch.ts";
import { Kernels } from "../base/kernels.ts";
import { DirectionCheck } from "./directions.ts";

const kernels = new Kernels();

/** Checks packets between addresses, given as [from, to]. */
function check(pairs: readonly (readonly [number, number])[]): DirectionCheck {
  const batch = makeBatch(
    kernels,
    pairs.map((_, i) => ({ timeNs: i })),
  );
  for (const [i, [from, to]] of pairs.entries()) batch.addrA.set([to, from], 2 * i);
  const made = new DirectionCheck();
  made.add(batch);
  batch.free();
  return made;
}

test("hosts that answer each other make two ways; a host that talks to itself makes none", () => {
  const [a, b, loopback] = [0x0a00_0001, 0x0a00_0102, 0x7f00_0001];
  const repeat = (pair: readonly [number, number]) => Array.from({ length: 500 }, () => pair);
  expect(check([...repeat([a, b]), ...repeat([b, a])]).verdict()?.packets).toEqual([500, 500]);
  expect(check(repeat([a, b])).verdict()).toBeNull();
  expect(check(repeat([loopback, loopback])).verdict()).toBeNull();
});

test("hosts that send to some and receive from others make two ways: each is on one side", () => {
  const inside = (n: number) => 0x0a03_0000 + n;
  const outside = (n: number) => 0xac14_0000 + n;
  const out = Array.from({ length: 300 }, (_, i) => [inside(i % 50), outside(i % 40)] as const);
  // No host answers: packets back come from hosts to which nothing was sent.
  const back = Array.from({ length: 200 }, (_, i) => [outside(100 + (i % 30)), inside(i % 40)] as const);
  expect(check(out).verdict()).toBeNull();
  expect(check(back).verdict()).toBeNull();
  const both = check([...out, ...back]).verdict();
  expect(both?.packets.toSorted((a, b) => a - b)).toEqual([200, 300]);
  expect(both?.filters?.toSorted()).toEqual(
    expect.arrayContaining([expect.stringMatching(/^(src|dst) net (10\.3|172\.20)\./)]),
  );
});
