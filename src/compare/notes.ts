/** Notes about the limits of a report's numbers. */
import { countOf, formatCount } from "../base/quantity.ts";
import { formatDuration } from "../base/time.ts";
import { type CaptureStatistics, DEFAULT_COVER } from "../capture/reader.ts";
import { outlierText } from "../capture/timestamp-trust.ts";
import { MIN_PAIRS } from "../clock/alignment.ts";
import { type Correction, correction } from "../clock/correction.ts";
import type { ClockVerdict } from "../clock/verdict.ts";
import type { PassResult } from "./pass.ts";
import type { Directions } from "./plan.ts";
import type { SegmentReport } from "./report.ts";

/** Share of packets without a partner, in both captures, that loss and a few foreign packets do not explain. */
const MUCH_UNMATCHED = 0.1;

/** Share of packets identical to another one above which a capture of several interfaces seems to contain both points. */
const MANY_TWICE = 0.1;

/** The network does not copy this share of the packets. */
const MANY_COPIES = 0.8;
const MIN_COPIES = 32;
const MIN_COPIED = 4;
const FEW_COPIES = 0.02;
/** Share of packets identical to another one above which a note states that reordering is not counted among them. */
const MANY_REPEATED = 0.01;

/** Input of the notes. */
export interface NoteSubject {
  result: PassResult;
  windowNs: number;
  directions: Directions;
  segment: SegmentReport;
  reverse: SegmentReport | null;
  clock: { applied: Correction; verdict: ClockVerdict };
  /** Notes made during the passes. */
  found: readonly string[];
}

export function observations(subject: NoteSubject): string[] {
  const { result, windowNs, directions, segment, found } = subject;
  const set = clockSetNotes(result, windowNs);
  const explained = set.length > 0;
  const unmatched =
    directions.matched === 0 && segment.matched === 0
      ? whyNothingMatched(result)
      : found.length === 0
        ? whyMuchIsUnmatched(segment)
        : [];
  return [
    ...set,
    ...outlierNotes(result, "before", windowNs),
    ...outlierNotes(result, "after", windowNs),
    ...fileNotes(result.before),
    ...fileNotes(result.after),
    ...interfaceNotes(result),
    ...identityNotes(result, segment),
    ...mirrorNotes(subject),
    ...alignmentNotes(subject),
    ...(explained ? [] : unmatched),
    ...edgeNotes(segment),
    ...(directions.twoWay
      ? [
          "packets go both ways: 'segment' is from the first capture to the second, 'reverse' the other way; reordering is counted for 'segment' only (swap the captures for the other direction)",
        ]
      : []),
  ];
}

/** Packets near the captures' ends, whose loss no capture can show. */
function edgeNotes({ undecided, matched }: SegmentReport): string[] {
  if (undecided === 0) return [];
  if (matched === 0)
    return [
      "no packet of this direction was seen at both points: loss is not measurable, because they may have passed while the other capture was not running",
    ];
  return [
    `${countOf(undecided, "packet")} near the ends of the captures may be lost, or may have passed while the other capture was not running: the number of lost packets is uncertain by that many; start both captures before the traffic of interest and stop them after it`,
  ];
}

/** A clock that steps back by more than the window. */
function clockSetNotes(result: PassResult, windowNs: number): string[] {
  return (["before", "after"] as const).flatMap((name) => {
    const { setBackNs } = result.outliers[name];
    if (setBackNs <= windowNs) return [];
    return [
      `${result[name].file}: the timestamps go back by ${formatDuration(setBackNs)}, more than the window: a clock was set, and packets around that time may not match; split the capture there, or sort its packets (reordercap)`,
    ];
  });
}

