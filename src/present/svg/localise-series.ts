/** Time series of a localisation as inline SVG: delays, or shares lost, with their band and the spikes. */
import { entryAt } from "../../base/lists.ts";
import { formatDuration } from "../../base/time.ts";
import type { Localisation } from "../../network/localise/localise.ts";
import type { LossSpike, Spike } from "../../network/localise/verdicts.ts";
import { share } from "../text/localise-text.ts";
import { axes, type Box, escapeXml, linearScale, polyline, px } from "./svg.ts";

export const WIDTH = 1040;

interface Drawn {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** Delay of a segment, or of the whole path (null). */
export function drawDelays(localisation: Localisation, segment: number | null): string {
  const { epochs, spikes } = localisation;
  const values = epochs.map((e) => {
    const part = segment === null ? e.total : e.segments[segment];
    return part ? { value: part.meanNs, low: part.lowNs, high: part.highNs } : null;
  });
  return drawSeries(localisation, segment, values, spikes, {
    what: "Delay",
    minimum: 1,
    text: formatDuration,
  });
}

export function drawLoss(localisation: Localisation, segment: number): string {
  const { epochs, lossSpikes } = localisation;
  const values = epochs.map((e) => {
    const loss = e.loss[segment];
    return loss ? { value: loss.rate, low: loss.low, high: loss.high } : null;
  });
  return drawSeries(localisation, segment, values, lossSpikes, {
    what: "Share lost",
    minimum: 1e-6,
    text: share,
  });
}

function drawSeries(
  { epochs, segments }: Localisation,
  segment: number | null,
  values: readonly (Drawn | null)[],
  spikes: readonly (Spike | LossSpike)[],
  unit: { what: string; minimum: number; text: (value: number) => string },
): string {
  const box: Box = { left: 80, top: 26, width: WIDTH - 100, height: 110 };
  const startNs = entryAt(epochs, 0).startNs;
  const known = values.filter((v) => v !== null);
  const own = segment === null ? null : entryAt(segments, segment);
  const title = own ? `${own.from} → ${own.to}` : "end to end";
  const low = known.reduce((m, v) => Math.min(m, v.low), 0);
  const high = known.reduce((m, v) => Math.max(m, v.high), low + unit.minimum);
  const x = linearScale(0, entryAt(epochs, -1).endNs - startNs, box.left, box.left + box.width, 8);
  const y = linearScale(low, high, box.top + box.height, box.top, 4);
  const marks = spikes
    .filter((s) => (own ? s.segment?.from === own.from && s.segment.to === own.to : true))
    .map((s) => {
      const from = x.at(s.fromNs - startNs);
      const width = Math.max(1.5, x.at(s.toNs - startNs) - from);
      return `<rect class="${s.segment ? "spike" : "doubt"}" x="${px(from)}" y="${box.top}" width="${px(width)}" height="${box.height}"/>`;
    });
  const middle = (i: number) => x.at((entryAt(epochs, i).startNs + entryAt(epochs, i).endNs) / 2 - startNs);
  // A gap (no answer) breaks the line: nothing is drawn where nothing is known.
  const runs: number[][] = [];
  values.forEach((v, i) => {
    if (v === null) return;
    if (i > 0 && values[i - 1] !== null && runs.length > 0) entryAt(runs, -1).push(i);
    else runs.push([i]);
  });
  const drawn = runs.map((run) => {
    if (run.length === 1)
      return `<circle class="dot" r="1.6" cx="${px(middle(entryAt(run, 0)))}" cy="${px(y.at(entryAt(values, entryAt(run, 0)).value))}"/>`;
    const band = [
      ...run.map((i) => `${px(middle(i))},${px(y.at(entryAt(values, i).high))}`),
      ...[...run].reverse().map((i) => `${px(middle(i))},${px(y.at(entryAt(values, i).low))}`),
    ].join(" ");
    return (
      `<polygon class="band" points="${band}"/>` +
      polyline(
        run.map((i) => [middle(i), y.at(entryAt(values, i).value)]),
        "line",
      )
    );
  });
  return (
    `<svg viewBox="0 0 ${WIDTH} 160" role="img" aria-label="${escapeXml(`${unit.what} over time, ${title}`)}">` +
    axes(box, x, y, { title }, { x: (ns) => `${Number((ns / 1e9).toPrecision(6))} s`, y: unit.text }) +
    `${marks.join("")}${drawn.join("")}</svg>`
  );
}
