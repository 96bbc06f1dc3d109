/** MAPLE, section 3.4: the required size of each structure (tables 1 and 2, figure 4), and its behaviour at that size. */
import type { Kernels } from "../../base/kernels.ts";
import { entryAt } from "../../base/lists.ts";
import type { Centres } from "../../estimators/maple/centres/centres.ts";
import { ask, fill, type Outcome } from "../maple-questions.ts";
import { PLAIN_STORE } from "../maple-stores.ts";
import type { TraceEpoch } from "../reference-trace.ts";
import { BITS, COMB, K, PBF, RIBBON, SVBF } from "./maple-trace.ts";
import { count, percent } from "./numbers.ts";
import type { FindingBody, StudyContext } from "./study.ts";

const FAILURE = 0.1;
/** Design target of the hash table: it always answers, and this share of the answers is wrong. */
const TABLE_FALSE = 0.02;

/** Returns the number of hash functions h >= -log2(1 - (1 - p)^(1/others)): none of the `others` may give a false positive. */
function hashesFor(others: number, failure: number): number {
  return -Math.log2(1 - (1 - failure) ** (1 / others));
}

function svbfHashes(k: number, failure: number): number {
  return hashesFor(k - 1, failure);
}

/** A row of table 1: bits per packet and memory accesses in the paper, and a structure of that size. */
interface Dimension {
  readonly name: string;
  readonly bits: number;
  readonly insert: number;
  readonly lookup: number;
  readonly hashes: number;
  readonly geometry: Parameters<typeof fill>[3];
  readonly claimed: number;
}

const comb = (f: number, theta: number, hashes: number) => ({ ...COMB, f, theta, hashes });

/** Shares by the formulas of table 2: the number of hash functions is rounded up, the bits are not rounded. */
const TABLE_1: readonly Dimension[] = [
  {
    ...{ name: "hash table", bits: 147, insert: 1, lookup: 1, hashes: 1, claimed: TABLE_FALSE },
    geometry: { ...PLAIN_STORE, kind: "table", codeBits: 6 },
  },
  {
    ...{ name: "PBF", bits: BITS, insert: 9, lookup: 450, hashes: 9, claimed: FAILURE },
    geometry: PBF,
  },
  {
    ...{ name: "COMB(50, 1)", bits: BITS, insert: 9, lookup: 450, hashes: 9, claimed: FAILURE },
    geometry: comb(50, 1, 9),
  },
  {
    ...{ name: "COMB(11, 2)", bits: 18.5, insert: 14, lookup: 77, hashes: 7, claimed: FAILURE },
    geometry: comb(11, 2, 7),
  },
  {
    ...{ name: "COMB(8, 3)", bits: 24.2, insert: 18, lookup: 48, hashes: 6, claimed: FAILURE },
    geometry: comb(8, 3, 6),
  },
  {
    ...{ name: "SVBF", bits: BITS, insert: 9, lookup: 27, hashes: 9, claimed: FAILURE },
    geometry: SVBF,
  },
];
/** Maximum difference from the design target, as a share. */
const NEAR = 0.015;

interface Filled {
  readonly bits: number;
  readonly failure: number;
  readonly falseRate: number;
  readonly leftOut: number;
}

function measure(
  kernels: Kernels,
  { epoch, centres }: { epoch: TraceEpoch; centres: Centres },
  geometry: Dimension["geometry"],
  bits: number,
): Filled {
  const filled = fill(kernels, epoch, centres, geometry, bits);
  const { failure, falseRate, leftOut }: Outcome = ask(kernels, filled);
  const taken = filled.store.bits / epoch.count;
  filled.free();
  return { bits: taken, failure, falseRate, leftOut };
}

export function dimensionsFinding(
  { kernels }: StudyContext,
  learnt: { epoch: TraceEpoch; centres: Centres },
  setting: string,
): FindingBody {
  const rows = TABLE_1.map((one) => {
    const { failure, falseRate, leftOut } = measure(kernels, learnt, one.geometry, one.bits);
    return { ...one, leftOut, found: one.geometry.kind === "table" ? falseRate : failure };
  });
  const others = [8, 10, 16, 20].map((bits) => {
    const hashes = Math.max(1, Math.round(bits * Math.LN2));
    return { bits, failure: measure(kernels, learnt, { ...SVBF, hashes }, bits).failure };
  });
  const svbf = entryAt(rows, -1);
  const failures = [...others, { bits: BITS, failure: svbf.found }].sort((a, b) => a.bits - b.bits);
  const ribbon = measure(kernels, learnt, RIBBON, 0);
  const needed = svbfHashes(K, FAILURE);
  const off = rows.filter((r) => Math.abs(r.found - r.claimed) >= NEAR);
  const groups = [10, 20, 50, 100, 200, 500];
  return {
    setting,
    literal: `${needed.toFixed(2)} hash functions by the formula, ${(needed / Math.LN2).toFixed(1)} bits per packet; measured: ${rows.map((r) => `${r.name} with ${r.bits} bits ${percent(r.found)}${r.leftOut > 0 ? ` (${percent(r.leftOut)} left out)` : ""}`).join(", ")}`,
    ours: `a ribbon of the same ${K} centres takes ${ribbon.bits.toFixed(2)} bits per packet and fails for ${percent(ribbon.failure)}`,
    verdict: off.length === 0 ? "holds" : off.includes(svbf) ? "does not hold" : "holds for a class",
    why:
      off.length === 0
        ? "Every structure fails as often as its formula says. PBF's takes the sizes of the groups as known: those of two epochs before leave packets without room."
        : `Not within ${percent(NEAR)} of what they are dimensioned for: ${off.map((r) => r.name).join(", ")}. The formula of PBF takes the groups' sizes as known: those of two epochs before fill some of its filters less than that, and leave packets of others without room.`,
    table: {
      columns: [
        ...["structure", "bits per packet", "hash functions", "accesses: insert, lookup"],
        ...["paper: failure", "measured", "left out"],
      ],
      rows: [
        ...rows.map((r) => [
          ...[r.name, r.bits.toFixed(1), count(r.hashes), `${r.insert}, ${r.lookup}`],
          ...[`${percent(r.claimed)}${r.geometry.kind === "table" ? " wrong" : ""}`, percent(r.found)],
          percent(r.leftOut),
        ]),
        ["ribbon", ribbon.bits.toFixed(2), "–", "–", "–", percent(ribbon.failure), percent(ribbon.leftOut)],
      ],
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
        title: "SVBF: largest load by delay groups",
        x: { label: "delay groups k", scale: "log" },
        y: { label: "packets per bit, n/m" },
        series: [0.1, 1e-5].map((failure) => ({
          name: `failure ${failure === 0.1 ? "10 %" : "0.001 %"}`,
          points: groups.map((x) => ({ x, y: Math.LN2 / svbfHashes(x, failure) })),
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
