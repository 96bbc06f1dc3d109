/**
 * Cache of the records that arrived recently: most are estimated within a second and need not be read from disk. Records that nothing waits for are
 * dropped; beyond the size limit, the oldest are dropped.
 */
import type { EpochRecord } from "../epoch/record.ts";

const MAX_BYTES = 64e6;

export class RecentRecords {
  readonly #records = new Map<string, { record: EpochRecord; bytes: number }>();
  readonly #most: number;
  #bytes = 0;

  constructor(most: number = MAX_BYTES) {
    this.#most = most;
  }

  add(name: string, record: EpochRecord, bytes: number): void {
    this.#remove(name);
    if (bytes > this.#most / 4) return;
    this.#records.set(name, { record, bytes });
    this.#bytes += bytes;
    for (const oldest of this.#records.keys()) {
      if (this.#bytes <= this.#most) return;
      this.#remove(oldest);
    }
  }

  /** Drops a record that has been replaced in the archive. */
  forget(name: string): void {
    this.#remove(name);
  }

  /** Drops all other records. */
  retain(names: ReadonlySet<string>): void {
    for (const name of this.#records.keys()) if (!names.has(name)) this.#remove(name);
  }

  get(name: string): EpochRecord | undefined {
    return this.#records.get(name)?.record;
  }

  #remove(name: string): void {
    this.#bytes -= this.#records.get(name)?.bytes ?? 0;
    this.#records.delete(name);
  }
}
