/**
 * A localisation as one HTML page: the path with its segments coloured by blame, the decomposition, one time series per
 * segment with error band and spikes. Inline SVG only: no script, no network, prints as it looks.
 */
import { formatDuration, formatTime } from "../base/time.ts";
import type { Localisation } from "./localise.ts";
import { percentBelowOne } from "./localise-text.ts";
import { axes, type Box, escapeXml, linearScale, polyline, px } from "./svg.ts";

const WIDTH = 1040;
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
  const { points, segments, endToEnd, spikes, notes, epochs } = localisation;
  const title = options.title ?? `Where the time goes: ${points[0]} to ${points.at(-1)}`;
  const startNs = epochs[0]!.startNs;
  const when = (ns: number) =>
    options.originNs === undefined
      ? `${Number(((ns - startNs) / 1e9).toFixed(3))} s`
      : formatTime(options.originNs + BigInt(Math.round(ns)));
  const spikeRows = spikes
    .map(
      (s) =>
        `<tr><td class="t">${escapeXml(when(s.fromNs))} … ${s.open ? "still open" : escapeXml(when(s.toNs))}</td>` +
        `<td class="t">${s.segment ? `<b>${escapeXml(`${s.segment.from} → ${s.segment.to}`)}</b>` : `cannot tell: ${escapeXml(s.reason ?? "")}`}</td>` +
        `<td>${formatDuration(s.baselineNs)}</td><td>${formatDuration(s.peakNs)}</td>` +
        `<td>${s.segment ? percentBelowOne(s.confidence) : "–"}</td></tr>`,
    )
    .join("\n");
  const segmentRows = segments
    .map(
      (s) =>
        `<tr><td class="t">${escapeXml(`${s.from} → ${s.to}`)}</td><td>${
          s.latency
            ? `${formatDuration(s.latency.meanNs)} ± ${formatDuration((s.latency.highNs - s.latency.lowNs) / 2)}`
            : "no answer"
        }</td><td>${s.latency?.stdevNs == null ? "–" : formatDuration(s.latency.stdevNs)}</td>` +
        `<td>${s.share === null ? "–" : `${(100 * s.share).toFixed(1)} %`}</td>` +
        `<td>${s.sent.toLocaleString("en-US")}</td><td>${s.lost.toLocaleString("en-US")}</td></tr>`,
    )
    .join("\n");
  const total = endToEnd.latency;
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escapeXml(title)}</title>
<style>body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1080px;padding:0 1rem;color:#1f2933;background:#fff}
table{border-collapse:collapse;margin:.5rem 0 1.5rem}td,th{padding:.25rem .9rem;text-align:right;border-bottom:1px solid #e4e7eb}.t{text-align:left}
svg{max-width:100%;height:auto;display:block}text{font-family:system-ui,sans-serif;fill:#1f2933}.title{font-size:13px;font-weight:600}
.tick{font-size:10.5px;fill:#52606d}.grid{stroke:#e4e7eb}.line{fill:none;stroke:#2563a8;stroke-width:1.5}.band{fill:#2563a8;opacity:.18}
.spike{fill:#d64545;opacity:.16}.doubt{fill:#c99700;opacity:.16}.dot{fill:#2563a8}</style>
<h1>${escapeXml(title)}</h1>
<p>${epochs.length} epochs, ${endToEnd.sent.toLocaleString("en-US")} packets sent, ${endToEnd.lost.toLocaleString("en-US")} lost; end to end ${
    total
      ? `${formatDuration(total.meanNs)} ± ${formatDuration((total.highNs - total.lowNs) / 2)}`
      : "no answer"
  }.</p>
${notes.length > 0 ? `<ul>${notes.map((n) => `<li>${escapeXml(n)}</li>`).join("")}</ul>` : ""}
${drawPath(localisation)}
<h2>Spikes</h2>
${
  spikes.length === 0
    ? "<p>None.</p>"
    : `<table><thead><tr><th class="t">when</th><th class="t">segment to blame</th><th>before</th><th>peak</th><th>confidence</th></tr></thead><tbody>
${spikeRows}
</tbody></table>`
}
<h2>Segments</h2>
<table><thead><tr><th class="t">segment</th><th>mean delay</th><th>deviation</th><th>share</th><th>sent</th><th>lost</th></tr></thead><tbody>
${segmentRows}
</tbody></table>
<h2>Over time</h2>
${segments.map((_, j) => drawSeries(localisation, j)).join("\n")}
${drawSeries(localisation, null)}
</html>
`;
}

/** Points in a row; a segment is as red as its largest rise in a spike it is blamed for. */
function drawPath({ points, segments, spikes }: Localisation): string {
  const rises = segments.map((s) =>
    Math.max(
      0,
      ...spikes
        .filter((k) => k.segment?.from === s.from && k.segment.to === s.to)
        .map((k) => k.peakNs - k.baselineNs),
    ),
  );
  const most = Math.max(1, ...rises);
  const step = (WIDTH - 120) / Math.max(1, points.length - 1);
  const at = (i: number) => 60 + i * step;
  const parts = segments.map((s, j) => {
    const heat = rises[j]! / most;
    const colour = CALM.map((c, k) => Math.round(c + (HOT[k]! - c) * heat)).join(",");
    const label = s.latency ? formatDuration(s.latency.meanNs) : "no answer";
    return (
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

function drawSeries(localisation: Localisation, segment: number | null): string {
  const { epochs, segments, spikes } = localisation;
  const box: Box = { left: 80, top: 26, width: WIDTH - 100, height: 110 };
  const startNs = epochs[0]!.startNs;
  const values = epochs.map((e) => (segment === null ? e.total : (e.segments[segment] ?? null)));
  const known = values.filter((v) => v !== null);
  const own = segment === null ? null : segments[segment]!;
  const title = own ? `${own.from} → ${own.to}` : "end to end";
  const low = known.reduce((m, v) => Math.min(m, v.lowNs), 0);
  const high = known.reduce((m, v) => Math.max(m, v.highNs), low + 1);
  const x = linearScale(0, epochs.at(-1)!.endNs - startNs, box.left, box.left + box.width, 8);
  const y = linearScale(low, high, box.top + box.height, box.top, 4);
  const marks = spikes
    .filter((s) => (own ? s.segment?.from === own.from && s.segment.to === own.to : true))
    .map((s) => {
      const from = x.at(s.fromNs - startNs);
      const width = Math.max(1.5, x.at(s.toNs - startNs) - from);
      return `<rect class="${s.segment ? "spike" : "doubt"}" x="${px(from)}" y="${box.top}" width="${px(width)}" height="${box.height}"/>`;
    });
  const middle = (i: number) => x.at((epochs[i]!.startNs + epochs[i]!.endNs) / 2 - startNs);
  // A gap (no answer) breaks the line: nothing is drawn where nothing is known.
  const runs: number[][] = [];
  values.forEach((v, i) => {
    if (v === null) return;
    if (i > 0 && values[i - 1] !== null && runs.length > 0) runs.at(-1)!.push(i);
    else runs.push([i]);
  });
  const drawn = runs.map((run) => {
    if (run.length === 1)
      return `<circle class="dot" r="1.6" cx="${px(middle(run[0]!))}" cy="${px(y.at(values[run[0]!]!.meanNs))}"/>`;
    const band = [
      ...run.map((i) => `${px(middle(i))},${px(y.at(values[i]!.highNs))}`),
      ...[...run].reverse().map((i) => `${px(middle(i))},${px(y.at(values[i]!.lowNs))}`),
    ].join(" ");
    return (
      `<polygon class="band" points="${band}"/>` +
      polyline(
        run.map((i) => [middle(i), y.at(values[i]!.meanNs)]),
        "line",
      )
    );
  });
  return (
    `<svg viewBox="0 0 ${WIDTH} 160" role="img" aria-label="${escapeXml(`Delay over time, ${title}`)}">` +
    axes(box, x, y, { title }, { x: (ns) => `${Number((ns / 1e9).toPrecision(6))} s`, y: formatDuration }) +
    `${marks.join("")}${drawn.join("")}</svg>`
  );
}

function clip(text: string, most: number): string {
  const letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, most - 1).join("")}…`;
}
