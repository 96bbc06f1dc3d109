/**
 * Random scenes (tests/support/random-scene.ts) held against what is true of them (tests/support/oracle.ts): loss, bursts, reordering, duplicates and packets that look alike, file formats, snap
 * lengths, both directions, offsets up to days, skew up to 200 ppm, steps anywhere, captures that begin late or end early, VLAN or MPLS at one side.
 * No count may be wrong, no delay outside what is stated of it, no verdict against the truth.
 * Seeds 6000 to 6499, 71000 to 71499, 73000 to 73499, 75000 to 75299, 77000 to 77199 and 78000 to 78299 led to corrections of what is tested: they are not fresh any more; SCENES_FROM runs others.
 * Of these one is left that differs: a false pair among repeated packets where a clock was set (75239). Of others (500 from 97000 on among them): a lost packet that is paired with an equal one
 * that only the longer capture saw, 7 s later (82377, 97193); one lost packet near the end of the other capture that counts as outside of it (97043, 98058), as one in a hundred may; a clock that
 * is set behind all but a few packets (97300, deskewed); and counts among repeated packets that change with the correction (97425, 97434, deskewed).
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { binomialCdf } from "../../src/base/math/special.ts";
import type { ClockUncertainty, CorrectionMode } from "../../src/clock/correction.ts";
import type { ClockVerdict } from "../../src/clock/verdict.ts";
import { compareCaptures, openComparison, wholeReport } from "../../src/compare/compare.ts";
import type { PacketReport } from "../../src/compare/packets.ts";
import type { CompareReport, SegmentReport } from "../../src/compare/report.ts";
import { mean, type Truth, truthOf, type WayTruth } from "../support/oracle.ts";
import { randomScene } from "../support/random-scene.ts";
import { rounds } from "../support/rounds.ts";
import { makeScene, type Scene, sceneOf } from "../support/scenario.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-scenes-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const FIRST = Number(process.env.SCENES_FROM ?? 71_000);
const SCENES = Number(process.env.SCENES ?? rounds(150, 500));
const GROUP = 50;

interface Judged {
  scene: Scene;
  truth: Truth;
  report: CompareReport;
  packets: PacketReport[];
  clock: Omit<ClockVerdict, "mode"> & { ways: ClockVerdict["mode"]; uncertainty: ClockUncertainty };
}

async function judge(seed: number, mode: CorrectionMode): Promise<Judged> {
  const scene = sceneOf(randomScene(seed));
  const made = makeScene(scene);
  const [before, after] = [join(scratch, "before"), join(scratch, "after")];
  writeFileSync(before, made.files.before);
  writeFileSync(after, made.files.after);
  const comparison = await openComparison({ before, after, clock: mode, everyPacket: true });
  const report = wholeReport(comparison.view("all"));
  const packets = [...(comparison.packets?.table ?? [])];
  comparison.free();
  return { scene, truth: truthOf(made), report, packets, clock: report.clock as unknown as Judged["clock"] };
}

function edges({ before, after }: Scene): boolean {
  return [before.fromNs, before.toNs, after.fromNs, after.toNs].some(Number.isFinite);
}

/** Some packets look like others. */
function repeats({ repeats, wrap }: Scene): boolean {
  return repeats > 0 || wrap > 0;
}

/** What is wrong with the counts of one way where packets look alike: nothing may be wrong by more than is said to be ambiguous. */
function wrongRepeats(scene: Scene, way: WayTruth, found: SegmentReport): string[] {
  const wrong: string[] = [];
  const { sent, received, matched, lost, appeared, duplicates, head, tail, ambiguous, undecided } = found;
  if (sent !== way.sent || received !== way.received) wrong.push(`sent ${sent}, received ${received}`);
  const others = lost + appeared + duplicates + head + tail + found.linkLocal + found.mirrored;
  if (sent + received !== 2 * matched + others) wrong.push("counts do not add up");
  if (ambiguous > way.alike) wrong.push(`${ambiguous} ambiguous of ${way.alike} that look alike`);
  if (Math.abs(matched - way.matched) > ambiguous + way.confusable)
    wrong.push(`matched ${matched} for ${way.matched}, ${ambiguous} ambiguous`);
  const slack = ambiguous + undecided + way.confusable;
  const counted = `lost ${lost}, head ${head}, tail ${tail}, undecided ${undecided}, ambiguous ${ambiguous} for ${way.lostInside} lost of ${way.lost}`;
  const unclear = edges(scene) && scene.clock.steps.length > 0;
  if (!unclear && Math.abs(lost - way.lostInside) > slack) wrong.push(counted);
  if (!edges(scene) && Math.abs(duplicates - way.duplicates) > ambiguous)
    wrong.push(`duplicates ${duplicates} for ${way.duplicates}, ${ambiguous} ambiguous`);
  return wrong;
}

