/** Explains what a comparison needs memory for, and what to reduce if there is too little. */
import { type MemoryError, memoryError } from "../base/kernels.ts";
import { formatDuration } from "../base/time.ts";

/** Memory holds packets waiting for their partner, and a record per flow. Returns null for other failures. */
export function exhausted(
  error: unknown,
  { windowNs, everyPacket }: { windowNs: number; everyPacket?: boolean | undefined },
): MemoryError | null {
  const waiting = `packets of up to ${formatDuration(windowNs)} wait for their partner, with a record of each flow`;
  const fewer = "a shorter ‘window’, or a ‘filter’ that leaves fewer packets";
  return everyPacket
    ? memoryError(
        error,
        `${waiting} and a note of each packet`,
        `${fewer}; none of ‘packets’, ‘annotate’, ‘worst’ and ‘html’`,
      )
    : memoryError(error, waiting, fewer);
}
