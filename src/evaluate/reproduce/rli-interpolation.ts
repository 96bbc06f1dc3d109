/** RLI, section III-B: delays between references, drawn like figure 3, from the simulated queue. */
import { entryAt } from "../../base/lists.ts";
import type { Point } from "../../present/figure/figure.ts";
import { count, percents } from "./numbers.ts";
import type { DelayColumns } from "./rli-bursts.ts";
import type { FindingBody } from "./study.ts";

const EVERY = [300, 30];
const EXCERPT_NS = 3e6;
const DRAWN = 110;

export function interpolationFinding(setting: string, columns: DelayColumns): FindingBody {
  const errors = EVERY.map((every) => relativeErrors(columns, interpolate(columns, every)));
  const medians = errors.map((e) => e.toSorted()[e.length >> 1]!);
  const [from, to] = liveliest(columns);
  const every = entryAt(EVERY, 0);
  const drawn = interpolate(columns, every);
  const at = (i: number, delayNs: Float64Array): Point => ({
    x: columns.timeNs[i]! - columns.timeNs[from]!,
    y: delayNs[i]!,
  });
  const step = Math.max(1, Math.floor((to - from) / DRAWN));
  const shown = Array.from({ length: Math.floor((to - from) / step) }, (_, i) => from + i * step);
  const references = Array.from({ length: to - from }, (_, i) => from + i).filter((i) => i % every === 0);
  const falls = entryAt(medians, 1) < entryAt(medians, 0);
  return {
    setting,
    literal: `median error of a packet ${percents(medians)} with one reference in ${EVERY.join(" / ")} packets`,
    ours: "the same line; RLI's own estimator adds each packet's transmission, and bends it by the backlog (rli-7)",
    verdict: falls ? "holds" : "does not hold",
    why: falls
      ? "Delay is continuous while the queue is busy: the line between two references follows it the better the closer they are."
      : "More references do not make the line better here.",
    table: {
      columns: ["one reference in", "packets: median error", "p90"],
      rows: EVERY.map((n, i) => [
        count(n),
        ...[0.5, 0.9].map((q) => percents([entryAt(errors, i).toSorted()[Math.floor(q * columns.count)]!])),
      ]),
    },
    figures: [
      {
        title: "Delays of packets, and the line between references (one in 300 packets)",
        x: { label: "time of sending", quantity: "time" },
        y: { label: "delay", quantity: "time" },
        series: [
          { name: "packets", kind: "marks", points: shown.map((i) => at(i, columns.delayNs)) },
          { name: "interpolated", kind: "line", points: references.map((i) => at(i, drawn)) },
        ],
      },
    ],
    thresholds: [],
  };
}

/** Interpolates between every n-th packet, whose delay is known. */
function interpolate({ count: n, timeNs, delayNs }: DelayColumns, every: number): Float64Array {
  return Float64Array.from({ length: n }, (_, i) => {
    const left = i - (i % every);
    const right = Math.min(n - 1, left + every);
    const [t0, t1] = [timeNs[left]! + delayNs[left]!, timeNs[right]! + delayNs[right]!];
    const share = t1 > t0 ? Math.min(1, Math.max(0, (timeNs[i]! + delayNs[i]! - t0) / (t1 - t0))) : 0;
    return delayNs[left]! * (1 - share) + delayNs[right]! * share;
  });
}

function relativeErrors({ delayNs }: DelayColumns, estimates: Float64Array): Float64Array {
  return estimates.map((e, i) => Math.abs(e - delayNs[i]!) / delayNs[i]!);
}

/** Returns the range with the largest difference of delays. */
function liveliest({ count: n, timeNs, delayNs }: DelayColumns): [from: number, to: number] {
  let best: [number, number] = [0, Math.min(n, DRAWN)];
  let widest = 0;
  for (let from = 0; from < n; ) {
    let to = from;
    let [low, high] = [Infinity, 0];
    for (; to < n && timeNs[to]! - timeNs[from]! < EXCERPT_NS; to++) {
      low = Math.min(low, delayNs[to]!);
      high = Math.max(high, delayNs[to]!);
    }
    if (high - low > widest) {
      widest = high - low;
      best = [from, to];
    }
    from = to;
  }
  return best;
}
