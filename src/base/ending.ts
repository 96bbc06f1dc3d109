/**
 * Terminates a worker thread only at a safe moment. Node aborts the whole process ("close before init", seen with 20.20) if a thread is terminated between
 * creating a zlib stream and initialising it, as every inflateSync does. The thread sets a flag in shared memory while it does such work. endThread sets a
 * second flag, after which the thread starts no more such work, and waits until the work in progress is finished.
 */

/** Indices into the shared flags: BUSY is set while the thread does uninterruptible work, ENDING when the thread is to terminate. */
const BUSY = 0;
const ENDING = 1;
/** Longest wait for uninterruptible work. Unpacking the largest record takes less. */
const LONGEST_MS = 5000;

let own: Int32Array | null = null;

export function endingFlags(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(8));
}

/** Called once in a thread that endThread may terminate. */
export function mayBeEnded(flags: Int32Array): void {
  own = flags;
}

/** Runs `work` without being terminated halfway. Calls must not be nested. */
export function uncut<T>(work: () => T): T {
  if (own === null) return work();
  Atomics.store(own, BUSY, 1);
  if (Atomics.load(own, ENDING) === 1) {
    Atomics.store(own, BUSY, 0);
    // Block here until the thread is terminated.
    Atomics.wait(own, ENDING, 1);
  }
  try {
    return work();
  } finally {
    Atomics.store(own, BUSY, 0);
  }
}

export async function endThread(
  thread: { terminate(): Promise<unknown> } | null,
  flags: Int32Array,
): Promise<void> {
  Atomics.store(flags, ENDING, 1);
  const untilMs = performance.now() + LONGEST_MS;
  while (Atomics.load(flags, BUSY) === 1 && performance.now() < untilMs)
    await new Promise((resolve) => setTimeout(resolve, 1));
  await thread?.terminate();
}
