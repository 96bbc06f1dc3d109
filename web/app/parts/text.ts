/** Formats of numbers and times on the page: `18.6 ms ±0.1`, three significant digits, the viewer's time zone or UTC. */
import { formatCount, formatShare, significant, THIN_SPACE } from "../../../src/base/quantity.ts";
import { formatLasting } from "../../../src/base/time.ts";
import type { MeanLatency } from "../api/types.ts";
import { utc } from "../state/settings.ts";

const UNITS: readonly (readonly [string, number])[] = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
  ["ns", 1],
];

export function delayText(ns: number, digits = 3): string {
  const [unit, size] = unitOf(ns);
  return `${padded(ns / size, digits)}${THIN_SPACE}${unit}`;
}

/** For an axis: 10 ms instead of 10.0 ms. */
export function tickText(ns: number): string {
  const [unit, size] = unitOf(ns);
  return ns === 0 ? "0" : `${significant(ns / size, 3)}${THIN_SPACE}${unit}`;
}

/** Keeps trailing zeros up to this number of significant digits: 1.20 instead of 1.2. */
function padded(value: number, digits: number): string {
  const rounded = Number(value.toPrecision(digits));
  const whole = rounded === 0 ? 0 : Math.floor(Math.log10(Math.abs(rounded)));
  return rounded.toFixed(Math.max(0, Math.min(12, digits - 1 - whole))).replace("-", "\u2212");
}

function unitOf(ns: number): readonly [string, number] {
  const magnitude = Math.abs(ns) * 1.0005;
  return UNITS.find(([, size]) => magnitude >= size) ?? ["ns", 1];
}

/** Intervals narrower than this share of the value are not shown: all packets were used, and clocks count in ns. */
const NARROW = 1e-5;

/** E.g. `18.6 ms ±0.1`: half the interval's width in the unit of the value, with one digit if it is narrow. */
export function intervalText({
  meanNs,
  lowNs,
  highNs,
}: Pick<MeanLatency, "meanNs" | "lowNs" | "highNs">): string {
  const [unit, size] = unitOf(meanNs);
  const width = Math.max(highNs - meanNs, meanNs - lowNs) / size;
  const half = width < NARROW * Math.abs(meanNs / size) ? 0 : width;
  return `${padded(meanNs / size, 3)}${THIN_SPACE}${unit} ±${significant(half, half < 1 ? 1 : 2)}`;
}

/** The long form, for tooltips. */
export function intervalTitle({ meanNs, lowNs, highNs, stdevNs }: MeanLatency): string {
  const stdev = stdevNs === null ? "" : `, standard deviation ${delayText(stdevNs)}`;
  return `mean ${delayText(meanNs, 4)}, between ${delayText(lowNs, 4)} and ${delayText(highNs, 4)} at 95 % confidence${stdev}`;
}

export const shareText = (share: number | null): string => (share === null ? "–" : formatShare(share));
export const countText = (n: number | null): string => (n === null ? "–" : formatCount(n));

/** 12,345 → 12.3 k, for axes and narrow columns. */
export function shortCount(n: number): string {
  const units: readonly (readonly [string, number])[] = [
    ["G", 1e9],
    ["M", 1e6],
    ["k", 1e3],
  ];
  const [unit, size] = units.find(([, s]) => Math.abs(n) >= s) ?? ["", 1];
  return `${significant(n / size, 3)}${unit === "" ? "" : THIN_SPACE}${unit}`;
}

const two = (n: number) => String(n).padStart(2, "0");

interface Parts {
  day: string;
  time: string;
  ms: string;
}

function partsOf(ms: number, inUtc: boolean): Parts {
  const d = new Date(ms);
  return inUtc
    ? {
        day: `${d.getUTCFullYear()}-${two(d.getUTCMonth() + 1)}-${two(d.getUTCDate())}`,
        time: `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}:${two(d.getUTCSeconds())}`,
        ms: String(d.getUTCMilliseconds()).padStart(3, "0"),
      }
    : {
        day: `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`,
        time: `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`,
        ms: String(d.getMilliseconds()).padStart(3, "0"),
      };
}

export function timeText(ms: number, precise = false): string {
  const { day, time, ms: thousandths } = partsOf(ms, utc.value);
  const today = partsOf(Date.now(), utc.value).day;
  return `${day === today ? "" : `${day} `}${time}${precise ? `.${thousandths}` : ""}`;
}

/** The time in both time zones, for tooltips. */
export function timeTitle(ms: number): string {
  const there = partsOf(ms, true);
  const here = partsOf(ms, false);
  return `${there.day} ${there.time}.${there.ms} UTC (local ${here.day} ${here.time})`;
}

/** 14:03, with seconds (14:03:20) for a short range, with the day for a long one. */
export function spanText(fromMs: number, toMs: number): string {
  const from = partsOf(fromMs, utc.value);
  const to = partsOf(toMs, utc.value);
  const zone = utc.value ? " UTC" : "";
  const day = from.day === partsOf(Date.now(), utc.value).day ? "" : `${from.day} `;
  return `${day}${from.time} – ${to.day === from.day ? "" : `${to.day} `}${to.time}${zone}`;
}

export const durationText = formatLasting;

export function agoText(ms: number, nowMs = Date.now()): string {
  const behind = nowMs - ms;
  return behind < 2000 ? "now" : `${durationText(behind)} ago`;
}

/** Removes the code from `code: sentence`. */
export { plainReason as reasonText } from "../../../src/present/text/reason.ts";
