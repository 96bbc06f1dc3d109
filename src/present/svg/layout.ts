/**
 * Positions the routers of a map: at their coordinates if the map has them, otherwise by forces (d3-force): links pull, routers repel.
 *
 * Deterministic: d3's random numbers have a fixed seed, so that the same map gives the same picture and pictures can be compared by diff.
 */
import {
  forceLink,
  forceManyBody,
  forceSimulation,
  forceX,
  forceY,
  type SimulationNodeDatum,
} from "d3-force";
import type { Topology } from "../../network/topology/topology.ts";

export interface Place {
  readonly x: number;
  readonly y: number;
}

/** Returns positions in the unit square, y downwards. */
export function layout(topology: Topology): Place[] {
  const latitudes = topology.routers.flatMap((router) => router.latitude ?? []);
  const middle = latitudes.reduce((a, b) => a + b, 0) / Math.max(1, latitudes.length);
  // A degree of longitude is shorter away from the equator.
  const narrow = Math.max(0.2, Math.cos((middle * Math.PI) / 180));
  const given = topology.routers.map((router) =>
    router.longitude !== undefined && router.latitude !== undefined
      ? { x: router.longitude * narrow, y: -router.latitude }
      : router.x !== undefined && router.y !== undefined
        ? { x: router.x, y: -router.y }
        : null,
  );
  const known = given.filter((p) => p !== null);
  const distinct = new Set(known.map((p) => `${p.x} ${p.y}`)).size;
  if (known.length * 2 > topology.routers.length && distinct > 2)
    return toUnitSquare(spreadEquals(fillIn(topology, given)));
  return toUnitSquare(force(topology));
}

/** Places routers without coordinates at the mean of their neighbours' positions, or in the middle. */
function fillIn(topology: Topology, given: readonly (Place | null)[]): Place[] {
  const known = given.filter((p) => p !== null);
  const middle = mean(known);
  const neighbours = new Map<number, number[]>();
  for (const { from, to } of topology.links) {
    const list = neighbours.get(from);
    if (list) list.push(to);
    else neighbours.set(from, [to]);
  }
  return given.map((place, i) => {
    if (place) return place;
    const near = (neighbours.get(i) ?? []).flatMap((other) => given[other] ?? []);
    return near.length > 0 ? mean(near) : middle;
  });
}

function mean(places: readonly Place[]): Place {
  const n = Math.max(1, places.length);
  return { x: places.reduce((s, p) => s + p.x, 0) / n, y: places.reduce((s, p) => s + p.y, 0) / n };
}

/** Spreads routers of one city, which share coordinates, on a small spiral. */
function spreadEquals(places: readonly Place[]): Place[] {
  const { left, right } = extent(places);
  const step = 0.012 * (right - left || 1);
  const used = new Map<string, number>();
  return places.map((p) => {
    const key = `${p.x.toFixed(6)} ${p.y.toFixed(6)}`;
    const nth = used.get(key) ?? 0;
    used.set(key, nth + 1);
    if (nth === 0) return p;
    const angle = nth * 2.399963;
    return {
      x: p.x + step * Math.sqrt(nth) * Math.cos(angle),
      y: p.y + step * Math.sqrt(nth) * Math.sin(angle),
    };
  });
}

/** Iterations for a small map; large maps get fewer, so that every map takes at most some seconds. */
const ROUNDS = 300;
const ROUNDED_ROUTERS = 3_000;

function force(topology: Topology): Place[] {
  const degree = new Int32Array(topology.routers.length);
  const edges = [
    ...new Map(
      topology.links.map(({ from, to }) => {
        const [source, target] = [Math.min(from, to), Math.max(from, to)];
        return [`${source} ${target}`, { source, target }];
      }),
    ).values(),
  ];
  for (const { source, target } of edges)
    for (const end of [source, target]) degree[end] = (degree[end] ?? 0) + 1;
  // d3 starts with a spiral in the order of the nodes: the best connected go inside, near their final positions.
  const nodes = topology.routers
    .map((_, id): SimulationNodeDatum & { id: number } => ({ id }))
    .sort((a, b) => (degree[b.id] ?? 0) - (degree[a.id] ?? 0) || a.id - b.id);
  const simulation = forceSimulation(nodes)
    .stop()
    .force(
      "links",
      forceLink<(typeof nodes)[number], (typeof edges)[number]>(edges)
        .id((node) => node.id)
        .distance(30),
    )
    .force("push", forceManyBody().strength(-60).distanceMax(600))
    // A weak pull to the middle keeps unconnected parts in view.
    .force("x", forceX(0).strength(0.05))
    .force("y", forceY(0).strength(0.05));
  const rounds = Math.max(30, Math.min(ROUNDS, Math.floor((ROUNDS * ROUNDED_ROUTERS) / nodes.length)));
  // With fewer iterations the simulation must cool down faster.
  simulation.alphaDecay(1 - simulation.alphaMin() ** (1 / rounds)).tick(rounds);
  const places: Place[] = new Array(nodes.length);
  for (const { id, x = 0, y = 0 } of nodes) places[id] = { x, y };
  return places;
}

function toUnitSquare(places: readonly Place[]): Place[] {
  const { left, right, top, bottom } = extent(places);
  const size = Math.max(right - left, bottom - top) || 1;
  const marginX = (1 - (right - left) / size) / 2;
  const marginY = (1 - (bottom - top) / size) / 2;
  return places.map((p) => ({ x: (p.x - left) / size + marginX, y: (p.y - top) / size + marginY }));
}

/** A loop, because a large map has more routers than a call may have arguments. */
function extent(places: readonly Place[]) {
  const all = { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity };
  for (const { x, y } of places) {
    all.left = Math.min(all.left, x);
    all.right = Math.max(all.right, x);
    all.top = Math.min(all.top, y);
    all.bottom = Math.max(all.bottom, y);
  }
  return all;
}
