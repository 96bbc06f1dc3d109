/** Starts a collector, and waits while NATS or ClickHouse is unreachable. Settings that cannot work (credentials refused, wrong database) cause an error at once. */
import { setTimeout as sleep } from "node:timers/promises";
import { UsageError } from "../base/errors.ts";
import { untilAborted } from "../base/until-aborted.ts";
import { type RunningServer, type ServerOptions, startServer } from "./server.ts";

/** First pause between attempts in ms; it doubles up to the last. */
const RETRY_MS: readonly [first: number, last: number] = [500, 10_000];

export interface PatienceOptions {
  signal: AbortSignal;
  retryMs?: readonly [first: number, last: number];
}

/** Returns null if the signal aborts before the collector runs. */
export async function startPatiently(
  options: ServerOptions,
  { signal, retryMs = RETRY_MS }: PatienceOptions,
): Promise<RunningServer | null> {
  const log = options.onLog ?? (() => {});
  const logged = new Set<string>();
  let isStarting = true;
  // Each attempt gives the same notes, so they are printed once.
  const onLog = (line: string) => {
    if (isStarting && logged.has(line)) return;
    if (isStarting) logged.add(line);
    log(line);
  };
  let last = "";
  for (let pauseMs = retryMs[0]; !signal.aborted; pauseMs = Math.min(retryMs[1], 2 * pauseMs)) {
    try {
      const starting = startServer({ ...options, onLog });
      const started = await untilAborted(starting, signal);
      isStarting = false;
      if (started) return started;
      void starting.then((late) => late.close()).catch(() => undefined);
    } catch (error) {
      if (!(error instanceof UsageError) || error.code !== "store-away") throw error;
      if (error.problem !== last)
        log(`waiting: ${error.problem}${error.hint === undefined ? "" : `; ${error.hint}`}`);
      last = error.problem;
    }
    // Random pauses, so that workers started together do not retry at the same time.
    await untilAborted(sleep(pauseMs * (0.75 + 0.5 * Math.random())), signal);
  }
  return null;
}
