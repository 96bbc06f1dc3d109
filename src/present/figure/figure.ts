/**
 * Figures of reports: what a figure shows, as data. `drawFigure` makes SVG of it, `figureTable` the table that stands behind it.
 * Values are plain numbers; an axis says how they are written.
 */
export type Quantity = "share" | "time" | "count" | "plain";

export interface Axis {
  readonly label: string;
  readonly scale?: "linear" | "log";
  /** How values are written: shares as percent, times from ns. */
  readonly quantity?: Quantity;
  /** Left out: as the values need. */
  readonly range?: readonly [number, number];
  /** Names in place of numbers: value 0 is the first. */
  readonly names?: readonly string[];
}

export interface Point {
  readonly x: number;
  readonly y: number;
  /** An error bar. */
  readonly low?: number;
  readonly high?: number;
}

export interface Series {
  readonly name: string;
  readonly points: readonly Point[];
  /** Lines with marks where left out; steps for distributions. */
  readonly kind?: "line" | "marks" | "steps";
  /** What the paper claims: grey and dashed. */
  readonly claimed?: boolean;
}

export interface Figure {
  readonly title: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly series: readonly Series[];
}

/** The distribution of values as steps of at most `count` points; nothing where there are no values. */
export function distribution(name: string, values: Iterable<number>, count = 120): Series {
  const sorted = Float64Array.from(values).filter(Number.isFinite).sort();
  const points: Point[] = [];
  const steps = Math.min(count, sorted.length);
  for (let i = 1; i <= steps; i++) {
    const at = Math.ceil((i * sorted.length) / steps) - 1;
    points.push({ x: sorted[at]!, y: (at + 1) / sorted.length });
  }
  return { name, points, kind: "steps" };
}
