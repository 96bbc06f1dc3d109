/** An answer of the collector for a component. The request is repeated when its key changes; the old answer stays until the new one arrives. */

import { type Signal, signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { token } from "../state/settings.ts";
import { Refusal } from "./client.ts";

export interface Asked<T> {
  data: T | null;
  error: Refusal | null;
  /** The request takes long enough to show that it is loading. */
  slow: boolean;
  again(): void;
}

const SLOW_MS = 300;

/**
 * The request is also repeated when `refresh` changes, unless the previous one is still pending: a slow collector does not get requests faster than it answers.
 */
export function useAnswer<T>(
  key: string | null,
  ask: (signal: AbortSignal) => Promise<T>,
  refresh: string | number = 0,
): Asked<T> {
  const [state, setState] = useState<{ data: T | null; error: Refusal | null; slow: boolean }>({
    data: null,
    error: null,
    slow: false,
  });
  const [round, setRound] = useState(0);
  const asking = useRef<AbortController | null>(null);
  const who = token.value;
  const start = () => {
    const gone = new AbortController();
    asking.current = gone;
    const timer = setTimeout(() => setState((s) => ({ ...s, slow: true })), SLOW_MS);
    const done = (change: (before: typeof state) => typeof state) => {
      clearTimeout(timer);
      if (asking.current === gone) asking.current = null;
      if (!gone.signal.aborted) setState(change);
    };
    ask(gone.signal).then(
      (data) => done(() => ({ data, error: null, slow: false })),
      (error: unknown) => {
        const refusal = error instanceof Refusal ? error : new Refusal(0, "page", (error as Error).message);
        done((s) => ({ data: refusal.status === 0 ? s.data : null, error: refusal, slow: false }));
      },
    );
  };
  useEffect(() => {
    if (key === null) return;
    start();
    return () => {
      asking.current?.abort();
      asking.current = null;
    };
  }, [key, who]);
  useEffect(() => {
    if (key !== null && asking.current === null) start();
  }, [refresh, round]);
  return { ...state, again: () => setRound((n) => n + 1) };
}

/** Counts up regularly while a component is shown, for data without events. */
export function useTicks(ms: number): number {
  const [count, setCount] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) setCount((n) => n + 1);
    }, ms);
    return () => clearInterval(timer);
  }, [ms]);
  return count;
}

const SOON_MS = 5000;
const LATER_ROUNDS = 12;

/** Counts up every few seconds until there is something to show, then every minute. */
export function useTicksUntil(there: boolean): number {
  const ticks = useTicks(SOON_MS);
  const counted = useRef(0);
  if (!there || ticks >= counted.current + LATER_ROUNDS) counted.current = ticks;
  return counted.current;
}

export function useOwnSignal<T>(initial: T): Signal<T> {
  return useState(() => signal(initial))[0];
}
