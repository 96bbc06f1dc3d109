/** Turns parameters of the library into flags of the command line; no other file does this. */
import type { UsageError } from "../base/errors.ts";

/** `flowSize` and `flow-size` become `--flow-size`. */
export function flagOf(parameter: string): string {
  return `--${parameter.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** Notes and hints of the library quote parameters typographically: ‘cover 82’ becomes --cover 82. */
export function withFlags(text: string): string {
  return text.replace(
    /‘([a-z][A-Za-z-]*)([ =][^’]*)?’/g,
    (_, name: string, value = "") => flagOf(name) + value,
  );
}

/** Formats an error in one line: the problem and the hint. A hint with a drawing (a caret below an expression) keeps its own lines. */
export function usageLine(error: UsageError): string {
  const { parameter, problem, hint } = error;
  const message = parameter === undefined ? problem : `${flagOf(parameter)}: ${problem}`;
  const tail = hint === undefined ? "" : hint.includes("\n") ? `\n${hint}` : `; ${withFlags(hint)}`;
  return withFlags(message) + tail;
}
