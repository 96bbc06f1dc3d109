/**
 * Stores records, with any number of concurrent writers. A new record gets its name by link(), which fails if the name is taken: so it is there complete or not
 * at all, and the first one stays. If one is there already, it is read: the same measurement, or a part of it, changes nothing; one that extends further
 * replaces it; another part of the epoch is merged with it, under a lock; anything else is a conflict of that record alone.
 */
import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { makeDirectory, writeFailure } from "../base/directory.ts";
import { FormatError, UsageError } from "../base/errors.ts";
import { formatTime } from "../base/time.ts";
import { turnEvery } from "../base/turn.ts";
import { measurementDifference } from "../epoch/compatible.ts";
import { relationOf } from "../epoch/parts.ts";
import { type EncodeOptions, type EpochRecord, encodeRecord } from "../epoch/record.ts";
import { FREE_SPACE, makeFolder, publish, syncFolder, writeTemporary } from "./durable.ts";
import type { FileWriter, WrittenFile } from "./file-writer.ts";
import { KnownRecords } from "./known-records.ts";
import { TEMPORARY } from "./listing.ts";
import { withLock } from "./lock.ts";
import { identity, recordPath } from "./names.ts";
import { readStored } from "./read.ts";

export interface StoreItem {
  record: EpochRecord;
  options?: EncodeOptions | undefined;
  /** The record's bytes as received, checked: stored as they are if nothing of its epoch is there. */
  encoded?: Uint8Array | undefined;
}

export type StoreOutcome =
  /** `merged`: with another part of the same epoch that was there. */
  | { outcome: "stored" | "unchanged" | "replaced" | "merged"; bytes: number }
  /** Another record of the epoch is there, and stays. */
  | { outcome: "refused"; reason: UsageError };

/** Merges two parts of one epoch; null if impossible. The archive does not know estimators. */
export type MergeRecords = (stored: EpochRecord, record: EpochRecord) => EpochRecord | null;

/** Records written and synced in parallel: disks sync many files in little more time than one. */
const PARALLEL = 32;
/** Folders removed by retention between creation and use are created again. */
const ATTEMPTS = 10;
const MAX_FOLDERS = 100_000;
const UNCHANGED: StoreOutcome = { outcome: "unchanged", bytes: 0 };

interface Fresh {
  item: StoreItem;
  path: string;
  index: number;
}

export class RecordWriter {
  readonly #directory: string;
  readonly #known = new KnownRecords();
  readonly #files: FileWriter | undefined;
  /** Folders created by this writer. */
  readonly #folders = new Set<string>();

  constructor(directory: string, files?: FileWriter) {
    this.#directory = directory;
    this.#files = files;
  }

