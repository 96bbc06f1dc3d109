/** MAPLE, sections 3.4 and 5: dimensions, centres, stores, questions, and RLI beside it. */
import { entryAt } from "../../base/lists.ts";
import { Random } from "../../base/random.ts";
import { histogramOf } from "../../estimators/maple/cell-table.ts";
import { type Centres, centreOf } from "../../estimators/maple/centres/centres.ts";
import { epochCentres } from "../../estimators/maple/centres/epoch-centres.ts";
import { CentrePipeline, type Strategy } from "../../estimators/maple/centres/pipeline.ts";
import { distribution } from "../../present/figure/figure.ts";
import { ask, fill, groupErrors } from "../maple-questions.ts";
import { absoluteErrors, PLAIN_STORE, STORE_COLUMNS, storeAccuracy } from "../maple-stores.ts";
import { mean, quantile, referenceTrace, type Trace, type TraceEpoch } from "../reference-trace.ts";
import { count, percent, percents } from "./numbers.ts";
import type { FindingBody, Study, StudyContext, Threshold } from "./study.ts";

const K = 50;
const BITS = 12.8;
const SVBF = { ...PLAIN_STORE, kind: "svbf", hashes: 9 } as const;
const COMB = { ...PLAIN_STORE, kind: "comb", hashes: 3, f: 8, theta: 3 } as const;
const PBF = { ...PLAIN_STORE, kind: "pbf", hashes: 9 } as const;

function traceOf({ kernels, scale, seed }: StudyContext): Promise<Trace> {
  return referenceTrace(kernels, { seed, seconds: scale === "full" ? 10 : 4 });
}

function traceText(trace: Trace): string {
  return `${trace.epochs.length} epochs of 1 s at 400,000 packets/s, 88 % utilisation, k = ${K}, 12.8 bits per packet; centres from two epochs before`;
}

const stores: Study = {
  name: "maple-stores",
  paper: "maple",
  heads: [
    {
      id: "maple-6",
      where: "fig. 6",
      title: "Failures and errors of the stores",
      claim:
        "SVBF and PBF fail for at most 10 % of the packets, COMB for 50 %; PBF leaves out 24 %; false classification of COMB is 12 times that of SVBF (2 %)",
    },
    {
      id: "maple-8a",
      where: "fig. 8(a)",
      title: "Errors of packets, flows, hosts, prefixes and sub-flows",
      claim: "median 5.5 / 3.9 / 3.6 / 2.1 / 1.9 %",
    },
    {
      id: "maple-8c",
      where: "fig. 8(c)",
      title: "Epochs that were asked by mistake",
      claim:
        "p95 of the absolute error grows from 70 to 89 and 125 µs with one and two wrong epochs; p75 from 10.7 to 12.2 µs",
    },
  ],
  async run(context) {
    const trace = await traceOf(context);
    context.onProgress?.(0.4);
    const rows = storeAccuracy(context.kernels, trace);
    const setting = traceText(trace);
    const of = (name: string) => {
      const found = rows.get(name);
      if (!found) throw new Error(`there is no store '${name}'`);
      return (column: (typeof STORE_COLUMNS)[number]) => entryAt(found, STORE_COLUMNS.indexOf(column)) / 100;
    };
    return {
      "maple-6": storesFinding(setting, rows, of),
      "maple-8a": aggregatesFinding(setting, of),
      "maple-8c": wrongEpochsFinding(setting, rows),
    };
  },
};

type StoreOf = (name: string) => (column: (typeof STORE_COLUMNS)[number]) => number;
const OURS = "mixed k = 64, 0.905 bits fewer, size-aware";

