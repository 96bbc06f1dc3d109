/** The page at `/` (web/app, built into dist/web/app): files without data, so that everybody may have them; what they show is asked for with a token where there are tokens. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
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
/** Names of all but index.html carry a hash of their content. */
const FOR_EVER = "public, max-age=31536000, immutable";

/** `index`: index.html of the built page; null where it is not built. */
export function pageRoutes(index: string | null = findPackageFile("web/app/index.html")): Route[] {
  if (index === null) return [notBuilt()];
  const folder = dirname(index);
  const compare = readComparePage();
  const files = readdirSync(folder).filter((name) => !name.endsWith(".gz"));
  return [...files.map((name) => fileRoute(folder, name)), ...(compare ? [compareRoute(compare)] : [])];
}

/** Compares captures in the browser; its own policy instead of the collector's: it sends nothing, and runs kernels. */
function compareRoute({ html, packed, headers: own }: ComparePage): Route {
  const { "content-type": type = "text/html", ...rest } = own;
  return {
    method: "GET",
    path: "/compare/",
    needs: "none",
    summary: "the page that compares captures in the browser",
    answer: type,
    handle: ({ headers }): RouteOutput => {
      const gzip = /\bgzip\b/.test(String(headers["accept-encoding"] ?? ""));
      return {
        type,
        body: gzip ? packed : html,
        headers: { ...rest, ...(gzip ? { "content-encoding": "gzip" } : {}) },
      };
    },
  };
}

function fileRoute(folder: string, name: string): Route {
  const index = name === "index.html";
  const plain = readFileSync(join(folder, name));
  const packed = existsSync(join(folder, `${name}.gz`)) ? readFileSync(join(folder, `${name}.gz`)) : null;
  const type = TYPES[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream";
  const caching = index ? "no-cache" : FOR_EVER;
  return {
    method: "GET",
    path: index ? "/" : `/app/${name}`,
    needs: "none",
    summary: "the page",
    answer: type,
    handle: ({ headers }): RouteOutput => {
      const gzip = packed !== null && /\bgzip\b/.test(String(headers["accept-encoding"] ?? ""));
      return {
        type,
        body: gzip ? packed : plain,
        headers: {
          "cache-control": caching,
          ...(packed ? { vary: "accept-encoding" } : {}),
          ...(gzip ? { "content-encoding": "gzip" } : {}),
        },
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
