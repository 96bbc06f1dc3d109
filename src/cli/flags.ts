/** Parameters of the library as flags of the command line: the one place that turns the first into the second. */
import type { UsageError } from "../base/errors.ts";

/** `flowSize` and `flow-size` are `--flow-size`. */
export function flagOf(parameter: string): string {
  return `--${parameter.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** Notes and hints of the library name parameters in typographic quotes: ‘cover 82’ becomes --cover 82. */
export function withFlags(text: string): string {
  return text.replace(
    /‘([a-z][A-Za-z-]*)([ =][^’]*)?’/g,
    (_, name: string, value = "") => flagOf(name) + value,
  );
}

/** One line for people: what is wrong, and what to do. A hint that draws (a caret below an expression) has lines of its own. */
export function usageLine(error: UsageError): string {
  const { parameter, problem, hint } = error;
  const message = parameter === undefined ? problem : `${flagOf(parameter)}: ${problem}`;
  const tail = hint === undefined ? "" : hint.includes("\n") ? `\n${hint}` : `; ${withFlags(hint)}`;
  return withFlags(message) + tail;
}