/** Limits of the capture file itself. */
function fileNotes(side: CaptureStatistics): string[] {
  const notes: string[] = [];
  if (side.partial) notes.push(`partial: ${side.partial}; the part that was read is counted`);
  if (side.packets === 0) notes.push(`${side.file}: contains no packets`);
  else if (side.ipPackets === 0)
    notes.push(
      `${side.file}: contains no IP packets (of ${formatCount(side.packets)}): only IP packets are compared; hoptime inspect shows what it contains`,
    );
  if (side.ipPackets > 0 && side.skipped["filtered"] === side.ipPackets)
    notes.push(`${side.file}: none of its ${formatCount(side.ipPackets)} IP packets matches the filter`);
  notes.push(...side.warnings.map((w) => `${side.file}: ${w}`));
  if ((side.dropped ?? 0) > 0) {
    notes.push(
      `${side.file}: ${countOf(side.dropped ?? 0, "packet")} dropped by the capture itself: unmatched packets may be capture loss, not path loss`,
    );
  }
  return notes;
}

function interfaceNotes({ before, after, matcher }: PassResult): string[] {
  const notes: string[] = [];
  const same = before.file === after.file;
  for (const side of same ? [before] : [before, after]) {
    // Consecutive sections of one point are fine: its packets occur once.
    const repeated = side === before ? matcher.repeated.before : matcher.repeated.after;
    const twice = same || repeated > MANY_TWICE * side.ipPackets;
    const [first] = side.interfaces;
    if (side.interfaces.length < 2 || !twice || !first) continue;
    notes.push(
      `${side.file}: contains ${side.interfaces.length} interfaces, treated as one point: if they are several points, name one of them (${side.file}#${first.index}; hoptime inspect lists them)`,
    );
  }
  if (same) notes.push("both captures are the same file: every packet is matched with itself");
  return notes;
}

/** Limits of packet matching. */
function identityNotes({ before, after, plan, matcher }: PassResult, segment: SegmentReport): string[] {
  const notes: string[] = [];
  const cut = [...before.shorts, ...after.shorts].filter(([size]) => size < plan.cover);
  if (cut.length > 0) {
    const packets = cut.reduce((n, [, count]) => n + count, 0);
    notes.push(
      `${countOf(packets, "packet")} captured with fewer than the ${plan.cover} bytes that packets are matched on: they may not match`,
    );
  }
  if (plan.cover < DEFAULT_COVER) {
    notes.push(
      `packets are matched on their first ${plan.cover} bytes from the IP header on, the most both captures contain`,
    );
  }
  if (segment.ambiguous > 0) {
    notes.push(
      `${countOf(segment.ambiguous, "packet")} with more than one possible match within the window: counted as matched, but without a delay`,
    );
  }
  const { before: again, after: againAfter } = matcher.repeated;
  if (again + againAfter > MANY_REPEATED * (segment.sent + segment.received)) {
    notes.push(
      `${countOf(again, "packet")} of the first capture and ${formatCount(againAfter)} of the second are identical to others within the window (heartbeats, keep-alives, copies): reordering is not counted among them`,
    );
  }
  return notes;
}

/** Counts copies where packets arrive: flows with nearly all packets twice are copied by a mirror. Checked only if there are more copies than networks make. */
function copiedOnArrival({ matcher }: PassResult, way: 1 | 2, segment: SegmentReport | null): number {
  const { duplicates = 0, matched = 0 } = segment ?? {};
  if (duplicates < MIN_COPIES || duplicates < FEW_COPIES * matched) return 0;
  let copies = 0;
  for (let id = 0; id < matcher.flowCount; id++) {
    const flow = matcher.flow(id);
    const back = flow.direction === 2;
    if (back === (way === 2) && flow.duplicates > MANY_COPIES * flow.matched && flow.matched >= MIN_COPIED)
      copies += flow.duplicates;
  }
  return copies < MIN_COPIES ? 0 : copies;
}

