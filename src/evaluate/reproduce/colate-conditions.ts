/** COLATE with packet loss (section 1.4) and behind a queue: how many vectors still agree, and what agreeing cells contribute. */
import { entryAt } from "../../base/lists.ts";
import { colate } from "../../estimators/colate/colate.ts";
import { LOSSY_VECTORS } from "../../estimators/colate/parameters.ts";
import type { Estimator } from "../../estimators/estimator.ts";
import { parseParameters } from "../../estimators/parameters.ts";
import { independentFlows, referenceQueue } from "../../simulate/presets.ts";
import type { Scenario } from "../../simulate/scenario.ts";
import { askFlows, COLATE_SEED } from "../colate-experiments.ts";
import { type ClassScore, runFlows, scoreFlows } from "../flow-runs.ts";
import { average, count, percent, percents } from "./numbers.ts";
import { repeat, type Study, type StudyContext, type Threshold } from "./study.ts";

const CLASSES = [
  [100, 999],
  [1000, 9999],
] as const;

interface Condition {
  readonly name: string;
  readonly loss: number;
  readonly vectors: "one" | "four";
  /** Behind a queue, a flow's error depends on the bursts that it meets, so one trace is not enough. */
  readonly traces: number;
  /**
   * Maximum median error of the two classes of flows. The reference simulation gave 7.9 / 1.4 % and 16 / 6.9 % with loss; these limits are above it by the same
   * factor as those without loss (colate-6). Behind a queue it gave up to 34 / 3.2 %.
   */
  readonly limits: readonly [number, number];
}

const CONDITIONS: readonly Condition[] = [
  {
    ...{ name: "0.1 % loss", loss: 0.001, vectors: "four", traces: 1 },
    limits: [0.108, 0.025],
  },
  {
    ...{ name: "1 % loss", loss: 0.01, vectors: "four", traces: 1 },
    limits: [0.22, 0.12],
  },
  {
    ...{ name: "queue, 88 %", loss: 0, vectors: "one", traces: 2 },
    limits: [0.34, 0.032],
  },
];

function scenarioOf({ loss }: Condition, seed: number, durationS: number): Scenario {
  const options = { seed, traffic: { durationS } };
  if (loss === 0) return referenceQueue(0.88, options);
  return independentFlows({ ...options, loss: { kind: "loss", model: "uniform", probability: loss } });
}

interface Found {
  readonly packets: number;
  readonly scores: readonly ClassScore[];
}

async function runOne(
  { kernels, seed, scale }: StudyContext,
  condition: Condition,
  trace: number,
): Promise<Found> {
  const durationS = scale === "full" ? 10 : 4;
  // The same number of packets per counter as with 65,536 counters in ten seconds.
  const n = Math.round((65_536 * durationS) / 10);
  const text =
    condition.vectors === "four" ? `n=${n},m=2` : `n=${n},m=2,vectors=1,check=0,b=26,unit=256,delay=1e6`;
  const scenario = scenarioOf(condition, seed + 1_000_003 * trace, durationS);
  const run = await runFlows(kernels, scenario, [
    {
      estimator: colate as Estimator,
      parameters: parseParameters(colate, text),
      seed: COLATE_SEED,
    },
  ]);
  const packets = run.flows.packets.reduce((a, b) => a + b, 0);
  return { packets, scores: scoreFlows(run, askFlows(colate, text, run, 0, run.flows), CLASSES) };
}

/** Returns the share of packets in vectors without any loss: the only usable ones if whole vectors have to agree. */
function keptByVectors(loss: number, packets: number): number {
  const shares = LOSSY_VECTORS.map((v) => v / LOSSY_VECTORS.reduce((a, b) => a + b, 0));
  return shares.reduce((sum, share) => sum + share * (1 - loss) ** (share * packets), 0);
}

export const colateConditions: Study = {
  name: "colate-conditions",
  paper: "colate",
  heads: [
    {
      id: "colate-loss",
      where: "section 1.4",
      title: "Lost packets, and delays of a queue",
      claim:
        "losses are handled as in LDA: several vectors that sample, of which the largest whose packet counts agree at both ends is used",
    },
  ],
  async run(context) {
    const jobs = CONDITIONS.flatMap((condition) =>
      Array.from({ length: condition.traces }, (_, trace) => ({ condition, trace })),
    );
    const all = await repeat(context, jobs.length, (i) => {
      const { condition, trace } = entryAt(jobs, i);
      return runOne(context, condition, trace);
    });
    const found = CONDITIONS.map((condition) => all.filter((_, i) => jobs[i]?.condition === condition));
    const median = (c: number, size: number) =>
      average(entryAt(found, c).map(({ scores }) => entryAt(scores, size).median));
    const answered = (c: number, size: number) =>
      average(
        entryAt(found, c).map(
          ({ scores }) => entryAt(scores, size).answered / Math.max(1, entryAt(scores, size).flows),
        ),
      );
    const packets = entryAt(entryAt(found, 0), 0).packets;
    const lossy = CONDITIONS.filter(({ loss }) => loss > 0);
    const kept = lossy.map(({ loss }) => keptByVectors(loss, packets));
    const level = (c: number, size: number): Threshold => ({
      what: `flows of ${size === 0 ? "100–999" : "1,000–9,999"} packets, median, ${entryAt(CONDITIONS, c).name}`,
      value: median(c, size),
      limit: entryAt(entryAt(CONDITIONS, c).limits, size),
      ...{ sense: "at most", quantity: "share" },
    });
    return {
      "colate-loss": {
        setting: `${count(packets)} packets of the reference traffic, all flows known; with loss: each flow with a latency of its own, four vectors that hold ${LOSSY_VECTORS.map((v) => percent(v)).join(", ")} of the packets`,
        literal: `vectors without a lost packet hold ${percents(kept)} of the packets at ${lossy.map(({ name }) => name).join(" and ")}`,
        ours: CONDITIONS.map(
          ({ name }, c) =>
            `${name}: flows of hundreds of packets ${percent(median(c, 0))}, of thousands ${percent(median(c, 1))}`,
        ).join("; "),
        verdict: Math.max(...kept) > 0.005 ? "holds for a class" : "does not hold",
        why: `The smallest vector still has ${count(Math.round(0.01 * packets))} packets, and one that is lost spoils all of it. Compared cell by cell most agree, and what is lost is lost for few flows. Behind a queue errors follow the bursts that a flow meets: the reference simulation gave 8–34 % and 0.8–3.2 % with three seeds.`,
        table: {
          columns: ["", "100–999 packets: median, answered", "1,000–9,999", "whole vectors keep"],
          rows: CONDITIONS.map(({ name, loss }, c) => [
            name,
            ...[0, 1].map((size) => percents([median(c, size), answered(c, size)])),
            loss === 0 ? "100 %" : percent(keptByVectors(loss, packets)),
          ]),
        },
        figures: [],
        thresholds: CONDITIONS.flatMap((_, c) => [level(c, 0), level(c, 1)]),
      },
    };
  },
};
