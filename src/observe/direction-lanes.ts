/**
 * Lanes for the two directions of a two-way capture: packets from the networks of one side to all other hosts, and the reverse. Both points must
 * separate the same packets under the same labels. Therefore a label contains the networks, and a point takes over the labels of other points in
 * its directory. Which label is the direction from A to B is found when both are queried (query/segment/direction.ts).
 */
import { RecordArchive } from "../archive/archive.ts";
import type { CompiledFilter } from "../capture/filter/filter.ts";
import type { Source } from "../capture/source/source.ts";
import { directionLabel, networksOfLabels } from "../epoch/direction-label.ts";
import type { Role } from "../estimators/estimator.ts";
import { DirectionCheck } from "./directions.ts";
import type { Lane } from "./lane.ts";

export function directionLanes(networks: readonly string[], filter: string, role: Role | "both"): Lane[] {
  return (["from", "to"] as const).map((way) => {
    const expression = directionFilter(networks, way);
    return {
      segment: directionLabel(way, networks),
      role,
      filter: filter === "" ? expression : `(${filter}) and ${expression}`,
    };
  });
}

/** Packets within the networks have not crossed the point, so both filters exclude them. */
function directionFilter(networks: readonly string[], way: "from" | "to"): string {
  const [inside, outside] = way === "from" ? ["src", "dst"] : ["dst", "src"];
  const any = (end: string | undefined) => `(${networks.map((n) => `${end} net ${n}`).join(" or ")})`;
  return `${any(inside)} and not ${any(outside)}`;
}

/** Enough packets to learn which hosts are on which side. */
const LEARN_PACKETS = 1_000_000;
/** Tolerated share of packets between hosts of one side, or of unknown hosts. Above it, the networks do not separate the traffic. */
const MAX_UNCOVERED = 0.1;

/**
 * Returns networks that separate the directions of these captures: those that other points used, if they fit; else networks learnt from the
 * captures. Null if none are reliable. `ifUsed`: consider only other points' networks.
 */
export async function separatingNetworks(
  source: Source,
  filter: CompiledFilter | null,
  ofOthers: readonly string[][],
  ifUsed: boolean,
): Promise<string[] | null> {
  const check = new DirectionCheck(ifUsed ? undefined : LEARN_PACKETS);
  try {
    for (let got = await source.next(); got && !check.done; got = await source.next()) {
      if (filter) {
        filter.select(got.batch);
        got.batch.compact();
      }
      check.add(got.batch);
    }
  } finally {
    source.close();
  }
  const used = ofOthers.find((networks) => covers(check, networks));
  return used || ifUsed ? (used ?? null) : learntNetworks(check);
}

function covers(check: DirectionCheck, networks: readonly string[]): boolean {
  return check.covered(networks) >= 1 - MAX_UNCOVERED;
}

/** Returns networks that separate the directions of the packets examined; null if there are none. */
export function learntNetworks(check: DirectionCheck): string[] | null {
  const learnt = check.networks();
  return learnt && covers(check, learnt) ? learnt : null;
}

/** Networks by which other points in the directory separate directions; empty if the directory does not exist. */
export function networksOfOthers(directory: string, point: string): string[][] {
  let archive: RecordArchive;
  try {
    archive = RecordArchive.open(directory);
  } catch {
    return [];
  }
  const others = archive.points().filter((p) => p !== point);
  const labels = new Set(
    others.length === 0 ? [] : archive.list({ points: others }).entries.map((e) => e.segment),
  );
  archive.close();
  return networksOfLabels([...labels]);
}
