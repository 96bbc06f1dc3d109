/**
 * Records waiting for a collector, on disk: a folder of small files, each a message (batch.ts) with the records of one group of puts, in order of their
 * numbers. A file is durable before its records count as spooled, and removed when the collector has them. A kill at any moment loses nothing that was durable;
 * a file that was being written is at most truncated, and its complete records are sent. Bounded: the oldest files are dropped for new ones, and their records
 * are counted.
 */
import { constants, readdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { makeFolder, syncFolder } from "../archive/durable.ts";
import { type DirectoryLock, lockDirectory } from "../archive/exclusive.ts";
import { framedBytes, frameRecord } from "./batch.ts";

export interface SpoolFile {
  path: string;
  number: number;
  records: number;
  bytes: number;
}

const NAME = /^(\d{16})-(\d{1,9})\.batch$/;

export class Spool {
  readonly directory: string;
  readonly #maxBytes: number;
  readonly #lock: DirectoryLock;
  readonly #files: SpoolFile[] = [];
  /** Files being sent: they are not dropped. */
  readonly #busy = new Set<SpoolFile>();
  #next = 1;
  #bytes = 0;
  #records = 0;
  /** Records dropped for newer ones. */
  dropped = 0;

  private constructor(directory: string, maxBytes: number, lock: DirectoryLock) {
    this.directory = directory;
    this.#maxBytes = maxBytes;
    this.#lock = lock;
  }

  /** Opens the spool, with what an earlier run has left there. */
  static async open(directory: string, maxBytes: number): Promise<Spool> {
    await makeFolder(dirname(directory), directory);
    const spool = new Spool(directory, maxBytes, await lockDirectory(directory, "observer"));
    const found: SpoolFile[] = [];
    for (const name of readdirSync(directory)) {
      const match = NAME.exec(name);
      if (!match) continue;
      const path = join(directory, name);
      found.push({ path, number: Number(match[1]), records: Number(match[2]), bytes: statSync(path).size });
    }
    found.sort((a, b) => a.number - b.number);
    for (const file of found) spool.#add(file);
    spool.#next = (found.at(-1)?.number ?? 0) + 1;
    return spool;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get records(): number {
    return this.#records;
  }

  get files(): number {
    return this.#files.length;
  }

  /** Durable when it resolves. Rejects if the disk does not accept them; then nothing of them is left there. */
  async append(records: readonly Uint8Array[]): Promise<void> {
    const bytes = records.reduce((n, r) => n + framedBytes(r), 0);
    this.#makeRoom(this.#maxBytes - bytes);
    const number = this.#next++;
    const path = join(this.directory, `${String(number).padStart(16, "0")}-${records.length}.batch`);
    try {
      const file = await open(path, constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY, 0o600);
      try {
        const { bytesWritten } = await file.writev(records.flatMap(frameRecord));
        // A disk that becomes full accepts a part, without an error.
        if (bytesWritten < bytes)
          throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
        await file.datasync();
      } finally {
        await file.close();
      }
      await syncFolder(this.directory);
    } catch (error) {
      rmSync(path, { force: true });
      throw error;
    }
    this.#add({ path, number, records: records.length, bytes });
  }

  /** Returns the oldest files, up to this many bytes and records, but at least one; they are held until `done` or `release`. */
  take(maxBytes: number, maxRecords: number): SpoolFile[] {
    const taken: SpoolFile[] = [];
    let [bytes, records] = [0, 0];
    for (const file of this.#files) {
      bytes += file.bytes;
      records += file.records;
      if (taken.length > 0 && (bytes > maxBytes || records > maxRecords)) break;
      taken.push(file);
      this.#busy.add(file);
    }
    return taken;
  }

  read(file: SpoolFile): Buffer {
    return readFileSync(file.path);
  }

  release(files: readonly SpoolFile[]): void {
    for (const file of files) this.#busy.delete(file);
  }

  /** Removes files that the collector has. */
  done(files: readonly SpoolFile[]): void {
    for (const file of files) {
      rmSync(file.path, { force: true });
      this.#remove(file);
    }
  }

  /** Keeps a file that the collector will never accept next to the spool, for inspection. */
  setAside(file: SpoolFile): string {
    const aside = file.path.replace(/\.batch$/, ".refused");
    renameSync(file.path, aside);
    this.#remove(file);
    return aside;
  }

  /** Drops the oldest file that is not being sent. Returns false if there is none. */
  dropOldest(): boolean {
    const oldest = this.#files.find((f) => !this.#busy.has(f));
    if (!oldest) return false;
    rmSync(oldest.path, { force: true });
    this.dropped += oldest.records;
    this.#remove(oldest);
    return true;
  }

  async close(): Promise<void> {
    await this.#lock.release();
  }

  #makeRoom(maxBytes: number): void {
    while (this.#bytes > Math.max(0, maxBytes) && this.dropOldest());
  }

  #add(file: SpoolFile): void {
    this.#files.push(file);
    this.#bytes += file.bytes;
    this.#records += file.records;
  }

  #remove(file: SpoolFile): void {
    const at = this.#files.indexOf(file);
    if (at < 0) return;
    this.#files.splice(at, 1);
    this.#busy.delete(file);
    this.#bytes -= file.bytes;
    this.#records -= file.records;
  }
}
