/**
 * Ends the process after all output is written. If the process is left to end by itself, Node waits for compile jobs in its threads when the event loop is
 * empty. Such a job may wait for a garbage collection, which only the waiting main thread could do: a deadlock (nodejs/node#54918). So no new compile jobs are
 * started, running ones get time to finish while this thread still works, and the exit is explicit.
 */
import { setFlagsFromString } from "node:v8";

/** Time for a compile job of this program, with a margin. */
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
