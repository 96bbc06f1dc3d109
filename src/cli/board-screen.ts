/** A table of segments that is redrawn in place on a terminal; otherwise an occasional line. */
import type { SegmentBoard } from "../present/text/segment-board.ts";
import { printText } from "./output.ts";
import { colours, drawsScreens, toTerminal } from "./terminal.ts";

const DRAW_MS = 250;
const LINE_MS = 1000;

export class BoardScreen {
  readonly #board: SegmentBoard;
  readonly #note: () => string | null;
  readonly #terminal = drawsScreens();
  #drawn = 0;
  #nextMs = 0;
  /** There are changes that were not drawn yet. */
  #behind = false;
  #begunMs: number | null = null;

  /** `note` returns the current remark about the whole table. */
  constructor(board: SegmentBoard, note: () => string | null = () => null) {
    this.#board = board;
    this.#note = note;
  }

  async take(type: string, data: unknown): Promise<void> {
    const line = this.#board.take(type, data);
    this.#begunMs ??= performance.now();
    if (line !== null) await this.#say(line);
    if (type !== "epoch") return;
    this.#behind = true;
    if (performance.now() >= this.#nextMs) await this.#show();
  }

  /** The last state stays on the screen. */
  async close(): Promise<void> {
    if (this.#behind) await this.#show();
    this.#drawn = 0;
  }

  async #show(): Promise<void> {
    const now = performance.now();
    this.#behind = false;
    this.#nextMs = now + (this.#terminal ? DRAW_MS : LINE_MS);
    if (this.#terminal) this.#draw();
    else await printText(`${[`${this.#seconds(now)} s`, this.#board.line(), ...this.#notes()].join("  ")}\n`);
  }

  #seconds(now: number): number {
    return Math.round((now - (this.#begunMs ?? now)) / 1000);
  }

  #notes(): string[] {
    const note = this.#note();
    return note === null ? [] : [`(${note})`];
  }

  /** Prints a line above the table. */
  async #say(line: string): Promise<void> {
    if (!this.#terminal) return await printText(`${line}\n`);
    this.#erase();
    process.stdout.write(`${colours.yellow(toTerminal(line))}\n`);
    this.#draw();
  }

  #draw(): void {
    this.#erase();
    const lines = [...toTerminal(this.#board.table(colours)).trimEnd().split("\n"), ...this.#notes()];
    const { columns = 80 } = process.stdout;
    // Lines are cut: a line that wraps would be erased only in part.
    process.stdout.write(`${lines.map((line) => [...line].slice(0, columns + 20).join("")).join("\n")}\n`);
    this.#drawn = lines.length;
  }

  #erase(): void {
    if (this.#drawn > 0) process.stdout.write(`\u001b[${this.#drawn}A\u001b[J`);
    this.#drawn = 0;
  }
}
