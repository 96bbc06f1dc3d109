import { describe, expect, it } from "vitest";
import { withLink } from "../../../tests/support/with-link.ts";
import { Random } from "../../base/random.ts";
import { EPOCH_NS, estimate, simulatePath } from "../../evaluate/path-noise.ts";
import { type Localisation, localise } from "../localise/localise.ts";
import { deployment } from "../plan/deployment.ts";
import { parseTopology } from "../topology/topology-format.ts";
import { MonitoringStation } from "./monitoring-station.ts";

const blamed = (l: Localisation) =>
  l.spikes.map((s) => (s.segment ? `${s.segment.from} ${s.segment.to}` : null));

describe("the monitoring station", () => {
  const map = () => parseTopology("A,B\nB,C\nC,D\nB,E\nE,D\n", "map");
  const feed = (
    station: MonitoringStation,
    points: readonly string[],
    epochs: number,
    add: (segment: number, epoch: number) => number,
    from = 0,
  ) => {
    const random = new Random(9);
    for (let t = from; t < from + epochs; t++)
      for (let j = 0; j + 1 < points.length; j++)
        station.add(estimate(points[j]!, points[j + 1]!, t, 10_000 + 300 * random.normal() + add(j, t)));
  };

  it("watches all equal-cost paths of a pair, cut at the m-routers", () => {
    const t = map();
    const station = new MonitoringStation(t, deployment(t, ["B"]));
    expect(station.watch("A", "D")).toEqual([
      ["A", "B[from A]", "B[to C]", "D"],
      ["A", "B[from A]", "B[to E]", "D"],
    ]);
  });

  it("blames the slow segment of the path it is on, while it is slow and after", () => {
    const t = map();
    const station = new MonitoringStation(t, deployment(t, ["B"]));
    const [overC, overE] = station.watch("A", "D") as [string[], string[]];
    expect(station.localisation(overC)).toBeNull();
    // The virtual link over C is slow in epochs 30 to 33.
    const slow = (_: number, epoch: number) => (epoch >= 30 && epoch < 34 ? 4e6 : 0);
    feed(station, overC, 32, (j, e) => (j === 2 ? slow(j, e) : 0));
    expect(station.spikes(overC)).toMatchObject([{ segment: { from: "B[to C]", to: "D" }, open: true }]);
    feed(station, overC, 10, (j, e) => (j === 2 ? slow(j, e) : 0), 32);
    const done = station.localisation(overC)!;
    expect(done.spikes).toHaveLength(1);
    expect(done.spikes[0]).toMatchObject({ fromNs: 30 * EPOCH_NS, toNs: 34 * EPOCH_NS });
    expect(done.spikes[0]!.open).toBeUndefined();
    // The other path shares only the first segment, and has no complete epoch.
    feed(station, overE.slice(1), 42, () => 0);
    expect(station.spikes(overE)).toEqual([]);
  });

  it("agrees with the localiser of whole files on the blame", () => {
    const path = simulatePath(new Random("station"), 5, 120, (o) => [
      { segment: 3, firstEpoch: 70, epochs: 6, excessNs: 500 * o[3]! },
    ]);
    const t = map();
    const station = new MonitoringStation(t, deployment(t, []));
    station.watchPoints(path.points);
    for (const e of [...path.estimates].sort((a, b) => a.epochStartNs - b.epochStartNs)) station.add(e);
    const stream = station.localisation(path.points)!;
    const file = localise(path.points, path.estimates);
    expect(blamed(stream)).toEqual(blamed(file));
    expect(stream.segments).toEqual(file.segments);
    expect(stream.epochs).toEqual(file.epochs);
  });

  it("waits for slow reporters, but not for ever; counts what is late, repeated or of other segments", () => {
    const t = map();
    const station = new MonitoringStation(t, deployment(t, []), { lateEpochs: 3 });
    station.watchPoints(["X", "Y", "Z"]);
    for (let e = 0; e < 3; e++) station.add(estimate("X", "Y", e, 1000));
    expect(station.localisation(["X", "Y", "Z"])).toBeNull();
    station.add(estimate("X", "Y", 3, 1000));
    expect(station.localisation(["X", "Y", "Z"])!.epochs.map((e) => e.total)).toEqual([null]);
    station.add(estimate("Y", "Z", 1, 500));
    expect(station.localisation(["X", "Y", "Z"])!.epochs.map((e) => e.total?.meanNs)).toEqual([
      undefined,
      1500,
    ]);
    station.add(estimate("Y", "Z", 1, 500));
    station.add(estimate("Y", "Z", 0, 500));
    station.add(estimate("Q", "R", 0, 500));
    expect(station.counters).toEqual({ estimates: 8, late: 1, repeated: 1, unwatched: 1 });
    station.flush();
    expect(station.localisation(["X", "Y", "Z"])!.epochs).toHaveLength(4);
  });

  it("keeps no more epochs than configured, and spikes stay at their time", () => {
    const t = map();
    const station = new MonitoringStation(t, deployment(t, []), { historyEpochs: 50, windowEpochs: 40 });
    station.watchPoints(["X", "Y", "Z"]);
    feed(station, ["X", "Y", "Z"], 200, (j, e) => (j === 1 && e >= 180 && e < 183 ? 5e6 : 0));
    const l = station.localisation(["X", "Y", "Z"])!;
    expect(l.epochs).toHaveLength(50);
    expect(l.spikes).toMatchObject([
      { fromNs: 180 * EPOCH_NS, toNs: 183 * EPOCH_NS, segment: { from: "Y" } },
    ]);
  });

  it("takes a lasting rise (a reroute) for the new normal after half a window", () => {
    const t = map();
    const station = new MonitoringStation(t, deployment(t, []), { windowEpochs: 40 });
    station.watchPoints(["X", "Y"]);
    feed(station, ["X", "Y"], 200, (_, e) => (e >= 60 ? 5e6 : 0));
    const [spike, ...more] = station.spikes(["X", "Y"]);
    expect(more).toEqual([]);
    expect(spike!.open).toBeUndefined();
    expect(spike!.toNs).toBeLessThan(90 * EPOCH_NS);
  });

  it("splits paths again when the map changes, and keeps the series of segments that stay", () => {
    const t = map();
    const station = new MonitoringStation(t, deployment(t, ["B"]));
    const [overC] = station.watch("A", "D") as [string[], string[]];
    feed(station, overC, 20, () => 0);
    station.change(withLink(t, "E", "D", "down"), deployment(t, ["B"]));
    expect(station.paths).toEqual([overC]);
    expect(station.localisation(overC)!.epochs).toHaveLength(20);
    station.change(withLink(t, "C", "D", "down"), deployment(t, ["B"]));
    expect(station.paths).toEqual([["A", "B[from A]", "B[to E]", "D"]]);
    expect(() => station.spikes(overC)).toThrow("is not watched");
  });
});