/** Captures that contain packets twice. */
function mirrorNotes({ result, segment, reverse }: NoteSubject): string[] {
  const cause =
    "a mirror port copies what comes in and what goes out, or two interfaces were captured (capture one, or remove the copies with editcap -d)";
  const share = (copies: number, packets: number) =>
    copies > MANY_COPIES * packets ? "nearly every packet" : countOf(copies, "packet");
  return [
    { file: result.before.file, sent: segment, arrived: reverse, way: 2 as const },
    { file: result.after.file, sent: reverse, arrived: segment, way: 1 as const },
  ].flatMap(({ file, sent, arrived, way }) => {
    const mirrored = sent?.mirrored ?? 0;
    const copied = copiedOnArrival(result, way, arrived);
    if (mirrored + copied === 0) return [];
    const packets = (sent ? sent.sent - mirrored : 0) + (arrived?.matched ?? 0);
    const fate = [
      ...(mirrored > 0 ? ["the copies do not count as lost"] : []),
      ...(copied > 0
        ? [mirrored > 0 ? "where they arrive they count as duplicates" : "the copies count as duplicates"]
        : []),
    ].join("; ");
    return [`${file} contains ${share(mirrored + copied, packets)} twice: ${cause}; ${fate}`];
  });
}

function alignmentNotes({ result: { plan }, windowNs, clock }: NoteSubject): string[] {
  if (Math.abs(plan.alignNs) <= windowNs) return [];
  const deskew = correction(clock.verdict, "deskew").offsetNs === 0 ? "" : "‘clock deskew’ or ";
  const held =
    clock.applied.offsetNs === 0
      ? `; delays include the difference; ${deskew}‘clock relative’ removes it`
      : "";
  return [
    `the clocks differ by about ${formatSeconds(plan.alignNs)}, more than the window: packets were matched after removing that${held}`,
  ];
}

/** Loss removes packets: if as many appear as are missing, they are more likely other packets, or the same ones rewritten. */
function whyMuchIsUnmatched({ sent, received, lost, appeared }: SegmentReport): string[] {
  if (Math.min(lost, appeared) <= MUCH_UNMATCHED * Math.min(sent, received)) return [];
  return [
    `${countOf(lost, "packet")} only in the first capture and ${formatCount(appeared)} only in the second, which loss does not explain: part of the traffic is rewritten on the way (NAT), in a tunnel at one point (‘inner’), or crosses only one of the points (exclude it with ‘filter’)`,
  ];
}

function outlierNotes(result: PassResult, name: "before" | "after", windowNs: number): string[] {
  const outliers = result.outliers[name];
  // Packets within the window match regardless.
  if (Math.max(outliers.aheadNs, outliers.behindNs) <= windowNs) return [];
  return [
    `${result[name].file}: ${outlierText(outliers)}: those beyond the window do not match; other packets are not affected`,
  ];
}

/** A clock offset with thousands separators, to the microsecond. */
function formatSeconds(ns: number): string {
  const [whole = "", fraction = ""] = (Math.abs(ns) / 1e9).toFixed(6).split(".");
  return `${ns < 0 ? "-" : ""}${formatCount(Number(whole))}.${fraction} s`;
}

/** Likely reasons if nothing matched. */
function whyNothingMatched({ before, after, rereadable }: PassResult): string[] {
  if (before.ipPackets === 0 || after.ipPackets === 0) return [];
  const [a, b] = [span(before), span(after)];
  if (!a || !b) return [];
  const causes =
    "addresses or ports are rewritten on the way (NAT), one point sees a tunnel (‘inner’), or these are not captures of the same traffic";
  const apartNs =
    a.firstNs > b.lastNs ? a.firstNs - b.lastNs : b.firstNs > a.lastNs ? b.firstNs - a.lastNs : 0n;
  const times =
    apartNs === 0n
      ? "the captures overlap in time, but no packet is in both"
      : `the captures are ${formatDuration(Number(apartNs))} apart, and no packet is in both`;
  const few = Math.min(before.ipPackets, after.ipPackets) < MIN_PAIRS;
  const clocks = few
    ? "; too few packets to find a clock offset beyond the window"
    : rereadable
      ? ", whatever the clock offset"
      : "; clock offsets beyond the window are found only if both captures are files";
  return [`${times}${clocks}: ${causes}`];
}

function span({ firstNs, lastNs }: CaptureStatistics): { firstNs: bigint; lastNs: bigint } | null {
  return firstNs === null || lastNs === null ? null : { firstNs, lastNs };
}
