/** A localisation as inline SVG: its path with the blamed segments, and time series of delays or loss with error band and spikes. */
import { entryAt } from "../../base/lists.ts";
import { formatDuration } from "../../base/time.ts";
import type { Localisation } from "../../network/localise/localise.ts";
import type { LossSpike, Spike } from "../../network/localise/verdicts.ts";
import { share } from "../text/localise-text.ts";
import { axes, type Box, escapeXml, linearScale, polyline, px } from "./svg.ts";

const WIDTH = 1040;

interface Drawn {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** The vertical range that all pictures of a report share, so that rises can be compared by height. */
export interface SeriesScale {
  readonly delayNs: number;
  readonly loss: number;
}

export function commonScale({ epochs, segments }: Localisation): SeriesScale {
  const reach = (list: readonly ({ low: number; high: number } | null)[]) => {
    const known = list.filter((v) => v !== null);
    const low = known.reduce((m, v) => Math.min(m, v.low), Number.POSITIVE_INFINITY);
    return known.reduce((m, v) => Math.max(m, v.high - low), 0);
  };
  const delays = [null, ...segments.keys()].map((j) => reach(epochs.map((e) => delayOf(e, j))));
  const losses = epochs.flatMap((e) => e.loss.map((loss) => loss?.high ?? 0));
  return { delayNs: Math.max(1, ...delays), loss: losses.reduce((m, v) => Math.max(m, v), 1e-6) };
}

function delayOf(epoch: Localisation["epochs"][number], segment: number | null): Drawn | null {
  const part = segment === null ? epoch.total : epoch.segments[segment];
  return part ? { value: part.meanNs, low: part.lowNs, high: part.highNs } : null;
}

/** Draws the delay of a segment, or of the whole path (null). */
export function drawDelays(localisation: Localisation, segment: number | null, scale: SeriesScale): string {
  const { epochs, spikes } = localisation;
  const values = epochs.map((e) => delayOf(e, segment));
  return drawSeries(localisation, segment, values, spikes, {
    what: "Delay",
    reach: scale.delayNs,
    fromZero: false,
    text: formatDuration,
  });
}

export function drawLoss(localisation: Localisation, segment: number, scale: SeriesScale): string {
  const { epochs, lossSpikes } = localisation;
  const values = epochs.map((e) => {
    const loss = e.loss[segment];
    return loss ? { value: loss.rate, low: loss.low, high: loss.high } : null;
  });
  return drawSeries(localisation, segment, values, lossSpikes, {
    what: "Loss",
    reach: scale.loss,
    fromZero: true,
    text: share,
  });
}

function drawSeries(
  { epochs, segments }: Localisation,
  segment: number | null,
  values: readonly (Drawn | null)[],
  spikes: readonly (Spike | LossSpike)[],
  unit: { what: string; reach: number; fromZero: boolean; text: (value: number) => string },
): string {
  const box: Box = { left: 80, top: 26, width: WIDTH - 100, height: 110 };
  const startNs = entryAt(epochs, 0).startNs;
  const known = values.filter((v) => v !== null);
  const own = segment === null ? null : entryAt(segments, segment);
  const name = own ? `${own.from} → ${own.to}` : "end to end";
  const low = known.reduce((m, v) => Math.min(m, v.low), unit.fromZero ? 0 : (known[0]?.low ?? 0));
  const title = unit.fromZero || known.length === 0 ? name : `${name}, axis from ${unit.text(low)}`;
  const high = low + unit.reach;
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
  // A gap (no answer) breaks the line: unknown values are not interpolated.
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
    `<svg class="picture" viewBox="0 0 ${WIDTH} 160" role="img" aria-label="${escapeXml(`${unit.what} over time, ${name}`)}">` +
    axes(box, x, y, { title }, { x: (ns) => `${Number((ns / 1e9).toPrecision(6))} s`, y: unit.text }) +
    `${marks.join("")}${drawn.join("")}</svg>`
  );
}

/** Draws the path as points in a row. A segment's line is thicker the larger the delay spikes it is blamed for; a dotted line below marks blame for loss. */
export function drawPath({ points, segments, spikes, lossSpikes }: Localisation): string {
  const rises = Float64Array.from(segments, (s) =>
    spikes.reduce((max, k) => (isOf(k, s) ? Math.max(max, k.peakNs - k.baselineNs) : max), 0),
  );
  const maximum = Math.max(1, ...rises);
  const step = (WIDTH - 160) / Math.max(1, points.length - 1);
  const at = (i: number) => 80 + i * step;
  const lines = segments.map((s, j) => {
    const blamed = rises[j]! > 0;
    const ends = `x1="${px(at(j))}" x2="${px(at(j + 1))}"`;
    const middle = `text-anchor="middle" x="${px((at(j) + at(j + 1)) / 2)}"`;
    const delay = s.latency ? formatDuration(s.latency.meanNs) : "no answer";
    const kind = blamed ? " blamed" : "";
    const width = ` stroke-width="${px(5 + (7 * rises[j]!) / maximum)}"`;
    const losing = lossSpikes.some((k) => isOf(k, s));
    return (
      `<line class="hop${kind}" ${ends} y1="56" y2="56"${width}>` +
      `<title>${escapeXml(`${s.from} → ${s.to}: ${delay}${blamed ? ", blamed for delay" : ""}`)}</title></line>` +
      (losing
        ? `<line class="losing" ${ends} y1="68" y2="68"><title>${escapeXml(`${s.from} → ${s.to}: blamed for loss`)}</title></line>`
        : "") +
      `<text class="${blamed ? "blamed-text" : ""}" ${middle} y="26">${escapeXml(delay)}</text>` +
      (s.share === null
        ? ""
        : `<text class="tick" ${middle} y="42">${(100 * s.share).toFixed(0)} % of the delay</text>`)
    );
  });
  const nodes = points.map(
    (name, i) =>
      `<circle class="node" cx="${px(at(i))}" cy="56" r="7"/>` +
      `<text text-anchor="middle" x="${px(at(i))}" y="${i % 2 === 0 || points.length < 6 ? 90 : 106}">${escapeXml(clip(name, 20))}</text>`,
  );
  return `<svg class="picture" viewBox="0 0 ${WIDTH} ${points.length < 6 ? 100 : 116}" role="img" aria-label="The path and its segments">${lines.join("")}${nodes.join("")}</svg>`;
}

function isOf({ segment }: Spike | LossSpike, { from, to }: { from: string; to: string }): boolean {
  return segment?.from === from && segment.to === to;
}

function clip(text: string, maximum: number): string {
  const letters = [...text];
  return letters.length <= maximum ? text : `${letters.slice(0, maximum - 1).join("")}…`;
}
