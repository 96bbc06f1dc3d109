/** The full screen of `hoptime top`: redrawn in place, with keys. */
import type { TopOrder, TopView } from "../present/text/top-text.ts";
import { colours, foldLine, toTerminal } from "./terminal.ts";

const ORDERS: Readonly<Record<string, TopOrder>> = {
  p: "packets",
  l: "loss",
  m: "mean",
  x: "max",
  j: "jitter",
};

export interface TopScreenOptions<T> {
  /** Changed by keys. */
  view: TopView;
  /** Text before the first results. */
  waiting: string;
  /** Number of lines above the flows. */
  headLines: number;
  format: (shown: T) => string;
  end: () => void;
  /** Additional keys and their actions. */
  keys?: Readonly<Record<string, { text: string; act: () => void }>>;
}

export class TopScreen<T> {
  readonly #options: TopScreenOptions<T>;
  #last: T | null = null;
  #searching = false;
  readonly #onKey: (data: Buffer) => void;

  constructor(options: TopScreenOptions<T>) {
    this.#options = options;
    this.#onKey = (data) => {
      for (const key of data.toString("utf8")) if (this.#key(key)) options.end();
      this.#draw();
    };
    process.stdout.write("\u001b[?1049h\u001b[?25l");
    process.once("exit", giveBack);
    if (process.stdin.isTTY) {
      process.stdin.setRawMode(true);
      process.stdin.on("data", this.#onKey).resume();
    }
    this.#draw();
  }

  show(shown: T): void {
    this.#last = shown;
    this.#draw();
  }

  close(): void {
    process.off("exit", giveBack);
    if (process.stdin.isTTY) process.stdin.off("data", this.#onKey).pause();
    giveBack();
    // The last state stays on the screen.
    if (this.#last !== null) process.stdout.write(`${toTerminal(this.#options.format(this.#last))}\n`);
  }

  /** Handles a key; returns true if it ends the program. */
  #key(key: string): boolean {
    const { view, keys = {} } = this.#options;
    // In raw mode, Ctrl-C is a key like any other.
    if (key === "\u0003" || (!this.#searching && key === "q")) return true;
    if (this.#searching) {
      if (key === "\r" || key === "\n" || key === "\u001b") this.#searching = false;
      else if (key === "\u007f") view.search = view.search.slice(0, -1);
      else view.search += key;
    } else if (key === "/") {
      this.#searching = true;
      view.search = "";
    } else if (keys[key]) keys[key].act();
    else view.order = ORDERS[key] ?? view.order;
    return false;
  }

  #draw(): void {
    const { view, waiting, headLines, format, keys = {} } = this.#options;
    // Some terminals report a size of 0.
    const rows = process.stdout.rows || 24;
    const columns = process.stdout.columns || 80;
    view.rows = Math.max(1, rows - headLines - 1);
    const body = this.#last === null ? waiting : format(this.#last);
    const own = Object.entries(keys).map(([key, { text }]) => `${key} ${text}  `);
    const prompt = this.#searching
      ? `/${view.search}`
      : `p packets  l loss  m mean  x max  j jitter  ${own.join("")}/ search  q end`;
    // Long lines are folded here: if a narrow terminal wrapped them, the first lines would scroll off the screen.
    const folded = body.split("\n").flatMap((line) => foldLine(toTerminal(line), columns));
    const last = toTerminal(colours.dim(prompt.slice(0, columns - 1)));
    const lines = [...folded.slice(0, rows - 1), last];
    process.stdout.write(`\u001b[H${lines.map((line) => `${line}\u001b[K`).join("\r\n")}\u001b[J`);
  }
}

/** Restores the terminal; also called after a second signal. */
function giveBack(): void {
  if (process.stdin.isTTY) process.stdin.setRawMode(false);
  process.stdout.write("\u001b[?25h\u001b[?1049l");
}