function storesFinding(setting: string, rows: ReadonlyMap<string, number[]>, of: StoreOf): FindingBody {
  const [svbf, comb, pbf] = ["svbf", "comb", "pbf"].map((kind) => of(`${kind}, hybrid centres`)) as [
    ReturnType<StoreOf>,
    ReturnType<StoreOf>,
    ReturnType<StoreOf>,
  ];
  const ribbon = of("ribbon k = 64 in 6 bits");
  const bits = (rows.get(OURS) ?? [])[0] ?? Number.NaN;
  const holds = svbf("failure %") < 0.11 && comb("failure %") > 0.45;
  const limit = (what: string, value: number, limit: number, sense: "at most" | "at least"): Threshold => ({
    ...{ what, value, limit, sense },
    quantity: "share",
  });
  return {
    setting,
    literal: `failure SVBF ${percent(svbf("failure %"))}, COMB ${percent(comb("failure %"))}, PBF ${percent(pbf("failure %"))}; false ${percents([svbf("false %"), comb("false %"), pbf("false %")])}; a packet is off by ${percent(svbf("packet median %"))} (SVBF, median)`,
    ours: `ribbons never fail: ${percent(ribbon("packet median %"))} with 6.2 bits; mixed ribbons ${percent(of(OURS)("packet median %"))} with ${bits.toFixed(2)} bits`,
    verdict: holds ? "holds" : "does not hold",
    why: "As claimed for the paper's structures, but PBF leaves out what differs between two epochs, which depends on the traffic. Retrieval built at the end of the epoch needs half of the bits and is never wrong.",
    table: {
      columns: ["store", ...STORE_COLUMNS],
      rows: [...rows]
        .filter(([name]) => !name.startsWith("  "))
        .map(([name, values]) => [name, ...values.map((v) => v.toFixed(2))]),
    },
    figures: [
      {
        title: "Packets: median error against bits per packet",
        x: { label: "bits per packet" },
        y: { label: "median relative error", scale: "log", quantity: "share" },
        series: [...rows]
          .filter(([name]) => !name.startsWith("  "))
          .map(([name, values]) => ({
            name: name.replace(" centres", "").replace("0.905 bits fewer, ", ""),
            kind: "marks" as const,
            points: [{ x: entryAt(values, 0), y: entryAt(values, 3) / 100 }],
          })),
      },
    ],
    thresholds: [
      limit("SVBF failure", svbf("failure %"), 0.11, "at most"),
      limit("SVBF failure", svbf("failure %"), 0.09, "at least"),
      limit("SVBF false classification", svbf("false %"), 0.04, "at most"),
      limit("SVBF packets, median", svbf("packet median %"), 0.06, "at most"),
      limit("SVBF flows, median", svbf("flow %"), 0.045, "at most"),
      limit("COMB failure", comb("failure %"), 0.51, "at most"),
      limit("COMB failure", comb("failure %"), 0.49, "at least"),
      limit("ribbon failure", ribbon("failure %") + ribbon("false %"), 0, "at most"),
      limit("ribbon k = 64, packets, median", ribbon("packet median %"), 0.03, "at most"),
      {
        what: "ribbon, bits per stored bit",
        value: ((rows.get("ribbon k = 64 in 6 bits") ?? [])[0] ?? Number.NaN) / 6,
        limit: 1.04,
        sense: "at most",
        quantity: "plain",
      },
    ],
  };
}

const LEVELS = [
  { name: "packet", column: "packet median %", claimed: 0.055 },
  { name: "flow", column: "flow %", claimed: 0.039 },
  { name: "host", column: "host %", claimed: 0.036 },
  { name: "prefix/16", column: "prefix %", claimed: 0.021 },
  { name: "sub-flow", column: "sub-flow %", claimed: 0.019 },
] as const;

function aggregatesFinding(setting: string, of: StoreOf): FindingBody {
  const svbf = LEVELS.map((l) => of("svbf, hybrid centres")(l.column));
  const ours = LEVELS.map((l) => of(OURS)(l.column));
  const holds = LEVELS.every((l, i) => entryAt(svbf, i) < 1.5 * l.claimed);
  return {
    setting,
    literal: percents(svbf),
    ours: `${percents(ours)} (mixed ribbons, 5.2 bits per packet)`,
    verdict: holds ? "holds" : "does not hold",
    why: "Errors of packets cancel in what is made of them.",
    table: {
      columns: ["of", "paper", "SVBF", "ours"],
      rows: LEVELS.map((l, i) => [
        l.name,
        percent(l.claimed),
        percent(entryAt(svbf, i)),
        percent(entryAt(ours, i)),
      ]),
    },
    figures: [
      {
        title: "Median error by level",
        x: { label: "level", names: LEVELS.map((l) => l.name) },
        y: { label: "relative error", quantity: "share" },
        series: [
          { name: "SVBF", points: svbf.map((y, x) => ({ x, y })) },
          { name: "ours", points: ours.map((y, x) => ({ x, y })) },
          { name: "claimed", claimed: true, points: LEVELS.map((l, x) => ({ x, y: l.claimed })) },
        ],
      },
    ],
    thresholds: [],
  };
}

