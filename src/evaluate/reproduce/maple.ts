/** MAPLE, section 5: stores, aggregates of their answers, and wrong epochs. Dimensions, centres, times and questions are in maple-centres.ts. */
import { entryAt } from "../../base/lists.ts";
import { STORE_COLUMNS, storeAccuracy } from "../maple-stores.ts";
import { mapleCentres } from "./maple-centres.ts";
import { mapleGroups } from "./maple-groups.ts";
import { traceOf, traceText } from "./maple-trace.ts";
import { percent, percents } from "./numbers.ts";
import type { FindingBody, Study, Threshold } from "./study.ts";

const stores: Study = {
  name: "maple-stores",
  paper: "maple",
  heads: [
    {
      id: "maple-6",
      where: "fig. 6",
      title: "Failures and errors of the stores",
      claim:
        "SVBF and PBF fail for at most 10 % of the packets, COMB for 50 %; PBF leaves out 24 %; false classification of COMB is 12 times that of SVBF (2 %); p85 of the absolute error 19 µs with SVBF, 116 with COMB",
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
    // Two epochs to learn from, and eight to evaluate: an epoch's error depends on its congestion and on the age of its centres, and the first centres are
    // learnt while the traffic starts.
    const trace = await traceOf(context, 10);
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
      "maple-8a": aggregatesFinding(setting, of, bitsOf(rows, OURS)),
      "maple-8c": wrongEpochsFinding(setting, rows),
    };
  },
};

type StoreOf = (name: string) => (column: (typeof STORE_COLUMNS)[number]) => number;
/** Results within this factor of the paper's count as equal. */
const NEAR = 1.5;
const RIBBON_ROW = "ribbon k = 64 in 6 bits";
const SIZED_ROW = "ribbon k = 32 in 5 bits, size-aware";
const MASKED_ROW = "ribbon k = 50 in 9 bits";

function bitsOf(rows: ReadonlyMap<string, number[]>, store: string): number {
  return rows.get(store)?.[STORE_COLUMNS.indexOf("bit/packet")] ?? Number.NaN;
}

const OURS = "mixed k = 64, 0.905 bits fewer, size-aware";

type AheadColumn = {
  readonly column: (typeof STORE_COLUMNS)[number];
  readonly what: string;
  readonly limit: number;
  /** Value in the reference simulation. */
  readonly reference?: number | undefined;
};

/**
 * How much better our stores are than SVBF with 12.8 bits: median, 90th percentile and mean absolute error of packets, and median error of flows. The mixed
 * store is the best that 5.2 bits per packet allow; it is compared with the reference's ribbon of that size. Mean absolute errors are dominated by single
 * bursts that stale centres do not cover, so their ratio varies by trace: the reference's 42 µs for SVBF belong to a trace with a mean delay of 334 µs, other
 * seeds have 100 µs.
 */
const AHEAD: readonly { readonly store: string; readonly columns: readonly AheadColumn[] }[] = (
  [
    [OURS, [5 / 4.4, 3.9 / 3.4], [1.05, 1.05], [1, undefined], 1],
    [SIZED_ROW, [5 / 4.4, 3.9 / 3.4], [1, 1], [1.2, undefined], 1],
    [RIBBON_ROW, [5 / 2.5, 3.9 / 1.8], [1.5, 1.5], [2.2, 15.5 / 5.3], 2],
    [MASKED_ROW, [5 / 3.2, 3.9 / 2.4], [1.2, 1.2], [1.7, 15.5 / 6.8], 1.5],
    ["ribbon k = 400 in 12 bits", [5 / 0.4, 3.9 / 0.3], [10, 10], [13, 15.5 / 0.9], 10],
  ] as const
).map(([store, references, [packets, flows], [p90, tail], absolute]) => ({
  store,
  columns: [
    { column: "packet median %", what: "packets", limit: packets, reference: references[0] },
    { column: "flow %", what: "flows", limit: flows, reference: references[1] },
    { column: "p90 %", what: "packets, 90th percentile", limit: p90, reference: tail },
    { column: "mean abs µs", what: "packets, mean absolute error", limit: absolute },
  ],
}));

