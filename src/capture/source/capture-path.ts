/**
 * The name of a capture: the path of a file, or - for standard input, optionally followed by `#` and the number or name of an interface if the file holds
 * several points: `both.pcapng#0`, `both.pcapng#eth1`. If a file with the whole name exists, the `#` is part of its name.
 */
import { existsSync, statSync } from "node:fs";

export interface CapturePath {
  /** "-" is standard input. */
  file: string;
  /** Number or name of an interface; null: the whole file. */
  point: string | null;
}

export function parseCapturePath(path: string): CapturePath {
  if (existsSync(path)) return { file: path, point: null };
  // Take the longest path that is a file: both file and interface names may contain a #.
  for (let at = path.lastIndexOf("#"); at > 0; at = path.lastIndexOf("#", at - 1)) {
    const file = path.slice(0, at);
    if (file === "-" || existsSync(file)) return { file, point: path.slice(at + 1) };
  }
  // If no such file exists, report the whole path as missing.
  return { file: path, point: null };
}

export function isStandardInput(path: string): boolean {
  return parseCapturePath(path).file === "-";
}

/** Returns whether the capture can be read again from its beginning; standard input and pipes cannot. */
export function isRegularCapture(path: string): boolean {
  try {
    return statSync(parseCapturePath(path).file).isFile();
  } catch {
    return false;
  }
}
