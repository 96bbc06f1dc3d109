/** Which records are in the folders that a writer has looked into lately: identity to file. Bounded, whatever it writes for however long. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { identity, parseFileName } from "./names.ts";

/** Files remembered, of all folders together. */
const MAX_FILES = 20_000;

export class KnownRecords {
  /** The folder used last is at the end. */
  readonly #folders = new Map<string, Map<string, string>>();
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

  find(folder: string, name: string): string | undefined {
    return this.#look(folder).get(name);
  }

  add(folder: string, name: string, file: string): void {
    const known = this.#look(folder);
    if (!known.has(name)) this.#files++;
    known.set(name, file);
    this.#bound();
  }

  /** It may have changed: the next question looks again. */
  forget(folder: string): void {
    this.#files -= this.#folders.get(folder)?.size ?? 0;
    this.#folders.delete(folder);
  }

  #look(folder: string): Map<string, string> {
    let known = this.#folders.get(folder);
    if (known) this.#folders.delete(folder);
    else {
      known = listFolder(folder);
      this.#files += known.size;
    }
    this.#folders.set(folder, known);
    this.#bound();
    return known;
  }

  /** At least the last two stay: a record's folder, and that of its hour. */
  #bound(): void {
    for (const folder of this.#folders.keys()) {
      if (this.#files <= this.#most || this.#folders.size <= 2) return;
      this.forget(folder);
    }
  }
}

function listFolder(folder: string): Map<string, string> {
  const known = new Map<string, string>();
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return known;
    throw error;
  }
  for (const name of names) {
    const parsed = parseFileName(name);
    if (parsed) known.set(identity(parsed), join(folder, name));
  }
  return known;
}
