/** A packet that the other capture cannot have seen is not lost: judged by the delays, also if packets overtake each other. */
import { describe, expect, test } from "vitest";
import { type Packet, runMatcher } from "../../tests/support/run-matcher.ts";
import { Random } from "../base/random.ts";

const MS = 1e6;
const byTime = (packets: Packet[]) => packets.sort((a, b) => a.timeNs - b.timeNs);

/** Packets of two classes with delays of 1 ms and 2 s, captured at the two points during different times. */
function twoClasses(
  seed: number,
  captured: { before: [number, number]; after: [number, number] },
  loss: number,
) {
  const random = new Random(seed);
  const before: Packet[] = [];
  const after: Packet[] = [];
  let lost = 0;
  for (let i = 0; i < 12_000; i++) {
    const sent = i * MS;
    const slow = i % 2 === 1;
    const arrives = sent + (slow ? 2000 * MS : MS) + random.float() * 0.1 * MS;
    const dropped = random.float() < loss;
    const within = (t: number, [from, to]: [number, number]) => t >= from * 1e9 && t <= to * 1e9;
    const packet = { digest: i, flow: (slow ? 100 : 0) + (i % 20) };
    if (within(sent, captured.before)) before.push({ ...packet, timeNs: sent });
    if (within(arrives, captured.after) && !dropped) after.push({ ...packet, timeNs: arrives });
    // Only a packet that would have been seen at both points is known to be lost.
    if (dropped && within(sent, captured.before) && within(arrives, captured.after)) lost++;
  }
  const matcher = runMatcher(before, byTime(after), {
    windowNs: 10e9,
    epochNs: 1e9,
    thresholdNs: Number.NEGATIVE_INFINITY,
  });
  return { sums: matcher.flows.survey(false).forward, lost };
}

describe("at the ends of captures", () => {
  test.each([
    ["both run for the same time", { before: [0, 12], after: [0, 12] }],
    ["the second ends first", { before: [0, 12], after: [0, 9] }],
    ["the second begins later", { before: [0, 12], after: [4, 12] }],
    ["the second begins later and ends first", { before: [0, 12], after: [4, 9] }],
    ["the first begins later", { before: [5, 12], after: [0, 14] }],
    ["the first ends first", { before: [0, 6], after: [0, 14] }],
  ] as [string, { before: [number, number]; after: [number, number] }][])(
    "of two classes none is lost: %s",
    (_, captured) => {
      const { sums } = twoClasses(1, captured, 0);
      expect(sums).toMatchObject({ lost: 0, appeared: 0 });
    },
  );

  test("what is lost between them is", () => {
    for (const seed of [2, 3, 4]) {
      const { sums, lost } = twoClasses(seed, { before: [0, 12], after: [4, 9] }, 0.02);
      expect(Math.abs(sums.lost - lost)).toBeLessThanOrEqual(2);
      expect(sums.appeared).toBe(0);
    }
  });
});
