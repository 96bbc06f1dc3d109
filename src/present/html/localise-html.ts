/**
 * A localisation as an HTML report: the result as one sentence, the path with the blamed segments, spikes, segments, and one time series per segment with error
 * band and spikes. Inline SVG only: no script; it prints as it looks.
 */
import { entryAt } from "../../base/lists.ts";
import { countOf, countOrNot, formatCount, formatShare } from "../../base/quantity.ts";
import { formatInstant, formatNs } from "../../base/time.ts";
import type { Localisation, LocalisedSegment } from "../../network/localise/localise.ts";
import type { LossSpike, Spike } from "../../network/localise/verdicts.ts";
import { commonScale, drawDelays, drawLoss, drawPath } from "../svg/localise-series.ts";
import { escapeXml } from "../svg/svg.ts";
import { doubtText, interval, percentBelowOne, share } from "../text/localise-text.ts";
import { card, key, notesCard, picture, renderStaticPage, type Tile, table, tiles } from "./static-page.ts";

export interface LocalisationPageOptions {
  readonly title?: string;
  /** Origin of all times, in ns since 1970. */
  readonly originNs?: bigint;
}

type When = (ns: number) => string;

export function renderLocalisationHtml(
  localisation: Localisation,
  { title, originNs }: LocalisationPageOptions = {},
): string {
  const { points, segments, spikes, lossSpikes, notes, epochs } = localisation;
  const heading = title ?? `${points[0]} → ${points.at(-1)}`;
  const { startNs } = entryAt(epochs, 0);
  const { endNs } = entryAt(epochs, -1);
  const when = clockOf(localisation, originNs);
  const zone = originNs === undefined ? "" : " UTC";
  const scale = commonScale(localisation);
  const lossy = [...segments.entries()].flatMap(([j, { lost }]) => (lost > 0 ? [j] : []));
  return renderStaticPage({
    title: `${heading} · hoptime localise`,
    command: "hoptime localise",
    heading,
    span: `${until(when(startNs), when(endNs))}${zone} · ${formatNs(endNs - startNs, 3)} · ${countOf(epochs.length, "epoch")}`,
    parts: [
      incidents(localisation),
      tiles(headline(localisation)),
      card("path", "Path", pathKey(localisation), picture(drawPath(localisation))),
      card("delay-spikes", "Delay spikes", spikeTable(spikes.map((s) => delayRow(s, when)))),
      card("loss-spikes", "Loss spikes", spikeTable(lossSpikes.map((s) => lossRow(s, when)))),
      card("segments", "Segments", segmentTable(localisation)),
      card(
        "delay",
        "Delay over time",
        `<p class="lead">Mean delay per epoch, in seconds since ${escapeXml(when(startNs))}${zone}. Each axis starts at the minimum, and all show the same range: a rise is as high in one as in another.</p>`,
        seriesKey(spikes),
        ...segments.map((_, j) => picture(drawDelays(localisation, j, scale))),
        picture(drawDelays(localisation, null, scale)),
      ),
      card(
        "loss",
        "Loss over time",
        ...(lossy.length > 0
          ? [seriesKey(lossSpikes), ...lossy.map((j) => picture(drawLoss(localisation, j, scale)))]
          : [`<p class="no-answer">No packet was lost.</p>`]),
      ),
      notesCard(notes),
    ],
    remark: originNs === undefined ? "times from the first epoch on" : "all times UTC",
  });
}

/** Returns a formatter of times: dates in UTC, or seconds since the first epoch; milliseconds only if epochs are shorter than a second. */
function clockOf({ epochs }: Localisation, originNs: bigint | undefined): When {
  const { startNs, endNs } = entryAt(epochs, 0);
  if (originNs === undefined) return (ns) => `${Number(((ns - startNs) / 1e9).toFixed(3))} s`;
  const decimals = endNs - startNs >= 1e9 ? 0 : 3;
  return (ns) => formatInstant(originNs + BigInt(Math.round(ns)), decimals);
}

/** Formats a time range, with the date written once. */
function until(from: string, to: string): string {
  const day = from.slice(0, 11);
  return `${from} – ${day.includes("-") && to.startsWith(day) ? to.slice(11) : to}`;
}

const nameOf = ({ from, to }: { from: string; to: string }) => `${from} → ${to}`;

/** Describes each blamed segment in a sentence; empty if nothing is wrong. */
function incidents({ segments, spikes, lossSpikes }: Localisation): string {
  const lines = segments.flatMap((segment) => {
    const own = <S extends Spike | LossSpike>(list: readonly S[]) =>
      list.filter((s) => s.segment && nameOf(s.segment) === nameOf(segment));
    const [delays, losses] = [own(spikes), own(lossSpikes)];
    const worst = delays.reduce((max, s) => Math.max(max, s.peakNs), 0);
    const most = losses.reduce((max, s) => Math.max(max, s.peak), 0);
    const found = [
      ...(delays.length > 0
        ? [`${countOf(delays.length, "delay spike")} of up to ${formatNs(worst, 3)}`]
        : []),
      ...(losses.length > 0 ? [`${countOf(losses.length, "loss spike")} of up to ${share(most)}`] : []),
    ];
    return found.length > 0
      ? [`<strong>${escapeXml(nameOf(segment))}</strong> caused ${escapeXml(found.join(" and "))}.`]
      : [];
  });
  if (lines.length === 0) return "";
  return `<div class="warning" role="note">${lines.map((line) => `<p>${line}</p>`).join("")}</div>`;
}

