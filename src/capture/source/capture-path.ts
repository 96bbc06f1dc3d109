/**
 * How a capture is named: the path of a file, - for standard input, and behind it `#` with the number or the name of an interface where one file
 * holds several points: `both.pcapng#0`, `both.pcapng#eth1`. A file whose own name has a `#` is that file.
 */
import { existsSync } from "node:fs";

export interface CapturePath {
  /** "-" is standard input. */
  file: string;
  /** Number or name of an interface; null: all of the file. */
  point: string | null;
}

export function parseCapturePath(path: string): CapturePath {
  const at = path.lastIndexOf("#");
  if (at <= 0 || existsSync(path)) return { file: path, point: null };
  const file = path.slice(0, at);
  // Where neither is there, the whole path is what cannot be found.
  if (file !== "-" && !existsSync(file)) return { file: path, point: null };
  return { file, point: path.slice(at + 1) };
}

export function isStandardInput(path: string): boolean {
  return parseCapturePath(path).file === "-";
}
