/**
 * How a capture is named: the path of a file, - for standard input, and behind it `#` with the number or the name of an interface where one file
 * holds several points: `both.pcapng#0`, `both.pcapng#eth1`. A file whose own name has a `#` is that file.
 */
import { existsSync, statSync } from "node:fs";

export interface CapturePath {
  /** "-" is standard input. */
  file: string;
  /** Number or name of an interface; null: all of the file. */
  point: string | null;
}

export function parseCapturePath(path: string): CapturePath {
  if (existsSync(path)) return { file: path, point: null };
  // The longest path that is a file: both a file's and an interface's name may have a # in it.
  for (let at = path.lastIndexOf("#"); at > 0; at = path.lastIndexOf("#", at - 1)) {
    const file = path.slice(0, at);
    if (file === "-" || existsSync(file)) return { file, point: path.slice(at + 1) };
  }
  // Where nothing is there, the whole path is what cannot be found.
  return { file: path, point: null };
}

export function isStandardInput(path: string): boolean {
  return parseCapturePath(path).file === "-";
}

/** Can be read again from its beginning: standard input and pipes cannot. */
export function isRegularCapture(path: string): boolean {
  try {
    return statSync(parseCapturePath(path).file).isFile();
  } catch {
    return false;
  }
}
