/**
 * The page that compares captures in the browser (web/compare, built into dist/web/compare): reads it together with the Content-Security-Policy
 * stated in it, and serves it alone.
 */
import { readFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gunzipSync, gzipSync } from "node:zlib";
import { UsageError } from "../base/errors.ts";
import { findPackageFile } from "../base/package-file.ts";
import { parseListen } from "./listen.ts";

export interface ComparePage {
  html: Buffer;
  packed: Buffer;
  /** The pieces of the page that the collector's own page uses: worker program, page program and style. */
  worker: Buffer;
  packedWorker: Buffer;
  script: Buffer;
  style: Buffer;
  headers: Record<string, string>;
}

/** Returns null if the page has not been built. */
export function readComparePage(file = findPackageFile("web/compare/index.html")): ComparePage | null {
  if (file === null) return null;
  const html = readFileSync(file);
  const text = html.toString("utf8");
  const policy = /Content-Security-Policy" content="([^"]*)"/.exec(text)?.[1] ?? "";
  const packedWorker = Buffer.from(
    /<script type="text\/plain" id="worker">(.*?)<\/script>/s.exec(text)?.[1] ?? "",
    "base64",
  );
  const between = (start: string, end: string) =>
    Buffer.from(text.slice(text.lastIndexOf(start) + start.length, text.lastIndexOf(end)));
  return {
    ...{ script: between("<script>", "</script>"), style: between("<style>", "</style>") },
    html,
    packed: gzipSync(html),
    worker: gunzipSync(packedWorker),
    packedWorker,
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": `${policy}; frame-ancestors 'none'`,
      "cache-control": "no-cache",
      vary: "accept-encoding",
    },
  };
}

export interface ServedPage {
  url: string;
  close(): Promise<void>;
}

/** Serves the page at `/` until closed. The server accepts no uploads: captures stay in the browser. */
export async function serveComparePage(listen: string): Promise<ServedPage> {
  const { host, port } = parseListen(listen);
  const page = readComparePage();
  if (!page) throw new Error("dist/web/compare is missing: run `npm run build`");
  const server = createServer(({ method, url, headers }, response) => {
    const wanted = method === "GET" || method === "HEAD";
    const path = (url ?? "").replace(/\?.*/, "");
    if (!wanted || (path !== "/" && path !== "/index.html")) refuse(response, wanted);
    else {
      const gzip = /\bgzip\b/.test(String(headers["accept-encoding"] ?? ""));
      response.writeHead(200, {
        ...page.headers,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
        ...(gzip ? { "content-encoding": "gzip" } : {}),
      });
      response.end(method === "HEAD" ? undefined : gzip ? page.packed : page.html);
    }
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const reasons: Record<string, string> = {
        EADDRINUSE: "the port is in use",
        EADDRNOTAVAIL: `this host does not have the address ${host}`,
        EACCES: "no permission to listen on this port",
      };
      const why = reasons[cause.code ?? ""] ?? cause.message;
      reject(
        new UsageError("bad-option", why, "choose another, or port 0 for any that is free", {
          ...{ parameter: "listen", value: listen, cause },
        }),
      );
    });
    server.listen(port, host, resolve);
  });
  const { address, family, port: bound } = server.address() as AddressInfo;
  return {
    url: `http://${family === "IPv6" ? `[${address}]` : address}:${bound}/`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function refuse(response: ServerResponse, wanted: boolean): void {
  response.writeHead(wanted ? 404 : 405, { "content-type": "text/plain; charset=utf-8" });
  response.end(wanted ? "There is only the page at /.\n" : "Only GET: captures are read in the browser.\n");
}
