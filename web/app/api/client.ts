/** Requests to the collector. An error response becomes a Refusal with the collector's message. */
import { withFlags } from "../../../src/cli/flags.ts";
import { noteDate } from "../state/clock.ts";
import { token } from "../state/settings.ts";

export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string | null;
  constructor(status: number, code: string, message: string, hint: string | null = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.hint = hint;
  }
}

/** Returns, once, the first request of the overview, which early.ts sent before this program was loaded. */
function takeEarly(path: string): Promise<Response> | null {
  const early = window.hoptimeEarly;
  if (early?.path !== path) return null;
  delete window.hoptimeEarly;
  return early.token === token.value ? early.response : null;
}

/** URLs are relative, because the page may be served below a prefix. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (token.value !== "") headers.set("authorization", `Bearer ${token.value}`);
  let response: Response;
  try {
    const relative = path.replace(/^\//, "");
    response = await (takeEarly(relative) ?? fetch(relative, { ...init, headers }));
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new Refusal(0, "no-answer", "The collector does not answer", "is hoptime collect still running?");
  }
  noteDate(response.headers.get("date"));
  if (response.ok) return response;
  const told = (await response.json().catch(() => null)) as {
    error?: string;
    message?: string;
    hint?: string;
  } | null;
  throw new Refusal(
    response.status,
    told?.error ?? "refused",
    withFlags(told?.message ?? `the collector answered ${response.status}`),
    told?.hint ? withFlags(told.hint) : null,
  );
}

type Query = Readonly<Record<string, string | number | null | undefined>>;

export function pathOf(path: string, query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== null && value !== undefined) params.set(name, String(value));
  const text = params.toString();
  return text === "" ? path : `${path}?${text}`;
}

export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  const response = await request(pathOf(path, query), signal ? { signal } : {});
  return (await response.json()) as T;
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const response = await request(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    ...(signal ? { signal } : {}),
  });
  return (await response.json()) as T;
}

/** Routes of this collector; screens hide what it cannot answer. */
let routes: Promise<ReadonlySet<string>> | null = null;
export function hasRoute(path: string): Promise<boolean> {
  routes ??= get<{ paths: Record<string, unknown> }>("/docs/openapi.json").then(
    ({ paths }) => new Set(Object.keys(paths)),
    () => {
      routes = null;
      return new Set<string>();
    },
  );
  return routes.then((known) => known.has(path));
}
