/**
 * A localisation as one HTML page: the path with its segments coloured by blame, the decomposition, one time series per
 * segment with error band and spikes. Inline SVG only: no script, no network, prints as it looks.
 */
import { entryAt } from "../../base/lists.ts";
import { countOrNot } from "../../base/quantity.ts";
import { formatDuration, formatTime } from "../../base/time.ts";
import type { Localisation } from "../../network/localise/localise.ts";
import type { LossSpike, Spike } from "../../network/localise/verdicts.ts";
import { drawDelays, drawLoss, WIDTH } from "../svg/localise-series.ts";
import { escapeXml, px } from "../svg/svg.ts";
import { doubtText, interval, percentBelowOne, share } from "../text/localise-text.ts";

const CALM = [196, 214, 232];
const HOT = [214, 69, 69];

export interface LocalisationPageOptions {
  readonly title?: string;
  /** The origin of all times, in nanoseconds since 1970. */
  readonly originNs?: bigint;
}

export function renderLocalisationHtml(
  localisation: Localisation,
  options: LocalisationPageOptions = {},
): string {
  const { points, segments, endToEnd, spikes, lossSpikes, notes, epochs } = localisation;
  const title = options.title ?? `Where the time goes: ${points[0]} to ${points.at(-1)}`;
  const { startNs } = entryAt(epochs, 0);
  const when = (ns: number) =>
    options.originNs === undefined
      ? `${Number(((ns - startNs) / 1e9).toFixed(3))} s`
      : formatTime(options.originNs + BigInt(Math.round(ns)));
  const row = (s: Spike | LossSpike, before: string, peak: string, more: string) =>
    `<tr><td class="t">${escapeXml(when(s.fromNs))} … ${s.open ? "still open" : escapeXml(when(s.toNs))}</td>` +
    `<td class="t">${s.segment ? `<b>${escapeXml(`${s.segment.from} → ${s.segment.to}`)}</b>` : `not attributable: ${escapeXml(doubtText(s))}`}${more}</td>` +
    `<td>${before}</td><td>${peak}</td><td>${s.segment ? percentBelowOne(s.confidence) : "–"}</td></tr>`;
  const spikeRows = spikes.map((s) =>
    row(s, formatDuration(s.baselineNs), formatDuration(s.peakNs), s.alsoLoss ? ", loss too" : ""),
  );
  const lossRows = lossSpikes.map((s) => {
    const told =
      s.loss && s.lost !== null
        ? `: ${countOrNot(s.lost)} of ${countOrNot(s.sent)}, ${interval(s.loss)}`
        : "";
    return row(s, share(s.baseline), share(s.peak), `${told}${s.alsoDelay ? ", delay too" : ""}`);
  });
  const segmentRows = segments
    .map(
      (s) =>
        `<tr><td class="t">${escapeXml(`${s.from} → ${s.to}`)}</td><td>${
          s.latency
            ? `${formatDuration(s.latency.meanNs)} ± ${formatDuration((s.latency.highNs - s.latency.lowNs) / 2)}`
            : "no answer"
        }</td><td>${s.latency?.stdevNs == null ? "–" : formatDuration(s.latency.stdevNs)}</td>` +
        `<td>${s.share === null ? "–" : `${(100 * s.share).toFixed(1)} %`}</td>` +
        `<td>${s.sent.toLocaleString("en-US")}</td><td>${s.lost.toLocaleString("en-US")}</td><td>${s.loss ? interval(s.loss) : "no answer"}</td></tr>`,
    )
    .join("\n");
  const total = endToEnd.latency;
  const lossy = [...segments.entries()].flatMap(([j, segment]) => (segment.lost > 0 ? [j] : []));
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escapeXml(title)}</title>
<style>body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1080px;padding:0 1rem;color:#1f2933;background:#fff}
table{border-collapse:collapse;margin:.5rem 0 1.5rem}td,th{padding:.25rem .9rem;text-align:right;border-bottom:1px solid #e4e7eb}.t{text-align:left}
svg{max-width:100%;height:auto;display:block}text{font-family:system-ui,sans-serif;fill:#1f2933}.title{font-size:13px;font-weight:600}
.tick{font-size:10.5px;fill:#52606d}.grid{stroke:#e4e7eb}.line{fill:none;stroke:#2563a8;stroke-width:1.5}.band{fill:#2563a8;opacity:.18}
.spike{fill:#d64545;opacity:.16}.doubt{fill:#c99700;opacity:.16}.dot{fill:#2563a8}.losing{stroke:#c99700;stroke-width:17}</style>
<h1>${escapeXml(title)}</h1>
<p>${epochs.length} epochs, ${endToEnd.sent.toLocaleString("en-US")} packets sent, ${endToEnd.lost.toLocaleString("en-US")} lost; end to end ${
    total
      ? `${formatDuration(total.meanNs)} ± ${formatDuration((total.highNs - total.lowNs) / 2)}`
      : "no answer"
  }.</p>
${notes.length > 0 ? `<ul>${notes.map((n) => `<li>${escapeXml(n)}</li>`).join("")}</ul>` : ""}
${drawPath(localisation)}
<h2>Spikes of delay</h2>
${spikeTable(spikeRows)}
<h2>Spikes of loss</h2>
${spikeTable(lossRows)}
<h2>Segments</h2>
<table><thead><tr><th class="t">segment</th><th>mean delay</th><th>deviation</th><th>share</th><th>sent</th><th>lost</th><th>share lost</th></tr></thead><tbody>
${segmentRows}
</tbody></table>
<h2>Delay over time</h2>
${segments.map((_, j) => drawDelays(localisation, j)).join("\n")}
${drawDelays(localisation, null)}
<h2>Share lost over time</h2>
${lossy.length > 0 ? lossy.map((j) => drawLoss(localisation, j)).join("\n") : "<p>Nothing was lost.</p>"}
</html>
`;
}

function spikeTable(rows: readonly string[]): string {
  if (rows.length === 0) return "<p>None.</p>";
  return `<table><thead><tr><th class="t">when</th><th class="t">segment to blame</th><th>before</th><th>peak</th><th>confidence</th></tr></thead><tbody>
${rows.join("\n")}
</tbody></table>`;
}

/** Points in a row; a segment is as red as its largest rise in a spike of delay it is blamed for, and ringed where it is blamed for loss. */
function drawPath({ points, segments, spikes, lossSpikes }: Localisation): string {
  const rises = segments.map((s) =>
    Math.max(
      0,
      ...spikes
        .filter((k) => k.segment?.from === s.from && k.segment.to === s.to)
        .map((k) => k.peakNs - k.baselineNs),
    ),
  );
  const maximum = Math.max(1, ...rises);
  const step = (WIDTH - 120) / Math.max(1, points.length - 1);
  const at = (i: number) => 60 + i * step;
  const parts = segments.map((s, j) => {
    const heat = rises[j]! / maximum;
    const colour = CALM.map((c, k) => Math.round(c + (HOT[k]! - c) * heat)).join(",");
    const label = s.latency ? formatDuration(s.latency.meanNs) : "no answer";
    const losing = lossSpikes.some((k) => k.segment?.from === s.from && k.segment.to === s.to);
    return (
      (losing
        ? `<line class="losing" x1="${px(at(j))}" x2="${px(at(j + 1))}" y1="50" y2="50"><title>${escapeXml(`${s.from} → ${s.to}: blamed for loss`)}</title></line>`
        : "") +
      `<line x1="${px(at(j))}" x2="${px(at(j + 1))}" y1="50" y2="50" stroke="rgb(${colour})" stroke-width="9">` +
      `<title>${escapeXml(`${s.from} → ${s.to}: ${label}`)}</title></line>` +
      `<text class="tick" text-anchor="middle" x="${px((at(j) + at(j + 1)) / 2)}" y="38">${escapeXml(label)}</text>`
    );
  });
  const dots = points.map(
    (name, i) =>
      `<circle class="dot" cx="${px(at(i))}" cy="50" r="7"/>` +
      `<text class="tick" text-anchor="middle" x="${px(at(i))}" y="${i % 2 === 0 ? 76 : 90}">${escapeXml(clip(name, 24))}</text>`,
  );
  return `<svg viewBox="0 0 ${WIDTH} 100" role="img" aria-label="The path and its segments">${parts.join("")}${dots.join("")}</svg>`;
}

function clip(text: string, maximum: number): string {
  const letters = [...text];
  return letters.length <= maximum ? text : `${letters.slice(0, maximum - 1).join("")}…`;
}
