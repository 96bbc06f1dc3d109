/** Replaces src/match/feed-thread.ts: pages opened from disk cannot share memory between threads, so one thread reads and matches. */
import type * as original from "../../../src/match/feed-thread.ts";

export type { ReadingThread } from "../../../src/match/feed-thread.ts";

export const worthParallel: typeof original.worthParallel = () => false;
export const startReading: typeof original.startReading = () => null;
