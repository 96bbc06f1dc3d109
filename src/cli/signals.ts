/**
 * SIGINT, SIGTERM and SIGHUP. A command that runs until it is ended asks for `endingSignal`: the first signal aborts it, and the command finishes what it has begun and prints
 * its summary. A second one ends at once. Commands that only compute and print do not call it and end at the first signal.
 */
import { constants } from "node:os";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
let ending: AbortController | null = null;

/** Aborts at the first signal. From the first call on signals do no more than that. `reload`: is called for SIGHUP instead. */
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
 * `clean` is called when a signal ends the process: the first, or the second where `endingSignal` takes the first. Returns what takes that back. When the process exits, so that
 * one who cleans up does not keep others from it.
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

/** The exit code of a command that could not finish after a signal; null where there was none. */
export function endedBySignal(): number | null {
  return ending?.signal.aborted ? exitCode(ending.signal.reason as (typeof SIGNALS)[number]) : null;
}

/** What shells expect of a program that a signal ended. */
function exitCode(name: (typeof SIGNALS)[number]): number {
  return 128 + constants.signals[name];
}
