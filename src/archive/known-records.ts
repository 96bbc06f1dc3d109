/**
 * Knows which records are in the folders that a writer examined recently: identity to file. Bounded, however much it writes. For further folders only the start
 * of the newest record is kept: a record that starts later is not there, which is the usual case when a thousand points take turns. Otherwise the folder is
 * listed again.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { later } from "../base/time.ts";
import { identity, parseFileName } from "./names.ts";

/** Maximum number of files kept, in all folders together. */
const MAX_FILES = 20_000;
/** Maximum number of folders for which the newest record is kept. */
const MAX_FOLDERS = 200_000;

type Name = Parameters<typeof identity>[0];

export class KnownRecords {
  /** The folder used last is at the end. */
  readonly #folders = new Map<string, Map<string, string>>();
  /** Start of the newest record in each examined folder. */
  readonly #newest = new Map<string, bigint>();
  readonly #most: number;
  #files = 0;

  constructor(most: number = MAX_FILES) {
    this.#most = most;
  }

  get size(): number {
    return this.#files;
  }

  has(folder: string): boolean {
    return this.#folders.has(folder);
  }

  find(folder: string, record: Name): string | undefined {
    return this.#isLater(folder, record) ? undefined : this.#look(folder).get(identity(record));
  }

  add(folder: string, record: Name, file: string): void {
    if (this.#isLater(folder, record)) {
      this.#newest.set(folder, record.epoch.startNs);
      return;
    }
    const known = this.#look(folder);
    const name = identity(record);
    if (!known.has(name)) this.#files++;
    known.set(name, file);
    this.#note(folder, record.epoch.startNs);
    this.#bound();
  }

  /** Forgets a folder that may have changed: the next lookup lists it again. */
  forget(folder: string): void {
    this.#drop(folder);
    this.#newest.delete(folder);
  }

  /** Returns whether the record is later than all in a folder whose files are not kept. */
  #isLater(folder: string, { epoch }: Name): boolean {
    const newest = this.#newest.get(folder);
    return newest !== undefined && !this.#folders.has(folder) && epoch.startNs > newest;
  }

  #note(folder: string, startNs: bigint): void {
    const newest = this.#newest.get(folder);
    if (newest === undefined || startNs > newest) this.#newest.set(folder, startNs);
    for (const oldest of this.#newest.keys()) {
      if (this.#newest.size <= MAX_FOLDERS) return;
      this.#newest.delete(oldest);
    }
  }

  #drop(folder: string): void {
    this.#files -= this.#folders.get(folder)?.size ?? 0;
    this.#folders.delete(folder);
  }

  #look(folder: string): Map<string, string> {
    let known = this.#folders.get(folder);
    if (known) this.#folders.delete(folder);
    else {
      const listed = listFolder(folder);
      known = listed.known;
      this.#files += known.size;
      this.#note(folder, listed.newestNs);
    }
    this.#folders.set(folder, known);
    this.#bound();
    return known;
  }

  /** At least the last two stay: a record's folder, and that of its hour. */
  #bound(): void {
    for (const folder of this.#folders.keys()) {
      if (this.#files <= this.#most || this.#folders.size <= 2) return;
      this.#drop(folder);
    }
  }
}

const BEFORE_ALL = -(1n << 63n);

function listFolder(folder: string): { known: Map<string, string>; newestNs: bigint } {
  const known = new Map<string, string>();
  let newestNs = BEFORE_ALL;
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return { known, newestNs };
    throw error;
  }
  for (const name of names) {
    const parsed = parseFileName(name);
    if (!parsed) continue;
    known.set(identity(parsed), join(folder, name));
    newestNs = later(newestNs, parsed.epoch.startNs);
  }
  return { known, newestNs };
}
