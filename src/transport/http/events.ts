/** Events of a collector as they occur (Server-Sent Events). A lost connection is restored, and continues after the last event seen. */
import type { IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { UsageError } from "../../base/errors.ts";
import type { Endpoint } from "./collector-url.ts";
import { HttpClient } from "./request.ts";
import { unreachable } from "./unreachable.ts";

export interface CollectorEvent {
  type: string;
  data: unknown;
}

export interface ListenOptions {
  signal: AbortSignal;
  /** Called with a sentence when the connection is lost, and when it is restored. */
  onState?: (text: string) => void;
}

const RETRY_MS = 2000;
const MAX_ERROR_BYTES = 4096;
/** No event is nearly as long. */
const MAX_EVENT_CHARACTERS = 1 << 20;

/** Ends with the signal. Throws a UsageError if the collector refuses, or cannot be reached at the first attempt. */
export async function* listenEvents(
  endpoint: Endpoint,
  { signal, onState }: ListenOptions,
): AsyncGenerator<CollectorEvent> {
  const client = new HttpClient(endpoint);
  let last: string | null = null;
  let connected = false;
  let lost = false;
  try {
    while (!signal.aborted) {
      try {
        const response = await open(client, last, signal);
        if (lost) onState?.(`${client.url}: connected again`);
        connected = true;
        lost = false;
        for await (const event of readEvents(response)) {
          last = event.id ?? last;
          yield { type: event.type, data: event.data };
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof UsageError) throw error;
        if (!connected) throw unreachable(client.url, error);
      }
      if (signal.aborted) return;
      if (!lost) onState?.(`${client.url}: the connection was lost`);
      lost = true;
      await sleep(RETRY_MS, undefined, { signal }).catch(() => {});
    }
  } finally {
    client.close();
  }
}

async function open(client: HttpClient, last: string | null, signal: AbortSignal): Promise<IncomingMessage> {
  const headers: Record<string, string> = { accept: "text/event-stream" };
  if (last !== null) headers["last-event-id"] = last;
  const response = await client.stream("/v1/events", headers, signal);
  const { statusCode = 0 } = response;
  if (statusCode === 200) return response;
  let text = "";
  for await (const part of response as AsyncIterable<Buffer>) {
    text += part.toString();
    if (text.length > MAX_ERROR_BYTES) break;
  }
  // Busy or restarting: the client waits.
  if (statusCode >= 500) throw new Error(`answer ${statusCode}`);
  throw new UsageError("not-supported", `${client.url}: refused (${statusCode}): ${text.slice(0, 200)}`);
}

interface ReadEvent extends CollectorEvent {
  id: string | null;
}

/** Events end with an empty line; lines that begin with a colon are heartbeats. Invalid JSON is ignored. */
export async function* readEvents(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<ReadEvent> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const piece of pieces) {
    rest += decoder.decode(piece, { stream: true });
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const event = parseEvent(rest.slice(0, end));
      rest = rest.slice(end + 2);
      if (event) yield event;
    }
    if (rest.length > MAX_EVENT_CHARACTERS) throw new Error("an event without end");
  }
}

function parseEvent(text: string): ReadEvent | null {
  const fields: Record<string, string> = {};
  for (const line of text.split("\n")) {
    const match = /^(id|event|data): ?(.*)$/.exec(line);
    if (match?.[1]) fields[match[1]] = match[2] ?? "";
  }
  const { id = null, event = "message", data } = fields;
  if (data === undefined) return null;
  try {
    return { id, type: event, data: JSON.parse(data) as unknown };
  } catch {
    return null;
  }
}
