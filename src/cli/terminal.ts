/** Colours (only if the terminal shows them) and a progress line. */
import type { Palette } from "../present/text/palette.ts";
import { visible } from "../present/text/visible.ts";

/**
 * Colours are marks in the text with a random number that is drawn at run time; `toTerminal` turns them into escape codes. Any other escape code in the text
 * comes from a file and is made visible.
 */
let drawnMark: string | null = null;

/** Drawn when the first colour is used: without colours it is not needed, and its module is slow to load. */
function mark(): string {
  drawnMark ??= `\u001b<${process.getBuiltinModule("node:crypto").randomBytes(8).toString("hex")}:`;
  return drawnMark;
}

function paint(open: number, close: number, on: () => boolean): (text: string) => string {
  return (text) => (on() ? `${mark()}${open}>${text}${mark()}${close}>` : text);
}

export function palette(on: () => boolean): Palette {
  return {
    bold: paint(1, 22, on),
    dim: paint(2, 22, on),
    red: paint(31, 39, on),
    yellow: paint(33, 39, on),
    green: paint(32, 39, on),
  };
}

/**
 * Returns whether standard output is a terminal with escape codes, so that a screen can be drawn. Called only when there is something to print, because
 * standard output is slow to initialise.
 */
export function drawsScreens(): boolean {
  return process.stdout.isTTY === true && process.env["TERM"] !== "dumb";
}

export const colours = palette(() => drawsScreens() && process.env["NO_COLOR"] === undefined);

/** Converts text for the terminal; all text goes through this function. */
export function toTerminal(text: string): string {
  if (drawnMark === null) return visible(text);
  const [first = "", ...rest] = text.split(drawnMark);
  let out = visible(first);
  for (const part of rest) {
    const end = part.indexOf(">");
    out += `\u001b[${part.slice(0, end)}m${visible(part.slice(end + 1))}`;
  }
  return out;
}

/** An escape code of a colour, which takes no column, or one character. */
const COLOUR_OR_CHARACTER = /\p{Cc}\[\d+m|./gsu;
/** Indent of continuation lines. */
const INDENT = "  ";

/** Splits a line from `toTerminal` into lines that fit the terminal, between columns of text (two spaces) if possible. */
export function foldLine(line: string, columns: number): string[] {
  const lines: string[] = [];
  let row: string[] = [];
  let width = 0;
  for (const piece of line.match(COLOUR_OR_CHARACTER) ?? []) {
    if (piece.length > 2) row.push(piece);
    else {
      if (width >= columns) {
        const cut = piece === " " ? row.length : breakOf(row);
        lines.push(row.slice(0, cut).join("").trimEnd());
        row = [...INDENT, ...row.slice(cut)];
        width = row.filter((text) => text.length <= 2).length;
      }
      // Drops the spaces at which a line was broken.
      if (piece === " " && lines.length > 0 && width === INDENT.length) continue;
      row.push(piece);
      width++;
    }
  }
  return [...lines, row.join("")];
}

/** Returns the position behind the last two spaces, except those at the start of the line; otherwise the end. */
function breakOf(row: readonly string[]): number {
  for (let i = row.length; i > 2 * INDENT.length; i--) if (row[i - 1] === " " && row[i - 2] === " ") return i;
  return row.length;
}

/** A line on stderr that is redrawn in place; silent if stderr is no terminal. */
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
