/**
 * Creates directories with their parents, and reports system errors with their path. Node's `recursive` option loops for ever where a parent exists and the
 * system still answers "no such file" (/proc, /sys).
 */
import { existsSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { UsageError } from "./errors.ts";

/** Limits retries: other processes may create and remove the same directories at the same time. */
const MAX_ATTEMPTS = 20;

/** Creates a directory and its parents. Returns the topmost directory created, or undefined if all existed. `mode` applies to every directory created. */
export function makeDirectory(path: string, mode?: number): string | undefined {
  for (let attempts = 0; ; ) {
    try {
      mkdirSync(path, mode);
      return path;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EEXIST" && statSync(path, { throwIfNoEntry: false })?.isDirectory()) return undefined;
      // The directory existed a moment ago and has been removed since.
      if (code === "EEXIST" && !existsSync(path)) continue;
      const parent = dirname(path);
      if (code !== "ENOENT" || parent === path) throw error;
      // Another process may just have created the parent again, so retry. If the parent exists and creation still fails (/proc, /sys), report the error.
      if (existsSync(parent) && ++attempts > MAX_ATTEMPTS) throw error;
      const first = makeDirectory(parent, mode);
      try {
        mkdirSync(path, mode);
        return first ?? path;
      } catch (again) {
        // Another process has removed the parent again, or created this directory.
        const { code } = again as NodeJS.ErrnoException;
        if (code !== "EEXIST" && (code !== "ENOENT" || ++attempts > MAX_ATTEMPTS)) throw again;
      }
    }
  }
}

/** Returns the error to report for a directory that could not be created or that is not a directory. */
export function directoryFailure(path: string, cause: unknown): unknown {
  const { code } = cause as NodeJS.ErrnoException;
  return code === "EEXIST" || code === "ENOTDIR"
    ? new UsageError("not-writable", `${path}: is not a directory`, "give a directory", { cause })
    : writeFailure(path, cause, "give a directory that can be written");
}

/** Returns the error to report for a failed write: path and reason in one line. An error that is not a system error is returned unchanged. */
export function writeFailure(path: string, cause: unknown, hint?: string): unknown {
  const { code, syscall, message } = cause as NodeJS.ErrnoException;
  if (cause instanceof UsageError || typeof code !== "string" || syscall === undefined) return cause;
  return new UsageError("not-writable", `${path}: cannot be written: ${reasonOf(message)}`, hint, { cause });
}

/** Returns "no space left on device" from "ENOSPC: no space left on device, write". */
export function reasonOf(message: string): string {
  return /^[A-Z0-9]+: ([^,]+)/.exec(message)?.[1] ?? message;
}
