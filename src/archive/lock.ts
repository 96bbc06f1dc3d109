/**
 * One writer at a time where a record that is there is to be replaced by what holds it and more: two that read it, add to it and write it back would lose one
 * addition. A lock is a file that only one can make. A writer that is killed leaves it; then it is taken over after a while.
 */
import { randomUUID } from "node:crypto";
import { link, open, rename, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { UsageError } from "../base/errors.ts";
import { hashBytes64 } from "../base/hash.ts";

/** Who holds a lock touches it this often; one that was not touched for much longer was left behind. */
const TOUCH_MS = 500;
const STALE_MS = 4000;
const WAIT_MS = 20;
const PATIENCE_MS = 60_000;

/** `folder`: of temporary files, where old locks are swept like those. `name`: of what is locked. */
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

/** Removes a lock that was left behind. By renaming: only one of several succeeds. */
async function takeOver(path: string): Promise<boolean> {
  const aside = `${path}-${randomUUID()}`;
  try {
    if (Date.now() - (await stat(path)).mtimeMs < STALE_MS) return false;
    await rename(path, aside);
    const taken = Date.now() - (await stat(aside)).mtimeMs >= STALE_MS;
    // Another was faster, and its own lock was taken: it gets it back.
    if (!taken) await link(aside, path).catch(() => {});
    await rm(aside, { force: true });
    return taken;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return true;
    throw error;
  }
}