function wrongEpochsFinding(setting: string, rows: ReadonlyMap<string, number[]>): FindingBody {
  const found = [0, 1, 2].flatMap((wrong) => {
    const values = rows.get(`  ${wrong} wrong epochs (p50, p75, p95 us)`);
    return values ? [{ wrong, values }] : [];
  });
  const p95 = found.map(({ values }) => entryAt(values, 2));
  const grows = p95.every((v, i) => i === 0 || v >= entryAt(p95, i - 1));
  return {
    setting,
    literal: `p95 ${p95.map((v) => v.toFixed(0)).join(", ")} µs, p75 ${found.map(({ values }) => entryAt(values, 1).toFixed(1)).join(", ")} µs with ${found.map((f) => f.wrong).join(", ")} wrong epochs`,
    ours: "a store with masked codes answers for a foreign packet with a probability that is set, not 10 %",
    verdict: grows ? "holds" : "does not hold",
    why: "The error grows with every epoch that is asked in vain, slowly below the 75th percentile. Its level follows the queue's.",
    table: {
      columns: ["wrong epochs", "p50, µs", "p75, µs", "p95, µs"],
      rows: found.map(({ wrong, values }) => [String(wrong), ...values.map((v) => v.toFixed(1))]),
    },
    figures: [],
    thresholds: [],
  };
}

/** h >= -log2(1 - (1 - p)^(1/(k - 1))), load <= log 2 / h. */
export function svbfHashes(k: number, failure: number): number {
  return -Math.log2(1 - (1 - failure) ** (1 / (k - 1)));
}

const centres: Study = {
  name: "maple-centres",
  paper: "maple",
  heads: [
    {
      id: "maple-4",
      where: "fig. 4 and tables 1–2",
      title: "Dimensions of SVBF",
      claim:
        "k = 50 and 10 % failure need 9 hash functions and 12.8 bits per packet; COMB 24.2 bits (f = 8, θ = 3), a hash table 147",
    },
    {
      id: "maple-5",
      where: "fig. 5(a)",
      title: "Centres: logarithmic, k-medians, hybrid, oracle",
      claim:
        "k-medians twice as accurate as logarithmic centres at the 90th percentile; hybrid has the better of both",
    },
    {
      id: "maple-7",
      where: "fig. 7",
      title: "Time of insert and lookup",
      claim: "SVBF inserts 45 % and looks up 28 % faster than COMB; PBF looks up four times slower",
    },
    {
      id: "maple-9",
      where: "fig. 9",
      title: "Flows: MAPLE, RLI, and MAPLE fed by RLI",
      claim: "MAPLE is far ahead of RLI; storing what RLI estimates costs little more (p95 76 to 102 µs)",
    },
  ],
  async run(context) {
    const trace = await traceOf(context);
    context.onProgress?.(0.5);
    const learnt = learn(trace, "hybrid");
    const setting = traceText(trace);
    return {
      "maple-4": dimensions(context, learnt, setting),
      "maple-5": centresFinding(context, trace, setting),
      "maple-7": timesFinding(context, learnt, setting),
      "maple-9": besideRli(context, entryAt(learnt, 0).epoch, setting),
    };
  },
};

/** The epochs that have centres two epochs behind, with those. */
function learn(trace: Trace, strategy: Strategy): { epoch: TraceEpoch; centres: Centres }[] {
  const pipeline = new CentrePipeline({ strategy, k: K, random: new Random(7) });
  return trace.epochs.flatMap((epoch, i) => {
    const current = pipeline.current;
    pipeline.observe(epoch.delayNs);
    pipeline.endEpoch();
    return i >= 2 ? [{ epoch, centres: current }] : [];
  });
}

function ownCentres(
  { kernels }: StudyContext,
  delays: Float64Array,
  k: number,
  scale: "log" | "absolute",
): Centres {
  const at = kernels.alloc(8 * delays.length);
  try {
    kernels.f64.set(delays, at >>> 3);
    const options = scale === "log" ? { scale, s0Ns: 200 } : { scale };
    return epochCentres(histogramOf(kernels, at, delays.length), k, options);
  } finally {
    kernels.free(at);
  }
}

