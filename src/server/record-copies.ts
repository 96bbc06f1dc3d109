/**
 * Copies records to an object store, so that they remain available after this directory's retention and to others that share the store. The
 * directory comes first: what is acknowledged is on disk and is copied from there, after a restart too. An object of the same name that differs is
 * another part of the epoch, or one that covers more of it: it is stored into the archive, which merges or replaces it, and the result is uploaded.
 *
 *   DIR/copied.json     records that arrived before this time are in the store
 */
import { createHash } from "node:crypto";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { RecordArchive } from "../archive/archive.ts";
import type { ObjectStorage } from "../archive/objects/object-storage.ts";
import type { MergeRecords } from "../archive/writer.ts";
import { identityText, recordIdentity } from "../epoch/identity.ts";
import { decodeRecord, type RecordHead } from "../epoch/record.ts";

export interface RecordCopiesOptions {
  archive: RecordArchive;
  storage: ObjectStorage;
  merge: MergeRecords;
  /** The file with that time. */
  file: string;
  /** Reports an error; null means it works again. */
  onTrouble: (text: string | null) => void;
}

const AT_ONCE = 8;
const RETRY_MS = [500, 30_000] as const;
const MARK_MS = 5000;
/** Margin for file systems whose timestamps are coarser than the clock. */
const AROUND_MS = 60_000;

export class RecordCopies {
  copied = 0;
  readonly #options: RecordCopiesOptions;
  /** Records waiting to be copied, by identity or file, and when they arrived. */
  readonly #waiting = new Map<string, { head: RecordHead | null; file: string | null; sinceMs: number }>();
  readonly #working = new Set<Promise<void>>();
  #trouble: string | null = null;
  #markedMs = 0;
  #closed = false;

  constructor(options: RecordCopiesOptions) {
    this.#options = options;
  }

  get state(): { waiting: number; copied: number; trouble: string | null } {
    return { waiting: this.#waiting.size, copied: this.copied, trouble: this.#trouble };
  }

  /** Starts copying, beginning with what an earlier run left. Throws UsageError if the bucket does not exist or must not be used. */
  start(): void {
    const { archive, storage, file } = this.#options;
    storage.check();
    const fromMs = markIn(file) - AROUND_MS;
    for (const entry of archive.list().entries) {
      const sinceMs = statSync(entry.file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
      if (sinceMs >= fromMs) this.#waiting.set(entry.file, { head: null, file: entry.file, sinceMs });
    }
    this.#advance();
  }

  add(heads: readonly RecordHead[]): void {
    const sinceMs = Date.now();
    for (const head of heads)
      this.#waiting.set(identityText(recordIdentity(head)), { head, file: null, sinceMs });
    this.#advance();
  }

  /** Resolves to true when nothing waits any more, or to false after `limitMs`. */
  async settle(limitMs: number): Promise<boolean> {
    for (const untilMs = Date.now() + limitMs; this.#waiting.size > 0; await sleep(50))
      if (Date.now() > untilMs) return false;
    return true;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#working);
    this.#mark();
    this.#options.storage.close();
  }

  #advance(): void {
    // Records being copied are still in `#waiting`, so it bounds the number of copies in progress.
    while (this.#working.size < Math.min(AT_ONCE, this.#waiting.size) && !this.#closed) {
      const [next] = this.#waiting;
      if (!next) break;
      const [name, what] = next;
      // Moved to the end, so that one record does not hold up the others.
      this.#waiting.delete(name);
      this.#waiting.set(name, what);
      const work = this.#work(name, what).finally(() => {
        this.#working.delete(work);
        this.#advance();
      });
      this.#working.add(work);
    }
    if (Date.now() - this.#markedMs > MARK_MS) this.#mark();
  }

  async #work(name: string, what: { head: RecordHead | null; file: string | null; sinceMs: number }) {
    for (let pauseMs: number = RETRY_MS[0]; !this.#closed; pauseMs = Math.min(2 * pauseMs, RETRY_MS[1])) {
      try {
        for (const file of what.file === null ? this.#filesOf(what.head) : [what.file])
          await this.#copy(file);
        // If the entry was replaced meanwhile, the newer one must still be copied.
        if (this.#waiting.get(name) === what) this.#waiting.delete(name);
        this.#say(null);
        return;
      } catch (error) {
        this.#say((error as Error).message);
        await sleep(pauseMs);
      }
    }
  }

  /** Merging may have given the record another file name. */
  #filesOf(head: RecordHead | null): string[] {
    if (!head) return [];
    const { point, segment, estimator, epoch } = head;
    const selection = { points: [point], segments: [segment], estimators: [estimator] };
    const { entries } = this.#options.archive.list({
      ...{ ...selection, fromNs: epoch.startNs, toNs: epoch.startNs + 1n },
    });
    return entries
      .filter((e) => e.epoch.startNs === epoch.startNs && e.role === head.role)
      .map((e) => e.file);
  }

  async #copy(file: string): Promise<void> {
    const { archive, storage, merge } = this.#options;
    const bytes = await readFile(file).catch((error: NodeJS.ErrnoException) => {
      // Retention has removed the file already.
      if (error.code === "ENOENT") return null;
      throw error;
    });
    if (!bytes) return;
    const name = [storage.root, ...relative(archive.directory, file).split(sep)].join("/");
    const there = await storage.version(name);
    if (there === null && (await storage.put(name, bytes, false))) this.copied++;
    else if (there !== createHash("md5").update(bytes).digest("hex")) {
      const other = await storage.get(name);
      if (other && Buffer.compare(other, bytes) === 0) return;
      if (other)
        await archive.store([{ record: decodeRecord(other), encoded: other }], merge).catch(() => undefined);
      const both = await readFile(file).catch(() => bytes);
      await storage.put(name, both, true);
      this.copied++;
    }
  }

  /** Reports each error once, and its end. */
  #say(trouble: string | null): void {
    if (trouble === this.#trouble) return;
    this.#trouble = trouble;
    this.#options.onTrouble(trouble);
  }

  #mark(): void {
    this.#markedMs = Date.now();
    let untilMs = this.#markedMs;
    for (const { sinceMs } of this.#waiting.values()) untilMs = Math.min(untilMs, sinceMs);
    writeFileSync(this.#options.file, `${JSON.stringify({ untilMs })}\n`);
  }
}

function markIn(file: string): number {
  try {
    return Number((JSON.parse(readFileSync(file, "utf8")) as { untilMs?: number }).untilMs ?? 0);
  } catch {
    return 0;
  }
}

export const copiesFile = (data: string) => join(data, "copied.json");
