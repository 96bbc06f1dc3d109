/** A collector's directory, held by one at a time, with the archive of records in it. */
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

/** UsageError where another collector has the directory, or it cannot be written. */
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
