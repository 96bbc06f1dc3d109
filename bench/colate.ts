/**
 * COLATE against the truth, on the reference traffic (10 s, 400 kpps, heavy-tailed flows): the rows of docs/estimators/colate.md.
 *
 *   node scripts/bench.mjs colate [accuracy] [seeds] [partial] [literal] [triangle] [calibration] [router]    all where none is named
 *
 * accuracy: errors of flows by size, what intervals hold, bits per packet of a record on disk; with the flows known, no loss and loss, through a queue.
 * seeds:    the same geometry over seeds 11 to 15, which nothing was chosen by.
 * partial:  only the flows of 10 packets and more, or 100 and more, are known.
 * literal:  the method as published, on the same packets.
 * triangle: three points that all send to each other (section 6.2), told apart and not.
 * calibration: how often 95 % intervals hold over twenty seeds, the default geometry.
 * router:   a real router with 5 % loss (HOPTIME_SHARED), over seeds and counters per flow.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Kernels } from "../src/base/kernels.ts";
import { median } from "../src/base/math/regression.ts";
import type { EstimateReport } from "../src/compare/estimate-report.ts";
import { compareWithEstimates } from "../src/compare/estimates.ts";
import { encodeRecord } from "../src/epoch/record.ts";
import { colate } from "../src/estimators/colate/colate.ts";
import type { Estimator, EstimatorAnswer, KnownFlows } from "../src/estimators/estimator.ts";
import { isNoAnswer } from "../src/estimators/estimator.ts";
import { colateLiteral } from "../src/estimators/lab/colate-literal/literal.ts";
import { parseParameters } from "../src/estimators/parameters.ts";
import { runTriangle } from "../src/evaluate/colate-triangle.ts";
import { type FlowRun, runFlows, scoreFlows } from "../src/evaluate/flow-runs.ts";
import { independentFlows, referenceQueue } from "../src/simulate/presets.ts";
import type { Scenario } from "../src/simulate/scenario.ts";
import { numberedRecord } from "../tests/support/numbered-record.ts";

const parts = process.argv.slice(2);
const wants = (part: string) => parts.length === 0 || parts.includes(part);
const kernels = new Kernels();
const SEED = 7n;
const percent = (x: number, digits = 2) => (Number.isNaN(x) ? "–" : `${(100 * x).toFixed(digits)} %`);

function ask(
  estimator: Estimator,
  text: string,
  run: FlowRun,
  i: number,
  flows: KnownFlows,
): EstimatorAnswer {
  const parameters = parseParameters(estimator, text);
  const sealed = run.sealed[i]!;
  return estimator.estimate({ parameters, seed: SEED, ...sealed, flows, confidence: 0.95, epochNs: 1e10 });
}

/** Of the sender's record as the archive would write it. */
function bitsOnDisk(run: FlowRun, i: number): number {
  const { payload, packets } = run.sealed[i]!.sender;
  const record = numberedRecord(1);
  const counters = { ...record.counters, packets };
  return (8 * encodeRecord({ ...record, estimator: "colate", payload, counters }).length) / packets;
}

async function accuracy(name: string, scenario: Scenario, texts: readonly string[]): Promise<void> {
  const pairs = texts.map((text) => ({
    estimator: colate as Estimator,
    parameters: parseParameters(colate, text),
    seed: SEED,
  }));
  const run = await runFlows(kernels, scenario, pairs);
  for (const [i, text] of texts.entries()) {
    const answer = ask(colate, text, run, i, run.flows);
    const cells = scoreFlows(run, answer, [
      [100, 999],
      [1000, 9999],
      [10_000, Number.POSITIVE_INFINITY],
    ]).map((s) =>
      `${percent(s.median)} / ${percent(s.within5, 0)} / ${percent(s.inInterval, 0)}${s.answered < s.flows ? ` (${s.answered} of ${s.flows})` : ""}`.padEnd(
        36,
      ),
    );
    console.log(
      `${name.padEnd(22)} ${text.replace(BITS, "").padEnd(24)} ${bitsOnDisk(run, i).toFixed(2)}  ${cells.join(" ")}`,
    );
  }
}

/** 26 bits of 256 ns: 8.6 s of delays in a counter. */
const BITS = ",check=0,b=26,unit=256,delay=1e6";

if (wants("accuracy")) {
  console.log(
    "median error / within 5 % / in the 95 % interval, by packets of the flow; bit: of a record on disk, per packet",
  );
  console.log(
    `${"traffic".padEnd(22)} ${"parameters".padEnd(24)} bit   ${["100-999", "1k-10k", ">= 10k"].map((t) => t.padEnd(36)).join(" ")}`,
  );
  const one = [16_384, 65_536, 262_144].map((n) => `n=${n},m=2,vectors=1${BITS}`);
  await accuracy("independent", independentFlows(), [...one, `n=65536,m=2${BITS}`]);
  for (const seed of [1, 2, 3])
    await accuracy(`queue 88 %, seed ${seed}`, referenceQueue(0.88, { seed }), [one[1]!]);
  for (const probability of [0.001, 0.01]) {
    const loss = { kind: "loss", model: "uniform", probability } as const;
    await accuracy(`loss ${100 * probability} %`, independentFlows({ loss }), [
      `n=65536,m=2${BITS}`,
      `n=65536,m=8${BITS}`,
    ]);
  }
}

