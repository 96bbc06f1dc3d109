/**
 * The thread that writes records' files: synchronous calls, which need a third of the CPU time of promises; only syncs, which wait for the disk, run in
 * parallel.
 */
import {
  closeSync,
  constants,
  fdatasync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { parentPort } from "node:worker_threads";

export interface FilesToWrite {
  id: number;
  /** Buffers that contain the files' bytes. */
  buffers: Uint8Array[];
  files: { temporary: string; path: string; buffer: number; offset: number; length: number }[];
  /** Wait for the disk. */
  synced: boolean;
}

/** `true`: written under its name; `false`: the name is taken; null: its folder is gone, and the file is kept under its temporary name. */
export type Published = boolean | null;

export type WriteAnswer = { id: number } & (
  | { published: Published[] }
  | { error: { message: string; code: string | undefined; syscall: string | undefined } }
);

const sync = promisify(fdatasync);

parentPort?.on("message", async (work: FilesToWrite) => {
  let answer: WriteAnswer;
  try {
    answer = { id: work.id, published: await writeFiles(work) };
  } catch (error) {
    const { message, code, syscall } = error as NodeJS.ErrnoException;
    answer = { id: work.id, error: { message, code, syscall } };
  }
  parentPort?.postMessage(answer);
});

/** Writes all files under their names, with their folders, or none; they are on disk if `synced`. */
export async function writeFiles({ buffers, files, synced }: Omit<FilesToWrite, "id">): Promise<Published[]> {
  const open: number[] = [];
  try {
    for (const { temporary, buffer, offset, length } of files) {
      const fd = openSync(temporary, constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY, 0o644);
      open.push(fd);
      const bytes = buffers[buffer] ?? new Uint8Array(0);
      for (let done = 0; done < length; ) done += writeSync(fd, bytes, offset + done, length - done);
    }
    // In parallel: disks sync many files in little more time than one. All must have ended before any is closed.
    const syncs = synced ? await Promise.allSettled(open.map((fd) => sync(fd))) : [];
    for (const one of syncs) if (one.status === "rejected") throw one.reason;
  } catch (error) {
    for (const { temporary } of files.slice(0, open.length)) unlinkSync(temporary);
    throw error;
  } finally {
    for (const fd of open) closeSync(fd);
  }
  const published = files.map(({ temporary, path }) => publish(temporary, path));
  if (synced) syncFolders(files.filter((_, i) => published[i]).map((f) => dirname(f.path)));
  return published;
}

function publish(temporary: string, path: string): Published {
  try {
    linkSync(temporary, path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return null;
    if (code !== "EEXIST" && code !== "EPERM" && code !== "ENOTSUP" && code !== "ENOSYS") throw error;
    if (code === "EEXIST") {
      unlinkSync(temporary);
      return false;
    }
    // File systems without hard links.
    renameSync(temporary, path);
    return true;
  }
  unlinkSync(temporary);
  return true;
}

function syncFolders(folders: readonly string[]): void {
  if (process.platform === "win32") return;
  for (const folder of new Set(folders)) {
    try {
      const fd = openSync(folder, constants.O_RDONLY);
      try {
        fsyncSync(fd);
      } finally {
        closeSync(fd);
      }
    } catch (error) {
      // Retention was faster.
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
}
