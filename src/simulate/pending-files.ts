/**
 * Output files that appear only if a run succeeds: they are written as *.partial and renamed at the end. After a failure they are removed, together with
 * directories that were created for them; files of an earlier run stay unchanged. The same holds if the process exits early.
 */
import { renameSync, rmdirSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { directoryFailure, makeDirectory } from "../base/directory.ts";

export class PendingFiles {
  readonly #directory: string;
  /** The topmost directory that was created; undefined if all existed. */
  readonly #made: string | undefined;
  readonly #names = new Set<string>();

  constructor(directory: string) {
    this.#directory = resolve(directory);
    try {
      this.#made = makeDirectory(this.#directory);
    } catch (cause) {
      throw directoryFailure(directory, cause);
    }
    process.once("exit", this.#remove);
  }

  /** Returns the path to write to for a file that will have this name. */
  path(name: string): string {
    this.#names.add(name);
    return join(this.#directory, `${name}.partial`);
  }

  commit(): void {
    for (const name of this.#names) {
      renameSync(join(this.#directory, `${name}.partial`), join(this.#directory, name));
      this.#names.delete(name);
    }
    process.off("exit", this.#remove);
  }

  /** Removes all files that were not committed. */
  discard(): void {
    process.off("exit", this.#remove);
    this.#remove();
  }

  readonly #remove = (): void => {
    for (const name of this.#names) rmSync(join(this.#directory, `${name}.partial`), { force: true });
    if (this.#made === undefined) return;
    try {
      for (let at = this.#directory; ; at = dirname(at)) {
        rmdirSync(at);
        if (at === this.#made) return;
      }
    } catch {
      // The directory contains other files by now: keep it.
    }
  };
}
