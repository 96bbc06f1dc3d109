/**
 * Journal of the records that may not be in the results yet: one line per point and label of a message, on disk before the message is acknowledged.
 * After a crash the time spans in it are estimated again from the archive; existing rows stay the same and missing ones are added. The file is
 * rewritten now and then without the settled spans, so it stays short.
 */

import { existsSync, readFileSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { dirname } from "node:path";
import { publish, syncFolder, writeTemporary } from "../archive/durable.ts";
import type { RecordHead } from "../epoch/record.ts";

export interface PendingSpan {
  point: string;
  /** Label of the segment. */
  segment: string;
  startNs: bigint;
  endNs: bigint;
}

export class Journal {
  readonly #path: string;
  #file: FileHandle | null = null;
  #spans: PendingSpan[];
  #writing: Promise<void> = Promise.resolve();

  constructor(path: string) {
    this.#path = path;
    this.#spans = existsSync(path) ? readSpans(readFileSync(path, "utf8")) : [];
  }

  /** Spans in order of arrival. */
  get spans(): readonly PendingSpan[] {
    return this.#spans;
  }

  /** Adds the spans of these records. Durable when it resolves. */
  add(heads: readonly RecordHead[]): Promise<void> {
    return this.addSpans(joinSpans(heads));
  }

  addSpans(spans: readonly PendingSpan[]): Promise<void> {
    if (spans.length === 0) return Promise.resolve();
    this.#writing = this.#writing.then(async () => {
      this.#file ??= await open(this.#path, "a", 0o600);
      await this.#file.appendFile(spans.map(line).join(""));
      await this.#file.datasync();
      this.#spans.push(...spans);
    });
    const done = this.#writing;
    // The caller whose write failed gets the error; the next write starts afresh.
    this.#writing = done.catch(() => undefined);
    return done;
  }

  /** Keeps only open spans. `count`: how many of the first spans were examined; later ones are kept. */
  settle(count: number, isOpen: (span: PendingSpan) => boolean): Promise<void> {
    const done = this.#writing.then(async () => {
      const left = [...this.#spans.slice(0, count).filter(isOpen), ...this.#spans.slice(count)];
      if (left.length === this.#spans.length) return;
      await this.#file?.close();
      this.#file = null;
      const folder = dirname(this.#path);
      await publish(await writeTemporary(folder, Buffer.from(left.map(line).join(""))), this.#path, true);
      await syncFolder(folder);
      this.#spans = left;
    });
    this.#writing = done.catch(() => undefined);
    return done;
  }

  async close(): Promise<void> {
    await this.#writing;
    await this.#file?.close();
    this.#file = null;
  }
}

/** Joins the records of a message into one span per point and label. */
function joinSpans(heads: readonly RecordHead[]): PendingSpan[] {
  const spans = new Map<string, PendingSpan>();
  for (const { point, segment, epoch } of heads) {
    const key = JSON.stringify([point, segment]);
    const known = spans.get(key);
    const { startNs, endNs } = epoch;
    if (!known) spans.set(key, { point, segment, startNs, endNs });
    else {
      if (startNs < known.startNs) known.startNs = startNs;
      if (endNs > known.endNs) known.endNs = endNs;
    }
  }
  return [...spans.values()];
}

function line({ point, segment, startNs, endNs }: PendingSpan): string {
  return `${JSON.stringify([point, segment, `${startNs}`, `${endNs}`])}\n`;
}

/** Parses the journal. A last line cut off by a kill belongs to a message that was not acknowledged, and is skipped. */
function readSpans(text: string): PendingSpan[] {
  return text.split("\n").flatMap((row) => {
    try {
      const [point, segment, start, end] = JSON.parse(row) as string[];
      return [
        {
          point: point ?? "",
          segment: segment ?? "",
          startNs: BigInt(start ?? ""),
          endNs: BigInt(end ?? ""),
        },
      ];
    } catch {
      return [];
    }
  });
}
