/**
 * Files that are written completely or not at all: written under another name and renamed at the end. After a failure or a signal the partial file is removed,
 * and a file of an earlier run stays unchanged. A target that is not a regular file (a pipe, a device) is written directly.
 */
import { realpathSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { UsageError } from "../base/errors.ts";
import { cleanOnSignal } from "./signals.ts";

/** `write` gets the path to write to. */
export async function writeWhole(path: string, write: (path: string) => Promise<void> | void): Promise<void> {
  const target = targetOf(path);
  if (target === null) return await guarded(path, () => write(path));
  // The name contains the process id, because two runs may write the same file at once.
  const partial = `${target}.${process.pid}.partial`;
  const release = cleanOnSignal(() => rmSync(partial, { force: true }));
  try {
    await guarded(path, () => write(partial));
    await guarded(path, () => renameSync(partial, target));
  } catch (error) {
    rmSync(partial, { force: true });
    throw error;
  } finally {
    release();
  }
}

export async function writeFile(path: string, text: string): Promise<void> {
  await writeWhole(path, (to) => writeFileSync(to, text));
}

/** Returns the file that the path refers to, with links resolved; null if it is not a regular file. */
function targetOf(path: string): string | null {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return path;
  return stat.isFile() ? realpathSync(path) : null;
}

async function guarded(path: string, step: () => Promise<void> | void): Promise<void> {
  try {
    await step();
  } catch (cause) {
    if (!(cause instanceof Error) || !("syscall" in cause)) throw cause;
    const message = `${path}: cannot be written: ${systemReason(cause)}`;
    throw new UsageError("not-writable", message, undefined, { cause });
  }
}

/** Returns e.g. "no space left on device" from "ENOSPC: no space left on device, write". */
export function systemReason(error: unknown): string {
  const { message, code } = error as NodeJS.ErrnoException;
  // The system's text is "illegal operation on a directory".
  if (code === "EISDIR") return "it is a directory";
  return /^[A-Z0-9]+: ([^,]+)/.exec(message)?.[1] ?? message;
}
