/** Formats a localisation for the terminal: segments with their shares and a timeline each, then the spikes of delay and of loss with the blamed segments. */
import { entryAt } from "../../base/lists.ts";
import { countOf, countOrNot, formatCount } from "../../base/quantity.ts";
import { formatDuration, formatInstant } from "../../base/time.ts";
import type { Localisation, LocalisedSegment } from "../../network/localise/localise.ts";
import type { LossRate } from "../../network/localise/segment-estimate.ts";
import type { LossSpike, Spike } from "../../network/localise/verdicts.ts";
import { formatTable } from "./table.ts";

const LEVELS = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

export interface LocalisationTextOptions {
  /** Width of a timeline in characters. Default 48. */
  readonly columns?: number;
  /** Origin of all times, in ns since 1970: times are printed as dates. Default: times count from the first epoch. */
  readonly originNs?: bigint;
}

export function formatLocalisation(
  localisation: Localisation,
  options: LocalisationTextOptions = {},
): string {
  const { points, endToEnd, segments, epochs, spikes, lossSpikes, notes } = localisation;
  const columns = options.columns ?? 48;
  const { startNs } = entryAt(epochs, 0);
  const when = (ns: number) =>
    options.originNs === undefined
      ? `${Number(((ns - startNs) / 1e9).toFixed(3))} s`
      : `${formatInstant(options.originNs + BigInt(Math.round(ns))).replace(" ", "T")}Z`;
  const lines = [
    points.join(" → "),
    `${countOf(epochs.length, "epoch")}, ${countOf(endToEnd.sent, "packet")} sent, ${lossText(endToEnd)}`,
    ...notes.map((note) => `note: ${note}`),
    "",
  ];
  const rows = segments.map((s, j) => [
    `${s.from} → ${s.to}`,
    s.latency
      ? `${formatDuration(s.latency.meanNs)} ± ${formatDuration((s.latency.highNs - s.latency.lowNs) / 2)}`
      : "no answer",
    s.share === null ? "–" : `${(100 * s.share).toFixed(1)} %`,
    lossText(s),
    timeline(
      epochs.map((e) => e.segments[j]?.meanNs ?? null),
      columns,
    ),
  ]);
  const total = endToEnd.latency;
  rows.push([
    "end to end",
    total
      ? `${formatDuration(total.meanNs)} ± ${formatDuration((total.highNs - total.lowNs) / 2)}`
      : "no answer",
    "",
    lossText(endToEnd),
    timeline(
      epochs.map((e) => e.total?.meanNs ?? null),
      columns,
    ),
  ]);
  const cell = (i: number) => (row: string[]) => row[i] ?? "";
  const span = `${when(startNs)} … ${when(epochs.at(-1)?.endNs ?? startNs)}`;
  lines.push(
    formatTable(
      [
        { title: "segment", align: "left", value: cell(0) },
        { title: "mean delay", value: cell(1) },
        { title: "share", value: cell(2) },
        { title: "lost", value: cell(3) },
        { title: span, align: "left", value: cell(4) },
      ],
      rows,
      { indent: "" },
    ),
  );
  lines.push("", counted(spikes.length, "spike", "of delay"));
  for (const spike of spikes) {
    const change = `${formatDuration(spike.baselineNs)} → ${formatDuration(spike.peakNs)}`;
    lines.push(spikeLine(spike, when, change, spike.alsoLoss ? "loss too" : ""));
  }
  lines.push(counted(lossSpikes.length, "spike", "of loss"));
  for (const spike of lossSpikes) {
    const change = `${share(spike.baseline)} → ${share(spike.peak)} lost`;
    const total =
      spike.loss && spike.lost !== null
        ? `${countOrNot(spike.lost)} of ${countOrNot(spike.sent)}: ${interval(spike.loss)}`
        : "";
    lines.push(
      spikeLine(spike, when, change, [total, spike.alsoDelay ? "delay too" : ""].filter(Boolean).join(", ")),
    );
  }
  return `${lines.join("\n")}\n`;
}

function counted(n: number, what: string, of: string): string {
  return n === 0 ? `no ${what}s ${of}` : `${n} ${what}${n === 1 ? "" : "s"} ${of}`;
}

function spikeLine(
  spike: Spike | LossSpike,
  when: (ns: number) => string,
  change: string,
  more: string,
): string {
  const who = spike.segment ? `${spike.segment.from} → ${spike.segment.to}` : "not attributable";
  const why = spike.segment
    ? `, ${(100 * (spike.share ?? 0)).toFixed(0)} % of the rise, confidence ${percentBelowOne(spike.confidence)}`
    : ` end to end; ${doubtText(spike)}`;
  const until = spike.open ? "still open" : when(spike.toNs);
  return `  ${when(spike.fromNs)} … ${until}  ${who}: ${change}${more === "" ? "" : ` (${more})`}${why}`;
}

/** Explains why no segment is blamed, and lists the likeliest ones. */
export function doubtText({ reason, candidates }: Pick<Spike, "reason" | "candidates">): string {
  const named = (candidates ?? []).map((c) => `${c.from} → ${c.to} ${percentBelowOne(c.confidence)}`);
  return `${reason ?? ""}${named.length > 0 ? ` (${named.join(", ")})` : ""}`;
}

/** Never prints "100 %", because the confidence is always below 1. */
export function percentBelowOne(confidence: number): string {
  return confidence > 0.999 ? "> 99.9 %" : `${(100 * confidence).toFixed(1)} %`;
}

/** Formats a share as a percentage with two significant digits. */
export function share(rate: number): string {
  if (rate === 0) return "0 %";
  return `${rate >= 0.1 ? (100 * rate).toFixed(0) : Number((100 * rate).toPrecision(2))} %`;
}

export function interval({ rate, low, high }: LossRate): string {
  return `${share(rate)} [${share(low)}, ${share(high)}]`;
}

function lossText({ sent, lost, loss }: Pick<LocalisedSegment, "sent" | "lost" | "loss">): string {
  if (sent === 0 || loss === null) return "no answer";
  return lost === 0 ? `0 lost (< ${share(loss.high)})` : `${formatCount(lost)} lost, ${interval(loss)}`;
}

/** Draws one character per column for the largest value in it, from the minimum to the maximum of the series; a space for no value. */
function timeline(values: readonly (number | null)[], columns: number): string {
  const known = values.filter((v) => v !== null);
  if (known.length === 0) return "";
  const low = known.reduce((a, b) => Math.min(a, b));
  const high = known.reduce((a, b) => Math.max(a, b));
  const count = Math.min(columns, values.length);
  let text = "";
  for (let c = 0; c < count; c++) {
    const from = Math.floor((c * values.length) / count);
    const to = Math.floor(((c + 1) * values.length) / count);
    const inside = values.slice(from, to).filter((v) => v !== null);
    if (inside.length === 0) text += " ";
    else {
      const share = high > low ? (inside.reduce((a, b) => Math.max(a, b)) - low) / (high - low) : 0;
      text += LEVELS[Math.min(LEVELS.length - 1, Math.floor(share * LEVELS.length))];
    }
  }
  return text;
}
