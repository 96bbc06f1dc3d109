/** Where points stand on the map: by forces, from places that their names give, so that the same network looks the same; kept in this browser, and moved by hand. */
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } from "d3-force";

export interface Node {
  name: string;
  x: number;
  y: number;
}

const STORED = "hoptime.map";
const TICKS = 300;

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
    // Not kept.
  }
}

export function forgetPlaces(): void {
  try {
    localStorage.removeItem(STORED);
  } catch {
    // Nothing was kept.
  }
}

/** FNV-1a. */
function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h >>> 0;
}

/** Points that have a place keep it; others find theirs. */
export function layOut(
  names: readonly string[],
  links: readonly { from: string; to: string }[],
): Map<string, Node> {
  const places = stored();
  const nodes = names.map((name) => {
    const [x, y] = places[name] ?? [(hash(name) % 800) - 400, ((hash(name) >>> 12) % 500) - 250];
    const fixed = places[name] ? { fx: x, fy: y } : {};
    return { name, x, y, ...fixed };
  });
  const byName = new Map(nodes.map((n) => [n.name, n]));
  if (nodes.some((n) => !places[n.name])) {
    const ends = links.map(({ from, to }) => ({ source: from, target: to }));
    const simulation = forceSimulation(nodes)
      .force(
        "link",
        forceLink<(typeof nodes)[number], { source: string; target: string }>(ends as never)
          .id((n) => n.name)
          .distance(130),
      )
      .force("apart", forceManyBody().strength(-420))
      .force("room", forceCollide(34))
      .force("x", forceX(0).strength(0.03))
      .force("y", forceY(0).strength(0.06))
      .stop();
    simulation.tick(nodes.length > 300 ? 120 : TICKS);
    // As they are kept: the same after a reload.
    for (const node of nodes) [node.x, node.y] = [Math.round(node.x), Math.round(node.y)];
    keepPlaces(nodes);
  }
  return byName;
}
