/** What an archive may keep: nothing that ended before a time, no more than so many bytes; the oldest go first. */
import { readdirSync, rmdirSync, statSync, unlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { listRecords, type Selection } from "./listing.ts";

export interface RetentionLimits {
  /** Records of epochs that ended before this go. */
  olderThanNs?: bigint | undefined;
  /** Of all records together, as files. */
  maxBytes?: number | undefined;
}

export interface RetentionResult {
  removed: number;
  removedBytes: number;
  keptBytes: number;
}

export function retain(
  directory: string,
  limits: RetentionLimits,
  selection: Selection = {},
): RetentionResult {
  const { olderThanNs, maxBytes } = limits;
  const result: RetentionResult = { removed: 0, removedBytes: 0, keptBytes: 0 };
  const files = listRecords(directory, selection).entries.flatMap((entry) => {
    const stat = statSync(entry.file, { throwIfNoEntry: false });
    return stat ? [{ file: entry.file, bytes: stat.size, endNs: entry.epoch.endNs }] : [];
  });
  result.keptBytes = files.reduce((sum, f) => sum + f.bytes, 0);
  const folders = new Set<string>();
  // By start, so that the oldest come first.
  for (const { file, bytes, endNs } of files) {
    const tooOld = olderThanNs !== undefined && endNs < olderThanNs;
    const tooMuch = maxBytes !== undefined && result.keptBytes > maxBytes;
    if (!tooOld && !tooMuch) continue;
    unlinkSync(file);
    folders.add(dirname(file));
    result.removed++;
    result.removedBytes += bytes;
    result.keptBytes -= bytes;
  }
  for (const folder of folders) removeEmpty(folder, directory);
  return result;
}

/** Removes a folder and those above it as long as they are empty, up to `root`. */
function removeEmpty(folder: string, root: string): void {
  for (let at = folder; at.length > join(root).length; at = dirname(at)) {
    try {
      if (readdirSync(at).length > 0) return;
      rmdirSync(at);
    } catch (error) {
      // A writer has just put something there, or another one removed it.
      const { code } = error as NodeJS.ErrnoException;
      if (code === "ENOTEMPTY" || code === "ENOENT" || code === "EEXIST") return;
      throw error;
    }
  }
}
