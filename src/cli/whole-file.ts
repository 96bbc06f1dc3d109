/**
 * Files that are there whole or not at all: written beside their name and renamed when done. A failure or a signal removes what was written, and a file of an
 * earlier run stays as it was. What is no regular file (a pipe, a device) is written as it is.
 */
import { realpathSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { UsageError } from "../base/errors.ts";
import { cleanOnSignal } from "./signals.ts";

/** `write` is given the path to write to. */
export async function writeWhole(path: string, write: (path: string) => Promise<void> | void): Promise<void> {
  const target = targetOf(path);
  if (target === null) return await guarded(path, () => write(path));
  // Of its own: two runs may write the same file at once.
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

/** Where the file lies, behind links; null where it is no regular file. */
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

/** "no space left on device" of "ENOSPC: no space left on device, write". */
export function systemReason(error: unknown): string {
  const { message, code } = error as NodeJS.ErrnoException;
  // The system says "illegal operation on a directory".
  if (code === "EISDIR") return "it is a directory";
  return /^[A-Z0-9]+: ([^,]+)/.exec(message)?.[1] ?? message;
}
