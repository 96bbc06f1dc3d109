/** An answer of the collector in a component: asked again when its key changes, the one before shown until the next has come. */

import { type Signal, signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { token } from "../state/settings.ts";
import { Refusal } from "./client.ts";

export interface Asked<T> {
  data: T | null;
  error: Refusal | null;
  /** For long enough that it should be said. */
  slow: boolean;
  again(): void;
}

const SLOW_MS = 300;

export function useAnswer<T>(key: string | null, ask: (signal: AbortSignal) => Promise<T>): Asked<T> {
  const [state, setState] = useState<{ data: T | null; error: Refusal | null; slow: boolean }>({
    data: null,
    error: null,
    slow: false,
  });
  const [round, setRound] = useState(0);
  const who = token.value;
  useEffect(() => {
    if (key === null) return;
    const gone = new AbortController();
    const timer = setTimeout(() => setState((s) => ({ ...s, slow: true })), SLOW_MS);
    ask(gone.signal).then(
      (data) => {
        clearTimeout(timer);
        if (!gone.signal.aborted) setState({ data, error: null, slow: false });
      },
      (error: unknown) => {
        clearTimeout(timer);
        if (gone.signal.aborted) return;
        const refusal = error instanceof Refusal ? error : new Refusal(0, "page", (error as Error).message);
        setState((s) => ({ data: refusal.status === 0 ? s.data : null, error: refusal, slow: false }));
      },
    );
    return () => {
      clearTimeout(timer);
      gone.abort();
    };
  }, [key, round, who]);
  return { ...state, again: () => setRound((n) => n + 1) };
}

/** Rises every so often while a component is shown: for what no event tells. */
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

export function useOwnSignal<T>(initial: T): Signal<T> {
  return useState(() => signal(initial))[0];
}
