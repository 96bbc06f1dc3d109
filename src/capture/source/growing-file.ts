/**
 * A file that another program is still writing. Its bytes end when the signal aborts, or when the file is known to be complete (the next file of a rotation
 * exists). Until then the end of the file is polled, as `tail -f` does.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { type ByteSource, notOpened } from "./byte-source.ts";

/** Interval between polls at the end of the file. */
export const POLL_MS = 100;

export interface GrowingOptions {
  signal?: AbortSignal | undefined;
  /** Returns whether nothing will be added to the file any more. */
  isComplete?: () => boolean | Promise<boolean>;
  pollMs?: number;
}

export function openGrowingFile(path: string, options: GrowingOptions = {}): ByteSource {
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch (cause) {
    throw notOpened(path, cause, "start the capture first, or give 'DIR/*.pcap' for files to come");
  }
  let position = 0;
  let open = true;
  const { signal, isComplete, pollMs = POLL_MS } = options;
  const take = (into: Uint8Array) => {
    const got = open ? readSync(fd, into, 0, into.length, position) : 0;
    position += got;
    return got;
  };
  const wait = async (target: () => Uint8Array): Promise<number> => {
    while (open && !signal?.aborted) {
      // Ask before the last read, so that everything written before completion is read.
      const complete = (await isComplete?.()) ?? false;
      if (open && fstatSync(fd).size < position) throw new Error("the file was cut short while it was read");
      const got = take(target());
      if (got > 0 || complete) return got;
      await sleep(pollMs, undefined, signal ? { signal } : {}).catch(() => {});
    }
    return 0;
  };
  return {
    name: path,
    size: null,
    compressed: false,
    rereadable: false,
    consumed: () => position,
    // Returns a promise only if it has to wait.
    read: (target) => take(target()) || wait(target),
    close() {
      if (open) closeSync(fd);
      open = false;
    },
  };
}
