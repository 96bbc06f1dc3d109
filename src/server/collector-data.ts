/** A collector's data directory with its archive of records, locked against a second collector. */
import { join } from "node:path";
import { RecordArchive } from "../archive/archive.ts";
import { type DirectoryLock, lockDirectory } from "../archive/exclusive.ts";
import { FileWriter } from "../archive/file-writer.ts";
import { directoryFailure, makeDirectory } from "../base/directory.ts";

export interface CollectorData {
  archive: RecordArchive;
  files: FileWriter;
  lock: DirectoryLock;
}

/** Throws UsageError if another collector has the directory, or if it is not writable. */
export async function openData(data: string, { synced }: { synced: boolean }): Promise<CollectorData> {
  try {
    makeDirectory(data, 0o750);
  } catch (cause) {
    throw directoryFailure(data, cause);
  }
  const lock = await lockDirectory(data, "collector");
  const files = new FileWriter({ synced });
  try {
    return { archive: await RecordArchive.create(join(data, "records"), files), files, lock };
  } catch (error) {
    await files.close();
    await lock.release();
    throw error;
  }
}

export async function closeData({ archive, files, lock }: CollectorData): Promise<void> {
  await files.close();
  archive.close();
  await lock.release();
}
