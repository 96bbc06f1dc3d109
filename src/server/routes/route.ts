/** A route as data: what it takes, who may, what it is for. The server is made of these, and so is their description (openapi.ts). */
import type { TObject, TSchema } from "typebox";
import { UsageError } from "../../base/errors.ts";
import { checkedValue } from "../../base/schema.ts";
import type { Client, Needs } from "../access.ts";
import type { Alerts } from "../alerts/alerts.ts";
import type { NetworkMonitor } from "../monitor/network-monitor.ts";
import type { CollectorService } from "../service.ts";
import type { Station } from "../station.ts";

/** What routes are about. */
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
  /** Aborts when the client disconnected. */
  signal: AbortSignal;
}

/** JSON of a value, JSON text as it is, or bytes of another type. */
export type RouteOutput =
  | { json: unknown }
  | { jsonText: string }
  | { type: string; body: string | Uint8Array; headers?: Readonly<Record<string, string>> }
  /** Pieces as they come; ends with the client. */
  | { type: string; stream: AsyncIterable<string | Uint8Array> };

export interface Route {
  method: "GET" | "POST" | "PUT" | "DELETE";
  path: string;
  needs: Needs;
  summary: string;
  query?: TObject;
  body?: TSchema;
  /** A body of this type, unparsed, instead of JSON (or beside it, where there is a schema too). */
  bodyType?: string;
  /** Of a JSON body, where more than usual is expected. */
  maxJsonBytes?: number;
  /** What comes back, in a sentence. */
  answer: string;
  /** Of a JSON answer, where it is described field by field. */
  response?: TSchema;
  handle(input: RouteInput): Promise<RouteOutput> | RouteOutput;
}

/** Texts of a query string as its schema wants them: numbers, and lists with commas or given several times. */
export function readQuery(schema: TObject | undefined, given: unknown): Record<string, unknown> {
  const properties = (schema?.properties ?? {}) as Record<string, { type?: string; items?: unknown }>;
  const out: Record<string, unknown> = {};
  for (const [name, text] of Object.entries((given ?? {}) as Record<string, string | string[]>)) {
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (!property) {
      const known = Object.keys(properties).join(", ");
      throw new UsageError(
        "bad-question",
        `there is no parameter '${name.slice(0, 64)}'`,
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
