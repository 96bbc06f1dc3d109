/**
 * One process per directory, whatever is killed when. The holder listens on a socket in the directory: the kernel closes it with the process, so a refused
 * connection shows that nobody holds the lock. It works across containers and pid namespaces that share the directory, where process ids mean nothing; not
 * across machines that share it over a network. A short-lived guard file prevents two processes that start at once from both taking an abandoned lock.
 */
import { randomUUID } from "node:crypto";
import { closeSync, openSync, statSync } from "node:fs";
import { open, rename, rm, stat } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { UsageError } from "../base/errors.ts";

export interface DirectoryLock {
  release(): Promise<void>;
}

const SOCKET = ".lock";
const GUARD = ".lock-guard";
/** Nobody holds the guard longer: it was left behind by a killed process. */
const STALE_GUARD_MS = 10_000;
const WAIT_MS = 50;
const PATIENCE_MS = 20_000;
const CONNECT_MS = 2000;

/** Throws a UsageError if another process uses the directory. `what`: name of that process in the message. */
export async function lockDirectory(directory: string, what: string): Promise<DirectoryLock> {
  // Socket names have at most 107 bytes; through the open directory they are short.
  const folder = process.platform === "linux" ? openSync(directory, "r") : null;
  const short = folder === null ? directory : `/proc/self/fd/${folder}`;
  const close = () => {
    if (folder !== null) closeSync(folder);
  };
  try {
    return await guarded(directory, async () => {
      const path = join(short, SOCKET);
      if (await answers(path))
        throw new UsageError(
          "not-writable",
          `${directory}: another ${what} is using it`,
          "end that one, or give another directory",
        );
      await rm(path, { force: true });
      const server = await listen(path);
      const own = statSync(path).ino;
      return {
        release: async () => {
          // Closing removes the socket by name, which must still be this process's.
          if (statSync(path, { throwIfNoEntry: false })?.ino === own) await closed(server);
          close();
        },
      };
    });
  } catch (error) {
    close();
    throw error;
  }
}

async function guarded<T>(directory: string, work: () => Promise<T>): Promise<T> {
  const guard = join(directory, GUARD);
  for (let waited = 0; ; waited += WAIT_MS) {
    try {
      await (await open(guard, "wx")).close();
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    if (waited > PATIENCE_MS)
      throw new UsageError(
        "not-writable",
        `${directory}: another process is starting there`,
        `if there is none, remove ${guard}`,
      );
    await removeStale(guard);
    await sleep(WAIT_MS);
  }
  try {
    return await work();
  } finally {
    await rm(guard, { force: true });
  }
}

/** By renaming: of several processes that find it stale only one removes it. */
async function removeStale(guard: string): Promise<void> {
  try {
    if (Date.now() - (await stat(guard)).mtimeMs < STALE_GUARD_MS) return;
    const aside = `${guard}-${randomUUID()}`;
    await rename(guard, aside);
    await rm(aside, { force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}

/** Returns whether a process listens there. */
function answers(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    // A stopped holder does not accept, but the kernel still completes the connection; a slower answer also means that it is alive.
    const timer = setTimeout(() => done(true), CONNECT_MS);
    const done = (held: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(held);
    };
    socket.once("connect", () => done(true));
    socket.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNREFUSED" || error.code === "ENOENT" || error.code === "ENOTSOCK") done(false);
      // Its connection queue is full: a process is there.
      else if (error.code === "EAGAIN") done(true);
      else {
        clearTimeout(timer);
        reject(error);
      }
    });
  });
}

function listen(path: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once("error", reject);
    server.listen(path, () => {
      server.unref();
      resolve(server);
    });
  });
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
  });
}
