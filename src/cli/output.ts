/** What a command puts out: text for people and pieces of any length, to standard output as fast as they are taken there. */
import { once } from "node:events";
import { withFlags } from "./flags.ts";
import { toTerminal } from "./terminal.ts";
import { systemReason } from "./whole-file.ts";

/** Text for people, from the library: what it says of parameters is said of flags. */
export async function printText(text: string): Promise<void> {
  await print([toTerminal(withFlags(text))]);
}

/** A line for people on standard error: how it went, what is wrong. */
export function warn(line: string): void {
  process.stderr.write(`${toTerminal(withFlags(line))}\n`);
}

export async function printJson(value: unknown): Promise<void> {
  await print([JSON.stringify(value), "\n"]);
}

const PIECE_CHARACTERS = 1 << 16;

/** Writes text that may be longer than memory holds: no more is asked for before what was written is gone. */
export async function print(pieces: Iterable<string>): Promise<void> {
  let waiting = "";
  for (const piece of pieces) {
    // What is long enough is not joined to anything: that would copy it.
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
  // A reader that left and a full disk end the command: see `endOutput`.
  if (!process.stdout.write(text)) await once(process.stdout, "drain");
}

/** The command line's answer to trouble on standard output: a reader that left early is content, all else is said. */
export function endOutput(error: NodeJS.ErrnoException): never {
  if (error.code === "EPIPE") process.exit(0);
  warn(`hoptime: standard output: ${systemReason(error)}; the output is incomplete`);
  process.exit(2);
}
