/**
 * The reading thread: when it pays off, and how it is started. This file imports little, so that a program can start the thread first, and load the rest of
 * itself while the thread starts up.
 */
import { existsSync, statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { SHARE_ENV, Worker } from "node:worker_threads";
import { Kernels } from "../base/kernels.ts";
import { RingReader } from "./feed-ring.ts";
import type { FeedStart } from "./feed-worker.ts";
import { STRIDE_ROWS } from "./stride-rows.ts";

/** For smaller files (both together) a thread costs more than it saves. */
const MIN_BYTES = 16 << 20;

/** The thread's program: next to this file in the built package; there is none when the sources run directly. */
function program(): string | null {
  const file = fileURLToPath(new URL("./feed-worker.js", import.meta.url));
  return existsSync(file) ? file : null;
}

/** Returns whether a second thread pays off: the captures are large files, and there is a processor for it. */
export function worthParallel(...captures: string[]): boolean {
  if (availableParallelism() < 2 || program() === null) return false;
  let bytes = 0;
  for (const path of captures) {
    const stat = path === "-" ? undefined : statSync(path, { throwIfNoEntry: false });
    if (!stat?.isFile()) return false;
    bytes += stat.size;
  }
  return bytes >= MIN_BYTES;
}

/** A thread that waits for orders, and the ring in the memory of these kernels to which it writes strides. */
export interface ReadingThread {
  worker: Worker;
  kernels: Kernels;
  ring: RingReader;
}

let early: ReadingThread | null = null;

/** Starts the thread that the next `startReading` returns; calls back with its first message, sent when its program is loaded. */
export function startEarly(onUp: () => void): void {
  early ??= startReading();
  early?.worker.once("message", onUp);
}

/** Returns null if the thread's program is not available. */
export function startReading(): ReadingThread | null {
  const waiting = early;
  early = null;
  if (waiting) return waiting;
  const file = program();
  if (file === null) return null;
  const worker = new Worker(file, { env: SHARE_ENV, trackUnmanagedFds: false });
  // An unused thread ends with the program.
  worker.unref();
  // Created while the thread starts up.
  const kernels = new Kernels({ shared: true });
  const ring = new RingReader(kernels, STRIDE_ROWS);
  const start: FeedStart = { memory: kernels.memory, ring: ring.address, rows: ring.rows };
  worker.postMessage(start);
  return { worker, kernels, ring };
}
