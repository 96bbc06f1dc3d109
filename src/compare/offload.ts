/**
 * Finds what happened to packets on the way or at the capture points, if each capture contains packets that the other does not: segments merged at one point
 * (GRO, LRO, TSO), fragments, rewritten options. They are matched as such (src/match/residue/), and the notes say so.
 */
import type { Kernels } from "../base/kernels.ts";
import { countOf, formatCount } from "../base/quantity.ts";
import type { CaptureOptions } from "../capture/reader.ts";
import { type Resolved, resolveResidue } from "../match/residue/residue.ts";
import type { PassResult } from "./pass.ts";

/** Share of the matched packets above which others that cannot be assigned make the loss doubtful. */
const FEW_UNASSIGNED = 0.005;

/** What was found, as sentences; and the one that says why the loss from the first point to the second is probably not real. */
export interface Explained {
  notes: string[];
  lossCause: string | null;
}

/** Explains unmatched packets, and corrects the matcher's counts. */
export async function explainUnmatched(
  kernels: Kernels,
  files: { before: string; after: string },
  capture: CaptureOptions,
  result: PassResult,
  windowNs: number,
): Promise<Explained> {
  const { before, after, matcher, originNs, plan, rereadable, limited } = result;
  // Loss alone is not examined further: only unmatched packets in both captures can belong together.
  if (!rereadable || limited || !matcher.aloneAtBoth) return { notes: [], lossCause: null };
  const source = (side: 0 | 1) => ({
    file: side === 0 ? files.before : files.after,
    capture: { ...capture, cover: plan.cover },
    shiftNs: (origin: bigint) => Number(origin - originNs) - (side === 1 ? plan.alignNs : 0),
  });
  const found = await resolveResidue(kernels, matcher, [source(0), source(1)], windowNs);
  if (found === null) return { notes: [], lossCause: null };
  const notes = sentences(found, before.file, after.file);
  const [there, back] = found.merged.unassigned;
  if (there + back <= FEW_UNASSIGNED * matcher.pairCount) return { notes, lossCause: null };
  const cause = `about ${countOf(there + back, "packet")} of datagrams that are split beside a capture (UDP GSO) count as lost and appeared: too little of each is captured to tell to which datagram it belongs; capture with a larger snap length, or with ethtool -K IFACE tx-udp-segmentation off`;
  return { notes: [...notes, cause], lossCause: there > back ? cause : null };
}

function sentences({ merged, fragmented, clamped }: Resolved, before: string, after: string): string[] {
  const notes: string[] = [];
  if (merged.packets > 0) {
    const [a, b] = merged.longest;
    const [at, longest] = a > b ? [before, a] : [after, b];
    notes.push(
      `segments were merged at a point (GRO, LRO, TSO: packets of up to ${formatCount(longest)} bytes in ${at}): ${countOf(merged.packets, "packet")} of ${formatCount(merged.flows)} ${merged.flows === 1 ? "flow" : "flows"} (${formatCount(merged.bytes)} bytes) were matched by their bytes and are counted as on the wire, with the delay of the last byte of each merged one`,
    );
  }
  if (fragmented.packets > 0) {
    const whole = fragmented.packets - fragmented.incomplete;
    notes.push(
      `${countOf(fragmented.packets, "packet")} were fragmented on the way: each is counted as one packet, its delay ends with its last fragment${
        fragmented.incomplete > 0
          ? ` (${formatCount(whole)} arrived complete, the others lost fragments)`
          : ""
      }`,
    );
  }
  if (clamped.packets > 0) {
    notes.push(
      `the maximum segment size is rewritten on the way (MSS clamping, ${clamped.from} to ${clamped.to} bytes): ${formatCount(clamped.packets)} SYN packets were matched without it`,
    );
  }
  return notes;
}
