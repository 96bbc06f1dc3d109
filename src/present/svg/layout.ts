/**
 * Where to draw the routers of a map: at their coordinates where the map has them, else by a small force layout.
 *
 * Deterministic: no random start, so that the same map gives the same picture and pictures can be compared by diff.
 * Links pull, routers push (Fruchterman and Reingold), a weak pull to the middle keeps unconnected parts in sight.
 */
import type { Topology } from "../../network/topology/topology.ts";

export interface Place {
  readonly x: number;
  readonly y: number;
}

/** Work the push of all pairs may cost; large maps get fewer rounds. */
const MAX_PAIR_STEPS = 1.5e8;

/** Places in the unit square, y downwards. */
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

/** Routers without coordinates stand at the mean of their neighbours', or in the middle. */
function fillIn(topology: Topology, given: readonly (Place | null)[]): Place[] {
  const known = given.filter((p) => p !== null);
  const middle = mean(known);
  return given.map((place, i) => {
    if (place) return place;
    const near = topology.links.flatMap((l) => (l.from === i && given[l.to] ? [given[l.to]!] : []));
    return near.length > 0 ? mean(near) : middle;
  });
}

function mean(places: readonly Place[]): Place {
  const n = Math.max(1, places.length);
  return { x: places.reduce((s, p) => s + p.x, 0) / n, y: places.reduce((s, p) => s + p.y, 0) / n };
}

/** Routers of one city lie on one spot: set them on a small spiral around it. */
function spreadEquals(places: readonly Place[]): Place[] {
  const xs = places.map((p) => p.x);
  const step = 0.012 * (Math.max(...xs) - Math.min(...xs) || 1);
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

function force(topology: Topology): Place[] {
  const n = topology.routers.length;
  const edges = [
    ...new Set(topology.links.map((l) => `${Math.min(l.from, l.to)} ${Math.max(l.from, l.to)}`)),
  ].map((key) => key.split(" ").map(Number) as [number, number]);
  const x = new Float64Array(n);
  const y = new Float64Array(n);
  // Start on a spiral, best connected routers inside: close to where the forces take them.
  const degree = new Int32Array(n);
  for (const [a, b] of edges) {
    degree[a]!++;
    degree[b]!++;
  }
  const order = Array.from({ length: n }, (_, i) => i).sort((a, b) => degree[b]! - degree[a]! || a - b);
  for (const [rank, router] of order.entries()) {
    const radius = Math.sqrt((rank + 0.5) / n);
    x[router] = radius * Math.cos(rank * 2.399963);
    y[router] = radius * Math.sin(rank * 2.399963);
  }
  const ideal = 1.6 / Math.sqrt(n);
  const rounds = Math.max(20, Math.min(300, Math.floor(MAX_PAIR_STEPS / (n * n))));
  const dx = new Float64Array(n);
  const dy = new Float64Array(n);
  for (let round = 0; round < rounds; round++) {
    const reach = 0.15 * (1 - round / rounds) + 0.002;
    dx.fill(0);
    dy.fill(0);
    for (let a = 0; a < n; a++)
      for (let b = a + 1; b < n; b++) {
        const ex = x[a]! - x[b]!;
        const ey = y[a]! - y[b]!;
        const push = (ideal * ideal) / Math.max(1e-9, ex * ex + ey * ey);
        dx[a]! += ex * push;
        dy[a]! += ey * push;
        dx[b]! -= ex * push;
        dy[b]! -= ey * push;
      }
    for (const [a, b] of edges) {
      const ex = x[a]! - x[b]!;
      const ey = y[a]! - y[b]!;
      const pull = Math.sqrt(ex * ex + ey * ey) / ideal;
      dx[a]! -= ex * pull;
      dy[a]! -= ey * pull;
      dx[b]! += ex * pull;
      dy[b]! += ey * pull;
    }
    for (let a = 0; a < n; a++) {
      const fx = dx[a]! - x[a]! * 0.3;
      const fy = dy[a]! - y[a]! * 0.3;
      const length = Math.hypot(fx, fy);
      if (length === 0) continue;
      x[a]! += (fx / length) * Math.min(length, reach);
      y[a]! += (fy / length) * Math.min(length, reach);
    }
  }
  return Array.from({ length: n }, (_, i) => ({ x: x[i]!, y: y[i]! }));
}

function toUnitSquare(places: readonly Place[]): Place[] {
  const xs = places.map((p) => p.x);
  const ys = places.map((p) => p.y);
  const left = Math.min(...xs);
  const top = Math.min(...ys);
  const size = Math.max(Math.max(...xs) - left, Math.max(...ys) - top) || 1;
  const marginX = (1 - (Math.max(...xs) - left) / size) / 2;
  const marginY = (1 - (Math.max(...ys) - top) / size) / 2;
  return places.map((p) => ({ x: (p.x - left) / size + marginX, y: (p.y - top) / size + marginY }));
}
