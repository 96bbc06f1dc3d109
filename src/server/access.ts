/**
 * Access control: who the client is and what it may do. If the token store has tokens, every request except health needs one. Without tokens, the
 * collector answers on the loopback interface only, and only requests whose Host header names this host: this stops a web page from reaching the
 * collector through its own name (DNS rebinding).
 */
import type { FastifyReply, FastifyRequest } from "fastify";
import { HttpError } from "./problem.ts";
import { pointsOf, type Scope, type TokenInfo, type TokenStore } from "./tokens.ts";

export interface Client {
  /** Used for rate limits and in logs; never the token itself. */
  name: string;
  /** Points whose records the client may send. Null: any point. */
  points: readonly string[] | null;
}

/** Returns why a client limited to `points` may not send a record of this point, or null if it may. */
export function notItsPoint(point: string, points: readonly string[] | null): string | null {
  if (points === null || points.includes(point)) return null;
  return `the record is of point '${point}'; the token is for ${points.map((p) => `'${p}'`).join(", ")}`;
}

/** The permission a route requires. `none`: no token needed; `any`: any valid token. */
export type Needs = Scope | "any" | "none";

/** What each scope permits. Admin permits everything; the other two permit only their own kind of request. */
const ALLOWS: Record<Scope, readonly Needs[]> = {
  admin: ["none", "any", "ingest", "read", "admin"],
  read: ["none", "any", "read"],
  ingest: ["none", "any", "ingest"],
};

const LOOPBACK_HOST = /^(localhost|127(?:\.\d{1,3}){3}|\[::1\])(:\d+)?$/i;
/** Security headers on every response: no framing, no MIME sniffing, no resources from other origins. */
const HEADERS: Record<string, string> = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), microphone=(), geolocation=()",
};

export function addSecurityHeaders(reply: FastifyReply, tls: boolean): void {
  reply.headers(HEADERS);
  if (tls) reply.header("strict-transport-security", "max-age=31536000");
}

export function isLoopback(address: string): boolean {
  return address === "::1" || address === "localhost" || /^127(\.\d{1,3}){3}$/.test(address);
}

/** Identifies the client. Throws HttpError 401, 403 or 421 if it has no access. `loopback`: the collector listens on loopback only. */
export function admit(request: FastifyRequest, needs: Needs, tokens: TokenStore, loopback: boolean): Client {
  const address = request.socket.remoteAddress ?? "?";
  if (needs === "none") return { name: address, points: null };
  if (tokens.size === 0) {
    if (!loopback)
      throw new HttpError(
        401,
        "no-token",
        "the collector has no tokens, so it answers only on this host: make one with hoptime token add",
      );
    const host = request.headers.host ?? "";
    if (!LOOPBACK_HOST.test(host))
      throw new HttpError(421, "wrong-host", "without tokens the collector answers as localhost only");
    return { name: address, points: null };
  }
  const given = /^Bearer ([\x21-\x7e]{1,200})$/.exec(request.headers.authorization ?? "")?.[1];
  if (given === undefined)
    throw new HttpError(401, "no-token", "a token is needed: Authorization: Bearer hop_…");
  const token = tokens.check(given);
  if (!token) throw new HttpError(401, "bad-token", "unknown token; it may have been revoked");
  if (!ALLOWS[token.scope].includes(needs))
    throw new HttpError(403, "wrong-scope", `the token has scope ${token.scope}; this needs ${needs}`);
  return clientOf(token);
}

function clientOf(token: TokenInfo): Client {
  return { name: `token ${token.id}`, points: token.scope === "ingest" ? pointsOf(token) : null };
}