  /** Returns the outcome of each record; by then they are on disk, or on their way there if the files are not synced. */
  async store(items: readonly StoreItem[], merge?: MergeRecords): Promise<StoreOutcome[]> {
    const outcomes: (StoreOutcome | null)[] = items.map(() => null);
    const fresh = new Map<string, Fresh>();
    for (const [index, item] of items.entries()) {
      const path = join(this.#directory, ...recordPath(item.record));
      if (this.#find(item.record, path) === undefined && !fresh.has(path))
        fresh.set(path, { item, path, index });
    }
    const list = [...fresh.values()];
    if (this.#files) await this.#writeMany(this.#files, list, outcomes);
    else await this.#writeInGroups(list, outcomes);
    // Records that met another one, individually and in order.
    const done: StoreOutcome[] = [];
    const turn = turnEvery(30);
    for (const [index, item] of items.entries()) {
      await turn();
      done.push(outcomes[index] ?? (await this.#reconcile(item, merge)));
    }
    return done;
  }

  async #writeMany(
    files: FileWriter,
    list: readonly Fresh[],
    outcomes: (StoreOutcome | null)[],
  ): Promise<void> {
    const folder = join(this.#directory, TEMPORARY);
    for (const path of new Set(list.map((f) => dirname(f.path)))) await this.#makeFolder(path, files.synced);
    const made = list.map(({ item, path }) => ({
      path,
      bytes: item.encoded ?? encodeRecord(item.record, item.options),
    }));
    let written: WrittenFile[];
    try {
      written = await files.write(folder, made);
    } catch (error) {
      throw writeFailure(this.#directory, error, FREE_SPACE);
    }
    for (const [i, { published, temporary }] of written.entries()) {
      const plan = list[i];
      if (!plan) continue;
      const bytes = made[i]?.bytes.length ?? 0;
      // Its folder was removed while it was written.
      const late = published === null;
      const has = late ? await this.#publish(temporary, plan.path, false) : published;
      if (late && files.synced) await this.#sync([dirname(plan.path)]);
      if (!has) continue;
      this.#known.add(dirname(plan.path), plan.item.record, plan.path);
      outcomes[plan.index] = { outcome: "stored", bytes };
    }
  }

  /** Creates each folder once: if retention removes it later, publishing creates it again. */
  async #makeFolder(path: string, synced: boolean): Promise<void> {
    if (this.#folders.has(path)) return;
    if (synced) await makeFolder(this.#directory, path);
    else makeDirectory(path);
    if (this.#folders.size >= MAX_FOLDERS) this.#folders.clear();
    this.#folders.add(path);
  }

  async #writeInGroups(list: readonly Fresh[], outcomes: (StoreOutcome | null)[]): Promise<void> {
    for (let at = 0; at < list.length; at += PARALLEL) {
      const group = list.slice(at, at + PARALLEL);
      for (const [i, outcome] of (await this.#writeFresh(group)).entries())
        outcomes[group[i]?.index ?? 0] = outcome;
    }
    await this.#sync(list.map((f) => dirname(f.path)));
  }

  /** Null if the name is taken. */
  async #writeFresh(group: readonly Fresh[]): Promise<(StoreOutcome | null)[]> {
    const folder = join(this.#directory, TEMPORARY);
    const attempts = await Promise.allSettled(
      group.map(async ({ item }) => {
        const bytes = item.encoded ?? encodeRecord(item.record, item.options);
        return { bytes: bytes.length, path: await writeTemporary(folder, bytes) };
      }),
    );
    const written = attempts.flatMap((a) => (a.status === "fulfilled" ? [a.value] : []));
    const failed = attempts.find((a) => a.status === "rejected");
    if (failed) {
      // The disk is full: files that do not get their name must not use up the remaining space.
      for (const { path } of written) rmSync(path, { force: true });
      throw failed.reason;
    }
    const outcomes: (StoreOutcome | null)[] = [];
    for (const [i, { path, bytes }] of written.entries()) {
      const plan = group[i];
      if (!plan) continue;
      const published = await this.#publish(path, plan.path, false);
      if (published) this.#known.add(dirname(plan.path), plan.item.record, plan.path);
      outcomes.push(published ? { outcome: "stored", bytes } : null);
    }
    return outcomes;
  }

  /** Handles a record whose epoch has another record, or had one a moment ago. */
  async #reconcile(item: StoreItem, merge: MergeRecords | undefined): Promise<StoreOutcome> {
    const { record } = item;
    const path = join(this.#directory, ...recordPath(record));
    // Most often it is the same record, which needs no lock.
    const there = this.#find(record, path);
    const found = there === undefined ? null : readIfWhole(there);
    if (found && measurementDifference(record, found) === null) return UNCHANGED;
    const name = join(dirname(path), identity(record));
    return await withLock(join(this.#directory, TEMPORARY), name, async () => {
      this.#known.forget(dirname(path));
      this.#known.forget(dirname(dirname(path)));
      const now = this.#find(record, path);
      if (now === undefined) {
        const [outcome] = await this.#writeFresh([{ item, path, index: 0 }]);
        await this.#sync([dirname(path)]);
        return outcome ?? this.#conflict(record, path, "epoch");
      }
      const stored = readIfWhole(now);
      // A damaged record is repaired by observing again.
      if (!stored) return await this.#replace(item, path, now, "replaced");
      return await this.#settle(item, path, { file: now, stored }, merge);
    });
  }

  async #settle(
    item: StoreItem,
    path: string,
    { file, stored }: { file: string; stored: EpochRecord },
    merge: MergeRecords | undefined,
  ): Promise<StoreOutcome> {
    const { record } = item;
    const what = measurementDifference(record, stored);
    if (what === null) return UNCHANGED;
    const comparable = what === "epoch" || what === "packets" || what === "payload";
    const relation = comparable ? relationOf(stored, record) : "other";
    if (relation === "contained") return UNCHANGED;
    if (relation === "extends") return await this.#replace(item, path, file, "replaced");
    const merged = relation === "apart" ? (merge?.(stored, record) ?? null) : null;
    if (!merged) return this.#conflict(record, file, what);
    const mergedPath = join(this.#directory, ...recordPath(merged));
    return await this.#replace({ ...item, record: merged, encoded: undefined }, mergedPath, file, "merged");
  }

  async #replace(
    { record, options, encoded }: StoreItem,
    path: string,
    former: string,
    outcome: "replaced" | "merged",
  ): Promise<StoreOutcome> {
    const bytes = encoded ?? encodeRecord(record, options);
    const temporary = await writeTemporary(join(this.#directory, TEMPORARY), bytes);
    await this.#publish(temporary, path, true);
    if (former !== path) rmSync(former, { force: true });
    this.#known.add(dirname(path), record, path);
    await this.#sync([dirname(path), dirname(former)]);
    return { outcome, bytes: bytes.length };
  }

  async #publish(temporary: string, path: string, replace: boolean): Promise<boolean> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await publish(temporary, path, replace);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOENT" || attempt === ATTEMPTS) throw error;
        // The folder does not exist yet, or retention has just removed it when it was empty.
        await makeFolder(this.#directory, dirname(path));
      }
    }
  }

  async #sync(folders: readonly string[]): Promise<void> {
    for (const folder of new Set(folders)) {
      try {
        await syncFolder(folder);
      } catch (error) {
        // Retention was faster.
        if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      }
    }
  }

  /** Looks in its folder, and in that of its hour as in version 1. */
  #find(record: EpochRecord, path: string): string | undefined {
    const folder = dirname(path);
    return this.#known.find(folder, record) ?? this.#known.find(dirname(folder), record);
  }

  #conflict(record: EpochRecord, path: string, what: string): StoreOutcome {
    const epoch = `${record.estimator} at ${record.point}, epoch ${formatTime(record.epoch.startNs)}`;
    const reason = new UsageError(
      "mismatch",
      `${path}: a different record of ${epoch} is already stored; they differ in ${what}`,
      "give captures of one point together in order, or another ‘point’, ‘segment’ or directory",
    );
    return { outcome: "refused", reason };
  }
}

/** Null if it is damaged, or gone. */
function readIfWhole(file: string): EpochRecord | null {
  try {
    return readStored(file);
  } catch (error) {
    if (error instanceof FormatError) return null;
    throw error;
  }
}
