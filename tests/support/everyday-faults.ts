/** Finds what is wrong in the answer of `compare` for an everyday network (everyday-scene.ts). */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ClockUncertainty, CorrectionMode } from "../../src/clock/correction.ts";
import type { Trust } from "../../src/clock/verdict.ts";
import { openComparison, wholeReport } from "../../src/compare/compare.ts";
import type { PacketReport } from "../../src/compare/packets.ts";
import type { CompareReport, SegmentReport } from "../../src/compare/report.ts";
import { type Crossing, type EverydayScene, everydayScene, type Way } from "./everyday-scene.ts";

export interface EverydayAnswer {
  scene: EverydayScene;
  report: CompareReport;
  packets: PacketReport[];
  trust: Trust;
  /** "good" or "usable": the numbers can be relied on. */
  trusted: boolean;
  uncertainty: ClockUncertainty;
}

export async function answerOf(folder: string, seed: number, mode: CorrectionMode): Promise<EverydayAnswer> {
  const scene = everydayScene(seed);
  const [before, after] = [join(folder, "before"), join(folder, "after")];
  writeFileSync(before, scene.files.before);
  writeFileSync(after, scene.files.after);
  const comparison = await openComparison({ before, after, clock: mode, everyPacket: true });
  const report = wholeReport(comparison.view("all"));
  const packets = [...(comparison.packets?.table ?? [])];
  comparison.free();
  const { trust, uncertainty } = report.clock as unknown as { trust: Trust; uncertainty: ClockUncertainty };
  return { scene, report, packets, trust, trusted: trust === "good" || trust === "usable", uncertainty };
}

const WAYS = ["forward", "reverse"] as const;

/** `wrong`: stated with confidence but not true. `weak`: not found, but reported as doubtful. */
export function judgeAnswer(answer: EverydayAnswer): { wrong: string[]; weak: string[] } {
  const { scene, report, trusted } = answer;
  const truth = { forward: ofWay(scene, "forward"), reverse: ofWay(scene, "reverse") };
  const misplaced = WAYS.flatMap((way) => {
    const found = way === "forward" ? report.segment : report.reverse;
    const [matched, counted] = [truth[way].matched.length, found?.matched ?? 0];
    return matched === counted ? [] : [`${way}: ${counted} matched for ${matched}`];
  });
  if (report.direction.order === "swapped") misplaced.push("swapped");
  if (misplaced.length > 0) {
    const said = `${misplaced.join(", ")} (${answer.trust}, ${report.direction.order})`;
    return trusted && report.direction.order !== "unclear"
      ? { wrong: [said], weak: [] }
      : { wrong: [], weak: [said] };
  }
  const wrong = WAYS.flatMap((way) => {
    const found = way === "forward" ? report.segment : report.reverse;
    if (!found) return [];
    return [...wrongCounts(truth[way], found), ...wrongDelays(answer, way, truth[way], found)].map(
      (w) => `${way}: ${w}`,
    );
  });
  // Both directions of the flows are swapped, and there are as many of each: the answer says that this is unclear.
  const unclear = report.direction.order === "unclear" && !trusted;
  return unclear ? { wrong: [], weak: wrong } : { wrong, weak: [] };
}

/** Minimum packets of either direction before and after the clock event. */
const ENOUGH = 4;
/** A clock event can be detected only if it exceeds this share of the variation of delays. */
const STANDS_OUT = 0.1;

/** Returns whether the clock event can be known: both directions have packets before and after it, and it exceeds the normal variation of delays. */
function isShown(scene: EverydayScene): boolean {
  const times = scene.crossings.map((c) => c.sentNs);
  const moved = times.map(scene.aheadNs);
  const movedNs = Math.max(...moved) - Math.min(...moved);
  return WAYS.every((way) => {
    const { matched } = ofWay(scene, way);
    const took = matched.map((c) => c.arrivedNs - c.sentNs);
    const parts = [
      matched.filter((c) => c.arrivedNs < scene.eventNs),
      matched.filter((c) => c.sentNs >= scene.eventNs),
    ];
    const differNs = Math.max(...took) - Math.min(...took);
    return movedNs > STANDS_OUT * differNs && parts.every((part) => part.length >= ENOUGH);
  });
}

interface WayTruth {
  matched: (Crossing & { arrivedNs: number })[];
  lost: number;
}

function ofWay({ crossings }: EverydayScene, way: Way): WayTruth {
  const all = crossings.filter((c) => c.way === way);
  const matched = all.filter((c): c is WayTruth["matched"][number] => c.arrivedNs !== null);
  return { matched, lost: all.length - matched.length };
}

