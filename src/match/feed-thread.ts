/**
 * The reading thread: when it pays, and how it is started. Little is loaded here, so that the thread can be started before the rest of a
 * program is: it comes up meanwhile.
 */
import { existsSync, statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { SHARE_ENV, Worker } from "node:worker_threads";
import { Kernels } from "../base/kernels.ts";
import { RingReader } from "./feed-ring.ts";
import type { FeedStart } from "./feed-worker.ts";
import { STRIDE_ROWS } from "./stride-rows.ts";

/** Below this size of both files together a thread costs more than it saves. */
const MIN_BYTES = 16 << 20;

/** The thread's program: beside us in the built package; where the sources run directly there is none that Node could run. */
function program(): string | null {
  const file = fileURLToPath(new URL("./feed-worker.js", import.meta.url));
  return existsSync(file) ? file : null;
}

/** Whether a second thread pays: the captures are files, large ones, and there is a processor for it. */
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

/** A thread that waits for orders, and what it will write its strides to: the memory of these kernels. */
export interface ReadingThread {
  worker: Worker;
  kernels: Kernels;
  ring: RingReader;
}

let early: ReadingThread | null = null;

/** Starts the thread that the next `startReading` returns; calls back when its program is loaded, which is the first thing it says. */
export function startEarly(onUp: () => void): void {
  early ??= startReading();
  early?.worker.once("message", onUp);
}

/** Null where the thread's program is not at hand. */
export function startReading(): ReadingThread | null {
  const waiting = early;
  early = null;
  if (waiting) return waiting;
  const file = program();
  if (file === null) return null;
  const worker = new Worker(file, { env: SHARE_ENV, trackUnmanagedFds: false });
  // One that nobody comes to use ends with the program.
  worker.unref();
  // Made while the thread comes up.
  const kernels = new Kernels({ shared: true });
  const ring = new RingReader(kernels, STRIDE_ROWS);
  const start: FeedStart = { memory: kernels.memory, ring: ring.address, rows: ring.rows };
  worker.postMessage(start);
  return { worker, kernels, ring };
}
