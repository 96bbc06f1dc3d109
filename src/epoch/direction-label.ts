/** Labels of the two directions of a two-way capture: `from 10.1.0.0/16` and `to 10.1.0.0/16`, the networks of one side joined with commas. */

export interface DirectionLabel {
  way: "from" | "to";
  networks: string[];
}

const NETWORK = /^[0-9a-f.:]+\/\d{1,3}$/;

export function directionLabel(way: "from" | "to", networks: readonly string[]): string {
  return `${way} ${networks.join(",")}`;
}

/** Null for labels of other kinds. */
export function parseDirectionLabel(label: string): DirectionLabel | null {
  const match = /^(from|to) (.+)$/.exec(label);
  const networks = match?.[2]?.split(",") ?? [];
  if (!match || !networks.every((n) => NETWORK.test(n))) return null;
  return { way: match[1] === "from" ? "from" : "to", networks };
}

/** Networks of one side, of each pair of directions among the labels. */
export function networksOfLabels(labels: readonly string[]): string[][] {
  return labels.flatMap((label) => {
    const parsed = parseDirectionLabel(label);
    return parsed?.way === "from" ? [parsed.networks] : [];
  });
}

/** Two labels of the same networks: both directions of one link. */
export function isDirectionPair(labels: readonly string[]): boolean {
  const [one, other, ...more] = labels.map(parseDirectionLabel);
  if (!one || !other || more.length > 0) return false;
  return one.way !== other.way && one.networks.join() === other.networks.join();
}
