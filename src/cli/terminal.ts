/** What commands share on a terminal: aligned tables, a progress line, colours only where they can be seen. */
import pc from "picocolors";

export const colours = pc.createColors(
  process.stdout.isTTY === true && process.env["NO_COLOR"] === undefined,
);

export interface Column<T> {
  title: string;
  align?: "left" | "right";
  value: (row: T) => string;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character is what colour codes begin with
const COLOUR_CODES = /\u001b\[[0-9;]*m/g;

function width(text: string): number {
  return [...text.replace(COLOUR_CODES, "")].length;
}

function pad(text: string, to: number, align: "left" | "right"): string {
  const gap = " ".repeat(Math.max(0, to - width(text)));
  return align === "left" ? text + gap : gap + text;
}

export function formatTable<T>(columns: readonly Column<T>[], rows: readonly T[], indent = ""): string {
  const cells = rows.map((row) => columns.map((c) => c.value(row)));
  const widths = columns.map((c, i) => Math.max(width(c.title), ...cells.map((r) => width(r[i]!))));
  const line = (texts: string[], style: (t: string) => string = (t) => t) =>
    indent +
    texts
      .map((t, i) => style(pad(t, widths[i]!, columns[i]!.align ?? "right")))
      .join("  ")
      .trimEnd();
  return [
    line(
      columns.map((c) => c.title),
      colours.dim,
    ),
    ...cells.map((r) => line(r)),
  ].join("\n");
}

/** A line on stderr that is drawn over itself; silent where stderr is no terminal. */
export class Progress {
  readonly #label: string;
  readonly #start = Date.now();
  #last = 0;
  #drawn = false;

  constructor(label: string) {
    this.#label = label;
  }

  update(done: number, total: number | null, packets: number): void {
    if (!process.stderr.isTTY) return;
    const now = Date.now();
    if (now - this.#last < 100 || now - this.#start < 300) return;
    this.#last = now;
    this.#drawn = true;
    const rate = packets / Math.max(1, now - this.#start) / 1000;
    const share = total === null || total === 0 ? null : Math.min(1, done / total);
    const bar =
      share === null
        ? `${(done / 1e6).toFixed(0)} MB`
        : `[${"█".repeat(Math.round(share * 30)).padEnd(30, "·")}] ${(share * 100).toFixed(0)} %`;
    process.stderr.write(
      `\r\u001b[K${this.#label} ${bar}  ${(packets / 1e6).toFixed(1)} M packets  ${rate.toFixed(1)} M/s`,
    );
  }

  clear(): void {
    if (this.#drawn) process.stderr.write("\r\u001b[K");
    this.#drawn = false;
  }
}