if (wants("seeds")) {
  console.log("\nother seeds, 65,536 counters, m = 2, one vector");
  for (const seed of [11, 12, 13, 14, 15]) {
    await accuracy(`independent, seed ${seed}`, independentFlows({ seed }), [`n=65536,m=2,vectors=1${BITS}`]);
  }
}

if (wants("partial")) {
  console.log(
    "\npart of the flows known, 65,536 counters, m = 2, one vector: median error / in the 95 % interval, 1k-10k packets",
  );
  for (const [name, scenario] of [
    ["independent", independentFlows({ seed: 11 })],
    ["queue 88 %", referenceQueue(0.88, { seed: 11 })],
  ] as const) {
    const text = "n=65536,m=2,vectors=1";
    const parameters = parseParameters(colate, text);
    const run = await runFlows(kernels, scenario, [
      { estimator: colate as Estimator, parameters, seed: SEED },
    ]);
    for (const minimum of [10, 100]) {
      const ids = [...run.flows.packets.keys()].filter((f) => run.flows.packets[f]! >= minimum);
      const cells = ["blup", "quick"].map((decoder) => {
        const answer = ask(colate, `${text},decoder=${decoder}`, run, 0, pick(run, ids));
        const flows = answer.flows.map((f) => ({ ...f, flow: ids[f.flow]! }));
        const score = scoreFlows(run, { ...answer, flows }, [[1000, 9999]])[0]!;
        return `${decoder} ${percent(score.median)} / ${percent(score.inInterval, 0)}`;
      });
      console.log(`${name.padEnd(14)} flows >= ${minimum} packets: ${cells.join(", ")}`);
    }
  }
}

if (wants("literal")) {
  console.log(
    "\nthe method as published, 65,536 counters, flows of 1,000 to 10,000 packets: median error of the mean, of the deviation",
  );
  for (const [name, scenario] of [
    ["independent", independentFlows()],
    ["queue 70 %", referenceQueue(0.7)],
    ["queue 88 %", referenceQueue(0.88)],
  ] as const) {
    const literal = "n=65536,m=20,unit=1024";
    const ours = "n=65536,m=2,vectors=1";
    const run = await runFlows(kernels, scenario, [
      { estimator: colateLiteral, parameters: parseParameters(colateLiteral, literal), seed: SEED },
      { estimator: colate, parameters: parseParameters(colate, ours), seed: SEED },
    ]);
    const ids = [...run.flows.packets.keys()].filter(
      (f) => run.flows.packets[f]! >= 1000 && run.flows.packets[f]! < 10_000,
    );
    const some = pick(run, ids);
    const asPublished = ask(colateLiteral, `${literal},repetitions=1000`, run, 0, some);
    const all = ask(colate, ours, run, 1, run.flows);
    const quick = ask(colate, `${ours},decoder=quick`, run, 1, some);
    const mean = (answer: EstimatorAnswer, list: readonly number[] | null) =>
      errors(answer, list, (f) => run.meanNs[f]!, "mean");
    const wanted = new Set(ids);
    const filtered = { ...all, flows: all.flows.filter((f) => wanted.has(f.flow)) };
    const inside = asPublished.flows.filter(({ flow, mean: m }) => {
      const truth = run.meanNs[ids[flow]!]!;
      return !isNoAnswer(m) && m.lowNs <= truth && truth <= m.highNs;
    }).length;
    const deviation = errors(asPublished, ids, (f) => run.stdevNs[f]!, "stdev");
    console.log(
      `${name.padEnd(14)} published: mean off by ${times(mean(asPublished, ids))}, deviation by ${times(deviation)}; ${percent(inside / ids.length, 0)} in its 95 % intervals`,
    );
    console.log(
      `${"".padEnd(14)} ours, one flow at a time: ${percent(mean(quick, ids))}; all flows together: ${percent(mean(filtered, null))}`,
    );
  }
}

if (wants("triangle")) {
  console.log(
    "\nthe triangle: 400 k packets from A to B, as many from A to C and from C to B; flows of 500 packets and more",
  );
  for (const [name, t] of Object.entries(await runTriangle(kernels, SEED))) {
    console.log(
      `${name.padEnd(38)} coverage ${percent(t.coverage, 1)}, answered ${percent(t.answered, 0)}, median error ${percent(t.median)}, ${t.memoryBytes >> 10} KiB kept and ${t.payloadBytes >> 10} KiB sent for two peers`,
    );
  }
}

