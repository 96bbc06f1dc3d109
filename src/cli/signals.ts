/**
 * SIGINT, SIGTERM and SIGHUP. A command that runs until it is stopped uses `endingSignal`: the first signal aborts it, and the command finishes its work and
 * prints its summary; a second signal ends it at once. Commands that only compute and print do not use it and end at the first signal.
 */
import { constants } from "node:os";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
let ending: AbortController | null = null;

/**
 * Returns an AbortSignal that the first signal aborts. After the first call, a first signal does nothing else. `reload`, if given, is called for SIGHUP
 * instead.
 */
export function endingSignal({ reload }: { reload?: () => void } = {}): AbortSignal {
  if (ending) return ending.signal;
  const controller = new AbortController();
  ending = controller;
  for (const name of SIGNALS) {
    if (name === "SIGHUP" && reload) {
      process.on(name, reload);
      continue;
    }
    process.on(name, () => {
      if (controller.signal.aborted) process.exit(exitCode(name));
      controller.abort(name);
    });
  }
  return controller.signal;
}

/**
 * Calls `clean` when a signal ends the process: the first signal, or the second one if `endingSignal` handles the first. Returns a function that cancels this.
 * It runs at process exit, so that several clean-up functions do not prevent each other.
 */
export function cleanOnSignal(clean: () => void): () => void {
  process.once("exit", clean);
  const release = ending ? () => {} : exitOnSignals();
  return () => {
    process.off("exit", clean);
    release();
  };
}

function exitOnSignals(): () => void {
  const handlers = SIGNALS.map((name) => {
    const handler = () => process.exit(exitCode(name));
    process.on(name, handler);
    return () => process.off(name, handler);
  });
  return () => {
    for (const remove of handlers) remove();
  };
}

/** Returns the exit code of a command that a signal interrupted; null without a signal. */
export function endedBySignal(): number | null {
  return ending?.signal.aborted ? exitCode(ending.signal.reason as (typeof SIGNALS)[number]) : null;
}

/** Returns the exit code that shells expect after a signal. */
function exitCode(name: (typeof SIGNALS)[number]): number {
  return 128 + constants.signals[name];
}