function dimensions(
  { kernels }: StudyContext,
  learnt: readonly { epoch: TraceEpoch; centres: Centres }[],
  setting: string,
): FindingBody {
  const { epoch, centres: own } = entryAt(learnt, 0);
  const loads = [8, 10, BITS, 16, 20];
  const failures = loads.map((bits) => {
    const hashes = Math.max(1, Math.round(bits * Math.LN2));
    const filled = fill(kernels, epoch, own, { ...SVBF, hashes }, bits);
    const { failure } = ask(kernels, filled);
    filled.free();
    return { bits, hashes, failure };
  });
  const needed = svbfHashes(K, 0.1);
  const measured = failures.find((f) => f.bits === BITS)?.failure ?? Number.NaN;
  const groups = [10, 20, 50, 100, 200, 500];
  return {
    setting,
    literal: `${needed.toFixed(2)} hash functions by the formula, ${(needed / Math.LN2).toFixed(1)} bits per packet; measured failure with 9 and 12.8: ${percent(measured)}`,
    ours: `a ribbon of the same 50 centres takes ${(6 * 1.032).toFixed(2)} bits per packet at no failure`,
    verdict: Math.abs(measured - 0.1) < 0.015 ? "holds" : "does not hold",
    why: "The formula is right. COMB needs θ bits for what SVBF does with one.",
    table: {
      columns: ["bits per packet", "hash functions", "failure"],
      rows: failures.map((f) => [f.bits.toFixed(1), String(f.hashes), percent(f.failure)]),
    },
    figures: [
      {
        title: "SVBF: hash functions needed",
        x: { label: "delay groups k", scale: "log" },
        y: { label: "hash functions" },
        series: [0.1, 1e-5].map((failure) => ({
          name: `failure ${failure === 0.1 ? "10 %" : "0.001 %"}`,
          points: groups.map((x) => ({ x, y: svbfHashes(x, failure) })),
        })),
      },
      {
        title: "SVBF: failure measured",
        x: { label: "bits per packet" },
        y: { label: "failure", scale: "log", quantity: "share" },
        series: [{ name: "k = 50", points: failures.map((f) => ({ x: f.bits, y: f.failure })) }],
      },
    ],
    thresholds: [],
  };
}

function centresFinding(context: StudyContext, trace: Trace, setting: string): FindingBody {
  const last = entryAt(trace.epochs, trace.epochs.length - 1);
  const errorsWith = (own: Centres) =>
    Float64Array.from(last.delayNs, (d) => Math.abs(d - own.valuesNs[centreOf(own, d)]!));
  const named = [
    ...(["log", "kmedians", "hybrid"] as const).map((strategy) => ({
      name: strategy === "kmedians" ? "k-medians" : strategy === "log" ? "logarithmic" : "hybrid",
      errors: errorsWith(entryAt(learn(trace, strategy), -1).centres),
    })),
    { name: "oracle", errors: errorsWith(ownCentres(context, last.delayNs, K, "absolute")) },
  ];
  const p90 = named.map(({ errors }) => quantile(errors, 0.9));
  const means = named.map(({ errors }) => mean(errors));
  const ahead = entryAt(p90, 1) < entryAt(p90, 0);
  return {
    setting: `${setting}; the last epoch`,
    literal: `p90 of the absolute error: logarithmic ${(entryAt(p90, 0) / 1e3).toFixed(0)}, k-medians ${(entryAt(p90, 1) / 1e3).toFixed(0)}, hybrid ${(entryAt(p90, 2) / 1e3).toFixed(0)} µs`,
    ours: `centres of the epoch's own distribution (oracle): ${(entryAt(p90, 3) / 1e3).toFixed(0)} µs; a store built at the end of the epoch can have them`,
    verdict: ahead ? "holds" : "holds for a class",
    why: ahead
      ? "As claimed where the traffic is steady."
      : "k-medians of two epochs before are worse where congestion comes that was not there; hybrid centres are not.",
    table: {
      columns: ["centres", "mean, µs", "p50, µs", "p90, µs", "p99, µs"],
      rows: named.map(({ name, errors }, i) => [
        name,
        ...[entryAt(means, i), ...[0.5, 0.9, 0.99].map((q) => quantile(errors, q))].map((v) =>
          (v / 1e3).toFixed(1),
        ),
      ]),
    },
    figures: [
      {
        title: "Error of a packet by its centre alone",
        x: { label: "absolute error", scale: "log", quantity: "time", range: [10, 1e7] },
        y: { label: "packets", quantity: "share", range: [0, 1] },
        series: named.map(({ name, errors }) =>
          distribution(
            name,
            errors.map((e) => Math.max(10, e)),
          ),
        ),
      },
    ],
    thresholds: [],
  };
}

