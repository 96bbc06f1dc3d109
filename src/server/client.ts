/** Asking a collector over HTTP: its answers are those of the library, and so are its refusals. */
import { UsageError } from "../base/errors.ts";
import { type Endpoint, type Exchange, HttpClient } from "../transport/http/request.ts";
import { errorOf } from "./problem.ts";

/** Questions may take as long as the collector lets them. */
const TIMEOUT_MS = 120_000;

/** The answer's JSON. UsageError where the collector refuses, or is not there. */
export async function askCollector<T>(
  endpoint: Endpoint,
  exchange: Pick<Exchange, "method" | "path"> & { json?: unknown },
): Promise<T> {
  const { method, path, json } = exchange;
  const client = new HttpClient(endpoint);
  try {
    const body =
      json === undefined
        ? {}
        : { body: JSON.stringify(json), headers: { "content-type": "application/json" } };
    const reply = await client
      .send({ method, path, timeoutMs: TIMEOUT_MS, ...body })
      .catch((cause: unknown) => {
        const { code, message } = cause as NodeJS.ErrnoException;
        const why = code === "ECONNREFUSED" ? "nothing listens there" : message || code || "no answer";
        throw new UsageError("no-records", `${client.url}: ${why}`, "is hoptime collect running there?", {
          cause,
        });
      });
    if (reply.status !== 200) throw errorOf(client.url, reply.status, reply.body.toString());
    return JSON.parse(reply.body.toString()) as T;
  } finally {
    client.close();
  }
}