if (wants("calibration")) {
  console.log(
    "\nthe default geometry in a tenth (n=6554, m=8, four vectors, 1 s), seeds 101 to 120: flows of 30 packets and more, exact mean in the 95 % interval",
  );
  const text = "n=6554";
  for (const [name, scenario] of [
    ["independent", (seed: number) => independentFlows({ seed, traffic: { durationS: 1 } })],
    ["queue 88 %", (seed: number) => referenceQueue(0.88, { seed, traffic: { durationS: 1 } })],
  ] as const) {
    const shares: number[] = [];
    let [held, answered] = [0, 0];
    for (let seed = 101; seed <= 120; seed++) {
      const parameters = parseParameters(colate, text);
      const run = await runFlows(kernels, scenario(seed), [
        { estimator: colate as Estimator, parameters, seed: SEED },
      ]);
      const score = scoreFlows(run, ask(colate, text, run, 0, run.flows), [
        [30, Number.POSITIVE_INFINITY],
      ])[0]!;
      shares.push(score.inInterval);
      held += Math.round(score.inInterval * score.answered);
      answered += score.answered;
    }
    console.log(
      `${name.padEnd(14)} ${percent(held / answered, 1)} of ${answered} answers; by seed ${percent(Math.min(...shares), 1)} to ${percent(Math.max(...shares), 1)}`,
    );
  }
}

if (wants("router")) {
  const folder = join(
    process.env["HOPTIME_SHARED"] ?? join(process.cwd(), "..", "shared"),
    "traces/twopoint/linux-router",
  );
  if (!existsSync(folder)) console.log(`\nrouter: ${folder} is not there (HOPTIME_SHARED)`);
  else {
    console.log(
      "\na router that lost 5 %, seeds 1000 to 1039: flows of 30 packets and more, and the six largest; exact means in the 95 % intervals, mean error, mean half width",
    );
    for (const text of ["", "m=2", "m=8", "m=16", "m=32", "m=64"]) await router(folder, text, 40);
  }
}

async function router(folder: string, text: string, seeds: number): Promise<void> {
  const captures = {
    before: join(folder, "router-busy-in.pcap.gz"),
    after: join(folder, "router-busy-out.pcap.gz"),
  };
  const groups = { all: newTally(), six: newTally() };
  let [whole, segment] = [0, 0];
  for (let seed = 1000; seed < 1000 + seeds; seed++) {
    const plan = { estimator: colate as Estimator, parameters: parseParameters(colate, text) };
    const plans = [text === "" ? { ...plan, given: new Set<string>() } : plan];
    const report = await compareWithEstimates({ ...captures, seed: BigInt(seed) }, { plans });
    const estimate = report.estimates!["colate"] as EstimateReport;
    const sorted = [...estimate.flows!].sort((x, y) => y.packets! - x.packets!);
    const large = sorted.filter((f) => f.packets! >= 30 && f.exactMeanNs !== null);
    for (const f of large) count(groups.all, f);
    const before = groups.six.held;
    for (const f of large.slice(0, 6)) count(groups.six, f);
    if (groups.six.held === before + 6) whole++;
    const exact = estimate.exactMeanNs!;
    if (estimate.lowNs! <= exact && exact <= estimate.highNs!) segment++;
  }
  const tell = ({ asked, answered, held, error, half }: Tally) =>
    `${held} of ${answered} answered (of ${asked}), ${percent(held / answered, 1)}, error ${percent(error / answered)}, half ${percent(half / answered)}`;
  console.log(
    `${(text || "default").padEnd(8)} all: ${tell(groups.all)}; six: ${tell(groups.six)}; all six at ${whole} of ${seeds} seeds; the segment's mean at ${segment}`,
  );
}

interface Tally {
  asked: number;
  answered: number;
  held: number;
  error: number;
  half: number;
}

function newTally(): Tally {
  return { asked: 0, answered: 0, held: 0, error: 0, half: 0 };
}

function count(
  tally: Tally,
  f: { meanNs: number | null; lowNs: number | null; highNs: number | null; exactMeanNs: number | null },
): void {
  tally.asked++;
  if (f.meanNs === null) return;
  const exact = f.exactMeanNs!;
  tally.answered++;
  tally.error += Math.abs(f.meanNs / exact - 1);
  tally.half += (f.highNs! - f.lowNs!) / 2 / exact;
  if (f.lowNs! <= exact && exact <= f.highNs!) tally.held++;
}

/** Some of the flows, as a list that leaves the others out. */
function pick(run: FlowRun, ids: readonly number[]): KnownFlows {
  return {
    count: ids.length,
    hash: Uint32Array.from(ids.flatMap((f) => [run.flows.hash[2 * f]!, run.flows.hash[2 * f + 1]!])),
    packets: Float64Array.from(ids, (f) => run.flows.packets[f]!),
    bytes: new Float64Array(ids.length),
    keyWords: new Uint32Array(10 * ids.length),
    complete: false,
  };
}

function times(x: number): string {
  return `${x.toPrecision(2)} times`;
}

function errors(
  answer: EstimatorAnswer,
  ids: readonly number[] | null,
  truth: (f: number) => number,
  what: "mean" | "stdev",
): number {
  const list = answer.flows.map((f) => {
    const value = f[what];
    return isNoAnswer(value) ? Infinity : Math.abs(value.valueNs / truth(ids ? ids[f.flow]! : f.flow) - 1);
  });
  return median(list) ?? Number.NaN;
}