function headline({ segments, endToEnd, spikes, lossSpikes }: Localisation): Tile[] {
  const { latency, sent, lost, loss } = endToEnd;
  const largest = segments.reduce<LocalisedSegment | null>(
    (best, s) => ((s.share ?? 0) > (best?.share ?? 0) ? s : best),
    null,
  );
  const count = spikes.length + lossSpikes.length;
  return [
    latency
      ? {
          name: "End-to-end delay",
          value: formatNs(latency.meanNs, 3),
          detail: `± ${formatNs((latency.highNs - latency.lowNs) / 2, 2)} at 95 % confidence`,
        }
      : {
          name: "End-to-end delay",
          value: "No answer",
          detail: "no epoch covers the whole path",
          tone: "warn",
        },
    ...(largest?.share
      ? [{ name: "Largest share of the delay", value: formatShare(largest.share), detail: nameOf(largest) }]
      : []),
    loss
      ? {
          name: "Loss",
          value: share(loss.rate),
          detail: `${formatCount(lost)} of ${countOf(sent, "packet")}`,
          tone: lost === 0 ? "good" : "bad",
        }
      : { name: "Loss", value: "No answer", detail: "no packets were counted", tone: "warn" },
    {
      name: "Spikes",
      value: count === 0 ? "None" : formatCount(count),
      detail: `${formatCount(spikes.length)} of delay, ${formatCount(lossSpikes.length)} of loss`,
      tone: count === 0 ? "good" : "bad",
    },
  ];
}

const SPIKE_COLUMNS = [
  { title: "when", text: true },
  { title: "segment to blame", text: true },
  { title: "before" },
  { title: "peak" },
  { title: "confidence", extra: true },
];

function spikeTable(rows: readonly (readonly string[])[]): string {
  return rows.length === 0 ? `<p class="no-answer">None.</p>` : table(SPIKE_COLUMNS, rows);
}

function spikeRow(s: Spike | LossSpike, when: When, before: string, peak: string, more: string): string[] {
  const who = s.segment
    ? `<strong>${escapeXml(nameOf(s.segment))}</strong>`
    : `not attributable: ${escapeXml(doubtText(s))}`;
  return [
    escapeXml(until(when(s.fromNs), s.open ? "still open" : when(s.toNs))),
    `${who}${escapeXml(more)}`,
    before,
    peak,
    s.segment ? percentBelowOne(s.confidence) : "–",
  ];
}

function delayRow(s: Spike, when: When): string[] {
  return spikeRow(s, when, formatNs(s.baselineNs, 3), formatNs(s.peakNs, 3), s.alsoLoss ? ", loss too" : "");
}

function lossRow(s: LossSpike, when: When): string[] {
  const total =
    s.loss && s.lost !== null ? `: ${countOrNot(s.lost)} of ${countOrNot(s.sent)}, ${interval(s.loss)}` : "";
  return spikeRow(s, when, share(s.baseline), share(s.peak), `${total}${s.alsoDelay ? ", delay too" : ""}`);
}

function segmentTable({ segments }: Localisation): string {
  const columns = [
    { title: "segment", text: true },
    { title: "mean delay" },
    { title: "std. deviation", extra: true },
    { title: "share of delay" },
    { title: "sent", extra: true },
    { title: "lost" },
    { title: "loss [95 %]", extra: true },
  ];
  const rows = segments.map((s) => [
    escapeXml(nameOf(s)),
    s.latency
      ? `${formatNs(s.latency.meanNs, 3)} ± ${formatNs((s.latency.highNs - s.latency.lowNs) / 2, 2)}`
      : "no answer",
    s.latency?.stdevNs == null ? "–" : formatNs(s.latency.stdevNs, 3),
    s.share === null ? "–" : formatShare(s.share),
    formatCount(s.sent),
    s.lost > 0 ? `<span class="has-loss">${formatCount(s.lost)}</span>` : "0",
    s.loss ? interval(s.loss) : "no answer",
  ]);
  return table(columns, rows);
}

function pathKey({ spikes, lossSpikes }: Localisation): string {
  const entries: [string, string][] = [];
  if (spikes.some((s) => s.segment)) entries.push(["spike", "blamed for delay"]);
  if (lossSpikes.some((s) => s.segment)) entries.push(["losing", "blamed for loss"]);
  return entries.length > 0 ? key(entries) : "";
}

function seriesKey(spikes: readonly (Spike | LossSpike)[]): string {
  const entries: [string, string][] = [["band", "95 % confidence interval"]];
  if (spikes.some((s) => s.segment)) entries.push(["spike", "spike of this segment"]);
  if (spikes.some((s) => !s.segment)) entries.push(["doubt", "spike that no segment can be blamed for"]);
  return key(entries);
}