// long: one finding as data, figures and levels included.
function storesFinding(setting: string, rows: ReadonlyMap<string, number[]>, of: StoreOf): FindingBody {
  const [svbf, comb, pbf] = ["svbf", "comb", "pbf"].map((kind) => of(`${kind}, hybrid centres`)) as [
    ReturnType<StoreOf>,
    ReturnType<StoreOf>,
    ReturnType<StoreOf>,
  ];
  const ribbon = of(RIBBON_ROW);
  const bits = bitsOf(rows, OURS);
  const ribbonBits = bitsOf(rows, RIBBON_ROW);
  const asClaimed = svbf("failure %") < 0.11 && comb("failure %") > 0.45;
  const left = pbf("left out %");
  const holds = asClaimed && pbf("failure %") < 0.11 && left > 0.24 / NEAR && left < 0.24 * NEAR;
  const times = comb("false %") / svbf("false %");
  const upper = ["svbf", "comb"].map((kind) => entryAt(rows.get(`  ${kind} (p85 µs)`) ?? [], 0));
  const limit = (what: string, value: number, limit: number, sense: "at most" | "at least"): Threshold => ({
    ...{ what, value, limit, sense },
    quantity: "share",
  });
  return {
    setting,
    literal: `failure SVBF ${percent(svbf("failure %"))}, COMB ${percent(comb("failure %"))}, PBF ${percent(pbf("failure %"))}, which leaves ${percent(left)} out; false ${percents([svbf("false %"), comb("false %"), pbf("false %")])}; a packet is off by ${percent(svbf("packet median %"))} (SVBF, median); p85 of the absolute error ${upper.map((v) => v.toFixed(0)).join(" and ")} µs (SVBF, COMB)`,
    ours: `ribbons never fail: ${percent(ribbon("packet median %"))} with ${ribbonBits.toFixed(2)} bits; mixed ribbons ${percent(of(OURS)("packet median %"))} with ${bits.toFixed(2)} bits`,
    verdict: holds ? "holds" : asClaimed ? "holds for a class" : "does not hold",
    why: `${asClaimed ? "As claimed for SVBF and COMB" : "Not as claimed for SVBF and COMB"}, which is wrong ${times.toFixed(0)} times as often as SVBF (12 in the paper). PBF fails for ${percent(pbf("failure %"))} and leaves ${percent(left)} out (24 % in the paper): what a filter has no room for follows from how delays differ between two epochs, which depends on the traffic. Retrieval built at the end of the epoch needs half of the bits and is never wrong. How far a ribbon of 32 centres is ahead at the 90th percentile follows SVBF's stale centres: the reference simulation had 1.58 times on one trace.`,
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
      limit("SVBF false classification", svbf("false %"), 0.01, "at least"),
      limit("SVBF packets, median", svbf("packet median %"), 0.06, "at most"),
      limit("SVBF packets, median", svbf("packet median %"), 0.035, "at least"),
      limit("SVBF flows, median", svbf("flow %"), 0.045, "at most"),
      limit("COMB failure", comb("failure %"), 0.51, "at most"),
      limit("COMB failure", comb("failure %"), 0.49, "at least"),
      limit("ribbon failure", ribbon("failure %") + ribbon("false %"), 0, "at most"),
      limit("ribbon k = 64, packets, median", ribbon("packet median %"), 0.03, "at most"),
      limit(
        "absent packets that a ribbon of 50 groups in 9 bits answers, off 50/512",
        Math.abs(of(MASKED_ROW)("false positives %") - 50 / 512),
        0.005,
        "at most",
      ),
      ...AHEAD.flatMap(({ store, columns }) =>
        columns.map(
          ({ column, what, limit, reference }): Threshold => ({
            what: `SVBF over ${store}, ${what}`,
            value: svbf(column) / of(store)(column),
            ...(reference === undefined ? {} : { reference }),
            ...{ limit, sense: "at least", quantity: "plain" },
          }),
        ),
      ),
      {
        what: "ribbon, bits per stored bit",
        value: ribbonBits / 6,
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

function aggregatesFinding(setting: string, of: StoreOf, bits: number): FindingBody {
  const svbf = LEVELS.map((l) => of("svbf, hybrid centres")(l.column));
  const ours = LEVELS.map((l) => of(OURS)(l.column));
  const off = LEVELS.map((l, i) => entryAt(svbf, i) / l.claimed);
  const farthest = entryAt(LEVELS, off.indexOf(Math.max(...off)));
  const cancels = svbf.every((e) => e <= entryAt(svbf, 0));
  const holds = cancels && off.every((o) => o < 2);
  return {
    setting,
    literal: percents(svbf),
    ours: `${percents(ours)} (mixed ribbons, ${bits.toFixed(2)} bits per packet)`,
    verdict: holds ? "holds" : "does not hold",
    why: `${cancels ? "Errors of packets cancel in what is made of them" : "Errors of packets do not cancel in all that is made of them"}; SVBF's are ${Math.min(...off).toFixed(2)} to ${Math.max(...off).toFixed(2)} times the paper's (most for the ${farthest.name}); below 2 counts as held.`,
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
    const values = rows.get(`  ${wrong} wrong epochs (p50, p75, p95 µs)`);
    return values ? [{ wrong, values }] : [];
  });
  const p95 = found.map(({ values }) => entryAt(values, 2));
  const p75 = found.map(({ values }) => entryAt(values, 1));
  const grows = p95.every((v, i) => i === 0 || v >= entryAt(p95, i - 1));
  const growth = (values: readonly number[]) => entryAt(values, -1) / entryAt(values, 0);
  // Grows as slowly as in the paper.
  const asClaimed = growth(p95) < NEAR * (125 / 70) && growth(p75) < NEAR * (12.2 / 10.7);
  return {
    setting,
    literal: `p95 ${p95.map((v) => v.toFixed(0)).join(", ")} µs, p75 ${found.map(({ values }) => entryAt(values, 1).toFixed(1)).join(", ")} µs with ${found.map((f) => f.wrong).join(", ")} wrong epochs`,
    ours: "a store with masked codes answers for a foreign packet with a probability that is set, not 10 %",
    verdict: grows ? (asClaimed ? "holds" : "holds for a class") : "does not hold",
    why: `The error grows with every epoch that is asked in vain: by ${growth(p95).toFixed(1)} times at the 95th percentile (${(125 / 70).toFixed(1)} in the paper), by ${growth(p75).toFixed(2)} at the 75th (${(12.2 / 10.7).toFixed(2)}). Its level follows the queue's.`,
    table: {
      columns: ["wrong epochs", "p50, µs", "p75, µs", "p95, µs"],
      rows: found.map(({ wrong, values }) => [String(wrong), ...values.map((v) => v.toFixed(1))]),
    },
    figures: [
      {
        title: "Absolute error of packets by wrong epochs",
        x: { label: "wrong epochs", names: found.map((f) => String(f.wrong)) },
        y: { label: "absolute error", scale: "log", quantity: "time" },
        series: ["p50", "p75", "p95"].map((name, q) => ({
          name,
          points: found.map(({ values }, x) => ({ x, y: Math.max(1, 1e3 * entryAt(values, q)) })),
        })),
      },
    ],
    thresholds: [],
  };
}

export const mapleStudies: readonly Study[] = [stores, mapleCentres, mapleGroups];
