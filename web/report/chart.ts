/**
 * Common parts of all charts: they follow the width of the page and the colours of the system, show a read-out at the pointer, and can be used by keyboard
 * (arrows move the read-out; charts over time zoom with + and -, 0 shows all).
 */
import uPlot from "uplot";
import { instantAt, timeLabels, timeTicks } from "../design/scales.ts";
import { currentTheme, isPrinting, onThemeChange, type Theme } from "../design/theme.ts";
import { el } from "./elements.ts";

export type Readout = { title: string; rows: [name: string, value: string, colour?: string][] };

export interface Drawing {
  series: uPlot.Series[];
  scales: uPlot.Scales;
  axes: uPlot.Axis[];
  data: uPlot.AlignedData;
  bands?: uPlot.Band[];
  hooks?: uPlot.Hooks.Arrays;
}

export interface ChartSpec {
  /** Text alternative for readers who cannot see the chart. */
  label: string;
  heightPx: number;
  timeline?: Timeline;
  draw(theme: Theme): Drawing;
  readout(plot: uPlot, index: number): Readout | null;
  /** For charts with their own vertical cursor (heat map): pixels per key press. */
  stepPx?(plot: uPlot): number;
  points?: boolean;
  rightAxis?: boolean;
}

const AXIS_WIDTH_PX = 66;
/** Space to the right of every chart over time, so that charts with and without a second axis are aligned. */
export const RIGHT_PX = 52;

const charts: Chart[] = [];
let listening = false;

export class Chart {
  readonly root: HTMLElement;
  readonly #spec: ChartSpec;
  readonly #frame: HTMLElement;
  readonly #tip = el("div", { class: "tip", hidden: true, aria: { hidden: "true" } });
  readonly #spoken = el("div", { class: "unseen", role: "status", aria: { live: "polite" } });
  #plot: uPlot | null = null;
  #theme = currentTheme();
  #width = 0;
  #hidden = new Set<string>();
  /** True while the pointer or the keyboard focus is in this chart; false if it only follows another chart. */
  #active = false;
  #byKeyboard = false;

