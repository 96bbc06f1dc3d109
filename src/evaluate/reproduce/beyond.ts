/** Beyond the papers: all estimators of the table on the same packets. Error against bits per packet, calibration of the intervals, cost against accuracy. */
import { entryAt } from "../../base/lists.ts";
import type { Figure, Series } from "../../present/figure/figure.ts";
import { independentFlows, referenceQueue } from "../../simulate/presets.ts";
import { RACE_CLASSES, type Race, runRace } from "../race.ts";
import { count, percent } from "./numbers.ts";
import { type FindingBody, repeat, type Study } from "./study.ts";

const MEMORIES = [65_536, 524_288];
/** Flows of 100 to 999 packets. */
const CLASS = 2;

const all: Study = {
  name: "frontier",
  paper: "beyond",
  heads: [
    {
      id: "frontier",
      where: "frontier",
      title: "Error against bits per packet, every estimator",
      claim: "no paper compares all five on the same packets",
    },
    {
      id: "calibration",
      where: "calibration",
      title: "How often 95 % intervals of flows contain the truth",
      claim: "the papers give no intervals for flows",
    },
    {
      id: "cost",
      where: "cost",
      title: "CPU per packet against error",
      claim: "the papers count memory accesses",
    },
  ],
  async run(context) {
    const durationS = context.scale === "full" ? 5 : 0.5;
    const options = { seed: context.seed, traffic: { durationS } };
    const scenarios = [independentFlows(options), referenceQueue(0.88, options)];
    const names = ["own latency per flow", "one queue, 88 %"];
    const expected = {
      packets: 400_000 * durationS,
      flows: 68_000 * durationS,
      loss: [0.001],
      epochNs: 1e9 * durationS,
    };
    const races = await repeat(context, scenarios.length * MEMORIES.length, (i) =>
      runRace(context.kernels, entryAt(scenarios, Math.floor(i / MEMORIES.length)), {
        memoryBytes: entryAt(MEMORIES, i % MEMORIES.length),
        expected,
      }),
    );
    const of = (scenario: number) =>
      races.slice(scenario * MEMORIES.length, (scenario + 1) * MEMORIES.length);
    const setting = `${count(entryAt(races, 0).packets)} packets of ${count(entryAt(races, 0).flows)} flows in one epoch; taps of 66 and 524 kB where an estimator has sizes; one reference in 100 packets`;
    return {
      frontier: frontierFinding(setting, names, [of(0), of(1)]),
      calibration: calibrationFinding(setting, names, [of(0), of(1)]),
      cost: costFinding(setting, names, [of(0), of(1)]),
    };
  },
};

/** Estimators that answer for flows, one series each over the memories. */
function perEstimator(
  races: readonly Race[],
  x: (race: Race, row: number) => number,
  y: (race: Race, row: number) => number | null,
): Series[] {
  return entryAt(races, 0).rows.flatMap(({ estimator }, row): Series[] => {
    const points = races.flatMap((race) => {
      const value = y(race, row);
      return value === null ? [] : [{ x: x(race, row), y: Math.max(1e-5, value) }];
    });
    return points.length === 0 ? [] : [{ name: estimator, points }];
  });
}

const errorOf = (race: Race, row: number) => entryAt(entryAt(race.rows, row).classes, CLASS).median;

function best(races: readonly Race[]): string {
  const last = entryAt(races, -1);
  const [first, second] = last.rows
    .map((row, i) => ({ row, error: errorOf(last, i) }))
    .filter((r): r is typeof r & { error: number } => r.error !== null)
    .sort((a, b) => a.error - b.error);
  return `${first?.row.estimator} ${percent(first?.error ?? Number.NaN)} (${first?.row.bitsPerPacket.toFixed(2)} bits), then ${second?.row.estimator} ${percent(second?.error ?? Number.NaN)} (${second?.row.bitsPerPacket.toFixed(2)} bits)`;
}

