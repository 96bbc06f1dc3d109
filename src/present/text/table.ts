/** The one table printer: aligned columns, a heading, any number of rows. Control characters in cells are escaped here, so that widths are right. */
import type { Palette } from "./palette.ts";
import { visibleLine } from "./visible.ts";

export interface Column<T> {
  title: string;
  /** Text is aligned left, numbers right (the default). */
  align?: "left" | "right";
  value: (row: T) => string;
  /** Longer cells shift the rest of their row instead of widening the column. */
  maxWidth?: number;
}

export interface TableOptions {
  colours?: Pick<Palette, "dim">;
  indent?: string;
}

const length = (text: string) => [...text].length;

export function formatTable<T>(
  columns: readonly Column<T>[],
  rows: Iterable<T>,
  { colours, indent = "  " }: TableOptions = {},
): string {
  const cells: string[][] = [];
  const widths = columns.map((column) => length(column.title));
  for (const row of rows) {
    const line = columns.map(({ value, maxWidth = Number.POSITIVE_INFINITY }, i) => {
      const cell = visibleLine(value(row));
      widths[i] = Math.max(widths[i] ?? 0, Math.min(length(cell), maxWidth));
      return cell;
    });
    cells.push(line);
  }
  const line = (texts: readonly string[]) => {
    const padded = texts.map((text, i) => {
      const gap = " ".repeat(Math.max(0, (widths[i] ?? 0) - length(text)));
      return columns[i]?.align === "left" ? text + gap : gap + text;
    });
    return indent + padded.join("  ").trimEnd();
  };
  const heading = line(columns.map((column) => column.title));
  return [colours ? colours.dim(heading) : heading, ...cells.map(line)].join("\n");
}