/** Delays of single packets, as captured: each is one that a packet sent then took, within what packets that are as good as one may differ by. */
function wrongPackets({ truth, packets, report }: Judged): string[] {
  if (report.clock.mode !== "asis") return [];
  const wrong: string[] = [];
  for (const way of ["forward", "reverse"] as const) {
    const { stampedNs, sentAt } = truth[way];
    const [lowNs, highNs] = [Math.min(...stampedNs), Math.max(...stampedNs)];
    const alikeNs = 0.04 * (highNs - lowNs) + 2000;
    const delays = packets.filter((p) => p.direction === way && p.delayNs !== null);
    const found = way === "forward" ? report.segment : report.reverse;
    if (delays.length !== (found?.latency?.count ?? 0)) wrong.push(`${way}: ${delays.length} delays`);
    const unfit: string[] = [];
    for (const { sentNs, receivedNs, delayNs } of delays) {
      const took = Number((receivedNs ?? 0n) - (sentNs ?? 0n));
      const fits = sentAt.get(sentNs ?? 0n)?.some((ns) => Math.abs(ns - took) <= alikeNs);
      if (!fits) unfit.push(`${way}: delay ${delayNs} for ${sentAt.get(sentNs ?? 0n)}`);
    }
    if (unfit.length > truth[way].confusable) wrong.push(...unfit);
  }
  return wrong;
}

/** What is wrong with the counts of one way. */
function wrongCounts(scene: Scene, way: WayTruth, found: SegmentReport): string[] {
  if (repeats(scene)) return wrongRepeats(scene, way, found);
  const wrong: string[] = [];
  const check = (what: "sent" | "received" | "matched" | "duplicates", truth: number) => {
    if (found[what] !== truth) wrong.push(`${what} ${found[what]} for ${truth}`);
  };
  check("sent", way.sent);
  check("received", way.received);
  check("matched", way.matched);
  if (!edges(scene)) check("duplicates", way.duplicates);
  // Where a capture that ran for a shorter time and a clock that was set come together, which packets could have been seen is not known.
  const unclear = edges(scene) && scene.clock.steps.length > 0;
  const counted = `lost ${found.lost}, head ${found.head}, tail ${found.tail}, undecided ${found.undecided} for ${way.lostInside} lost of ${way.lost}`;
  if (!unclear && Math.abs(found.lost - way.lostInside) > found.undecided) wrong.push(counted);
  if (found.lost + found.head + found.tail < way.lost) wrong.push(counted);
  return wrong;
}

/** What is wrong with the delays of one way: as captured they are known to the ns, corrected ones within what is stated. */
function wrongDelays({ scene, report, clock }: Judged, way: WayTruth, found: SegmentReport): string[] {
  if (!found.latency || repeats(scene)) return [];
  const wrong: string[] = [];
  const { meanNs } = found.latency;
  const stampedNs = mean(way.stampedNs);
  if (report.clock.mode === "asis" && Math.abs(meanNs - stampedNs) > 2 + 1e-12 * Math.abs(stampedNs))
    wrong.push(`mean ${meanNs} for ${stampedNs} as captured`);
  // Each difference is of two doubles: far apart clocks leave fewer digits.
  const { jitterNs } = found.latency;
  const digitsNs = 2 + 4e-12 * Math.abs(stampedNs);
  if (report.clock.mode === "asis" && Math.abs((jitterNs ?? 0) - (way.jitterNs ?? 0)) > digitsNs)
    wrong.push(`jitter ${jitterNs} for ${way.jitterNs}`);
  const errorNs = Math.abs(meanNs - mean(way.delaysNs));
  const { trust, uncertainty } = clock;
  const stated = uncertainty.totalNs;
  const trusted = trust === "good" || trust === "usable";
  if (trusted && uncertainty.offsetNs !== null && errorNs > stated)
    wrong.push(`off by ${errorNs} where ${stated} is stated, ${trust}`);
  if (trust === "good" && errorNs > stated + 0.25 * mean(way.delaysNs))
    wrong.push(`good, but off by ${errorNs}`);
  return wrong;
}

function wrongVerdicts({ scene, truth, report, clock }: Judged): string[] {
  const wrong: string[] = [];
  const steady = scene.clock.steps.length === 0;
  if (report.direction.order === "swapped") wrong.push("swapped");
  if (steady && clock.steps.some((s) => s.kind === "clock")) wrong.push("a clock step is claimed");
  const { skew, offset } = clock;
  if (skew?.detected && Math.sign(skew.ppm) !== Math.sign(scene.clock.ppm))
    wrong.push(`skew ${skew.ppm} ppm for ${scene.clock.ppm}`);
  if (skew?.detected && steady && clock.ways === "one-way" && Math.abs(skew.ppm * skew.spanNs) < 2e15)
    wrong.push("a skew is claimed from one direction");
  if (clock.ways === "one-way" && offset.kind === "none")
    wrong.push("no offset is claimed from one direction");
  if (clock.ways === "two-way" && steady && offset.lowNs !== null && offset.highNs !== null) {
    const ppm = skew ? skew.highPpm - skew.lowPpm : 500;
    const slackNs = 1e3 + (ppm * (skew?.spanNs ?? scene.spanNs)) / 1e6;
    const { firstNs } = truth.clock;
    if (firstNs < offset.lowNs - slackNs || firstNs > offset.highNs + slackNs)
      wrong.push(`offset ${offset.lowNs} to ${offset.highNs} for ${firstNs}`);
  }
  return wrong;
}

