/**
 * Who asks, and whether they may. With tokens in the store every request but the one for health needs one. Without, a collector answers on the loopback interface only, and there only to requests
 * that name it as this host: a page in a browser must not reach it through a name of its own (DNS rebinding).
 */
import type { FastifyReply, FastifyRequest } from "fastify";
import { HttpError } from "./problem.ts";
import { pointsOf, type Scope, type TokenInfo, type TokenStore } from "./tokens.ts";

export interface Client {
  /** For limits and logs; never the token. */
  name: string;
  /** Whose records it may send; null: any point's. */
  points: readonly string[] | null;
}

/** Why a record of this point is not taken from a client that may send those of `points`. */
export function notItsPoint(point: string, points: readonly string[] | null): string | null {
  if (points === null || points.includes(point)) return null;
  return `the record is of point '${point}'; the token is for ${points.map((p) => `'${p}'`).join(", ")}`;
}

/** What a route asks for; `none`: anybody may; `any`: everybody with a token. */
export type Needs = Scope | "any" | "none";

/** A token for more may do less: admin everything, read nothing but reading. */
const ALLOWS: Record<Scope, readonly Needs[]> = {
  admin: ["none", "any", "ingest", "read", "admin"],
  read: ["none", "any", "read"],
  ingest: ["none", "any", "ingest"],
};

const LOOPBACK_HOST = /^(localhost|127(?:\.\d{1,3}){3}|\[::1\])(:\d+)?$/i;
/** What every answer carries: nothing is framed, guessed, cached by others, or loaded from elsewhere. */
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

/** HttpError 401, 403 or 421 where the client may not. `loopback`: nobody but this host can connect. */
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
