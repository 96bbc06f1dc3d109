/**
 * The two directions of a two-way capture as lanes of their own: packets from the networks of one side to everybody else, and those to them. Both points must separate
 * the same packets under the same labels: a label holds the networks, and a point takes over the labels that others of its directory have. Which label is the direction from
 * A to B shows when both are asked (query/segment/direction.ts).
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

/** Packets within the networks have crossed nothing. */
function directionFilter(networks: readonly string[], way: "from" | "to"): string {
  const [inside, outside] = way === "from" ? ["src", "dst"] : ["dst", "src"];
  const any = (end: string | undefined) => `(${networks.map((n) => `${end} net ${n}`).join(" or ")})`;
  return `${any(inside)} and not ${any(outside)}`;
}

/** As many packets as show who is on which side. */
const LEARN_PACKETS = 1_000_000;
/** Packets that may be between hosts of one side, or of hosts that nobody knew: more, and the networks do not separate what is there. */
const MAX_UNCOVERED = 0.1;

/**
 * Networks that separate the directions of these captures: those that other points have used, where they do; else those that the captures show. Null where nothing
 * certain does. `ifUsed`: only where other points have separated theirs.
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

/** Networks that separate the directions of what was looked at; null where none do. */
export function learntNetworks(check: DirectionCheck): string[] | null {
  const learnt = check.networks();
  return learnt && covers(check, learnt) ? learnt : null;
}

/** Networks by which other points of the directory have separated directions; empty where there is no such directory. */
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
