/** Jitter is that of consecutively sent packets (RFC 3393), also if they overtake each other, are lost, or look the same. */

import { describe, expect, test } from "vitest";
import { rounds } from "../../tests/support/rounds.ts";
import { type Packet, runMatcher } from "../../tests/support/run-matcher.ts";
import { Random } from "../base/random.ts";

const MS = 1e6;

interface Made {
  before: Packet[];
  after: Packet[];
  /** Per flow: delays of the packets that arrived, in the order of sending. */
  delays: Map<number, number[]>;
}

interface Traffic {
  seed: number;
  packets: number;
  flows: number;
  loss: number;
  /** Delay of late packets, one in ten. */
  lateNs: number;
  /** The other direction: packets pass the second point first. */
  back: boolean;
  /** Packets of the first flow all look the same. */
  alike?: boolean;
}

function traffic({ seed, packets, flows, loss, lateNs, back, alike = false }: Traffic): Made {
  const random = new Random(seed);
  const near: Packet[] = [];
  const far: Packet[] = [];
  const delays = new Map<number, number[]>();
  for (let i = 0; i < packets; i++) {
    // Identical packets are further apart than delays differ.
    const flow = i % 200 === 0 ? 0 : 1 + random.below(flows);
    const sentNs = i * 10_000;
    const delayNs = MS + random.below(MS / 2) + (random.float() < 0.1 ? random.below(lateNs) : 0);
    const packet = { digest: alike && flow === 0 ? 1e6 : i, flow };
    near.push({ ...packet, timeNs: sentNs });
    if (random.float() < loss) continue;
    far.push({ ...packet, timeNs: sentNs + delayNs });
    delays.set(flow, [...(delays.get(flow) ?? []), delayNs]);
  }
  far.sort((a, b) => a.timeNs - b.timeNs);
  return back ? { before: far, after: near, delays } : { before: near, after: far, delays };
}

function steps(delays: readonly number[]): number[] {
  return delays.slice(1).map((d, i) => Math.abs(d - (delays[i] ?? Number.NaN)));
}
const mean = (values: readonly number[]) => values.reduce((sum, v) => sum + v, 0) / values.length;

function expectJitter({ before, after, delays }: Made, back: boolean): void {
  const matcher = runMatcher(before, after, { windowNs: 1e9, epochNs: 1e9, thresholdNs: 0 });
  const found = new Map<number, number | null>();
  for (let id = 0; id < matcher.flowCount; id++) {
    const { words, at } = matcher.keyWords(id);
    found.set(words[at] ?? -1, matcher.flow(id).jitterNs);
  }
  for (const [flow, list] of delays) {
    if (list.length < 2) expect(found.get(flow)).toBeNull();
    else expect(found.get(flow)).toBeCloseTo(mean(steps(list)), 4);
  }
  const all = [...delays.values()].flatMap(steps);
  expect(matcher.total(back ? 2 : 1).jitterNs).toBeCloseTo(mean(all), 4);
}

describe("jitter", () => {
  const cases: [string, Partial<Traffic>][] = [
    ["in order", { lateNs: 1 }],
    ["some are overtaken", { lateNs: 2 * MS }],
    ["many are, by much", { lateNs: 100 * MS, loss: 0.1 }],
    ["in flows of two, three and four packets", { flows: 700, lateNs: 20 * MS, loss: 0.2 }],
    ["in flows whose packets come one by one", { flows: 2, lateNs: 5 * MS }],
  ];
  test.each(cases)("%s: consecutive packets as sent, either way", (_, choices) => {
    for (const back of [false, true])
      for (let seed = 1; seed <= rounds(5, 10); seed++)
        expectJitter(
          traffic({ seed, packets: 2000, flows: 20, loss: 0.02, lateNs: MS, back, ...choices }),
          back,
        );
  });

  test("flows of nothing but packets that look the same have one, too", () => {
    expectJitter(
      traffic({ seed: 3, packets: 2000, flows: 100, loss: 0, lateNs: 1, back: false, alike: true }),
      false,
    );
  });

  test("a packet that comes after more than 131,072 others is left out, as though lost", () => {
    const before: Packet[] = [];
    const after: Packet[] = [];
    for (let i = 0; i < 150_000; i++) {
      before.push({ digest: i, flow: i % 2, timeNs: i * 1000 });
      after.push({ digest: i, flow: i % 2, timeNs: i * 1000 + (i === 100 ? 149 * MS : MS) });
    }
    after.sort((a, b) => a.timeNs - b.timeNs);
    const matcher = runMatcher(before, after, { windowNs: 1e9, epochNs: 1e9 });
    expect(matcher.flow(0)).toMatchObject({
      matched: 75_000,
      reordered: 1,
      jitterNs: 0,
      jitterSteps: 74_998,
    });
  });

  test("so is one that comes after more than 2,048 others of its flow, and the next late one has its neighbours as counted", () => {
    const packets = 12_000;
    const late = new Map([
      [100, 5 * MS],
      [8000, 0.1 * MS],
    ]);
    const before = Array.from({ length: packets }, (_, i) => ({ digest: i, flow: 0, timeNs: i * 1000 }));
    const after = before
      .map((p, i) => ({ ...p, timeNs: p.timeNs + MS + (late.get(i) ?? 0) }))
      .sort((a, b) => a.timeNs - b.timeNs);
    const matcher = runMatcher(before, after, { windowNs: 1e9, epochNs: 1e9 });
    // One packet is left out; the other gives a step up and one down, of 0.1 ms each.
    expect(matcher.flow(0)).toMatchObject({ matched: packets, reordered: 2, jitterSteps: packets - 2 });
    expect(matcher.flow(0).jitterNs).toBeCloseTo((2 * 0.1 * MS) / (packets - 2), 6);
  });
});
