/**
 * Bearer tokens. A file in the data directory holds only their hashes. A token is `hop_ID_SECRET`. The secret has 256 random bits, so one round of
 * SHA-256 is as good as any slow hash, and a check costs microseconds. The file is read again when it changes, so tokens can be made and revoked
 * while the collector runs.
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { chmodSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import Type, { type Static } from "typebox";
import { publish, syncFolder, writeTemporary } from "../archive/durable.ts";
import { UsageError } from "../base/errors.ts";
import { checkedValue } from "../base/schema.ts";
import { checkName } from "../observe/observer.ts";

export const SCOPES = ["ingest", "read", "admin"] as const;
export type Scope = (typeof SCOPES)[number];

const STORED = Type.Object(
  {
    id: Type.String({ minLength: 1 }),
    name: Type.String(),
    scope: Type.Union([Type.Literal("ingest"), Type.Literal("read"), Type.Literal("admin")]),
    /** The point whose records it may send. */
    point: Type.Optional(Type.String({ minLength: 1 })),
    /** The points, if there are several: a tap on several interfaces is several points. */
    points: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { minItems: 2, maxItems: 1000 })),
    /** SHA-256 of the secret, in hex. */
    hash: Type.String({ minLength: 64 }),
    created: Type.String(),
  },
  { additionalProperties: false },
);
const FILE = Type.Object(
  { format: Type.Literal("hoptime.tokens/1"), tokens: Type.Array(STORED) },
  { additionalProperties: false },
);
export type StoredToken = Static<typeof STORED>;
export type TokenInfo = Omit<StoredToken, "hash">;

/** Returns the points whose records a token may send. */
export function pointsOf({ point, points }: Pick<TokenInfo, "point" | "points">): readonly string[] {
  return points ?? (point === undefined ? [] : [point]);
}

const PATTERN = /^hop_([0-9a-f]{12})_([A-Za-z0-9_-]{43})$/;
/** Interval at which the file is checked for changes, ms. */
const LOOK_MS = 1000;

export class TokenStore {
  readonly path: string;
  #tokens = new Map<string, StoredToken>();
  #seen = "";
  #lookedMs = Number.NEGATIVE_INFINITY;

  constructor(path: string) {
    this.path = path;
    this.#look();
  }

  get size(): number {
    this.#lookAgain();
    return this.#tokens.size;
  }

  list(): TokenInfo[] {
    this.#look();
    return [...this.#tokens.values()].map(({ hash: _, ...info }) => info);
  }

  /** Returns the token's entry, or null if it is invalid. Takes the same time whatever part of the secret is wrong. */
  check(text: string): TokenInfo | null {
    this.#lookAgain();
    const match = PATTERN.exec(text);
    const stored = match ? this.#tokens.get(match[1] ?? "") : undefined;
    const given = Buffer.from(hashOf(match?.[2] ?? text), "hex");
    const wanted = Buffer.from(stored?.hash ?? hashOf(""), "hex");
    if (!timingSafeEqual(given, wanted) || !stored) return null;
    const { hash: _, ...info } = stored;
    return info;
  }

  /** Adds a token and returns it; the token itself is stored nowhere. */
  async add(
    name: string,
    scope: Scope,
    ...given: readonly string[]
  ): Promise<{ token: string; info: TokenInfo }> {
    const points = [...new Set(given)];
    if (scope === "ingest" && points.length === 0)
      throw new UsageError(
        "bad-option",
        "a token with scope ingest needs the names of its points",
        "name each with ‘point’",
      );
    if (scope !== "ingest" && points.length > 0)
      throw new UsageError("bad-option", `a token with scope ${scope} takes no ‘point’`);
    for (const point of points) checkName("point", point);
    const id = randomBytes(6).toString("hex");
    const secret = randomBytes(32).toString("base64url");
    const created = new Date().toISOString();
    const [point] = points;
    const own = points.length > 1 ? { points } : point === undefined ? {} : { point };
    const info: TokenInfo = { id, name, scope, ...own, created };
    await this.#change((tokens) => [...tokens, { ...info, hash: hashOf(secret) }]);
    return { token: `hop_${id}_${secret}`, info };
  }

  async revoke(id: string): Promise<TokenInfo> {
    this.#look();
    const found = this.#tokens.get(id);
    if (!found) throw new UsageError("bad-option", `unknown token '${id}'`, "hoptime token list shows them");
    await this.#change((tokens) => tokens.filter((t) => t.id !== id));
    const { hash: _, ...info } = found;
    return info;
  }

  async #change(change: (tokens: StoredToken[]) => StoredToken[]): Promise<void> {
    this.#look();
    const tokens = change([...this.#tokens.values()]);
    const folder = dirname(this.path);
    const text = `${JSON.stringify({ format: "hoptime.tokens/1", tokens }, null, 2)}\n`;
    const temporary = await writeTemporary(folder, new TextEncoder().encode(text));
    chmodSync(temporary, 0o600);
    await publish(temporary, this.path, true);
    await syncFolder(folder);
    this.#look();
  }

  #lookAgain(): void {
    if (performance.now() - this.#lookedMs >= LOOK_MS) this.#look();
  }

  #look(): void {
    this.#lookedMs = performance.now();
    const stat = statSync(this.path, { throwIfNoEntry: false });
    const seen = stat ? `${stat.ino}:${stat.mtimeMs}:${stat.size}` : "none";
    if (seen === this.#seen) return;
    const tokens = stat ? readTokens(this.path) : [];
    this.#tokens = new Map(tokens.map((t) => [t.id, t]));
    this.#seen = seen;
  }
}

export function tokenFile(data: string): string {
  return join(data, "tokens.json");
}

function readTokens(path: string): StoredToken[] {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, "utf8"));
  } catch (cause) {
    throw new UsageError(
      "bad-option",
      `${path}: is not JSON`,
      "restore it, or remove it and make the tokens again",
      {
        cause,
      },
    );
  }
  return checkedValue(FILE, value, { source: path }).tokens;
}

function hashOf(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}
