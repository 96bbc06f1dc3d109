/** A route as data: parameters, required permission, description. The server is built from these, and so is openapi.ts. */
import type { TObject, TSchema } from "typebox";
import { UsageError } from "../../base/errors.ts";
import { checkedValue } from "../../base/schema.ts";
import type { Client, Needs } from "../access.ts";
import type { Alerts } from "../alerts/alerts.ts";
import type { NetworkMonitor } from "../monitor/network-monitor.ts";
import type { CollectorService } from "../service.ts";
import type { Station } from "../station.ts";

/** The parts of the collector that routes use. */
export interface Parts {
  service: CollectorService;
  network: NetworkMonitor;
  alerts: Alerts;
  station: Station | null;
}

export interface RouteInput {
  client: Client;
  query: Record<string, unknown>;
  body: unknown;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Aborts when the client disconnects. */
  signal: AbortSignal;
}

/** A value to send as JSON, finished JSON text, or bytes of another type. */
export type RouteOutput =
  | { json: unknown }
  | { jsonText: string }
  | { type: string; body: string | Uint8Array; headers?: Readonly<Record<string, string>> }
  /** Sent piece by piece; stops when the client disconnects. */
  | { type: string; stream: AsyncIterable<string | Uint8Array> };

export interface Route {
  method: "GET" | "POST" | "PUT" | "DELETE";
  path: string;
  needs: Needs;
  summary: string;
  query?: TObject;
  body?: TSchema;
  /** Content type of an unparsed body, instead of JSON, or beside it if there is a schema as well. */
  bodyType?: string;
  /** Size limit of a JSON body, if it differs from the default. */
  maxJsonBytes?: number;
  /** The response in one sentence. */
  answer: string;
  /** Schema of a JSON response, if it is described field by field. */
  response?: TSchema;
  handle(input: RouteInput): Promise<RouteOutput> | RouteOutput;
}

/** Converts the query string by its schema: numbers, and lists given with commas or repeatedly. */
export function readQuery(schema: TObject | undefined, given: unknown): Record<string, unknown> {
  const properties = (schema?.properties ?? {}) as Record<string, { type?: string; items?: unknown }>;
  const out: Record<string, unknown> = {};
  for (const [name, text] of Object.entries((given ?? {}) as Record<string, string | string[]>)) {
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (!property) {
      const known = Object.keys(properties).join(", ");
      throw new UsageError(
        "bad-question",
        `unknown parameter '${name.slice(0, 64)}'`,
        known === "" ? undefined : `parameters: ${known}`,
      );
    }
    if (property.type === "array") out[name] = [text].flat().flatMap((t) => t.split(","));
    else if (Array.isArray(text))
      throw new UsageError("bad-question", "is given twice", undefined, { parameter: name });
    else if (property.type === "integer" || property.type === "number")
      out[name] = text.trim() === "" ? Number.NaN : Number(text);
    else if (property.type === "boolean")
      out[name] = text === "" || text === "true" ? true : text === "false" ? false : text;
    else out[name] = text;
  }
  return schema
    ? (checkedValue(schema, out, { source: "query", code: "bad-question" }) as Record<string, unknown>)
    : out;
}