function wrongCounts({ lost }: WayTruth, found: SegmentReport): string[] {
  const most = found.lost + found.head + found.tail + found.undecided;
  return found.lost > lost || most < lost || found.appeared > 0
    ? [
        `lost ${found.lost}, appeared ${found.appeared}, head ${found.head}, tail ${found.tail}, undecided ${found.undecided} for ${lost}`,
      ]
    : [];
}

function wrongDelays(
  { scene, report, packets, trust, trusted, uncertainty }: EverydayAnswer,
  way: Way,
  truth: WayTruth,
  found: SegmentReport,
): string[] {
  const wrong: string[] = [];
  const mode = report.clock.mode;
  const { latency } = found;
  if (!latency) return truth.matched.length > 0 ? ["no delays"] : [];
  const own = packets.filter((p) => p.direction === way && p.delayNs !== null);
  const near = way === "forward" ? "before" : "after";
  const far = way === "forward" ? "after" : "before";
  // With a clock that shows 1970, times are doubles with a resolution of 256 ns.
  const digitsNs = Math.abs(scene.aheadNs(0)) > 2 ** 53 ? 1024 : 0;
  const took = new Map<bigint, Crossing & { arrivedNs: number }>();
  for (const c of truth.matched)
    took.set(scene.stampOf("before", way === "forward" ? c.sentNs : c.arrivedNs), c);
  const smallestNs = mode === "relative" ? Math.min(...truth.matched.map((c) => c.arrivedNs - c.sentNs)) : 0;
  const shared = took.size < truth.matched.length;
  const errors = own.flatMap((p) => {
    const c = took.get((way === "forward" ? p.sentNs : p.receivedNs) ?? 0n);
    if (!c) return [Number.NaN];
    const apart = Number(
      (p.receivedNs ?? 0n) -
        (p.sentNs ?? 0n) -
        (scene.stampOf(far, c.arrivedNs) - scene.stampOf(near, c.sentNs)),
    );
    // If several packets have the same timestamp, it may be any of them.
    if (Math.abs(apart) > digitsNs) return shared ? [] : [Number.NaN];
    return [(p.delayNs ?? 0) - (c.arrivedNs - c.sentNs - smallestNs)];
  });
  if (errors.some(Number.isNaN) || own.length !== truth.matched.length)
    return ["packets that were never sent so"];
  const delays = own.map((p) => p.delayNs ?? 0).sort((a, b) => a - b);
  for (const [q, said] of [
    [0.5, latency.p50Ns],
    [0.9, latency.p90Ns],
    [0.99, latency.p99Ns],
  ] as const) {
    const isNs = delays[Math.max(0, Math.ceil(q * delays.length) - 1)] ?? 0;
    const [low, high] = [delays[0] ?? 0, delays.at(-1) ?? 0];
    if (Math.abs(said - isNs) > 0.02 * Math.max(Math.abs(isNs), high - low) + 2)
      wrong.push(`p${100 * q} ${said} for ${isNs}`);
  }
  const [lowNs, highNs] = [Math.min(...errors), Math.max(...errors)];
  const totalNs = uncertainty.totalNs + scene.resolutionNs + digitsNs;
  const known = uncertainty.offsetNs !== null;
  // One direction alone cannot distinguish a clock change from a path change, and the answer says so; but if it reports a clock step, the step must be right.
  const claimed = (report.clock as unknown as { steps: { kind: string }[] }).steps.some(
    (s) => s.kind === "clock",
  );
  const steady = scene.even || (report.reverse === null && scene.stepped && claimed);
  const shows = steady || (report.reverse !== null && isShown(scene));
  if (trusted && known && shows && Math.max(-lowNs, highNs) > totalNs)
    wrong.push(`off by ${lowNs} to ${highNs} where ${totalNs} is stated, ${trust}`);
  if (trusted && !known && steady && highNs - lowNs > 2 * totalNs)
    wrong.push(`errors from ${lowNs} to ${highNs} where ${totalNs} is stated, ${trust}`);
  if (trusted && Math.abs(latency.meanNs) > 10e9) wrong.push(`a mean of ${latency.meanNs} ns is ${trust}`);
  const meanNs = truth.matched.reduce((sum, c) => sum + c.arrivedNs - c.sentNs, 0) / truth.matched.length;
  if (trust === "good" && known && totalNs > meanNs && mode !== "relative")
    wrong.push(`good, with ${totalNs} uncertain of ${meanNs}`);
  return wrong;
}
