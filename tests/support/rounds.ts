/**
 * Number of repetitions of a random test: a part of them in `./test`, all with HOPTIME_FULL=1 (CONTRIBUTING.md). Only repetitions with other random numbers are
 * left out, never cases.
 */
export const FULL = process.env["HOPTIME_FULL"] === "1";

export function rounds(share: number, full: number): number {
  return FULL ? full : share;
}
