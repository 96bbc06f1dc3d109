// Builds dist/web/report.html: the report page of `hoptime compare`, script and style inlined, with marks
// (<!--HOPTIME:NAME-->) where src/present/html/report-page.ts puts one report. The content security policy names the
// hashes of exactly this script and style, and allows nothing else: no request, no other script.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const shared = {
  bundle: true,
  minify: true,
  write: false,
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
};
const [script, style] = await Promise.all([
  build({
    ...shared,
    entryPoints: [join(root, "web/report/main.ts")],
    format: "iife",
    target: ["chrome100", "firefox100", "safari15.4"],
  }),
  build({
    ...shared,
    entryPoints: [join(root, "web/report/page.css")],
    target: ["chrome100", "firefox100", "safari15.4"],
  }),
]);
const text = (result) => result.outputFiles[0].text.trim();
const hash = (content) => `'sha256-${createHash("sha256").update(content).digest("base64")}'`;
// A bundle with "</script" in a string would end its own element.
const code = text(script).replace(/<\/(script)/gi, "<\\/$1");
const css = text(style);
const licence = readFileSync(join(root, "node_modules/uplot/LICENSE"), "utf8").trim();
const parts = {
  POLICY: `default-src 'none'; script-src ${hash(code)}; style-src ${hash(css)}; img-src data:; base-uri 'none'; form-action 'none'`,
  STYLE: css,
  SCRIPT: code,
  LICENCE: `The charts are drawn with uPlot (github.com/leeoniya/uPlot):\n\n${licence}`,
};
const page = readFileSync(join(root, "web/report/page.html"), "utf8").replace(
  /<!--BUILD:([A-Z]+)-->/g,
  (mark, name) => parts[name] ?? mark,
);
mkdirSync(join(root, "dist/web"), { recursive: true });
writeFileSync(join(root, "dist/web/report.html"), page);
console.error(`dist/web/report.html: ${(Buffer.byteLength(page) / 1024).toFixed(0)} KiB`);
