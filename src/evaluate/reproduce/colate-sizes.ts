/** COLATE, sections 5.2 and 6.1: sizes by the paper's equations (figures 3 and 4), and flow sizes (figure 5). */
import { UsageError } from "../../base/errors.ts";
import { entryAt } from "../../base/lists.ts";
import { type LiteralSolution, solveLiteral } from "../../estimators/lab/colate-literal/parameters.ts";
import { distribution } from "../../present/figure/figure.ts";
import { count, percent } from "./numbers.ts";
import type { FindingBody } from "./study.ts";

/** Minimum and maximum sum of timestamps of a flow in units, and of all packets to be stored; the paper does not give them. */
const SUMS = { minTimeSum: 1.5e9, maxTimeSum: 2e9 };
const TOTAL = 1e13;
const MEMORIES = [0.5, 0.75, 1, 1.25, 1.5, 2].map((mb) => mb * 8 * 2 ** 20);
/** Delays divided by twice the time, as in (12): the maximum, and the value for 100 µs in epochs of 1 s. */
const DELAY_SHARES = [1, 1e-4];

function solve(memoryBits: number, delayShare: number): LiteralSolution | null {
  try {
    return solveLiteral({ ...SUMS, memoryBits, delayShare, reliability: 0.95, interval: 0.05 });
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return null;
  }
}

export function sizesFinding(): FindingBody {
  const [easy, real] = DELAY_SHARES.map((share) => MEMORIES.map((bits) => solve(bits, share))) as [
    (LiteralSolution | null)[],
    (LiteralSolution | null)[],
  ];
  const solved = MEMORIES.flatMap((bits, i) => {
    const found = easy[i];
    return found ? [{ bits, found, storedBits: (bits * TOTAL) / found.threshold }] : [];
  });
  const falls =
    solved.length > 1 && solved.every((s, i) => i === 0 || s.storedBits < entryAt(solved, i - 1).storedBits);
  const possible = real.filter((s) => s !== null).length;
  const megabytes = (bits: number) => bits / 8 / 2 ** 20;
  return {
    setting:
      "computed: equations (13), (14), (15) and (22) for a reliability of 0.95 and an interval of 0.05, sums of a flow's timestamps from 1.5e9 to 2e9 units, of all packets 1e13",
    literal: `where clocks show nothing but delays: ${solved.map((s) => `${megabytes(s.bits)} MB n = ${count(s.found.n)}, b = ${s.found.b}, T = ${s.found.threshold.toExponential(1)}`).join("; ")}`,
    ours: `where delays are 100 µs in epochs of 1 s: ${possible === 0 ? "no n satisfies the equations, at any of these sizes" : `${possible} of ${MEMORIES.length} sizes have a solution`}`,
    verdict: falls ? (possible === MEMORIES.length ? "holds" : "holds for a class") : "does not hold",
    why: `${falls ? "The number of counters follows from the promise, so that more memory makes them longer, and T grows exponentially with it." : "Storage does not fall with memory."} ${possible === MEMORIES.length ? "" : "The promise (12) asks the noise of timestamps to be below the delay, which is 10⁻⁴ of them."}`.trim(),
    table: {
      columns: ["memory, MB", "n", "m", "b", "T", "stored, Mbit", "with delays of 10⁻⁴"],
      rows: MEMORIES.map((bits, i) => {
        const found = easy[i];
        const cells = found
          ? [
              ...[count(found.n), count(found.m), String(found.b), found.threshold.toExponential(2)],
              ((bits * TOTAL) / found.threshold / 1e6).toPrecision(3),
            ]
          : ["–", "–", "–", "–", "–"];
        return [String(megabytes(bits)), ...cells, real[i] ? "solved" : "no solution"];
      }),
    },
    figures: [
      {
        title: "COLATE's equations: permanent storage by memory",
        x: { label: "memory, MB" },
        y: { label: "stored, Mbit", scale: "log" },
        series: [
          {
            name: "(13)–(15), (22)",
            points: solved.map((s) => ({ x: megabytes(s.bits), y: s.storedBits / 1e6 })),
          },
        ],
      },
      {
        title: "COLATE's equations: threshold T by memory",
        x: { label: "memory, MB" },
        y: { label: "T, units", scale: "log" },
        series: [{ name: "T", points: solved.map((s) => ({ x: megabytes(s.bits), y: s.found.threshold })) }],
      },
    ],
    thresholds: [],
  };
}

export function flowSizesFinding(setting: string, packets: Float64Array): FindingBody {
  const sorted = packets.toSorted();
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!;
  const single = packets.filter((p) => p === 1).length / packets.length;
  const large = packets.filter((p) => p >= 1000).length;
  return {
    setting,
    literal: null,
    ours: `${percent(single)} of the flows have one packet, ${count(large)} have 1,000 and more, the largest ${count(at(1))}`,
    verdict: single > 0.2 && large > 0 ? "holds" : "does not hold",
    why: "Heavy-tailed as backbone traffic: what the other figures are measured on.",
    table: {
      columns: ["flows", "p50, packets", "p90", "p99", "p99.9", "largest"],
      rows: [[count(packets.length), ...[0.5, 0.9, 0.99, 0.999, 1].map((q) => count(at(q)))]],
    },
    figures: [
      {
        title: "Sizes of flows",
        x: { label: "packets of the flow", scale: "log", quantity: "count" },
        y: { label: "flows", quantity: "share", range: [0, 1] },
        series: [distribution("our traffic", packets)],
      },
    ],
    thresholds: [],
  };
}
