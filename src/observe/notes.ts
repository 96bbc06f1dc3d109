/** What is worth knowing of an observation, in sentences. */
import type { DelaySourceCounts } from "../delays/delay-source.ts";
import { twoWayError } from "./directions.ts";
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
    // Less is no identity: such packets stay told apart by what there is.
    const smaller = Math.max(MIN_COVER, minimum);
    const advice = smaller < cover ? `: observe both points with ‘cover ${smaller}’` : "";
    notes.push(
      `${result.short} packets are cut within the first ${cover} bytes that tell packets apart, and may look different at the other point${advice}`,
    );
  }
  if (result.delays) notes.push(...delayNotes(result.delays));
  if (result.backward > 0)
    notes.push(`${result.backward} packets have timestamps before the epoch they were counted in`);
  for (const capture of result.captures) if (capture.partial) notes.push(capture.partial);
  if (result.captures.every((c) => c.ipPackets === 0))
    notes.push("there are no IP packets: no record was written");
  for (const lane of result.lanes) {
    if (lane.twoWay) {
      const { problem, hint } = twoWayError(lane.segment, lane.twoWay);
      notes.push(`${problem}; ${hint}`);
    }
    if (lane.packets === 0 && lane.filtered > 0) {
      notes.push(`no packet passes the filter${lane.segment === "" ? "" : ` of ${lane.segment}`}`);
    }
  }
  if (options.cut.mode === "control" && result.epochs === 0)
    notes.push("there are no Start and End messages in the capture");
  return notes;
}

function delayNotes(counts: DelaySourceCounts): string[] {
  if (counts.from === "source") return [];
  if (counts.from === "sender") {
    const { matched, unmatched, reversed } = counts;
    const notes = [`${matched} packets were found at the sender, ${unmatched} were not`];
    if (reversed > 0) {
      notes.push(`${reversed} packets go the other way and have no delay`);
    }
    return notes;
  }
  if (counts.from === "packets") {
    const { timed, untimed, apart } = counts;
    const notes = [`${timed} packets carry a timestamp, ${untimed + apart} have no delay`];
    if (apart > 0)
      notes.push(`${apart} timestamps are too far from the packet's arrival: is this the layout?`);
    return notes;
  }
  const { references, filled, oneSided, unanswered, lost, duplicate, reordered, forged } = counts;
  return [
    `${references} references told the delays of ${filled} packets (${oneSided} from one side only), of ${unanswered} nothing; ${lost} references were lost, ${duplicate} came twice, ${reordered} were overtaken, ${forged} not believed`,
    "delays were interpolated between references: how far that is off, per epoch, is in the records and in the intervals of those who ask",
  ];
}
