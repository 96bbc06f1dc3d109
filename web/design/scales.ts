/** Positions of delays and times on an axis, and their ticks. Charts draw positions, not raw values. */
import { formatInstant, formatNs } from "../../src/base/time.ts";

export interface DelayScale {
  toPos(ns: number | null): number | null;
  fromPos(pos: number): number;
  ticks(low: number, high: number, maximum: number): number[];
}

/** Returns the smallest of 1, 2, 5 times a power of ten that is at least `rough`. */
function niceStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough));
  const ratio = rough / power;
  return power * (ratio <= 1.0001 ? 1 : ratio <= 2.0001 ? 2 : ratio <= 5.0001 ? 5 : 10);
}

export function linearTicks(low: number, high: number, maximum: number): number[] {
  if (!(high > low)) return [low];
  const step = niceStep((high - low) / Math.max(1, maximum));
  const ticks: number[] = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(i * step + 0);
  return ticks;
}

/** Returns the ticks of a logarithmic axis between two positive values. */
function logTicks(low: number, high: number, maximum: number): number[] {
  const decades = Math.log10(high / low);
  if (decades < 1.2) return linearTicks(low, high, maximum).filter((v) => v > 0);
  let ticks: number[] = [];
  for (const mantissas of [[1, 2, 5], [1, 3], [1]]) {
    const fewer = decadeTicks(low, high, mantissas);
    // One tick does not show the scale, so a few too many are better.
    if (fewer.length < 2) break;
    ticks = fewer;
    if (ticks.length <= maximum) return ticks;
  }
  const stride = Math.ceil(ticks.length / maximum);
  return stride > 1 && ticks.length / stride >= 2 ? ticks.filter((_, i) => i % stride === 0) : ticks;
}

function decadeTicks(low: number, high: number, mantissas: number[]): number[] {
  const ticks: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    for (const m of mantissas) {
      const value = m * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) ticks.push(value);
    }
  }
  return ticks;
}

export const linearDelay: DelayScale = {
  toPos: (ns) => ns,
  fromPos: (pos) => pos,
  ticks: linearTicks,
};

export const logDelay: DelayScale = {
  toPos: (ns) => (ns !== null && ns > 0 ? Math.log10(ns) : null),
  fromPos: (pos) => 10 ** pos,
  ticks: (low, high, maximum) => logTicks(10 ** low, 10 ** high, maximum).map(Math.log10),
};

/**
 * An axis on which every row of the heat map has the same height. Rows are log spaced, so this is a logarithmic axis that also allows zero and negative edges;
 * within a row it is logarithmic if both edges are positive.
 */
export function rowScale(edges: number[]): DelayScale {
  const last = edges.length - 1;
  const toPos = (ns: number | null): number | null => {
    if (ns === null || ns < edges[0]! || ns > edges[last]!) return null;
    let row = 0;
    let above = last;
    while (above - row > 1) {
      const middle = (row + above) >> 1;
      if (edges[middle]! <= ns) row = middle;
      else above = middle;
    }
    const [a, b] = [edges[row]!, edges[row + 1]!];
    return row + (a > 0 ? Math.log(ns / a) / Math.log(b / a) : (ns - a) / (b - a));
  };
  const fromPos = (pos: number): number => {
    const row = Math.max(0, Math.min(last - 1, Math.floor(pos)));
    const [a, b] = [edges[row]!, edges[row + 1]!];
    return a > 0 ? a * (b / a) ** (pos - row) : a + (b - a) * (pos - row);
  };
  const ticks = (low: number, high: number, maximum: number): number[] => {
    const [from, to] = [fromPos(Math.max(0, low)), fromPos(Math.min(last, high))];
    const positive = edges.find((e) => e > 0 && e >= from);
    const values =
      from > 0
        ? logTicks(from, to, maximum)
        : positive
          ? [from, ...logTicks(positive, to, maximum)]
          : [from, to];
    return values.flatMap((v) => toPos(v) ?? []);
  };
  return { toPos, fromPos, ticks };
}

/** Adds a margin above and below; returns a range also if all values are equal. */
export function padded(low: number, high: number, share = 0.06): [number, number] {
  const span = high - low;
  const pad = span > 0 ? span * share : Math.abs(low) * 0.05 || 1;
  return [low - pad, high + pad];
}

/** Returns labels with the exact value of the tick; a tick that needs more digits than there is space for gets none. */
export function delayLabels(ticksNs: number[]): string[] {
  return ticksNs.map((ns) => {
    if (ns === 0) return "0";
    // Nine digits remove only floating-point noise.
    const exact = formatNs(ns, 9);
    return [3, 4].some((digits) => formatNs(ns, digits) === exact) ? exact : "";
  });
}

const TIME_STEPS_NS = [
  ...[1e3, 1e4, 1e5, 1e6, 1e7, 1e8].flatMap((p) => [p, 2 * p, 5 * p]),
  ...[1, 2, 5, 10, 15, 30].map((s) => s * 1e9),
  ...[1, 2, 5, 10, 15, 30].map((m) => m * 60e9),
  ...[1, 2, 3, 6, 12, 24, 48, 120, 240, 720, 2400, 8760].map((h) => h * 3600e9),
];

/** Returns ticks in seconds after the origin, at whole steps of the wall clock (UTC). */
export function timeTicks(originNs: bigint, low: number, high: number, maximum: number): number[] {
  const rough = ((high - low) * 1e9) / Math.max(1, maximum);
  const stepNs = TIME_STEPS_NS.find((s) => s >= rough) ?? TIME_STEPS_NS[TIME_STEPS_NS.length - 1]!;
  const step = BigInt(stepNs);
  const offset = Number(((originNs % step) + step) % step);
  const ticks: number[] = [];
  for (let i = Math.ceil((low * 1e9 + offset) / stepNs); ; i++) {
    const at = (i * stepNs - offset) / 1e9;
    if (at > high || ticks.length > 200) return ticks;
    ticks.push(at);
  }
}

/** Returns the labels of an axis: the date only when it changes, fractions only if needed. */
export function timeLabels(originNs: bigint, ticks: number[]): string[] {
  const step = ticks.length > 1 ? ticks[1]! - ticks[0]! : 1;
  const decimals = step >= 1 ? 0 : Math.min(9, Math.ceil(-Math.log10(step) - 1e-9));
  let day = "";
  return ticks.map((tick) => {
    const [date, clock] = instantAt(originNs, tick, decimals).split(" ") as [string, string | undefined];
    if (clock === undefined) return date;
    const time = step >= 60 ? clock.slice(0, 5) : clock;
    const label = day !== "" && date !== day ? `${time}\n${date}` : time;
    day = date;
    return label;
  });
}

export function instantAt(originNs: bigint, seconds: number, decimals = 3): string {
  return formatInstant(originNs + BigInt(Math.round(seconds * 1e9)), decimals);
}
