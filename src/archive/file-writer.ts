/** Writes many files of records at a time, in a thread of their own (write-worker.ts) if its program exists; in place when the sources run directly. */
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { type FilesToWrite, type Published, type WriteAnswer, writeFiles } from "./write-worker.ts";

export interface NewFile {
  path: string;
  bytes: Uint8Array;
}

export interface WrittenFile {
  published: Published;
  /** Its temporary path, if `published` is null. */
  temporary: string;
}

/** Maximum number of files open at the same time. */
const MAX_FILES = 256;

export class FileWriter {
  readonly #program: string | null;
  readonly #waiting = new Map<number, { resolve: (p: Published[]) => void; reject: (e: Error) => void }>();
  #worker: Worker | null = null;
  #next = 1;

  /** Whether files are on disk when a write ends; otherwise they may still be on their way, for callers that can obtain them again. */
  readonly synced: boolean;

  constructor({ synced = true }: { synced?: boolean } = {}) {
    this.synced = synced;
    const file = fileURLToPath(new URL("./write-worker.js", import.meta.url));
    this.#program = existsSync(file) ? file : null;
  }

  /** Writes the files; when it resolves the published ones are on disk, or on their way. Rejects with the system's error; then none of the group is there. */
  async write(folder: string, files: readonly NewFile[]): Promise<WrittenFile[]> {
    const written: WrittenFile[] = [];
    for (let at = 0; at < files.length; at += MAX_FILES) {
      const { work, temporaries } = prepare(folder, files.slice(at, at + MAX_FILES));
      const published = await this.#send(work);
      for (const [i, temporary] of temporaries.entries())
        written.push({ temporary, published: published[i] ?? null });
    }
    return written;
  }

  async close(): Promise<void> {
    const worker = this.#worker;
    this.#worker = null;
    await worker?.terminate();
    this.#fail(new Error("the writer was closed"));
  }

  #send(files: Pick<FilesToWrite, "buffers" | "files">): Promise<Published[]> {
    const work = { ...files, synced: this.synced };
    if (this.#program === null) return writeFiles(work);
    this.#worker ??= this.#start(this.#program);
    const id = this.#next++;
    const done = new Promise<Published[]>((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
    // Keeps the process alive while it works.
    this.#worker.ref();
    this.#worker.postMessage({ id, ...work } satisfies FilesToWrite);
    return done;
  }

  #start(program: string): Worker {
    const worker = new Worker(program);
    worker.unref();
    worker.on("message", (answer: WriteAnswer) => {
      const waiting = this.#waiting.get(answer.id);
      this.#waiting.delete(answer.id);
      if (this.#waiting.size === 0) worker.unref();
      if ("published" in answer) waiting?.resolve(answer.published);
      else waiting?.reject(Object.assign(new Error(answer.error.message), answer.error));
    });
    worker.on("error", (error) => {
      if (this.#worker === worker) this.#worker = null;
      this.#fail(error);
    });
    return worker;
  }

  #fail(error: Error): void {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

/** Files that are parts of one message share its memory, which is transferred to the thread once. */
function prepare(folder: string, files: readonly NewFile[]) {
  const buffers: Uint8Array[] = [];
  const known = new Map<ArrayBufferLike, number>();
  const temporaries: string[] = [];
  const parts = files.map(({ path, bytes }) => {
    const temporary = join(folder, randomUUID());
    temporaries.push(temporary);
    let buffer = known.get(bytes.buffer);
    if (buffer === undefined) {
      buffer = buffers.length;
      known.set(bytes.buffer, buffer);
      buffers.push(new Uint8Array(bytes.buffer));
    }
    return { temporary, path, buffer, offset: bytes.byteOffset, length: bytes.length };
  });
  return { work: { buffers, files: parts }, temporaries };
}