function timesFinding(
  { kernels }: StudyContext,
  learnt: readonly { epoch: TraceEpoch; centres: Centres }[],
  setting: string,
): FindingBody {
  const { epoch, centres: own } = entryAt(learnt, 0);
  const timed = [SVBF, COMB, PBF, { ...PLAIN_STORE, kind: "ribbon", codeBits: 6 } as const].map(
    (geometry) => {
      const times = [1, 2, 3].map(() => {
        const start = process.cpuUsage();
        const filled = fill(kernels, epoch, own, geometry, geometry.kind === "ribbon" ? 0 : BITS);
        const insert = process.cpuUsage(start);
        const before = process.cpuUsage();
        ask(kernels, filled);
        const lookup = process.cpuUsage(before);
        filled.free();
        const per = ({ user, system }: NodeJS.CpuUsage) => (1e3 * (user + system)) / epoch.count;
        return { insert: per(insert), lookup: per(lookup) };
      });
      const best = (what: "insert" | "lookup") => Math.min(...times.map((t) => t[what]));
      return { name: geometry.kind, insert: best("insert"), lookup: best("lookup") };
    },
  );
  const of = (name: string) =>
    timed.find((t) => t.name === name) ?? { insert: Number.NaN, lookup: Number.NaN };
  const faster = of("svbf").insert < of("comb").insert && of("svbf").lookup < of("comb").lookup;
  return {
    setting: `${setting}; ${count(epoch.count)} packets, best of 3, CPU time`,
    literal: `insert / lookup in ns: ${timed.map((t) => `${t.name} ${t.insert.toFixed(0)} / ${t.lookup.toFixed(0)}`).join(", ")}`,
    ours: `ribbon ${of("ribbon").insert.toFixed(0)} / ${of("ribbon").lookup.toFixed(0)} ns, built at the end of the epoch`,
    verdict: faster ? "holds" : "holds for a class",
    why: faster
      ? "Fewer memory accesses, as table 1 counts them."
      : "Fewer memory accesses do not always win where the filter is in the cache.",
    table: {
      columns: ["store", "insert, ns", "lookup, ns"],
      rows: timed.map((t) => [t.name, t.insert.toFixed(0), t.lookup.toFixed(0)]),
    },
    figures: [],
    thresholds: [],
  };
}

/** One reference in 300 packets tells the true delay; the others are interpolated between those around them. */
function besideRli(context: StudyContext, epoch: TraceEpoch, setting: string): FindingBody {
  const every = 300;
  const interpolated = Float64Array.from({ length: epoch.count }, (_, i) => {
    const left = Math.floor(i / every) * every;
    const right = Math.min(epoch.count - 1, left + every);
    const share = right === left ? 0 : (i - left) / (right - left);
    return Math.round(epoch.delayNs[left]! * (1 - share) + epoch.delayNs[right]! * share);
  });
  const { kernels } = context;
  const stored = (delays: Float64Array) => {
    const own = ownCentres(context, delays, 64, "log");
    const filled = fill(kernels, epoch, own, { ...PLAIN_STORE, kind: "ribbon", codeBits: 6 }, 0, delays);
    const { estimateNs } = ask(kernels, filled);
    filled.free();
    return estimateNs;
  };
  const named = [
    { name: "MAPLE", estimates: stored(epoch.delayNs) },
    { name: "RLI", estimates: interpolated },
    { name: "MAPLE fed by RLI", estimates: stored(interpolated) },
  ].map(({ name, estimates }) => ({
    name,
    flows: groupErrors(epoch, estimates, (i) => epoch.flowHash[i]!),
    absolute: absoluteErrors(epoch, estimates),
  }));
  const medians = named.map(({ flows }) => quantile(flows, 0.5));
  const holds =
    entryAt(medians, 0) < entryAt(medians, 1) / 5 && entryAt(medians, 2) < 1.2 * entryAt(medians, 1);
  return {
    setting: `${setting}; one reference in ${every} packets`,
    literal: `flows: RLI ${percent(entryAt(medians, 1))}, MAPLE fed by RLI ${percent(entryAt(medians, 2))}`,
    ours: `MAPLE with true delays ${percent(entryAt(medians, 0))} (ribbon, 6.2 bits)`,
    verdict: holds ? "holds" : "does not hold",
    why: "What is stored is as good as what is known: the store adds little of its own.",
    table: {
      columns: ["", "flows, median", "packets: p50, µs", "p95, µs"],
      rows: named.map(({ name, flows, absolute }) => [
        name,
        percent(quantile(flows, 0.5)),
        ...[0.5, 0.95].map((q) => (quantile(absolute, q) / 1e3).toFixed(1)),
      ]),
    },
    figures: [
      {
        title: "Error of flows' means",
        x: { label: "relative error", scale: "log", quantity: "share", range: [1e-4, 10] },
        y: { label: "flows", quantity: "share", range: [0, 1] },
        series: named.map(({ name, flows }) =>
          distribution(
            name,
            flows.map((e) => Math.min(10, Math.max(1e-4, e))),
          ),
        ),
      },
    ],
    thresholds: [],
  };
}

export const mapleStudies: readonly Study[] = [stores, centres];
