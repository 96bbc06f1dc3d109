/**
 * How the process ends: when everything is written, and then for certain. Left to itself, Node waits for compile jobs in its threads when the event
 * loop is empty; such a job may wait for a garbage collection, which only the waiting thread could do, and both wait for ever (nodejs/node#54918).
 * So no new jobs are begun, those that run get time to end while this thread can still serve them, and the exit is explicit.
 */
import { setFlagsFromString } from "node:v8";

/** What a compile job of this program takes, with room to spare. */
const SETTLE_MS = 2;

export async function endProcess(code: number): Promise<never> {
  for (const flag of ["--no-opt", "--no-sparkplug", "--no-concurrent-recompilation"])
    setFlagsFromString(flag);
  await flushed(process.stdout);
  await flushed(process.stderr);
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  process.exit(code);
}

function flushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    if (stream.destroyed || stream.writableEnded) resolve();
    else stream.write("", () => resolve());
  });
}
