/** Labels of the two directions of a two-way capture: `from 10.1.0.0/16` and `to 10.1.0.0/16`, with the networks of one side separated by commas. */
import { later } from "../base/time.ts";

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

/** Returns whether a label stands for all traffic from A to B: no label, `A:B`, or that direction. */
export function isWhole(label: string, from: string, to: string): boolean {
  return label === "" || label === `${from}:${to}` || parseDirectionLabel(label) !== null;
}

interface Lasting {
  from: string;
  to: string;
  label: string;
  lastNs: bigint;
}

/** Removes segments without a label that directions have superseded: a tap separates the directions once it has seen enough of the hosts' sides. */
export function withoutSuperseded<T extends Lasting>(all: readonly T[]): T[] {
  const pair = ({ from, to }: Lasting) => `${from}\n${to}`;
  const separated = new Map<string, bigint>();
  for (const s of all)
    if (parseDirectionLabel(s.label) !== null)
      separated.set(pair(s), later(separated.get(pair(s)) ?? s.lastNs, s.lastNs));
  return all.filter((s) => s.label !== "" || s.lastNs >= (separated.get(pair(s)) ?? s.lastNs));
}

/** Returns the networks of one side for each pair of directions among the labels. */
export function networksOfLabels(labels: readonly string[]): string[][] {
  return labels.flatMap((label) => {
    const parsed = parseDirectionLabel(label);
    return parsed?.way === "from" ? [parsed.networks] : [];
  });
}

/** Returns whether two labels are both directions of one link: the same networks. */
export function isDirectionPair(labels: readonly string[]): boolean {
  const [one, other, ...more] = labels.map(parseDirectionLabel);
  if (!one || !other || more.length > 0) return false;
  return one.way !== other.way && one.networks.join() === other.networks.join();
}
