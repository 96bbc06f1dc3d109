// Builds the page of `hoptime collect` into dist/web/app: index.html, and files with a hash of their content in their names.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const LICENSED = ["preact", "@preact/signals", "@preact/signals-core", "uplot", "d3-force", "d3-scale"];
const TARGET = ["chrome100", "firefox100", "safari15.4"];

export async function buildApp(root) {
  const folder = join(root, "dist/web/app");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const bundle = async (path, options = {}) => {
    const { outputFiles } = await build({
      ...{ entryPoints: [join(root, path)], bundle: true, minify: true, write: false, charset: "utf8" },
      ...{ legalComments: "none", logLevel: "warning", target: TARGET, ...options },
    });
    return outputFiles[0].text;
  };
  const script = await bundle("web/app/main.tsx", {
    format: "esm",
    jsx: "automatic",
    jsxImportSource: "preact",
  });
  const licences = LICENSED.map((name) => {
    const text = readFileSync(join(root, "node_modules", name, "LICENSE"), "utf8").trim();
    return `${name}\n\n${text}\n`;
  }).join(`\n${"-".repeat(72)}\n\n`);
  const parts = {
    SCRIPT: put(folder, "main", "js", script),
    EARLY: put(folder, "early", "js", await bundle("web/app/early.ts", { format: "iife" })),
    STYLE: put(folder, "app", "css", await bundle("web/app/app.css")),
    DARK: put(folder, "dark", "css", await bundle("web/design/dark.css")),
    ICON: put(folder, "icon", "svg", readFileSync(join(root, "web/app/icon.svg"), "utf8")),
    LICENCES: put(folder, "licences", "txt", licences),
  };
  const html = readFileSync(join(root, "web/app/page.html"), "utf8").replace(/%([A-Z]+)%/g, (mark, name) =>
    parts[name] ? `app/${parts[name].name}` : mark,
  );
  writeFileSync(join(folder, "index.html"), html);
  const bytes = Object.values(parts).reduce((sum, p) => sum + p.packed, gzipSync(html).length);
  console.error(`dist/web/app: ${(bytes / 1000).toFixed(0)} kB gzip`);
}

function put(folder, name, ending, text) {
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 10);
  const file = `${name}-${hash}.${ending}`;
  const packed = gzipSync(text, { level: 9 });
  writeFileSync(join(folder, file), text);
  return { name: file, packed: packed.length };
}
