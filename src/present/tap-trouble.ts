/** Describes what is wrong with a tap, for the page and the command line. */
import { countOf, formatShare } from "../base/quantity.ts";
import { formatLasting } from "../base/time.ts";

const QUIET_MS = 60_000;
const WAITING = 10;

export interface JudgedTap {
  heardMs: number;
  program: string;
  packets: number;
  dropped: number | null;
  clock: { synchronised: boolean } | null;
  spool: { waiting: number; dropped: number } | null;
}

export interface TapTrouble {
  state: "bad" | "warn";
  text: string;
}

/**
 * Returns the worst problem, or null. `missing`: the tap's records that were expected in the last hour but did not come; `newest`: the newest version of all
 * taps.
 */
export function tapTrouble(
  tap: JudgedTap | null,
  { missing, atMs, newest }: { missing: number; atMs: number; newest: string | null },
): TapTrouble | null {
  const bad = (text: string): TapTrouble => ({ state: "bad", text });
  const warn = (text: string): TapTrouble => ({ state: "warn", text });
  if (!tap) return warn("not heard from since the collector started");
  const { heardMs, spool, dropped, packets, clock, program } = tap;
  const quietMs = atMs - heardMs;
  if (quietMs > QUIET_MS) return bad(`silent for ${formatLasting(quietMs)}`);
  if (spool && spool.dropped > 0)
    return bad(`${countOf(spool.dropped, "record")} dropped: its spool was full`);
  if (dropped !== null && dropped > 0)
    return warn(
      `its capture dropped ${formatShare(dropped / Math.max(1, packets + dropped))} of the packets`,
    );
  if (missing > 0) return warn(`${countOf(missing, "record")} missing in the last hour`);
  if (spool && spool.waiting > WAITING)
    return warn(`${countOf(spool.waiting, "record")} waiting in its spool`);
  if (clock && !clock.synchronised) return warn("its clock is not synchronised");
  if (newest !== null && program !== newest) return warn(`runs ${program}, others ${newest}`);
  return null;
}

export const newestProgram = (programs: readonly string[]): string | null =>
  [...programs].sort().at(-1) ?? null;
