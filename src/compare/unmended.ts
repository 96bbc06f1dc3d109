/** Notes about a pass that was needed and could not be made. */
import { type Decision, type Directions, type PassPlan, sameWays } from "./plan.ts";

export function unmended(
  plan: PassPlan,
  { plan: next, why }: Decision & { kind: "again" },
  directions: Directions,
  rereadable: boolean,
  windowNs: number,
): string[] {
  const cause = rereadable ? "after several passes" : "standard input cannot be read twice; give files";
  const ways = `the two directions could not be separated with certainty: packets with an earlier timestamp in the second capture are counted as 'reverse' (${cause})`;
  const more = why !== "directions" && !sameWays(directions.ways, plan.ways) ? [ways] : [];
  switch (why) {
    case "coverage":
      return [
        `one capture has only ${next.cover} bytes of some packets from the IP header on, but packets are matched on ${plan.cover}: use ‘cover ${next.cover}’ (${cause})`,
        ...more,
      ];
    case "directions":
      return [ways];
    case "alignment":
      return [`the clocks seem to differ by more than the window (${cause})`, ...more];
    case "lead":
      return [
        Math.abs(next.alignNs) > windowNs
          ? `the clocks seem to differ by more than the window (${cause})`
          : `reordering could not be judged: the second clock is behind (${cause})`,
        ...more,
      ];
    case "repeats":
      return [`some of the first packets may have been matched with identical ones (${cause})`, ...more];
    case "correction":
    case "extent":
      return [`the clock correction could not be applied (${cause})`, ...more];
  }
}
