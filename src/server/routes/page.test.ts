/** The page's files: cached by name, compressed for browsers that accept it, and public, since they contain no data. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, describe, expect, it } from "vitest";
import { createApp } from "../app.ts";
import { ClientLimits } from "../limits.ts";
import { TokenStore, tokenFile } from "../tokens.ts";
import { pageRoutes } from "./page.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-page-routes-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function appOf(index: string | null) {
  const tokens = new TokenStore(tokenFile(root));
  if (tokens.size === 0) await tokens.add("reader", "read");
  return createApp({
    routes: pageRoutes(index),
    tokens,
    loopback: false,
    limits: new ClientLimits(),
    onError: () => {},
  });
}

describe("the page's files", () => {
  it("come with a policy, a type and a caching that suits their name", async () => {
    const folder = join(root, "app");
    mkdirSync(folder);
    writeFileSync(join(folder, "index.html"), "<!doctype html>");
    writeFileSync(join(folder, "main-0123.js"), "run()");
    const app = await appOf(join(folder, "index.html"));
    const index = await app.inject({ url: "/" });
    expect([index.statusCode, index.body]).toEqual([200, "<!doctype html>"]);
    expect(index.headers["cache-control"]).toBe("no-cache");
    expect(index.headers["content-security-policy"]).toContain("script-src 'self'");
    const script = await app.inject({ url: "/app/main-0123.js", headers: { "accept-encoding": "gzip, br" } });
    expect(script.headers["content-encoding"]).toBe("gzip");
    expect(script.headers["content-type"]).toBe("text/javascript; charset=utf-8");
    expect(script.headers["cache-control"]).toContain("immutable");
    expect(gunzipSync(script.rawPayload).toString()).toBe("run()");
    expect((await app.inject({ url: "/app/main-0123.js" })).body).toBe("run()");
    expect((await app.inject({ url: "/app/main-0123.js.gz" })).statusCode).toBe(404);
    expect((await app.inject({ url: "/app/..%2f..%2ftokens.json" })).statusCode).toBe(404);
    await app.close();
  });

  it("are missed in words where they are not built", async () => {
    const app = await appOf(null);
    expect((await app.inject({ url: "/" })).body).toContain("not built");
    await app.close();
  });
});
