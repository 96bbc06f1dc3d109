/**
 * Limits of what an archive keeps of a point: nothing that ended more than a given time before its newest record, and no more than a number of bytes; the
 * oldest are removed first. Each point is limited separately: the records of one point take nothing from another.
 *
 * A single outlier timestamp does not set the time: it makes one or two epochs far ahead of all others. So the newest time is the end of the last run of
 * consecutive epochs with at least ten of them or, if there is none, of the longest run.
 */
import { readdirSync, rmdirSync, statSync, unlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { checkBigNs } from "../base/checks.ts";
import { invalidValue } from "../base/errors.ts";
import { listRecords, type Selection } from "./listing.ts";
import type { ArchiveEntry } from "./names.ts";

export interface RetentionLimits {
  /** Remove records of epochs that ended longer than this before the newest. */
  keepNs?: bigint | undefined;
  /** Or: remove records of epochs that ended before this time. */
  olderThanNs?: bigint | undefined;
  /** Maximum size of all records together, as files. */
  maxBytes?: number | undefined;
}

export interface RetentionResult {
  removed: number;
  removedBytes: number;
  keptBytes: number;
}

/** Minimum number of epochs for a trusted run. */
const TRUSTED_EPOCHS = 10;
/** Epochs further apart than this many times their length are two runs: idle epochs up to that number are sealed (cutter.ts). */
const MAX_GAP_EPOCHS = 61n;

export function checkLimits({ keepNs, olderThanNs, maxBytes }: RetentionLimits): void {
  checkBigNs("keep", keepNs);
  checkBigNs("older-than", olderThanNs);
  if (maxBytes !== undefined && !(maxBytes >= 0)) throw invalidValue("max-size", maxBytes, "bytes");
}

export function retain(
  directory: string,
  limits: RetentionLimits,
  selection: Selection = {},
): RetentionResult {
  checkLimits(limits);
  const { keepNs, maxBytes } = limits;
  const result: RetentionResult = { removed: 0, removedBytes: 0, keptBytes: 0 };
  const { entries } = listRecords(directory, selection);
  const files = entries.flatMap((entry) => {
    const stat = statSync(entry.file, { throwIfNoEntry: false });
    return stat ? [{ file: entry.file, bytes: stat.size, endNs: entry.epoch.endNs }] : [];
  });
  const newestNs = keepNs === undefined ? null : trustedEnd(entries);
  const olderThanNs = newestNs === null || keepNs === undefined ? limits.olderThanNs : newestNs - keepNs;
  result.keptBytes = files.reduce((sum, f) => sum + f.bytes, 0);
  const folders = new Set<string>();
  // Sorted by start, so that the oldest come first.
  for (const { file, bytes, endNs } of files) {
    const tooOld = olderThanNs !== undefined && endNs < olderThanNs;
    const tooMuch = maxBytes !== undefined && result.keptBytes > maxBytes;
    if (!tooOld && !tooMuch) continue;
    if (remove(file)) {
      result.removed++;
      result.removedBytes += bytes;
    }
    folders.add(dirname(file));
    result.keptBytes -= bytes;
  }
  for (const folder of folders) removeEmpty(folder, directory);
  return result;
}

/** Returns false if another process was faster. */
function remove(file: string): boolean {
  try {
    unlinkSync(file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

/** Returns the newest trusted time; null without records. Entries come sorted by start. */
function trustedEnd(entries: readonly ArchiveEntry[]): bigint | null {
  const runs: { epochs: number; endNs: bigint; startNs: bigint }[] = [];
  for (const { epoch } of entries) {
    const run = runs.at(-1);
    const gapNs = MAX_GAP_EPOCHS * (epoch.endNs - epoch.startNs);
    if (!run || epoch.startNs - run.endNs > gapNs) {
      runs.push({ epochs: 1, endNs: epoch.endNs, startNs: epoch.startNs });
      continue;
    }
    // Several taps have a record of the same epoch.
    if (epoch.startNs !== run.startNs) run.epochs++;
    run.startNs = epoch.startNs;
    if (epoch.endNs > run.endNs) run.endNs = epoch.endNs;
  }
  const trusted = runs.filter((run) => run.epochs >= TRUSTED_EPOCHS).at(-1);
  const longest = runs.reduce((a, b) => (b.epochs >= a.epochs ? b : a), runs[0] ?? { epochs: 0, endNs: 0n });
  return runs.length === 0 ? null : (trusted ?? longest).endNs;
}

/** Removes a folder and its parents as long as they are empty, up to `root`. */
function removeEmpty(folder: string, root: string): void {
  for (let at = folder; at.length > join(root).length; at = dirname(at)) {
    try {
      if (readdirSync(at).length > 0) return;
      rmdirSync(at);
    } catch (error) {
      // A writer has just added a file, or another process removed the folder.
      const { code } = error as NodeJS.ErrnoException;
      if (code === "ENOTEMPTY" || code === "ENOENT" || code === "EEXIST") return;
      throw error;
    }
  }
}
