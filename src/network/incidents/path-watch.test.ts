/** Incidents from estimates as they arrive: quiet paths make none, a slow or lossy segment makes one, which is named, and closes. */
import { describe, expect, it } from "vitest";
import { Random } from "../../base/random.ts";
import { EPOCH_NS, simulateLoss, simulatePath } from "../../evaluate/path-noise.ts";
import type { LocaliseEstimate } from "../localise/segment-estimate.ts";
import { INCIDENT_SETTINGS, type IncidentChange, type IncidentSettings } from "./incident.ts";
import { PathWatch } from "./path-watch.ts";

const FIRST_NS = 1_700_000_000_000_000_000n;

function timed({ epochStartNs, epochEndNs, ...rest }: LocaliseEstimate) {
  return { ...rest, startNs: FIRST_NS + BigInt(epochStartNs), endNs: FIRST_NS + BigInt(epochEndNs) };
}

function inOrder(estimates: readonly LocaliseEstimate[]): LocaliseEstimate[] {
  return [...estimates].sort((a, b) => a.epochStartNs - b.epochStartNs);
}

function run(
  points: readonly string[],
  estimates: readonly LocaliseEstimate[],
  settings: Partial<IncidentSettings> = {},
): { changes: IncidentChange[]; watch: PathWatch } {
  const watch = new PathWatch({ ...INCIDENT_SETTINGS, ...settings });
  watch.watchOnly([{ name: "path", points }]);
  const changes: IncidentChange[] = [];
  for (const e of inOrder(estimates))
    for (const { change, incident } of watch.add(timed(e)))
      changes.push({ change, incident: { ...incident } });
  return { changes, watch };
}

const told = (changes: readonly IncidentChange[]) => changes.filter((c) => c.change !== "updated");
const second = (n: number) => FIRST_NS + BigInt(n) * BigInt(EPOCH_NS);

describe("the state of a path", () => {
  it("is its last whole epoch, also where a part of a later one is missing for a while", () => {
    const { points, estimates } = simulatePath(new Random("state"), 3, 40, () => []);
    const cut = (from: number) =>
      estimates.filter((e) => e.fromPoint !== points[0] || e.epochStartNs < from * EPOCH_NS);
    const state = (list: readonly LocaliseEstimate[]) => run(points, list).watch.latest(points);
    const whole = state(cut(38))?.row.map((e) => e?.meanNs);
    expect(whole?.every((mean) => typeof mean === "number")).toBe(true);
    // A segment that has been silent for longer shows that it is.
    expect(state(cut(10))?.row[0]).toBeUndefined();
  });
});

