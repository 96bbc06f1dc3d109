/**
 * Live results by Server-Sent Events. They are read with fetch, because EventSource sends no token. After a disconnect it reconnects and continues with the
 * last event.
 */
import { effect, signal } from "@preact/signals";
import { token } from "../state/settings.ts";
import { heardOf, msOf } from "../state/time-range.ts";
import { Refusal, request } from "./client.ts";
import type { EpochEvent } from "./types.ts";

export type LiveState = "connecting" | "live" | "broken" | "refused";
export const liveState = signal<LiveState>("connecting");
export const liveReason = signal("");
/** Reason if a token is needed or the given one is not accepted. */
export const tokenNeeded = signal<string | null>(null);

type Listener = (events: readonly EpochEvent[]) => void;
const listeners = new Set<Listener>();
const otherListeners = new Set<(type: string, data: unknown) => void>();
const LONGEST_WAIT_MS = 15_000;
/** Events come in bursts, so listeners are called at most this often. */
const GATHER_MS = 200;

export function onEpochs(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Other kinds of events: incidents, alerts, plan. */
export function onOtherEvent(listener: (type: string, data: unknown) => void): () => void {
  otherListeners.add(listener);
  return () => otherListeners.delete(listener);
}

let lastId = "";
let waiting: EpochEvent[] = [];

function deliver(): void {
  const events = waiting;
  waiting = [];
  for (const { endNs, missing } of events) if (missing === 0) heardOf(msOf(endNs));
  for (const listener of listeners) listener(events);
}

function take(block: string): void {
  let type = "message";
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) type = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
    else if (line.startsWith("id: ")) lastId = line.slice(4);
  }
  if (data === "") return;
  const value: unknown = JSON.parse(data);
  if (type !== "epoch") {
    for (const listener of otherListeners) listener(type, value);
    return;
  }
  waiting.push(value as EpochEvent);
  if (waiting.length === 1) setTimeout(deliver, GATHER_MS);
}

async function listen(signal: AbortSignal): Promise<void> {
  const headers = lastId === "" ? undefined : { "last-event-id": lastId };
  const response = await request("/v1/events", { signal, ...(headers ? { headers } : {}) });
  const reader = response.body?.getReader();
  if (!reader) throw new Refusal(0, "no-answer", "no stream");
  liveState.value = "live";
  tokenNeeded.value = null;
  const text = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += text.decode(value, { stream: true });
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) take(block);
  }
}

/** Listens until the page is closed; restarts with a new token. */
export function startLive(): void {
  let gone = new AbortController();
  effect(() => {
    void token.value;
    gone.abort();
    gone = new AbortController();
    void keepListening(gone.signal);
  });
}

async function keepListening(signal: AbortSignal): Promise<void> {
  for (let waitMs = 1000; !signal.aborted; waitMs = Math.min(LONGEST_WAIT_MS, waitMs * 2)) {
    try {
      await listen(signal);
      waitMs = 1000;
      liveState.value = "broken";
      liveReason.value = "The collector ended the connection";
    } catch (error) {
      if (signal.aborted) return;
      const { status, message } =
        error instanceof Refusal ? error : { status: 0, message: (error as Error).message };
      liveReason.value = message;
      liveState.value = status === 401 || status === 403 ? "refused" : "broken";
      if (status === 401 || status === 403) {
        tokenNeeded.value = message;
        return;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
}
