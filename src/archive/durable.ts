/**
 * Files that exist complete or not at all, whatever is killed when: written under a temporary name, synced, then given their name. link() fails if the name is
 * taken; rename() replaces the file.
 */
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, link, open, readdir, rename, rm, stat, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { makeDirectory, writeFailure } from "../base/directory.ts";

/** Temporary files of killed writers are removed after an hour: no writer keeps one that long. */
const STALE_MS = 3_600_000;

export const FREE_SPACE =
  "the records written so far are complete: free some space, or make it writable, and repeat";

/** Writes and syncs the bytes under a temporary name; pass the returned path to `publish`. */
export async function writeTemporary(folder: string, bytes: Uint8Array): Promise<string> {
  // Random, not derived from a process id: writers in two containers have the same ids.
  const path = join(folder, randomUUID());
  try {
    const file = await create(path);
    try {
      await file.writeFile(bytes);
      await file.datasync();
    } finally {
      await file.close();
    }
  } catch (error) {
    await rm(path, { force: true });
    throw writeFailure(dirname(folder), error, FREE_SPACE);
  }
  return path;
}

async function create(path: string): Promise<FileHandle> {
  const flags = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY;
  try {
    return await open(path, flags, 0o644);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    // Another process has removed the folder.
    makeDirectory(dirname(path));
    return await open(path, flags, 0o644);
  }
}

/** Gives a temporary file its name. Returns false if the name is taken and `replace` is not set; the temporary file is gone in either case. */
export async function publish(temporary: string, path: string, replace: boolean): Promise<boolean> {
  if (replace) {
    await rename(temporary, path);
    return true;
  }
  try {
    await link(temporary, path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") {
      await unlink(temporary);
      return false;
    }
    // File systems without hard links: the caller has checked the name before, which leaves a short race between two writers.
    if (code !== "EPERM" && code !== "ENOTSUP" && code !== "ENOSYS") throw error;
    await rename(temporary, path);
    return true;
  }
  await unlink(temporary);
  return true;
}

/** Names in a folder survive a power failure only after the folder is synced. */
export async function syncFolder(path: string): Promise<void> {
  // Windows cannot open folders, and does not need it.
  if (process.platform === "win32") return;
  const folder = await open(path, constants.O_RDONLY);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** Creates a folder below `root`, and makes its names durable up to there. */
export async function makeFolder(root: string, path: string): Promise<void> {
  const first = makeDirectory(path);
  if (first === undefined) return;
  const top = dirname(first);
  for (let at = dirname(path); at.length >= Math.max(root.length, top.length); at = dirname(at)) {
    await syncFolder(at).catch((error: NodeJS.ErrnoException) => {
      // Retention has removed it again; its next user creates it again.
      if (error.code !== "ENOENT") throw error;
    });
    if (at === dirname(at)) break;
  }
}

export async function removeStale(folder: string, nowMs = Date.now()): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    try {
      if (nowMs - (await stat(path)).mtimeMs > STALE_MS) await rm(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
}
