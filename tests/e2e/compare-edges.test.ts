/** The loss, and the packets before a capture began or after it ended, depend on the captures only: intervals are only for display. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, describe, expect, test } from "vitest";
import { compareCaptures } from "../../src/compare/compare.ts";
import type { SegmentReport } from "../../src/compare/report.ts";
import { type LinkPacket, linkCaptures } from "../support/link-captures.ts";
import { truthOf } from "../support/oracle.ts";
import { pcapFile } from "../support/pcap-writer.ts";
import { rounds } from "../support/rounds.ts";
import { makeScene, type SceneChoices, sceneOf } from "../support/scenario.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-edges-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const MS = 1e6;
const EPOCHS = [0.3 * MS, MS, 5 * MS, 20 * MS, 100 * MS, 1000 * MS];
const DEMO = {
  before: gunzipSync(readFileSync("demo/router-in.pcap.gz")),
  after: gunzipSync(readFileSync("demo/router-out.pcap.gz")),
};

interface Pair {
  before: Uint8Array;
  after: Uint8Array;
}

function write({ before, after }: Pair): { before: string; after: string } {
  const files = { before: join(scratch, "before.pcap"), after: join(scratch, "after.pcap") };
  writeFileSync(files.before, before);
  writeFileSync(files.after, after);
  return files;
}

function counts(segment: SegmentReport | null) {
  if (!segment) return null;
  const { sent, received, matched, lost, appeared, duplicates, head, tail, undecided } = segment;
  return { sent, received, matched, lost, appeared, duplicates, head, tail, undecided };
}

async function countsBy(pair: Pair) {
  const files = write(pair);
  const found = [];
  for (const epochNs of EPOCHS) {
    const { segment, reverse } = await compareCaptures({ ...files, epochNs });
    found.push({ forward: counts(segment), reverse: counts(reverse) });
  }
  return found;
}

const scene = (choices: SceneChoices) => () => makeScene(sceneOf({ packets: 3000, ...choices })).files;
const cases: [string, () => Pair][] = [
  ["the demo", () => DEMO],
  [
    "the first 100 kB of the demo's first capture",
    () => ({ ...DEMO, before: DEMO.before.subarray(0, 100_000) }),
  ],
  ["the first 100 kB of its second", () => ({ ...DEMO, after: DEMO.after.subarray(0, 100_000) })],
  [
    "the first 20 kB of both",
    () => ({ before: DEMO.before.subarray(0, 20_000), after: DEMO.after.subarray(0, 20_000) }),
  ],
  [
    "two directions, the second later and shorter",
    scene({ reverseShare: 0.4, after: { fromNs: 2e9, toNs: 8e9 }, forward: { loss: 0.02 } }),
  ],
  [
    "a clock that is set",
    scene({ forward: { loss: 0.02 }, clock: { steps: [{ atNs: 4e9, sizeNs: -2e9 }] } }),
  ],
  [
    "a first capture that is shorter",
    scene({ before: { fromNs: 3e9, toNs: 5e9 }, forward: { minNs: 50 * MS, queueNs: 50 * MS } }),
  ],
];

describe("whatever the length of intervals", () => {
  test.each(cases)("counts are the same: %s", async (_, make) => {
    const [first, ...others] = await countsBy(make());
    for (const other of others) expect(other).toEqual(first);
  });
});

describe("a capture that was cut", () => {
  test("holds the head of the other: nothing appeared", async () => {
    const files = write({ ...DEMO, before: DEMO.before.subarray(0, 100_000) });
    const { segment } = await compareCaptures(files);
    expect(segment).toMatchObject({ appeared: 0, head: 167, tail: 5330 });
  });

  test("loss is what is missing between the ends, but for what is reported as undecided", async () => {
    let [decided, undecided] = [0, 0];
    for (let seed = 1; seed <= rounds(20, 40); seed++) {
      const minNs = (1 + (seed % 5) * 20) * MS;
      const made = makeScene(
        sceneOf({
          seed,
          packets: 4000,
          forward: { minNs, queueNs: minNs / (1 + (seed % 3)), loss: 0.01 + 0.02 * (seed % 2) },
          before: seed % 4 < 2 ? {} : { fromNs: 1e9, toNs: 8.5e9 },
          after: seed % 4 === 1 ? {} : { fromNs: 2e9, toNs: 9e9 },
        }),
      );
      const { segment } = await compareCaptures(write(made.files));
      const { lostInside, matched } = truthOf(made).forward;
      expect(segment.matched).toBe(matched);
      expect(segment.appeared).toBeLessThanOrEqual(segment.undecided);
      expect(Math.abs(segment.lost - lostInside)).toBeLessThanOrEqual(segment.undecided);
      decided += segment.lost + segment.head + segment.tail;
      undecided += segment.undecided;
    }
    // Only packets within the delays of an end may be uncertain.
    expect(undecided).toBeLessThan(0.1 * decided);
  });

  test("flows of few packets, two directions, a capture hardly longer than the delays: nothing is lost that is only due outside", async () => {
    for (let seed = 101; seed <= 120; seed++) {
      const path = { minNs: (15 + (seed % 10)) * MS, queueNs: 6 * MS };
      const shape = { seed, packets: 160, spanNs: 46 * MS, flows: 120, reverseShare: 0.45 };
      const reversePath = { ...path, minNs: path.minNs + 5 * MS };
      const made = makeScene(
        sceneOf({ ...shape, forward: path, reverse: reversePath, after: { toNs: 39 * MS } }),
      );
      const { segment, reverse } = await compareCaptures(write(made.files));
      const truth = truthOf(made);
      for (const [found, true_] of [
        [segment, truth.forward],
        [reverse, truth.reverse],
      ] as const) {
        if (found)
          expect(Math.abs(found.lost - true_.lostInside), `seed ${seed}`).toBeLessThanOrEqual(
            found.undecided,
          );
      }
    }
  });
});

describe("two classes of packets, 1 ms and 2 s, both captures of the same 12 s", () => {
  const [SPAN_NS, SLOW_NS] = [12e9, 2e9];
  /** Every `slowEvery`th packet belongs to the slow class and is overtaken by all others; every `lostEvery`th is lost. */
  function captures(slowEvery: number, lostEvery: number, apart = false) {
    const packets = Array.from({ length: 6000 }, (_, n): LinkPacket & { dueNs: number } => {
      const atNs = n * 2 * MS;
      const slow = n % slowEvery === 0;
      const delayNs = (slow ? SLOW_NS : MS) + (n % 7) * 1000;
      const lost = n % lostEvery === 3;
      // With `apart` each class has (almost) its own flows; otherwise they share all of them.
      return {
        flow: 1 + ((apart ? n : Math.floor(n / 10)) % 5),
        atNs,
        delayNs: lost ? null : delayNs,
        dueNs: atNs + delayNs,
      };
    });
    const { before, after } = linkCaptures(packets);
    const endNs = (before[0]?.timeNs ?? 0n) + BigInt(SPAN_NS);
    const seen = after.filter(({ timeNs }) => timeNs <= endNs);
    const lost = packets.filter((p) => p.delayNs === null);
    return {
      pair: { before: pcapFile(before, { nano: true }), after: pcapFile(seen, { nano: true }) },
      matched: seen.length,
      lostInside: lost.filter((p) => p.dueNs <= SPAN_NS).length,
      lost: lost.length,
      slowAtTheEnd: packets.filter((p) => p.dueNs > SPAN_NS).length,
    };
  }

  test.each([
    [1, 1e9, false],
    [2, 1e9, false],
    [2, 1e9, true],
    [5, 1e9, false],
    [5, 1e9, true],
    [10, 1e9, false],
    [2, 40, false],
    [2, 40, true],
    [5, 40, false],
    [5, 40, true],
    [10, 90, true],
  ])(
    "one in %i slow, one in %i lost, flows apart: %s: nothing is lost that is only due after the end",
    async (...shape) => {
      const { pair, matched, lostInside, lost, slowAtTheEnd } = captures(...shape);
      const { segment } = await compareCaptures(write(pair));
      expect(segment).toMatchObject({ matched, appeared: 0, head: 0 });
      expect(Math.abs(segment.lost - lostInside)).toBeLessThanOrEqual(segment.undecided);
      expect(segment.lost + segment.tail).toBe(6000 - matched);
      // Undecided packets are limited to those due after the end, and the few lost there.
      if (lost === 0) expect(segment.lost).toBe(0);
      expect(segment.undecided).toBeLessThanOrEqual(slowAtTheEnd + (lost - lostInside) + 0.2 * lost);
    },
  );

  test("the first capture began 4 s later: what it did not see did not appear", async () => {
    const { pair } = captures(5, 1e9, true);
    const { before } = linkCaptures(
      Array.from({ length: 6000 }, (_, n) => ({ flow: 1 + (n % 5), atNs: n * 2 * MS, delayNs: null })),
    );
    const late = { ...pair, before: pcapFile(before.slice(2000), { nano: true }) };
    const { segment } = await compareCaptures(write(late));
    expect(segment.appeared).toBeLessThanOrEqual(segment.undecided);
    expect(segment).toMatchObject({ lost: 0 });
    expect(segment.head).toBeGreaterThan(1900);
  });
});
