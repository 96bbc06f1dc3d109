/**
 * Results beyond the papers: all estimators of the table on the same packets. Error against bits per packet, coverage of the intervals, and CPU against error.
 */
import { entryAt } from "../../base/lists.ts";
import type { Figure, Series } from "../../present/figure/figure.ts";
import { independentFlows, referenceQueue } from "../../simulate/presets.ts";
import { RACE_CLASSES, type Race, racing, runRace } from "../race/race.ts";
import { simulatedSegment } from "../race/simulated.ts";
import { count, percent } from "./numbers.ts";
import { type FindingBody, repeat, type Study } from "./study.ts";

const MEMORIES = [16_384, 65_536, 524_288];
/** Index of the class of flows with 100 to 999 packets. */
const CLASS = 2;
const INJECT_EVERY = 100;
/** Coverage below which 95 % intervals are too narrow, with a margin for the number of flows. */
const CALIBRATED = 0.92;
/** Estimators that answer for a smaller share of the flows are not compared with the others. */
const ANSWERED = 0.9;

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
    const names = ["own latency per flow", "one queue, 88 %"];
    const segments = [independentFlows(options), referenceQueue(0.88, options)].map((scenario, i) =>
      simulatedSegment(context.kernels, entryAt(names, i), scenario, {
        ...{ estimators: racing(), injectEvery: INJECT_EVERY, loss: [0.001] },
      }),
    );
    const races = await repeat(context, segments.length * MEMORIES.length, (i) =>
      runRace(entryAt(segments, Math.floor(i / MEMORIES.length)), {
        budget: { kind: "memory", bytes: entryAt(MEMORIES, i % MEMORIES.length) },
      }),
    );
    const of = (segment: number) => races.slice(segment * MEMORIES.length, (segment + 1) * MEMORIES.length);
    const { packets, flows, list } = entryAt(races, 0);
    const sizes = MEMORIES.map((m) => (m / 1e3).toFixed(0)).join(", ");
    const setting = `${count(packets)} packets of ${count(flows)} flows in one epoch; taps of ${sizes} kB where an estimator has sizes; one reference and one probe in ${INJECT_EVERY} packets, in the bits of those that use them; the list of flows (${((8 * list.bytes) / packets).toFixed(1)} bits per packet) in nobody's`;
    return beyondFindings(setting, names, [of(0), of(1)]);
  },
};

/** `races`: by kind of delay, then by memory. */
export function beyondFindings(
  setting: string,
  names: readonly string[],
  races: readonly (readonly Race[])[],
): Record<"frontier" | "calibration" | "cost", FindingBody> {
  return {
    frontier: frontierFinding(setting, names, races),
    calibration: calibrationFinding(setting, names, races),
    cost: costFinding(setting, names, races),
  };
}

/** Returns one series over the memories for each estimator that answers for flows. If it answers only for the segment, its mean is used for every flow. */
function perEstimator(
  races: readonly Race[],
  x: (race: Race, row: number) => number,
  y: (race: Race, row: number) => number | null,
): Series[] {
  return entryAt(races, 0).rows.flatMap(({ estimator, meanForAll }, row): Series[] => {
    const points = races.flatMap((race) => {
      const value = y(race, row);
      return value === null ? [] : [{ x: x(race, row), y: Math.max(1e-5, value) }];
    });
    const answered = answeredOf(entryAt(races, -1), row);
    const remark = meanForAll ? " (one mean)" : answered < ANSWERED ? ` (of ${percent(answered)})` : "";
    return points.length === 0 ? [] : [{ name: `${estimator}${remark}`, points }];
  });
}

const classesOf = (race: Race, row: number) => {
  const { classes, meanForAll } = entryAt(race.rows, row);
  return meanForAll ?? classes;
};
/** Returns the share of the flows of the class that have an answer. */
const answeredOf = (race: Race, row: number) => {
  const { answered, flows } = entryAt(classesOf(race, row), CLASS);
  return answered / Math.max(1, flows);
};
const errorOf = (race: Race, row: number) => entryAt(classesOf(race, row), CLASS).median;
const insideOf = (race: Race, row: number) => entryAt(entryAt(race.rows, row).classes, CLASS).withinInterval;
const bitsAt = (race: Race, row: number) => Math.max(1e-3, entryAt(race.rows, row).wireBits);

/** Names the most accurate estimator at the largest memory, and the most accurate one that does not need each packet's delay. */
function best(races: readonly Race[]): string {
  const last = entryAt(races, -1);
  const ranked = last.rows
    .map((row, i) => ({ row, error: errorOf(last, i) }))
    .filter((r, i): r is typeof r & { error: number } => r.error !== null && answeredOf(last, i) >= ANSWERED)
    .sort((a, b) => a.error - b.error);
  const text = (r: (typeof ranked)[number] | undefined) =>
    r ? `${r.row.estimator} ${percent(r.error)} (${r.row.wireBits.toFixed(2)} bits)` : "none";
  const first = ranked[0];
  const without = ranked.find((r) => !r.row.needsDelays);
  return first === without
    ? text(first)
    : `${text(first)} with each packet's delay, ${text(without)} without`;
}