describe("incidents", () => {
  it("are none on quiet paths", () => {
    // At the rate stated in docs/collect.md two or more in 24,000 epochs of segments are practically impossible.
    let opened = 0;
    for (let seed = 0; seed < 12; seed++) {
      const random = new Random(`quiet incidents ${seed}`);
      const path = seed % 2 === 0 ? simulatePath(random, 5, 400, () => []) : simulateLoss(random, 5, 400, []);
      opened += told(run(path.points, path.estimates).changes).filter((c) => c.change === "opened").length;
    }
    expect(opened).toBeLessThan(2);
  });

  it("name the segment whose delay rose, and close when it came back", () => {
    let named = 0;
    for (let seed = 0; seed < 6; seed++) {
      const segment = seed % 4;
      const path = simulatePath(new Random(`slow ${seed}`), 4, 160, (ordinary) => [
        { segment, firstEpoch: 100, epochs: 20, excessNs: 60 * (ordinary[segment] ?? 0) },
      ]);
      const changes = told(run(path.points, path.estimates).changes).filter(
        ({ incident }) => incident.kind === "delay" && incident.startNs >= second(98),
      );
      expect(changes.map((c) => c.change)).toEqual(["opened", "closed"]);
      const [opened, closed] = changes;
      if (opened?.incident.segment?.from === path.points[segment]) named++;
      const last = closed?.incident;
      expect(last).toMatchObject({ state: "closed", ended: "ordinary", paths: ["path"] });
      expect(Number((last?.startNs ?? 0n) - second(100)) / EPOCH_NS).toBeCloseTo(0, -1);
      expect(Number((last?.endNs ?? 0n) - second(120)) / EPOCH_NS).toBeCloseTo(0, -1);
      expect((last?.peak ?? 0) - (last?.baseline ?? 0)).toBeGreaterThan(40 * (path.ordinaryNs[segment] ?? 0));
    }
    // At a confidence of 99 % one wrong name in six has a probability of 6 %; two hardly occur.
    expect(named).toBeGreaterThanOrEqual(5);
  });

  it("name the segment that loses packets", () => {
    const path = simulateLoss(new Random("lossy"), 4, 160, [
      { segment: 2, firstEpoch: 100, epochs: 20, rate: 0.05 },
    ]);
    const losses = told(run(path.points, path.estimates).changes).filter((c) => c.incident.kind === "loss");
    expect(losses.map((c) => [c.change, c.incident.segment?.from])).toEqual([
      ["opened", path.points[2]],
      ["closed", path.points[2]],
    ]);
    const { loss } = losses[1]?.incident ?? {};
    expect(loss?.low).toBeLessThan(0.055);
    expect(loss?.high).toBeGreaterThan(0.045);
  });

  it("stay one over short pauses, and last at least so many epochs", () => {
    const slow = (epoch: number) => epoch >= 60 && epoch < 90 && epoch % 10 < 6;
    const estimates = Array.from({ length: 140 }, (_, t): LocaliseEstimate => {
      const meanNs = (slow(t) ? 5e6 : 1e6) + 1e4 * Math.sin(t * t);
      const interval = { meanNs, lowNs: meanNs - 1e4, highNs: meanNs + 1e4, stdevNs: 1e5 };
      return {
        ...{ fromPoint: "A", toPoint: "B", epochStartNs: t * EPOCH_NS, epochEndNs: (t + 1) * EPOCH_NS },
        ...interval,
        ...{ packets: 1000, lost: 0 },
      };
    });
    const once = told(run(["A", "B"], estimates).changes);
    expect(once.map((c) => c.change)).toEqual(["opened", "closed"]);
    expect(once[1]?.incident).toMatchObject({ startNs: second(60), endNs: second(86), closedNs: second(96) });
    // Six epochs are fewer than ten.
    expect(told(run(["A", "B"], estimates, { openAfter: 10, closeAfter: 2 }).changes)).toEqual([]);
    // With a short closeAfter each part is an incident of its own.
    expect(told(run(["A", "B"], estimates, { closeAfter: 2 }).changes)).toHaveLength(6);
  });

  it("that do not come back are the new normal, and history read again makes none anew", () => {
    const estimates = Array.from({ length: 300 }, (_, t): LocaliseEstimate => {
      const meanNs = (t >= 100 ? 5e6 : 1e6) + 1e4 * Math.sin(t * t);
      return {
        ...{ fromPoint: "A", toPoint: "B", epochStartNs: t * EPOCH_NS, epochEndNs: (t + 1) * EPOCH_NS },
        ...{ meanNs, lowNs: meanNs - 1e4, highNs: meanNs + 1e4, stdevNs: 1e5, packets: 1000, lost: 0 },
      };
    });
    const settings = { windowEpochs: 60 };
    const { changes } = run(["A", "B"], estimates, settings);
    expect(told(changes).map((c) => [c.change, c.incident.ended])).toEqual([
      ["opened", null],
      ["closed", "new-normal"],
    ]);
    // As after a restart in the middle of it: open before, open after, closed once.
    const half = run(["A", "B"], estimates.slice(0, 105), settings);
    expect(half.watch.open).toHaveLength(1);
    const again = new PathWatch({ ...INCIDENT_SETTINGS, ...settings }, half.watch.open);
    again.watchOnly([{ name: "path", points: ["A", "B"] }]);
    const rest = estimates.slice(40).flatMap((e) => again.add(timed(e)));
    expect(told(rest).map((c) => c.change)).toEqual(["closed"]);
    const known = told(rest).map((c) => c.incident);
    const third = new PathWatch({ ...INCIDENT_SETTINGS, ...settings }, known);
    third.watchOnly([{ name: "path", points: ["A", "B"] }]);
    expect(told(estimates.slice(40, 170).flatMap((e) => third.add(timed(e))))).toEqual([]);
  });

  it("of loss go on while the loss comes and goes", () => {
    // Two lossy epochs, then one or two without: no stretch of three after the first.
    const lossy = (t: number) => t >= 100 && t < 160 && (t < 104 || t % 4 < 2);
    const random = new Random("loss in bits");
    const estimates = Array.from({ length: 220 }, (_, t): LocaliseEstimate => {
      const meanNs = 1e6 + 1e4 * random.normal();
      return {
        ...{ fromPoint: "A", toPoint: "B", epochStartNs: t * EPOCH_NS, epochEndNs: (t + 1) * EPOCH_NS },
        ...{ meanNs, lowNs: meanNs - 1e4, highNs: meanNs + 1e4, stdevNs: 1e5 },
        ...{ packets: 1000, lost: lossy(t) ? random.poisson(30) : 0 },
      };
    });
    const losses = told(run(["A", "B"], estimates).changes).filter((c) => c.incident.kind === "loss");
    expect(losses.map((c) => c.change)).toEqual(["opened", "closed"]);
    expect(Number((losses[1]?.incident.endNs ?? 0n) - second(158)) / EPOCH_NS).toBeCloseTo(0, -1);
    expect(losses[1]?.incident.ended).toBe("ordinary");
  });

  it("of loss go on with a queue that overflows now and then, and end when it does not any more", () => {
    // As a full queue loses: nothing in a third of the epochs, much in some.
    for (const seed of ["overflow 1", "overflow 2", "overflow 3", "overflow 4"]) {
      const random = new Random(seed);
      const estimates = Array.from({ length: 220 }, (_, t): LocaliseEstimate => {
        const full = t >= 100 && t < 140;
        const meanNs = 1e6 * (full ? 14 + random.normal() : 1) + 1e4 * random.normal();
        const lost =
          full && (t < 104 || random.float() < 0.65) ? random.poisson(30 + 60 * random.float()) : 0;
        return {
          ...{ fromPoint: "A", toPoint: "B", epochStartNs: t * EPOCH_NS, epochEndNs: (t + 1) * EPOCH_NS },
          ...{ meanNs, lowNs: meanNs - 1e4, highNs: meanNs + 1e4, stdevNs: 1e5, packets: 2000 - lost, lost },
        };
      });
      const losses = told(run(["A", "B"], estimates, { closeAfter: 5 }).changes).filter(
        (c) => c.incident.kind === "loss",
      );
      expect(losses.map((c) => c.change)).toEqual(["opened", "closed"]);
      expect(losses[1]?.incident.endNs).toBeGreaterThanOrEqual(second(134));
      expect(losses[1]?.incident.endNs).toBeLessThanOrEqual(second(140));
    }
  });

  describe("where a clock steps", () => {
    /** Delays of segments in ms, by epoch. */
    const series = (delays: Record<string, (t: number) => number>, seed = "clock") => {
      const random = new Random(seed);
      const estimates: LocaliseEstimate[] = [];
      for (let t = 0; t < 140; t++)
        for (const [name, ms] of Object.entries(delays)) {
          const [from = "", to = ""] = name.split(">");
          const meanNs = 1e6 * ms(t) + 1e4 * random.normal();
          estimates.push({
            ...{ fromPoint: from, toPoint: to, epochStartNs: t * EPOCH_NS, epochEndNs: (t + 1) * EPOCH_NS },
            ...{ meanNs, lowNs: meanNs - 1e4, highNs: meanNs + 1e4, stdevNs: 1e5, packets: 1000, lost: 0 },
          });
        }
      return estimates;
    };
    const opened = (estimates: readonly LocaliseEstimate[]) =>
      told(run(["A", "B", "C"], estimates).changes)
        .filter((c) => c.change === "opened")
        .map((c) => c.incident);
    const since = (t: number, ms: number) => (t >= 100 ? ms : 0);

    it("its tap is named, and no segment is slow", () => {
      const forward = opened(series({ "A>B": (t) => 1 + since(t, 5), "B>C": (t) => 2 - since(t, 5) }));
      expect(forward).toMatchObject([{ kind: "clock", clock: { points: ["B"] }, state: "open" }]);
      expect(forward[0]?.clock?.stepNs).toBeCloseTo(5e6, -5);
      const back = opened(series({ "A>B": (t) => 1 - since(t, 5), "B>C": (t) => 2 + since(t, 5) }));
      expect(back).toMatchObject([{ kind: "clock", clock: { points: ["B"] } }]);
      expect(back[0]?.clock?.stepNs).toBeCloseTo(-5e6, -5);
    });

    it("within an epoch too, which then has packets of both", () => {
      const half = (t: number) => (t === 100 ? 2 : since(t, 5));
      const steps = opened(series({ "A>B": (t) => 1 + half(t), "B>C": (t) => 2 - half(t) }));
      expect(steps).toMatchObject([{ kind: "clock", clock: { points: ["B"] } }]);
      expect(steps[0]?.clock?.stepNs).toBeCloseTo(5e6, -5);
    });

    it("a queue that fills is none, though its neighbour becomes a little faster", () => {
      const filling = (t: number) => (t < 100 ? 0 : ([3, 8, 13, 15][t - 100] ?? 15 + (t % 3)));
      const little = (t: number) => (t < 100 ? 0 : 0.03 + 0.0005 * (t % 2));
      const seeds = ["a", "b", "c", "d", "e", "f"];
      const incidents = seeds.flatMap((seed) =>
        opened(series({ "A>B": (t) => 1 + filling(t), "B>C": (t) => 2 - little(t) }, seed)),
      );
      expect(incidents.length).toBeGreaterThanOrEqual(seeds.length);
      expect(incidents.filter((i) => i.kind !== "delay")).toEqual([]);
    });

    it("segments that no path has say so too: the way back", () => {
      const steps = opened(
        series({
          "A>B": (t) => 1 + since(t, 3),
          "B>C": () => 2,
          "B>A": (t) => 1 - since(t, 3),
          "C>B": () => 2,
        }),
      );
      // B's own other segments did not move: it was the clock of A.
      expect(steps).toMatchObject([{ kind: "clock", clock: { points: ["A"] } }]);
      expect(steps[0]?.clock?.stepNs).toBeCloseTo(-3e6, -5);
      const either = opened(
        series({ "A>B": (t) => 1 + since(t, 3), "B>C": () => 2, "B>A": (t) => 1 - since(t, 3) }),
      );
      expect(either).toMatchObject([{ kind: "clock" }]);
    });

    it("a path that became slower is none, whatever its neighbours do", () => {
      expect(opened(series({ "A>B": (t) => 1 + since(t, 5), "B>C": () => 2 }))).toMatchObject([
        { kind: "delay", clock: null },
      ]);
      const both = opened(series({ "A>B": (t) => 1 + since(t, 5), "B>C": (t) => 2 + since(t, 5) }));
      expect(both.every((i) => i.kind === "delay")).toBe(true);
      const less = opened(series({ "A>B": (t) => 1 + since(t, 5), "B>C": (t) => 2 - since(t, 1) }));
      expect(less).toMatchObject([{ kind: "delay" }]);
    });
  });
});
