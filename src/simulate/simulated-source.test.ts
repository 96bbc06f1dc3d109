import { expect, it } from "vitest";
import { Kernels } from "../base/kernels.ts";
import type { Scenario } from "./scenario.ts";
import { simulate } from "./simulate.ts";
import { simulatedSource } from "./simulated-source.ts";

const scenario: Scenario = {
  seed: 5,
  traffic: { kind: "population", ratePps: 20_000, durationS: 1, flows: 50 },
  path: [
    { kind: "queue", rateBps: 80e6, propagationNs: 1e6, capacityPackets: 50, point: "a" },
    { kind: "queue", rateBps: 60e6, propagationNs: 2e6, capacityPackets: 50, point: "b" },
  ],
};

/** Returns time and delay of each packet at a point, by digest. */
async function seenAt(point: string, delaysFrom?: string): Promise<Map<string, [number, number]>> {
  const kernels = new Kernels();
  const source = simulatedSource(simulate(kernels, scenario), { point, delaysFrom });
  const seen = new Map<string, [number, number]>();
  for (let next = await source.next(); next !== null; next = await source.next()) {
    const { count, digest, timeNs, delayNs } = next.batch;
    for (let i = 0; i < count; i++)
      seen.set(`${digest[2 * i]} ${digest[2 * i + 1]}`, [timeNs[i]!, delayNs[i]!]);
  }
  return seen;
}

it("delays are those since an earlier point, where one is named", async () => {
  const [a, b, whole] = [await seenAt("a"), await seenAt("b", "a"), await seenAt("b")];
  // Both queues overflow, so packets are lost on the way; the others must keep their own delays.
  expect(a.size).toBeGreaterThan(b.size + 100);
  expect(b.size).toBe(whole.size);
  expect(b.size).toBeGreaterThan(5000);
  for (const [digest, [timeNs, delayNs]] of b) {
    expect(delayNs).toBe(timeNs - (a.get(digest)?.[0] ?? Number.NaN));
    expect(whole.get(digest)?.[1]).toBeGreaterThan(delayNs);
  }
});
