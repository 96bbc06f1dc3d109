/** The scale of an axis: positions of values, ticks, and how values are written. */
import { formatCount } from "../../base/quantity.ts";
import { formatDuration } from "../../base/time.ts";
import type { Axis, Quantity } from "./figure.ts";

export interface AxisScale {
  readonly at: (value: number) => number;
  /** Whether a value can be shown on this axis; false for 0 and less on a logarithmic one. */
  readonly has: (value: number) => boolean;
  readonly ticks: readonly { readonly at: number; readonly text: string }[];
}

/** `values`: the values to show; `from` and `to`: pixels. */
export function axisScale(axis: Axis, values: readonly number[], from: number, to: number): AxisScale {
  if (axis.names) return namedScale(axis.names, from, to);
  const isLog = axis.scale === "log";
  const shown = values.filter((v) => Number.isFinite(v) && (!isLog || v > 0));
  const low = axis.range?.[0] ?? shown.reduce((m, v) => Math.min(m, v), Infinity);
  const high = axis.range?.[1] ?? shown.reduce((m, v) => Math.max(m, v), -Infinity);
  if (!(low <= high)) return { at: () => (from + to) / 2, has: () => false, ticks: [] };
  return isLog
    ? logarithmic(low, high, from, to, axis.quantity ?? "plain")
    : linear(axis.range ? low : Math.min(0, low), high, from, to, axis.quantity ?? "plain");
}

function namedScale(names: readonly string[], from: number, to: number): AxisScale {
  const step = (to - from) / names.length;
  const at = (value: number) => from + (value + 0.5) * step;
  return { at, has: () => true, ticks: names.map((text, i) => ({ at: at(i), text })) };
}

function linear(low: number, high: number, from: number, to: number, quantity: Quantity): AxisScale {
  const span = high > low ? high - low : 1;
  const raw = span / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5].map((m) => m * power).find((s) => s >= raw * (1 - 1e-9)) ?? 10 * power;
  const first = Math.floor(low / step + 1e-9) * step;
  const last = Math.ceil(high / step - 1e-9) * step;
  const at = (value: number) => from + ((value - first) / (last - first || 1)) * (to - from);
  const count = Math.round((last - first) / step);
  const ticks = Array.from({ length: count + 1 }, (_, i) => Number((first + i * step).toPrecision(12)));
  return {
    at,
    has: Number.isFinite,
    ticks: ticks.map((t) => ({ at: at(t), text: writeQuantity(t, quantity) })),
  };
}

/** Ticks at whole decades, with 2 and 5 in between if there are few decades. */
function logarithmic(low: number, high: number, from: number, to: number, quantity: Quantity): AxisScale {
  const first = Math.floor(Math.log10(low) + 1e-9);
  const last = Math.max(first + 1, Math.ceil(Math.log10(high) - 1e-9));
  const at = (value: number) => from + ((Math.log10(value) - first) / (last - first)) * (to - from);
  const every = Math.ceil((last - first) / 7);
  const within = last - first <= 2 ? [1, 2, 5] : [1];
  const ticks: number[] = [];
  for (let power = first; power <= last; power += every)
    for (const m of within) if (power < last || m === 1) ticks.push(Number(`${m}e${power}`));
  return {
    at,
    has: (value) => value > 0,
    ticks: ticks.map((t) => ({ at: at(t), text: writeQuantity(t, quantity) })),
  };
}

/** Formats a value for people, with three digits at most. */
export function writeQuantity(value: number, quantity: Quantity = "plain"): string {
  if (!Number.isFinite(value)) return "–";
  if (quantity === "time") return formatDuration(value);
  if (quantity === "share") return `${short(100 * value)} %`;
  return short(value);
}

function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e9)
    return value
      .toExponential(1)
      .replace(/\.0(?=e)/, "")
      .replace("e+", " × 10")
      .replace(/[0-9]+$/, (digits) => `10${raised(digits.slice(2))}`);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))} M`;
  if (size >= 1e3) return formatCount(Number(value.toPrecision(3)));
  if (size > 0 && size < 1e-3)
    return value
      .toExponential(0)
      .replace("e-", " × 10⁻")
      .replace(/[0-9]+$/, raised);
  return String(Number(value.toPrecision(3)));
}

function raised(digits: string): string {
  return [...digits].map((d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(d)]).join("");
}
