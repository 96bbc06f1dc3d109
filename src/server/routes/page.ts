/**
 * The page at `/` (web/app, built into dist/web/app). Its files contain no data and need no token; the data they show is requested with a token, if
 * the collector has tokens.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { findPackageFile } from "../../base/package-file.ts";
import { type ComparePage, readComparePage } from "../compare-page.ts";
import type { Route, RouteOutput } from "./route.ts";

const TYPES: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
  txt: "text/plain; charset=utf-8",
  wasm: "application/wasm",
};
/** All file names except index.html contain a hash of their content. */
const FOR_EVER = "public, max-age=31536000, immutable";

/** `index`: index.html of the built page; null if it is not built. */
export function pageRoutes(index: string | null = findPackageFile("web/app/index.html")): Route[] {
  if (index === null) return [notBuilt()];
  const folder = dirname(index);
  const compare = readComparePage();
  const files = readdirSync(folder);
  return [...files.map((name) => fileRoute(folder, name)), ...(compare ? compareRoutes(compare) : [])];
}

/** The worker runs kernels and connects to this collector only. */
const WORKER_POLICY = "default-src 'none'; script-src 'wasm-unsafe-eval'; connect-src 'self'";

/**
 * Serves the page that compares captures in the browser, with its own policy instead of the collector's: it sends nothing. Its parts are also
 * served singly for the collector's page, which shows it in its own frame and reads captures with its worker.
 */
function compareRoutes(page: ComparePage): Route[] {
  const { html, packed, worker, packedWorker, script, style } = page;
  const { "content-type": pageType = "text/html", ...headers } = page.headers;
  const own = { "cache-control": "no-cache", vary: "accept-encoding" };
  const workerHeaders = { ...own, "content-security-policy": WORKER_POLICY };
  const part = (name: string, plain: Buffer, its = own, small: Buffer = gzipSync(plain)) =>
    packedRoute(`/compare/${name}`, TYPES[name.slice(name.lastIndexOf(".") + 1)] ?? "", {
      ...{ plain, packed: small, headers: its },
    });
  return [
    packedRoute("/compare/", pageType, { plain: html, packed, headers }),
    part("worker.js", worker, workerHeaders, packedWorker),
    part("page.js", script),
    part("page.css", style),
  ];
}

function fileRoute(folder: string, name: string): Route {
  const index = name === "index.html";
  const plain = readFileSync(join(folder, name));
  const packed = gzipSync(plain);
  const type = TYPES[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream";
  const headers = {
    "cache-control": index ? "no-cache" : FOR_EVER,
    vary: "accept-encoding",
  };
  return packedRoute(index ? "/" : `/app/${name}`, type, { plain, packed, headers });
}

interface Content {
  plain: Buffer;
  packed: Buffer;
  headers: Readonly<Record<string, string>>;
}

/** Serves gzip to clients that accept it. */
function packedRoute(path: string, type: string, { plain, packed, headers: own }: Content): Route {
  return {
    method: "GET",
    path,
    needs: "none",
    summary: "the page",
    answer: type,
    handle: ({ headers }): RouteOutput => {
      const gzip = /\bgzip\b/.test(String(headers["accept-encoding"] ?? ""));
      return {
        type,
        body: gzip ? packed : plain,
        headers: { ...own, ...(gzip ? { "content-encoding": "gzip" } : {}) },
      };
    },
  };
}

function notBuilt(): Route {
  return {
    method: "GET",
    path: "/",
    needs: "none",
    summary: "the page",
    answer: "a sentence",
    handle: () => ({
      type: "text/plain; charset=utf-8",
      body: "The page is not built: run npm run build. /docs lists the HTTP API.\n",
    }),
  };
}
