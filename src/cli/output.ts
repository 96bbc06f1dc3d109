/** Writes a command's output: text, and pieces of any total length, to standard output as fast as the reader takes them. */
import { once } from "node:events";
import { withFlags } from "./flags.ts";
import { toTerminal } from "./terminal.ts";
import { systemReason } from "./whole-file.ts";

/** Prints text of the library for the user; names of parameters become flags. */
export async function printText(text: string): Promise<void> {
  await print([toTerminal(withFlags(text))]);
}

/** Prints a line on standard error: progress, summary or problem. */
export function warn(line: string): void {
  process.stderr.write(`${toTerminal(withFlags(line))}\n`);
}

export async function printJson(value: unknown): Promise<void> {
  await print([JSON.stringify(value), "\n"]);
}

const PIECE_CHARACTERS = 1 << 16;

/** Writes text that may be larger than memory: the next piece is requested only after the previous one has been written. */
export async function print(pieces: Iterable<string>): Promise<void> {
  let waiting = "";
  for (const piece of pieces) {
    // A long piece is not joined to others, because that would copy it.
    const long = piece.length >= PIECE_CHARACTERS;
    if (!long) waiting += piece;
    if (waiting !== "" && (long || waiting.length >= PIECE_CHARACTERS)) {
      await put(waiting);
      waiting = "";
    }
    if (long) await put(piece);
  }
  await put(waiting);
}

async function put(text: string): Promise<void> {
  // A reader that has gone or a full disk ends the command: see `endOutput`.
  if (!process.stdout.write(text)) await once(process.stdout, "drain");
}

/** Handles errors of standard output: a reader that stops early is no error, everything else is reported. */
export function endOutput(error: NodeJS.ErrnoException): never {
  if (error.code === "EPIPE") process.exit(0);
  warn(`hoptime: standard output: ${systemReason(error)}; the output is incomplete`);
  process.exit(2);
}
