/**
 * Positions of points on the map, computed by forces from start positions that depend on the names, so that the same network looks the same. They are stored in
 * this browser and can be moved by hand.
 */
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } from "d3-force";

export interface Node {
  name: string;
  x: number;
  y: number;
}

const STORED = "hoptime.map";
const TICKS = 300;
/** Length of a link at rest. */
const LENGTH = 130;

function stored(): Record<string, [number, number]> {
  try {
    return JSON.parse(localStorage.getItem(STORED) ?? "{}") as Record<string, [number, number]>;
  } catch {
    return {};
  }
}

export function keepPlaces(nodes: Iterable<Node>): void {
  const all = stored();
  for (const { name, x, y } of nodes) all[name] = [Math.round(x), Math.round(y)];
  try {
    localStorage.setItem(STORED, JSON.stringify(all));
  } catch {
    // Storage is not available.
  }
}

export function forgetPlaces(): void {
  try {
    localStorage.removeItem(STORED);
  } catch {
    // Storage is not available.
  }
}

/** Hash function FNV-1a. */
function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h >>> 0;
}

/** Number of start positions tried for a small network; the layout with the fewest crossings is used. */
const STARTS = 12;
const SMALL = 60;

interface Placed extends Node {
  fx?: number;
  fy?: number;
}
type Ends = readonly { from: string; to: string }[];

/** Points with a stored position keep it; the others get one. */
export function layOut(names: readonly string[], links: Ends): Map<string, Node> {
  const places = stored();
  const known = names.filter((name) => places[name]).length;
  if (known === names.length)
    return new Map(
      names.map((name) => {
        const [x = 0, y = 0] = places[name] ?? [];
        return [name, { name, x, y }];
      }),
    );
  const starts = known === 0 && names.length <= SMALL ? STARTS : 1;
  let best: { nodes: Placed[]; crossings: number } | null = null;
  for (let start = 0; start < starts && best?.crossings !== 0; start++) {
    const nodes = settled(names, links, places, start);
    const crossings = starts === 1 ? 0 : crossingsOf(nodes, links);
    if (!best || crossings < best.crossings) best = { nodes, crossings };
  }
  const nodes = best?.nodes ?? [];
  // Rounded as they are stored, so that a reload shows the same.
  for (const node of nodes) [node.x, node.y] = [Math.round(node.x), Math.round(node.y)];
  keepPlaces(nodes);
  return new Map(nodes.map((n) => [n.name, n]));
}

function settled(
  names: readonly string[],
  links: Ends,
  places: Readonly<Record<string, [number, number]>>,
  start: number,
): Placed[] {
  const along = start === 0 ? columnsOf(names, links) : null;
  // A single path is drawn as a line.
  const straight = along !== null && new Set(along.values()).size === names.length;
  const nodes = names.map((name): Placed => {
    const seed = hash(start === 0 ? name : `${start} ${name}`);
    const column = along?.get(name);
    const first: [number, number] =
      column === undefined
        ? [(seed % 800) - 400, ((seed >>> 12) % 500) - 250]
        : [LENGTH * column, straight ? 0 : (seed >>> 12) % 40];
    const [x, y] = places[name] ?? first;
    return { name, x, y, ...(places[name] ? { fx: x, fy: y } : {}) };
  });
  const ends = links.map(({ from, to }) => ({ source: from, target: to }));
  forceSimulation(nodes)
    .force(
      "link",
      forceLink<Placed, { source: string; target: string }>(ends as never)
        .id((n) => n.name)
        .distance(LENGTH),
    )
    .force("apart", forceManyBody().strength(-420))
    .force("room", forceCollide(34))
    .force("x", forceX(0).strength(0.03))
    .force("y", forceY(0).strength(0.06))
    .stop()
    .tick(nodes.length > 300 ? 120 : TICKS);
  return nodes;
}

/**
 * Returns the distance in links of each point from where traffic enters the network (if all links are bidirectional: from a point at the edge). The map then
 * reads from left to right, like a path.
 */
function columnsOf(names: readonly string[], links: Ends): Map<string, number> {
  const entered = new Set(links.map((l) => l.to));
  const sources = names.filter((name) => !entered.has(name) && links.some((l) => l.from === name));
  const [any] = names;
  if (any === undefined) return new Map();
  const edge = [...stepsFrom([any], links)].at(-1)?.[0] ?? any;
  return stepsFrom(sources.length > 0 ? sources : [edge], links);
}

/** Returns the distance in links from the nearest start, nearest first. */
function stepsFrom(starts: readonly string[], links: Ends): Map<string, number> {
  const beside = new Map<string, string[]>();
  const note = (a: string, b: string) => beside.set(a, [...(beside.get(a) ?? []), b]);
  for (const { from, to } of links) {
    note(from, to);
    note(to, from);
  }
  const steps = new Map(starts.map((name) => [name, 0]));
  for (const [name, far] of steps)
    for (const next of beside.get(name) ?? []) if (!steps.has(next)) steps.set(next, far + 1);
  return steps;
}

/** Counts pairs of crossing links, and points that lie on other links. */
function crossingsOf(nodes: readonly Node[], links: Ends): number {
  const byName = new Map(nodes.map((n) => [n.name, n]));
  const lines = links.flatMap(({ from, to }) => {
    const [a, b] = [byName.get(from), byName.get(to)];
    return a && b ? [{ a, b }] : [];
  });
  const side = (a: Node, b: Node, c: Node) =>
    Math.sign((b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x));
  let count = 0;
  for (const [i, { a, b }] of lines.entries()) {
    for (const { a: c, b: d } of lines.slice(i + 1))
      if (a !== c && a !== d && b !== c && b !== d)
        count += side(a, b, c) !== side(a, b, d) && side(c, d, a) !== side(c, d, b) ? 1 : 0;
    for (const node of nodes) if (node !== a && node !== b && distance(node, a, b) < 24) count++;
  }
  return count;
}

/** Returns the distance of a point from the line between two others. */
function distance(p: Node, a: Node, b: Node): number {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const share = ((p.x - a.x) * dx + (p.y - a.y) * dy) / (dx * dx + dy * dy || 1);
  const at = Math.max(0, Math.min(1, share));
  return Math.hypot(p.x - a.x - at * dx, p.y - a.y - at * dy);
}
