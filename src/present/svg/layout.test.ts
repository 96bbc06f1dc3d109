import { describe, expect, it } from "vitest";
import { type Topology, TopologyBuilder } from "../../network/topology/topology.ts";
import { layout, type Place } from "./layout.ts";

const distance = (a: Place, b: Place) => Math.hypot(a.x - b.x, a.y - b.y);
const mean = (numbers: number[]) => numbers.reduce((a, b) => a + b, 0) / numbers.length;

function grid(side: number): Topology {
  const builder = new TopologyBuilder();
  const at = (x: number, y: number) => builder.router(`${x} ${y}`);
  for (let x = 0; x < side; x++)
    for (let y = 0; y < side; y++) {
      if (x > 0) builder.bothWays(at(x - 1, y), at(x, y));
      if (y > 0) builder.bothWays(at(x, y - 1), at(x, y));
    }
  return builder.finish("grid");
}

describe("a map without coordinates", () => {
  it("is drawn the same each time, inside the unit square", () => {
    const places = layout(grid(8));
    expect(layout(grid(8))).toEqual(places);
    expect(places).toHaveLength(64);
    for (const { x, y } of places) {
      expect(x).toBeGreaterThanOrEqual(0);
      expect(x).toBeLessThanOrEqual(1);
      expect(y).toBeGreaterThanOrEqual(0);
      expect(y).toBeLessThanOrEqual(1);
    }
  });

  it("has neighbours close together and no node on top of another", () => {
    const topology = grid(10);
    const places = layout(topology);
    const between = (a: number, b: number) => distance(places[a] as Place, places[b] as Place);
    const links = topology.links.map((l) => between(l.from, l.to));
    const pairs = places.flatMap((_, a) => places.slice(0, a).map((_, b) => between(a, b)));
    // In a grid drawn flat, neighbours are about a tenth of the square apart, arbitrary pairs about half of it.
    expect(mean(links)).toBeLessThan(0.3 * mean(pairs));
    expect(Math.min(...pairs)).toBeGreaterThan(0.1 * mean(links));
  });

  it("keeps parts that are not connected in sight of each other", () => {
    const builder = new TopologyBuilder();
    for (let part = 0; part < 5; part++)
      for (let i = 1; i < 6; i++)
        builder.bothWays(builder.router(`${part} 0`), builder.router(`${part} ${i}`));
    const places = layout(builder.finish("parts"));
    const links = [1, 2, 3, 4, 5].map((i) => distance(places[0] as Place, places[i] as Place));
    expect(mean(links)).toBeGreaterThan(0.05);
  });

  it("of 100,000 routers is drawn all the same", () => {
    const builder = new TopologyBuilder();
    const n = 100_000;
    for (let i = 0; i < n; i++) builder.router(`r${i}`, { x: i % 317, y: Math.floor(i / 317) });
    for (let i = 1; i < n; i++) builder.bothWays(i - 1, i);
    const places = layout(builder.finish("large"));
    expect(places).toHaveLength(n);
    expect(Math.max(places[n - 1]?.x ?? 2, places[n - 1]?.y ?? 2)).toBeLessThanOrEqual(1);
  });
});

describe("a map with coordinates", () => {
  it("is drawn by them; routers of one place stand apart, those without stand among their neighbours", () => {
    const builder = new TopologyBuilder();
    const at = (name: string, latitude: number, longitude: number) =>
      builder.router(name, { latitude, longitude });
    const [west, east, twin, north] = [at("w", 48, 2), at("e", 48, 12), at("t", 48, 12), at("n", 53, 7)];
    const unplaced = builder.router("?");
    builder.bothWays(unplaced, west);
    builder.bothWays(unplaced, north);
    const places = layout(builder.finish("europe"));
    const place = (i: number) => places[i] as Place;
    expect(place(west).x).toBeLessThan(place(east).x);
    expect(place(north).y).toBeLessThan(place(west).y);
    expect(distance(place(east), place(twin))).toBeGreaterThan(0);
    expect(distance(place(east), place(twin))).toBeLessThan(0.05);
    expect(place(unplaced).x).toBeCloseTo((place(west).x + place(north).x) / 2, 1);
  });
});
