/** HTTP client for a collector. Answers and errors are the same as the library's own. */
import { setTimeout as sleep } from "node:timers/promises";
import type { PacketServer } from "../query/packet/remote.ts";
import type { PacketSettings } from "../query/packet/serve.ts";
import type { Endpoint } from "../transport/http/collector-url.ts";
import { type Exchange, HttpClient, type Reply } from "../transport/http/request.ts";
import { unreachable } from "../transport/http/unreachable.ts";
import { errorOf } from "./problem.ts";
import { MAX_MESSAGE_BYTES, PACKET_QUESTION_TYPE } from "./wire.ts";

/** Longer than the collector's own time limit for a question. */
const TIMEOUT_MS = 120_000;
/** Longest total time to wait for a busy collector, which states when to try again. */
const MAX_WAIT_MS = 60_000;

type Question = Pick<Exchange, "method" | "path" | "headers" | "body">;

/** Returns the JSON of the answer. Throws UsageError if the collector refuses the question or cannot be reached. */
export async function askCollector<T>(
  endpoint: Endpoint,
  exchange: Pick<Exchange, "method" | "path"> & { json?: unknown },
): Promise<T> {
  const { method, path, json } = exchange;
  const body =
    json === undefined ? {} : { body: JSON.stringify(json), headers: { "content-type": "application/json" } };
  const reply = await exchangeWith(endpoint, { method, path, ...body });
  return JSON.parse(reply.body.toString()) as T;
}

/** A collector as the holder of the records that questions about captured packets are asked of. */
export function packetServer(endpoint: Endpoint): PacketServer {
  return {
    maxBytes: MAX_MESSAGE_BYTES,
    settings: ({ point, segment, fromNs, toNs }) =>
      askCollector<PacketSettings>(endpoint, {
        method: "GET",
        path: `/v1/packets/settings${queryText({ point, segment, from: fromNs, to: toNs })}`,
      }),
    ask: async ({ point, segment }, message) => {
      const reply = await exchangeWith(endpoint, {
        method: "POST",
        path: `/v1/packets${queryText({ point, segment })}`,
        headers: { "content-type": PACKET_QUESTION_TYPE },
        body: message,
      });
      return reply.body;
    },
  };
}

async function exchangeWith(endpoint: Endpoint, question: Question): Promise<Reply> {
  const client = new HttpClient(endpoint);
  try {
    let waitedMs = 0;
    for (;;) {
      const reply = await client.send({ ...question, timeoutMs: TIMEOUT_MS }).catch((cause: unknown) => {
        throw unreachable(client.url, cause);
      });
      if (reply.status === 200) return reply;
      const againMs = 1000 * Number(reply.headers["retry-after"] ?? Number.NaN);
      const busy = reply.status === 429 || reply.status === 503;
      if (!busy || !(waitedMs + againMs <= MAX_WAIT_MS))
        throw errorOf(client.url, reply.status, reply.body.toString());
      await sleep(againMs);
      waitedMs += againMs;
    }
  } finally {
    client.close();
  }
}

function queryText(values: Record<string, string | bigint | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value !== undefined) query.set(name, `${value}`);
  return query.size === 0 ? "" : `?${query}`;
}
