/** Notes about a sketch whose two ends disagree, and the refusal if no number can be trusted. */

import { required } from "../../base/lists.ts";
import { countOf, formatCount } from "../../base/quantity.ts";
import { foreignNote } from "../cells/foreign.ts";
import { outlierNote, UNTRUSTED } from "../cells/outliers.ts";
import type { NoAnswer } from "../estimator.ts";
import type { DelaySketch, RowSummary } from "./difference.ts";

/** Without digests, cells agree by chance. From this share of appeared packets on, there is no answer. */
const MAX_APPEARED = 0.001;
/** Cells that lost all their packets are not explained by loss if the other cells lost a smaller share than this. */
const DARK_LOSS = 0.5;

export function describeStream(sketch: DelaySketch): string[] {
  const notes: string[] = [];
  const row = fullest(sketch);
  if (!row) return notes;
  const coverage = `${percent(row.usable, row.received)} of the packets received lie in cells that agree`;
  if (row.appeared > 0 || row.swapped > 0) notes.push(foreignNote(row.appeared + row.swapped, row.received));
  if (row.appeared > 0 && row.usable < 0.5 * row.received) notes.push(coverage);
  const rest = row.missing - row.dark;
  if (row.dark > 0 && rest < DARK_LOSS * (row.sent - row.dark) && row.dark > 10 * lossAtRandom(row)) {
    notes.push(
      `${countOf(row.dark, "packet")} (${percent(row.dark, row.sent)} of those sent) are in cells of which nothing arrived, while the others lost ${percent(rest, row.sent - row.dark)}: whole flows are missing at the receiver, for example because the sender counts foreign packets; ${coverage}`,
    );
  }
  if (sketch.outliers.cells > 0) notes.push(outlierNote(sketch.outliers.cells));
  const overflowed = sketch.rows.filter((r) => r.overflowed).length;
  if (overflowed > 0) notes.push(`${countOf(overflowed, "row")} left out: a count overflowed`);
  return notes;
}

export function refuseStream(sketch: DelaySketch): NoAnswer | null {
  if (sketch.rows.every((row) => row.overflowed)) {
    return {
      reason: "overflow",
      text: "a count overflowed in every row: shorter epochs, or smaller weights",
    };
  }
  if (sketch.outliers.most) return UNTRUSTED;
  const row = required(fullest(sketch), "a row without overflow");
  if (!sketch.digests && row.appeared > MAX_APPEARED * row.received) {
    return {
      reason: "foreign-packets",
      text: `the ends do not count the same packets (at least ${formatCount(row.appeared)} at the receiver only), and without digests (digest=16) cells that seem equal may differ`,
    };
  }
  if (row.received > 0 && row.appeared > 0 && sketch.rows.every((r) => r.usable === 0)) {
    return {
      reason: "foreign-packets",
      text: `no cell contains the same packets at both points, and at least ${countOf(row.appeared, "packet")} at the receiver only: select the segment's packets with a filter at both ends`,
    };
  }
  return null;
}

/** Returns the row that sees the most packets. */
function fullest(sketch: DelaySketch): RowSummary | null {
  const rows = sketch.rows.filter((row) => !row.overflowed);
  return rows.reduce<RowSummary | null>((best, row) => (!best || row.rate > best.rate ? row : best), null);
}

/** Expected packets in cells that lost everything, if losses hit at random: none of at least eight packets survives. */
function lossAtRandom(row: RowSummary): number {
  const share = Math.min(1, (row.missing - row.dark) / Math.max(1, row.sent - row.dark));
  return row.sent * share ** 8;
}

function percent(part: number, whole: number): string {
  if (whole === 0) return "0 %";
  return `${Number(((100 * part) / whole).toPrecision(3))} %`;
}
