/**
 * Ends a thread at a moment when that is safe. Node ends the whole process where a thread is terminated after it has made a stream of zlib and before that is set up ("close before init", seen with
 * 20.20): inflateSync does that each time. The thread says in shared memory that it is in such work; who ends it says so first, after which the thread begins no more, and waits for what has begun.
 */

/** Of the shared memory: the thread is in work that must not be cut off; it is to end. */
const BUSY = 0;
const ENDING = 1;
/** Unpacking the largest record takes less. */
const LONGEST_MS = 5000;

let own: Int32Array | null = null;

export function endingFlags(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(8));
}

/** Once in a thread that may be ended. */
export function mayBeEnded(flags: Int32Array): void {
  own = flags;
}

/** Not within itself. */
export function uncut<T>(work: () => T): T {
  if (own === null) return work();
  Atomics.store(own, BUSY, 1);
  if (Atomics.load(own, ENDING) === 1) {
    Atomics.store(own, BUSY, 0);
    // Until it is terminated.
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
