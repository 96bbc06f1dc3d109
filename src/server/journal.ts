/**
 * Which records may not be in the results yet: one line per message, on disk before the message is acknowledged. After a crash the times that it names are estimated again from the archive, which
 * changes nothing that was there and adds what is missing. Rewritten now and then without what is settled, so that it stays short.
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

  /** In the order they came. */
  get spans(): readonly PendingSpan[] {
    return this.#spans;
  }

  /** Durable when it resolves. */
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
    // A failure goes to the caller whose write failed; the next one tries again.
    this.#writing = done.catch(() => undefined);
    return done;
  }

  /** Only those that are still open stay. `count`: how many of the first were looked at; what came since stays. */
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

/** One span for each point and label of a message. */
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

/** A last line that was cut by a kill belongs to a message that was not acknowledged. */
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
