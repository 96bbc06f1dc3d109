/** Notes about an observation, as sentences. */
import { countOf, formatCount } from "../base/quantity.ts";
import { formatDuration } from "../base/time.ts";
import type { DelaySourceCounts } from "../delays/delay-source.ts";
import { twoWayText } from "./directions.ts";
import type { CutChoice } from "./lane.ts";
import type { ObserveResult } from "./observe.ts";
import { OBSERVE_COVER } from "./observe-captures.ts";

const MIN_COVER = 48;

interface NoteOptions {
  cover?: number;
  cut: CutChoice;
}

export function notesOf(result: ObserveResult, options: NoteOptions): string[] {
  const notes: string[] = [];
  const cover = options.cover ?? OBSERVE_COVER;
  if (result.short > 0) {
    const minimum = Math.min(...result.captures.flatMap((c) => c.shorts.map(([bytes]) => bytes)));
    // Fewer bytes do not identify a packet; such packets are matched on what they have.
    const smaller = Math.max(MIN_COVER, minimum);
    const advice = smaller < cover ? `: observe both points with ‘cover ${smaller}’` : "";
    notes.push(
      `${countOf(result.short, "packet")} captured with fewer than the ${cover} bytes that packets are matched on: they may not match${advice}`,
    );
  }
  if (result.delays) notes.push(...delayNotes(result.delays));
  if (result.backward > 0)
    notes.push(`${countOf(result.backward, "packet")} with timestamps before the epoch they were counted in`);
  for (const capture of result.captures) if (capture.format === "interface") notes.push(...capture.warnings);
  for (const capture of result.captures) if (capture.partial) notes.push(capture.partial);
  if (result.captures.every((c) => c.ipPackets === 0))
    notes.push(result.records.stored === 0 ? "no IP packets: no record was written" : "no IP packets");
  for (const lane of result.lanes) {
    if (lane.twoWay) {
      const { problem, hint } = twoWayText(lane.segment, lane.twoWay);
      notes.push(`${problem}; ${hint}`);
    }
    if (lane.packets === 0 && lane.filtered > 0) {
      notes.push(`no packet passes the filter${lane.segment === "" ? "" : ` of ${lane.segment}`}`);
    }
  }
  if (options.cut.mode === "control" && result.epochs === 0)
    notes.push("the capture contains no Start and End messages");
  return notes;
}

/** If delays reach this share of the window, longer ones are likely. */
const NEARLY_ALL = 0.8;

function delayNotes(counts: DelaySourceCounts): string[] {
  if (counts.from === "source") return [];
  if (counts.from === "sender") {
    const { matched, unmatched, reversed, longestNs, windowNs } = counts;
    const notes = [`${countOf(matched, "packet")} found at the sender, ${formatCount(unmatched)} not found`];
    if (unmatched > 0 && longestNs > NEARLY_ALL * windowNs)
      notes.push(
        `delays reach ${formatDuration(longestNs)}, and none beyond ${formatDuration(windowNs)} is found: packets without a delay may be slower ones, which are missing in every mean; use a longer ‘window’`,
      );
    if (reversed > 0) {
      notes.push(`${countOf(reversed, "packet")} in the other direction: no delay`);
    }
    return notes;
  }
  if (counts.from === "live") {
    const { matched, unmatched, lost, windowNs } = counts;
    return [
      `${countOf(matched, "packet")} found at the sender, ${formatCount(unmatched)} not found; ${formatCount(lost)} of the sender's packets lost (without the last ${formatDuration(windowNs)})`,
    ];
  }
  if (counts.from === "packets") {
    const { timed, untimed, apart } = counts;
    const notes = [
      `${countOf(timed, "packet")} with a timestamp of their own, ${formatCount(untimed + apart)} without a delay`,
    ];
    if (apart > 0)
      notes.push(
        `${countOf(apart, "timestamp")} too far from the packet's arrival: check that this is the layout of the capture switch`,
      );
    return notes;
  }
  const { references, filled, oneSided, unanswered, lost, duplicate, reordered, forged } = counts;
  return [
    `${countOf(references, "reference")} gave the delays of ${countOf(filled, "packet")} (${formatCount(oneSided)} from one side only), ${formatCount(unanswered)} without a delay; references lost ${formatCount(lost)}, duplicated ${formatCount(duplicate)}, reordered ${formatCount(reordered)}, not trusted ${formatCount(forged)}`,
    "delays are interpolated between references: records contain the interpolation error of each epoch, and intervals include it",
  ];
}
