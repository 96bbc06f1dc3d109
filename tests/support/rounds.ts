/** How often a random test repeats: a share in `./test`, all of it with HOPTIME_FULL=1 (CONTRIBUTING.md). Cases are never left out, only repetitions with other random numbers. */
export const FULL = process.env["HOPTIME_FULL"] === "1";

export function rounds(share: number, full: number): number {
  return FULL ? full : share;
}
