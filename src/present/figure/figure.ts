/**
 * Figures of reports as data. `drawFigure` draws the SVG, `figureTable` returns the table behind it. Values are plain numbers; an axis defines how they are
 * written.
 */
export type Quantity = "share" | "time" | "count" | "plain";

export interface Axis {
  readonly label: string;
  readonly scale?: "linear" | "log";
  /** How values are written: shares as percent, times with units from ns up. */
  readonly quantity?: Quantity;
  /** Default: the range of the values. */
  readonly range?: readonly [number, number];
  /** Names instead of numbers: value 0 is the first name. */
  readonly names?: readonly string[];
}

export interface Point {
  readonly x: number;
  readonly y: number;
  /** Ends of an error bar. */
  readonly low?: number;
  readonly high?: number;
}

export interface Series {
  readonly name: string;
  readonly points: readonly Point[];
  /** Default: lines with marks. Steps are for distributions. */
  readonly kind?: "line" | "marks" | "steps";
  /** The paper's claim: drawn grey and dashed. */
  readonly claimed?: boolean;
}

export interface Figure {
  readonly title: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly series: readonly Series[];
}

/** Returns the distribution of values as steps of at most `count` points; no points if there are no values. */
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
