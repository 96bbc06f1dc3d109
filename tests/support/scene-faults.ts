/** Finds what is wrong in the answer of `compare` for a random scene (random-scene.ts), by the expected result (oracle.ts). */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ClockUncertainty, CorrectionMode } from "../../src/clock/correction.ts";
import type { ClockVerdict } from "../../src/clock/verdict.ts";
import { compareCaptures, openComparison, wholeReport } from "../../src/compare/compare.ts";
import type { PacketReport } from "../../src/compare/packets.ts";
import type { CompareReport, SegmentReport } from "../../src/compare/report.ts";
import { mean, type Truth, truthOf, type WayTruth } from "./oracle.ts";
import { randomScene } from "./random-scene.ts";
import { makeScene, type Scene, sceneOf } from "./scenario.ts";

export interface Judged {
  scene: Scene;
  files: { before: string; after: string };
  truth: Truth;
  report: CompareReport;
  packets: PacketReport[];
  clock: Omit<ClockVerdict, "mode"> & { ways: ClockVerdict["mode"]; uncertainty: ClockUncertainty };
}

export async function judge(folder: string, seed: number, mode: CorrectionMode): Promise<Judged> {
  const scene = sceneOf(randomScene(seed));
  const made = makeScene(scene);
  const [before, after] = [join(folder, "before"), join(folder, "after")];
  writeFileSync(before, made.files.before);
  writeFileSync(after, made.files.after);
  const comparison = await openComparison({ before, after, clock: mode, everyPacket: true });
  const report = wholeReport(comparison.view("all"));
  const packets = [...(comparison.packets?.table ?? [])];
  comparison.free();
  const files = { before, after };
  return {
    scene,
    files,
    truth: truthOf(made),
    report,
    packets,
    clock: report.clock as unknown as Judged["clock"],
  };
}

function edges({ before, after }: Scene): boolean {
  return [before.fromNs, before.toNs, after.fromNs, after.toNs].some(Number.isFinite);
}

/** Returns whether some packets look like others. */
function repeats({ repeats, wrap }: Scene): boolean {
  return repeats > 0 || wrap > 0;
}

/** Returns errors in the counts of one direction with identical packets: the difference may not exceed the number reported as ambiguous. */
function wrongRepeats({ scene, truth: { open } }: Judged, way: WayTruth, found: SegmentReport): string[] {
  const wrong: string[] = [];
  const { sent, received, matched, lost, appeared, duplicates, head, tail, ambiguous, undecided } = found;
  if (Math.abs(sent - way.sent) > open || Math.abs(received - way.received) > open)
    wrong.push(`sent ${sent}, received ${received}`);
  const others = lost + appeared + duplicates + head + tail + found.linkLocal + found.mirrored;
  if (sent + received !== 2 * matched + others) wrong.push("counts do not add up");
  if (ambiguous > way.alike) wrong.push(`${ambiguous} ambiguous of ${way.alike} that look alike`);
  if (Math.abs(matched - way.matched) > ambiguous + way.confusable)
    wrong.push(`matched ${matched} for ${way.matched}, ${ambiguous} ambiguous`);
  const slack = ambiguous + undecided + way.confusable + open;
  const counted = `lost ${lost}, head ${head}, tail ${tail}, undecided ${undecided}, ambiguous ${ambiguous} for ${way.lostInside} lost of ${way.lost}`;
  const unclear = edges(scene) && scene.clock.steps.length > 0;
  if (!unclear && Math.abs(lost - way.lostInside) > slack) wrong.push(counted);
  if (!edges(scene) && Math.abs(duplicates - way.duplicates) > ambiguous)
    wrong.push(`duplicates ${duplicates} for ${way.duplicates}, ${ambiguous} ambiguous`);
  return wrong;
}

/**
 * Checks the delays of single packets as captured: each must be the delay of a packet sent at that time, within the difference between indistinguishable
 * packets.
 */
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

/** Returns errors in the counts of one direction. */
function wrongCounts(judged: Judged, way: WayTruth, found: SegmentReport): string[] {
  const { scene, truth } = judged;
  if (repeats(scene)) return wrongRepeats(judged, way, found);
  const wrong: string[] = [];
  const check = (what: "sent" | "received" | "matched" | "duplicates", count: number) => {
    if (Math.abs(found[what] - count) > truth.open) wrong.push(`${what} ${found[what]} for ${count}`);
  };
  check("sent", way.sent);
  check("received", way.received);
  check("matched", way.matched);
  if (!edges(scene)) check("duplicates", way.duplicates);
  // If one capture was shorter and a clock was stepped, it is unknown which packets could have been seen.
  const unclear = edges(scene) && scene.clock.steps.length > 0;
  const counted = `lost ${found.lost}, head ${found.head}, tail ${found.tail}, undecided ${found.undecided} for ${way.lostInside} lost of ${way.lost}`;
  // Lost packets that were due after the last packet of the other capture may be counted or not.
  const slack = found.undecided + truth.open;
  const excess = Math.max(way.lostInside - found.lost, found.lost - way.lost);
  if (!unclear && excess > slack) wrong.push(counted);
  if (found.lost + found.head + found.tail + truth.open < way.lost) wrong.push(counted);
  return wrong;
}

/** Returns errors in the delays of one direction: captured ones are known to the ns, corrected ones within the stated uncertainty. */
function wrongDelays({ scene, report, clock }: Judged, way: WayTruth, found: SegmentReport): string[] {
  if (!found.latency || repeats(scene)) return [];
  const wrong: string[] = [];
  const { meanNs } = found.latency;
  const stampedNs = mean(way.stampedNs);
  if (report.clock.mode === "asis" && Math.abs(meanNs - stampedNs) > 2 + 1e-12 * Math.abs(stampedNs))
    wrong.push(`mean ${meanNs} for ${stampedNs} as captured`);
  // Each difference is between two doubles, so a large clock offset leaves fewer digits.
  const { jitterNs } = found.latency;
  const digitsNs = 2 + 4e-12 * Math.abs(stampedNs);
  if (report.clock.mode === "asis" && Math.abs((jitterNs ?? 0) - (way.jitterNs ?? 0)) > digitsNs)
    wrong.push(`jitter ${jitterNs} for ${way.jitterNs}`);
  const errorNs = Math.abs(meanNs - mean(way.delaysNs)) - way.loneNs / way.matched;
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

export function faults(judged: Judged): string[] {
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
    wrong.push(...wrongCounts(judged, way, found).map((w) => `${name}: ${w}`));
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

/** With identical packets, the counts must not depend on the length of intervals. */
export async function wrongByEpoch({ scene, report, files }: Judged): Promise<string[]> {
  if (!repeats(scene)) return [];
  const other = await compareCaptures({ ...files, epochNs: Math.ceil(scene.spanNs / 7) });
  const counts = ({ matched, lost, appeared, ambiguous, duplicates }: SegmentReport) =>
    JSON.stringify({ matched, lost, appeared, ambiguous, duplicates });
  const [one, two] = [counts(report.segment), counts(other.segment)];
  return one === two ? [] : [`${one} is ${two} with other intervals`];
}