  constructor(spec: ChartSpec) {
    this.#spec = spec;
    this.#frame = el("div", {
      class: "chart",
      tabindex: 0,
      role: "img",
      aria: { label: spec.label },
      on: {
        keydown: (event) => this.#key(event),
        blur: () => this.#leave(),
        pointerenter: () => {
          this.#active = true;
          this.#byKeyboard = false;
        },
        pointerleave: () => this.#leave(),
      },
    });
    this.#frame.append(this.#tip);
    this.root = el("div", { class: "chart-box" }, this.#frame, this.#spoken);
    charts.push(this);
    spec.timeline?.add(this);
    new ResizeObserver(() => this.#fit()).observe(this.#frame);
    if (!listening) {
      listening = true;
      onThemeChange(() => {
        for (const chart of charts) chart.rebuild();
      });
    }
  }

  get plot(): uPlot | null {
    return this.#plot;
  }

  /** Redraws after a change of colours, of a switch, or of the page width. */
  rebuild(): void {
    const width = isPrinting() ? 680 : Math.floor(this.#frame.clientWidth);
    if (width < 50) return;
    this.#width = width;
    this.#theme = currentTheme();
    this.#plot?.destroy();
    const { timeline } = this.#spec;
    const drawing = this.#spec.draw(this.#theme);
    const options: uPlot.Options = {
      width,
      height: this.#spec.heightPx,
      legend: { show: false },
      padding: [10, this.#spec.rightAxis ? 0 : timeline && width > 600 ? RIGHT_PX : 28, 0, 0],
      focus: { alpha: 1 },
      series: drawing.series.map((s) => (this.#hidden.has(String(s.label)) ? { ...s, show: false } : s)),
      scales: drawing.scales,
      axes: drawing.axes,
      ...(drawing.bands && { bands: drawing.bands }),
      cursor: {
        ...(timeline && { sync: { key: timeline.key, scales: ["x", null] } }),
        drag: { x: timeline !== undefined, y: false, setScale: false },
        points: { show: this.#spec.points ?? true, size: 7, width: 2 },
        y: false,
        bind: {
          dblclick: () => () => {
            timeline?.showAll();
            return null;
          },
        },
      },
      hooks: {
        ...drawing.hooks,
        setCursor: [(plot) => this.#point(plot)],
        setSelect: [
          (plot) => {
            if (!timeline || plot.select.width < 4) return;
            const from = plot.posToVal(plot.select.left, "x");
            const to = plot.posToVal(plot.select.left + plot.select.width, "x");
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            timeline.show(from, to);
          },
        ],
      },
    };
    this.#plot = new uPlot(options, drawing.data, this.#frame);
  }

  toggle(label: string): boolean {
    if (!this.#hidden.delete(label)) this.#hidden.add(label);
    this.rebuild();
    return !this.#hidden.has(label);
  }

  #fit(): void {
    if (!isPrinting() && this.#frame.clientWidth !== this.#width) {
      this.rebuild();
    }
  }

  #leave(): void {
    this.#active = false;
    this.#tip.hidden = true;
  }

  #point(plot: uPlot): void {
    const { idx, left } = plot.cursor;
    const readout =
      this.#active && idx !== null && idx !== undefined && left !== undefined && left >= 0
        ? this.#spec.readout(plot, idx)
        : null;
    this.#tip.hidden = readout === null;
    if (!readout) return;
    this.#tip.replaceChildren(
      el("strong", {}, readout.title),
      ...readout.rows.map(([name, value, colour]) => {
        const key = el("i", { class: "key" });
        if (colour) key.style.background = colour;
        return el("div", {}, key, el("span", {}, name), el("b", {}, value));
      }),
    );
    if (this.#byKeyboard) {
      this.#spoken.textContent = [readout.title, ...readout.rows.map(([n, v]) => `${n} ${v}`)].join(", ");
    }
    const x = plot.over.offsetLeft + (left ?? 0);
    const room = this.#frame.clientWidth - x - 14;
    const wide = this.#tip.offsetWidth;
    const at = room >= wide ? x + 14 : Math.max(0, x - 14 - wide);
    this.#tip.style.transform = `translate(${Math.round(Math.min(at, this.#frame.clientWidth - wide))}px, 12px)`;
  }

  #key(event: KeyboardEvent): void {
    const plot = this.#plot;
    if (!plot || event.ctrlKey || event.metaKey || event.altKey) return;
    const { timeline, stepPx } = this.#spec;
    const move = (dx: number, dy: number) => {
      this.#active = this.#byKeyboard = true;
      const xs = plot.data[0];
      const seen = plot.cursor.left !== undefined && plot.cursor.left >= 0;
      const from = seen ? (plot.cursor.idx ?? 0) : plot.valToIdx(plot.scales["x"]!.min ?? 0) - dx;
      const to = Math.max(0, Math.min(xs.length - 1, from + dx));
      const top = seen ? (plot.cursor.top ?? 0) : plot.over.clientHeight / 2;
      plot.setCursor({
        left: plot.valToPos(xs[to]!, "x"),
        top: Math.max(1, Math.min(plot.over.clientHeight - 1, top + dy * (stepPx?.(plot) ?? 0))),
      });
    };
    const coarse = event.shiftKey ? 10 : 1;
    if (event.key === "ArrowLeft") move(-coarse, 0);
    else if (event.key === "ArrowRight") move(coarse, 0);
    else if (event.key === "ArrowUp" && stepPx) move(0, -coarse);
    else if (event.key === "ArrowDown" && stepPx) move(0, coarse);
    else if (event.key === "Escape") this.#leave();
    else if (timeline && (event.key === "+" || event.key === "=")) timeline.zoom(0.5, plot);
    else if (timeline && event.key === "-") timeline.zoom(2, plot);
    else if (timeline && event.key === "0") timeline.showAll();
    else return;
    event.preventDefault();
  }
}

/** The time axis that charts share: they zoom together and share the cursor. */
export class Timeline {
  readonly key = "time";
  readonly originNs: bigint;
  readonly #all: [number, number];
  #view: [number, number];
  readonly #charts: Chart[] = [];
  readonly #changed: ((zoomed: boolean) => void)[] = [];

  /** The ends are in seconds after the origin. */
  constructor(originNs: bigint, from: number, to: number) {
    this.originNs = originNs;
    this.#all = to > from ? [from, to] : [from - 0.5, from + 0.5];
    this.#view = this.#all;
  }

  add(chart: Chart): void {
    this.#charts.push(chart);
  }

  onChange(changed: (zoomed: boolean) => void): void {
    this.#changed.push(changed);
  }

  get span(): [number, number] {
    return this.#view;
  }

  show(from: number, to: number): void {
    const minimum = (this.#all[1] - this.#all[0]) / 1e5;
    if (to - from < minimum) return;
    this.#view = [Math.max(this.#all[0], from), Math.min(this.#all[1], to)];
    for (const { plot } of this.#charts) plot?.setScale("x", { min: this.#view[0], max: this.#view[1] });
    const zoomed = this.#view[0] > this.#all[0] || this.#view[1] < this.#all[1];
    for (const changed of this.#changed) changed(zoomed);
  }

  showAll(): void {
    this.show(...this.#all);
  }

  /** Zooms around the read-out if there is one, otherwise around the middle. */
  zoom(factor: number, plot: uPlot): void {
    const [from, to] = this.#view;
    const { left } = plot.cursor;
    const centre = left !== undefined && left >= 0 ? plot.posToVal(left, "x") : (from + to) / 2;
    this.show(centre - (centre - from) * factor, centre + (to - centre) * factor);
  }

  scale(): uPlot.Scale {
    return { time: false, range: () => this.#view };
  }

  axis(theme: Theme): uPlot.Axis {
    return {
      ...plainAxis(theme),
      // Labels have two lines if the day changes.
      size: this.#crossesMidnight() ? 44 : 30,
      splits: (plot, _axis, min, max) => timeTicks(this.originNs, min, max, Math.max(2, plot.width / 105)),
      values: (_plot, ticks) => timeLabels(this.originNs, ticks),
    };
  }

  #crossesMidnight(): boolean {
    const [from, to] = this.#all;
    return this.instant(from).slice(0, 10) !== this.instant(to).slice(0, 10);
  }

  instant(seconds: number, decimals = 3): string {
    return instantAt(this.originNs, seconds, decimals);
  }
}

export function plainAxis(theme: Theme): uPlot.Axis {
  return {
    stroke: theme.muted,
    font: '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif',
    grid: { stroke: theme.grid, width: 1 },
    ticks: { stroke: theme.grid, width: 1, size: 5 },
    gap: 6,
  };
}

/** Makes a vertical axis with ticks from `ticks`. All have the same width, so that time axes are aligned. */
export function valueAxis(
  theme: Theme,
  ticks: (low: number, high: number, maximum: number) => number[],
  labels: (ticks: number[]) => string[],
  extra: uPlot.Axis = {},
): uPlot.Axis {
  return {
    ...plainAxis(theme),
    size: AXIS_WIDTH_PX,
    splits: (plot, _axis, min, max) => ticks(min, max, Math.max(2, plot.height / 38)),
    values: (_plot, positions) => labels(positions),
    ...extra,
  };
}
