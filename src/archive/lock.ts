/**
 * One writer at a time when a record is to be replaced by one that contains it and more: two writers that read it, extend it and write it back would lose one
 * extension. A lock is a file that only one writer can create. A killed writer leaves it behind; then it is taken over after a while.
 */
import { randomUUID } from "node:crypto";
import { link, open, rename, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { UsageError } from "../base/errors.ts";
import { hashBytes64 } from "../base/hash.ts";

/** The holder touches its lock this often; one that was not touched for much longer was left behind. */
const TOUCH_MS = 500;
const STALE_MS = 4000;
const WAIT_MS = 20;
const PATIENCE_MS = 60_000;

/** `folder`: the folder of temporary files, where old locks are removed like those. `name`: what is locked. */
export async function withLock<T>(folder: string, name: string, work: () => Promise<T>): Promise<T> {
  const [hi, lo] = hashBytes64(new TextEncoder().encode(name), 1, 1);
  const hex = (n: number) => (n >>> 0).toString(16).padStart(8, "0");
  const path = join(folder, `lock-${hex(hi)}${hex(lo)}`);
  await acquire(path, name);
  const touch = setInterval(() => {
    const now = new Date();
    utimes(path, now, now).catch(() => {});
  }, TOUCH_MS);
  try {
    return await work();
  } finally {
    clearInterval(touch);
    await rm(path, { force: true });
  }
}

async function acquire(path: string, name: string): Promise<void> {
  for (let waited = 0; ; waited += WAIT_MS) {
    try {
      await (await open(path, "wx")).close();
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    if (waited > PATIENCE_MS)
      throw new UsageError(
        "not-writable",
        `${name}: locked by another writer`,
        `if there is none, remove ${path}`,
      );
    if (!(await takeOver(path))) await sleep(WAIT_MS * (0.5 + Math.random()));
  }
}

/** Removes an abandoned lock. By renaming: only one of several processes succeeds. */
async function takeOver(path: string): Promise<boolean> {
  const aside = `${path}-${randomUUID()}`;
  try {
    if (Date.now() - (await stat(path)).mtimeMs < STALE_MS) return false;
    await rename(path, aside);
    const taken = Date.now() - (await stat(aside)).mtimeMs >= STALE_MS;
    // Another process was faster, and its new lock was taken: restore it.
    if (!taken) await link(aside, path).catch(() => {});
    await rm(aside, { force: true });
    return taken;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return true;
    throw error;
  }
}
