/** Lines of a text with their numbers and byte offsets, and the one-line errors that name them. */
import { FormatError } from "../../base/errors.ts";

export interface TextLine {
  readonly number: number;
  readonly text: string;
  /** Index of the first character in the whole text. */
  readonly at: number;
}

export function byteOffset(text: string, at: number): number {
  return Buffer.byteLength(text.slice(0, at));
}

/** Yields lines with content: no empty ones, no comments (#). */
export function* meaningfulLines(text: string): Generator<TextLine> {
  let at = 0;
  let number = 0;
  while (at < text.length) {
    const newline = text.indexOf("\n", at);
    const end = newline < 0 ? text.length : newline;
    number++;
    const line = text.slice(at, end).trim();
    if (line !== "" && !line.startsWith("#")) yield { number, text: line, at };
    at = end + 1;
  }
}

export function lineError(file: string, text: string, line: TextLine, message: string): FormatError {
  return new FormatError("bad-record", file, byteOffset(text, line.at), `line ${line.number}: ${message}`);
}

/** A positive finite number, or a FormatError that names the field and the line. */
export function positiveField(
  file: string,
  text: string,
  line: TextLine,
  field: string,
  value: string,
): number {
  const number = Number(value);
  if (value.trim() === "" || !Number.isFinite(number) || number <= 0)
    throw lineError(file, text, line, `${field} '${value}' is not a positive number`);
  return number;
}