function table(races: readonly Race[]): FindingBody["table"] {
  const classes = RACE_CLASSES.map((c) => (c.to === null ? `≥ ${c.from}` : `${c.from}–${c.to}`));
  return {
    columns: [
      "estimator",
      "memory, kB",
      "bits/packet: stored, wire",
      "CPU, ns",
      ...classes.map((c) => `${c} packets: median, inside, answered`),
    ],
    rows: races.flatMap((race) =>
      race.rows.map((row, i) => [
        `${row.estimator}${row.needsDelays ? " +" : ""}${row.fits ? "" : " *"}`,
        (row.memoryBytes / 1e3).toFixed(1),
        `${row.storedBits.toFixed(2)}, ${row.wireBits.toFixed(2)}`,
        row.cpuNsPerPacket.toFixed(0),
        ...classesOf(race, i).map((c) =>
          c.median === null
            ? "–"
            : `${percent(c.median)}, ${row.meanForAll || c.withinInterval === null ? "–" : percent(c.withinInterval)}, ${percent(c.answered / c.flows)}`,
        ),
      ]),
    ),
  };
}

const MARKS =
  "Medians are of the flows that are answered; a share in brackets is what that is. A plus: given each packet's delay. A star: no size of it is within the memory.";

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
    why: `Flows of 100 to 999 packets, at the largest memory. Flows of a store of packets are asked for packet by packet. An estimator that answers for the segment alone gives every flow the mean of all. ${MARKS} The table is of the first kind of delay, by memory.`,
    table: table(entryAt(races, 0)),
    figures: names.map(
      (name, i): Figure => ({
        title: `Median error of flows of 100 to 999 packets: ${name}`,
        x: { label: "bits per packet on the wire", scale: "log" },
        y: { label: "relative error", scale: "log", quantity: "share" },
        series: perEstimator(entryAt(races, i), bitsAt, errorOf),
      }),
    ),
    thresholds: [],
  };
}

/** Returns the smallest coverage of each estimator over the memories. */
function worstInside(races: readonly Race[]): { estimator: string; inside: number }[] {
  return entryAt(races, 0).rows.flatMap(({ estimator }, row) => {
    const shares = races.flatMap((race) => insideOf(race, row) ?? []);
    return shares.length === 0 ? [] : [{ estimator, inside: Math.min(...shares) }];
  });
}

function calibrationText(name: string, races: readonly Race[]): string {
  const found = worstInside(races);
  const kept = found.filter((f) => f.inside >= CALIBRATED).map((f) => f.estimator);
  const narrow = found.filter((f) => f.inside < CALIBRATED).map((f) => `${f.estimator} ${percent(f.inside)}`);
  const held = kept.length === 0 ? "none holds" : `${kept.join(", ")} hold`;
  return `${name}: ${held}${narrow.length === 0 ? "" : `; too narrow: ${narrow.join(", ")}`}`;
}

function calibrationFinding(
  setting: string,
  names: readonly string[],
  races: readonly (readonly Race[])[],
): FindingBody {
  return {
    setting,
    literal: null,
    ours: names.map((name, i) => calibrationText(name, entryAt(races, i))).join(". "),
    verdict: "measured",
    why: `Flows of 100 to 999 packets, the smallest share over the memories; ${percent(CALIBRATED)} counts as held. Interpolation between references cannot know that neighbours in time are delayed differently, and nothing in the stream shows it. ${MARKS} The table is of the second kind of delay, by memory.`,
    table: table(entryAt(races, 1)),
    figures: names.map((name, i): Figure => {
      const series = perEstimator(entryAt(races, i), bitsAt, insideOf);
      const xs = series.flatMap((s) => s.points.map((p) => p.x));
      const promised = [Math.min(...xs), Math.max(...xs)].map((x) => ({ x, y: 0.95 }));
      return {
        title: `95 % intervals that contain the truth: ${name}`,
        x: { label: "bits per packet on the wire", scale: "log" },
        y: { label: "flows inside", quantity: "share", range: [0, 1] },
        series: [...series, { name: "promised", claimed: true, points: promised }],
      };
    }),
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
    table: {
      columns: ["estimator", "CPU, ns", ...names.map((name) => `median error: ${name}`)],
      rows: last.rows.map((row, i) => [
        row.estimator,
        row.cpuNsPerPacket.toFixed(0),
        ...races.map((list) => {
          const error = errorOf(entryAt(list, -1), i);
          return error === null ? "–" : percent(error);
        }),
      ]),
    },
    figures: names.map(
      (name, i): Figure => ({
        title: `Error against CPU per packet: ${name}`,
        x: { label: "ns per packet and tap", scale: "log" },
        y: { label: "relative error, 100–999 packets", scale: "log", quantity: "share" },
        series: perEstimator(
          [entryAt(entryAt(races, i), -1)],
          (race, row) => Math.max(0.1, entryAt(race.rows, row).cpuNsPerPacket),
          errorOf,
        ).map((one) => ({ ...one, kind: "marks" as const })),
      }),
    ),
    thresholds: [],
  };
}

export const beyondStudies: readonly Study[] = [all];
