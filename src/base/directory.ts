/** System errors with their path, and folders made with their parents. Node's `recursive` tries for ever where a parent exists and the system still answers "no such file" (/proc, /sys). */
import { existsSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { UsageError } from "./errors.ts";

/** Others make and remove folders at the same time. */
const MAX_ATTEMPTS = 20;

/** The topmost folder that was made; undefined where all were there. `mode`: of all that are made. */
export function makeDirectory(path: string, mode?: number): string | undefined {
  for (let attempts = 0; ; ) {
    try {
      mkdirSync(path, mode);
      return path;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EEXIST" && statSync(path, { throwIfNoEntry: false })?.isDirectory()) return undefined;
      // There a moment ago, and removed since.
      if (code === "EEXIST" && !existsSync(path)) continue;
      const parent = dirname(path);
      if (code !== "ENOENT" || parent === path) throw error;
      // A parent that somebody has just made again; where it stays and yet none can be made (/proc, /sys), that is the answer.
      if (existsSync(parent) && ++attempts > MAX_ATTEMPTS) throw error;
      const first = makeDirectory(parent, mode);
      try {
        mkdirSync(path, mode);
        return first ?? path;
      } catch (again) {
        // Somebody has removed the parent again, or made this one.
        const { code } = again as NodeJS.ErrnoException;
        if (code !== "EEXIST" && (code !== "ENOENT" || ++attempts > MAX_ATTEMPTS)) throw again;
      }
    }
  }
}

/** The same for a folder that could not be made, or is none. */
export function directoryFailure(path: string, cause: unknown): unknown {
  const { code } = cause as NodeJS.ErrnoException;
  return code === "EEXIST" || code === "ENOTDIR"
    ? new UsageError("not-writable", `${path}: is not a directory`, "give a directory", { cause })
    : writeFailure(path, cause, "give a directory that can be written");
}

/** How a failed write is reported: the place and the reason in one line. What is no answer of the system stays as it is. */
export function writeFailure(path: string, cause: unknown, hint?: string): unknown {
  const { code, syscall, message } = cause as NodeJS.ErrnoException;
  if (cause instanceof UsageError || typeof code !== "string" || syscall === undefined) return cause;
  return new UsageError("not-writable", `${path}: cannot be written: ${reasonOf(message)}`, hint, { cause });
}

/** "no space left on device" of "ENOSPC: no space left on device, write". */
export function reasonOf(message: string): string {
  return /^[A-Z0-9]+: ([^,]+)/.exec(message)?.[1] ?? message;
}