function table(races: readonly Race[]): FindingBody["table"] {
  const last = entryAt(races, -1);
  const classes = RACE_CLASSES.map((c) => (c.to === null ? `≥ ${c.from}` : `${c.from}–${c.to}`));
  return {
    columns: [
      "estimator",
      "memory, kB",
      "bits/packet",
      "CPU, ns",
      ...classes.map((c) => `${c} packets: median, inside`),
    ],
    rows: last.rows.map((row) => [
      row.estimator,
      count(row.memoryBytes / 1e3),
      row.bitsPerPacket.toFixed(2),
      row.cpuNsPerPacket.toFixed(0),
      ...row.classes.map((c) =>
        c.median === null
          ? "–"
          : `${percent(c.median)}, ${c.withinInterval === null ? "–" : percent(c.withinInterval)}`,
      ),
    ]),
  };
}

function frontierFinding(
  setting: string,
  names: readonly string[],
  races: readonly (readonly Race[])[],
): FindingBody {
  return {
    setting,
    literal: null,
    ours: names.map((name, i) => `${name}: ${best(entryAt(races, i))}`).join("; "),
    verdict: "measured",
    why: "Flows of 100 to 999 packets. Where packets near in time are delayed alike, references and sums do well; where every flow has a latency of its own, only what keeps flows apart does. MAPLE answers for packets; its flows are in maple-8a.",
    table: table(entryAt(races, 0)),
    figures: names.map(
      (name, i): Figure => ({
        title: `Median error of flows of 100 to 999 packets: ${name}`,
        x: { label: "bits per packet, both ends", scale: "log" },
        y: { label: "relative error", scale: "log", quantity: "share" },
        series: perEstimator(
          entryAt(races, i),
          (race, row) => Math.max(1e-3, entryAt(race.rows, row).bitsPerPacket),
          errorOf,
        ),
      }),
    ),
    thresholds: [],
  };
}

function calibrationFinding(
  setting: string,
  names: readonly string[],
  races: readonly (readonly Race[])[],
): FindingBody {
  const inside = (race: Race, row: number) => entryAt(entryAt(race.rows, row).classes, CLASS).withinInterval;
  const ours = ["lds", "rli", "maple", "colate"];
  const shares = races.flatMap((list) =>
    list.flatMap((race) =>
      race.rows.flatMap((r, i) => (ours.includes(r.estimator) ? [inside(race, i) ?? 1] : [])),
    ),
  );
  return {
    setting,
    literal: null,
    ours: `lds, rli, maple and colate: between ${percent(Math.min(...shares))} and ${percent(Math.max(...shares))} of flows of 100 to 999 packets inside`,
    verdict: "measured",
    why: "An interval is worth as much as the share of truths that it contains. RLI's hold where packets near in time are delayed alike, and cannot where every flow has a latency of its own. Baselines are shown as they are.",
    table: table(entryAt(races, 1)),
    figures: names.map(
      (name, i): Figure => ({
        title: `95 % intervals that contain the truth: ${name}`,
        x: { label: "bits per packet, both ends", scale: "log" },
        y: { label: "flows inside", quantity: "share", range: [0, 1] },
        series: [
          ...perEstimator(
            entryAt(races, i),
            (race, row) => Math.max(1e-3, entryAt(race.rows, row).bitsPerPacket),
            inside,
          ),
          { name: "promised", claimed: true, points: [1e-3, 100].map((x) => ({ x, y: 0.95 })) },
        ],
      }),
    ),
    thresholds: [],
  };
}

function costFinding(
  setting: string,
  names: readonly string[],
  races: readonly (readonly Race[])[],
): FindingBody {
  const last = entryAt(entryAt(races, 0), -1);
  return {
    setting,
    literal: null,
    ours: last.rows
      .map((r) => `${r.estimator} ${r.cpuNsPerPacket.toFixed(0)}`)
      .join(", ")
      .concat(" ns per packet and tap"),
    verdict: "measured",
    why: "Time in the tap's update alone, as this machine ran it; capture and decoding come on top and are the same for all.",
    table: table(entryAt(races, 0)),
    figures: names.map(
      (name, i): Figure => ({
        title: `Error against CPU per packet: ${name}`,
        x: { label: "ns per packet and tap", scale: "log" },
        y: { label: "relative error, 100–999 packets", scale: "log", quantity: "share" },
        series: perEstimator(
          entryAt(races, i),
          (race, row) => Math.max(0.1, entryAt(race.rows, row).cpuNsPerPacket),
          errorOf,
        ),
      }),
    ),
    thresholds: [],
  };
}

export const beyondStudies: readonly Study[] = [all];