function faults(judged: Judged): string[] {
  const { scene, truth, report } = judged;
  const wrong = wrongVerdicts(judged);
  for (const [name, way, found] of [
    ["forward", truth.forward, report.segment],
    ["reverse", truth.reverse, report.reverse],
  ] as const) {
    if (!found) {
      if (way.sent + way.received > 0) wrong.push(`${name} is missing`);
      continue;
    }
    wrong.push(...wrongCounts(scene, way, found).map((w) => `${name}: ${w}`));
    wrong.push(...wrongDelays(judged, way, found).map((w) => `${name}: ${w}`));
  }
  const inIntervals = report.intervals.reduce((sum, { lost }) => sum + lost, 0);
  if (inIntervals !== report.segment.lost)
    wrong.push(`${inIntervals} lost in intervals, ${report.segment.lost} in all`);
  if (repeats(scene)) wrong.push(...wrongPackets(judged));
  else if (report.segment.reordered !== truth.forward.reordered)
    wrong.push(`reordered ${report.segment.reordered} for ${truth.forward.reordered}`);
  return wrong;
}

/** Among packets that look alike, what is counted does not depend on the length of intervals. */
async function wrongByEpoch({ scene, report }: Judged): Promise<string[]> {
  if (!repeats(scene)) return [];
  const files = { before: join(scratch, "before"), after: join(scratch, "after") };
  const other = await compareCaptures({ ...files, epochNs: Math.ceil(scene.spanNs / 7) });
  const counts = ({ matched, lost, appeared, ambiguous, duplicates }: SegmentReport) =>
    JSON.stringify({ matched, lost, appeared, ambiguous, duplicates });
  const [one, two] = [counts(report.segment), counts(other.segment)];
  return one === two ? [] : [`${one} is ${two} with other intervals`];
}

/** Scenes of other ranges that were wrong once. */
const MENDED = [75_161, 75_299, 77_019, 77_034, 77_058, 78_001, 94_178, 94_225];
/** And such as were wrong with the clocks corrected. */
const MENDED_DESKEWED = [81_128, 82_372, 83_022, 91_096, 97_042, 97_230, 99_157];

/** Bounds at 95 % may miss: of all claimed skews. */
const missed = { claimed: 0, outside: 0 };

describe("random scenes", () => {
  const groups = Array.from({ length: SCENES / GROUP }, (_, i) => FIRST + i * GROUP);
  test.each(groups)("%i and the 49 behind it", async (from) => {
    const wrong: string[] = [];
    for (let seed = from; seed < from + GROUP; seed++) {
      const asis = await judge(seed, "asis");
      wrong.push(...faults(asis).map((fault) => `${seed}: ${fault}`));
      wrong.push(...(await wrongByEpoch(asis)).map((fault) => `${seed}: ${fault}`));
      const { skew } = asis.clock;
      if (skew?.detected && asis.scene.clock.steps.length === 0) {
        missed.claimed++;
        const { ppm } = asis.scene.clock;
        if (ppm < skew.lowPpm || ppm > skew.highPpm) missed.outside++;
      }
      if (asis.clock.ways !== "two-way" || seed % 2 === 1) continue;
      wrong.push(...faults(await judge(seed, "deskew")).map((fault) => `${seed}, deskewed: ${fault}`));
    }
    expect(wrong).toEqual([]);
  });

  test.each(MENDED)("%i, which was wrong once", async (seed) => {
    const asis = await judge(seed, "asis");
    expect([...faults(asis), ...(await wrongByEpoch(asis))]).toEqual([]);
  });

  test.each(MENDED_DESKEWED)("%i, which was wrong once, deskewed", async (seed) => {
    expect(faults(await judge(seed, "asis"))).toEqual([]);
    expect(faults(await judge(seed, "deskew"))).toEqual([]);
  });

  test("intervals of skew hold the truth", () => {
    expect(missed.claimed).toBeGreaterThan(SCENES / 10);
    // So many misses of intervals at 95 % have a probability of at most 2e-3 (12 of 100).
    const { claimed, outside } = missed;
    expect(binomialCdf(claimed - outside, claimed, 0.95), `${outside} of ${claimed}`).toBeGreaterThan(2e-3);
  });
});
