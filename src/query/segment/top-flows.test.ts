import fc from "fast-check";
import { expect, test } from "vitest";
import { FlowRanking } from "./top-flows.ts";

const words = (n: number) => Uint32Array.from({ length: 10 }, (_, i) => (i === 2 ? n : i === 0 ? n * 7 : 0));

test("the largest are kept, whatever the order they are counted in", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(300), fc.integer({ min: 1, max: 1000 }))),
      fc.integer({ min: 1, max: 20 }),
      (adds, top) => {
        const ranking = new FlowRanking();
        const slow = new Map<number, number>();
        for (const [flow, packets] of adds) {
          ranking.add(words(flow), packets);
          slow.set(flow, (slow.get(flow) ?? 0) + packets);
        }
        expect(ranking.size).toBe(slow.size);
        const wanted = ranking.top(top);
        const sorted = [...slow].sort((a, b) => b[1] - a[1]);
        const minimum = sorted[top - 1]?.[1] ?? 0;
        for (const [flow, packets] of slow) expect(wanted.has(words(flow))).toBe(packets >= minimum);
      },
    ),
    { seed: 5 },
  );
});

test("a million flows take some tens of megabytes", () => {
  const ranking = new FlowRanking();
  const before = process.memoryUsage().arrayBuffers;
  for (let n = 0; n < 1_000_000; n++) ranking.add(words(n), n % 1000 === 0 ? 50 : 1);
  expect(ranking.size).toBe(1_000_000);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(80e6);
  const wanted = ranking.top(1000);
  expect([0, 1000, 999_000].every((n) => wanted.has(words(n)))).toBe(true);
  expect(wanted.has(words(1))).toBe(false);
});
