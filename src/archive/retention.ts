/**
 * What an archive may keep of a point: nothing that ended longer before its newest record than so long, no more than so many bytes; the oldest go first. Each point
 * is kept for itself: what one point sees, or believes to see, takes nothing from another.
 *
 * One wild timestamp is no clock: it makes an epoch or two far ahead of all others. So the newest time is the end of the last run of epochs, one close after the other,
 * that has ten of them; where no run has, of the longest.
 */
import { readdirSync, rmdirSync, statSync, unlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { checkBigNs } from "../base/checks.ts";
import { invalidValue } from "../base/errors.ts";
import { listRecords, type Selection } from "./listing.ts";
import type { ArchiveEntry } from "./names.ts";

export interface RetentionLimits {
  /** Records of epochs that ended longer than this before the newest go. */
  keepNs?: bigint | undefined;
  /** Or: records of epochs that ended before this time. */
  olderThanNs?: bigint | undefined;
  /** Of all records together, as files. */
  maxBytes?: number | undefined;
}

export interface RetentionResult {
  removed: number;
  removedBytes: number;
  keptBytes: number;
}

/** Epochs in a run that make it trusted. */
const TRUSTED_EPOCHS = 10;
/** Epochs further apart than this many times their length are two runs: idle ones up to there are sealed (cutter.ts). */
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
  // By start, so that the oldest come first.
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

/** False where another was faster. */
function remove(file: string): boolean {
  try {
    unlinkSync(file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

/** The newest time that is to be trusted; null where there are no records. Entries come by start. */
function trustedEnd(entries: readonly ArchiveEntry[]): bigint | null {
  const runs: { epochs: number; endNs: bigint; startNs: bigint }[] = [];
  for (const { epoch } of entries) {
    const run = runs.at(-1);
    const gapNs = MAX_GAP_EPOCHS * (epoch.endNs - epoch.startNs);
    if (!run || epoch.startNs - run.endNs > gapNs) {
      runs.push({ epochs: 1, endNs: epoch.endNs, startNs: epoch.startNs });
      continue;
    }
    // Several taps have a record of one epoch.
    if (epoch.startNs !== run.startNs) run.epochs++;
    run.startNs = epoch.startNs;
    if (epoch.endNs > run.endNs) run.endNs = epoch.endNs;
  }
  const trusted = runs.filter((run) => run.epochs >= TRUSTED_EPOCHS).at(-1);
  const longest = runs.reduce((a, b) => (b.epochs >= a.epochs ? b : a), runs[0] ?? { epochs: 0, endNs: 0n });
  return runs.length === 0 ? null : (trusted ?? longest).endNs;
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
