// Builds the shells of all HTML reports, with marks (<!--HOPTIME:NAME-->) where src/present/html inserts a report:
//   dist/web/report.html  the page of `hoptime compare`, script and style inlined
//   dist/web/static.html  reports without script: `localise` and `plan`
// It also builds the collector's page (build-app.mjs) and the page that compares in the browser (build-compare.mjs).
// The content security policy contains the hashes of exactly this script and style, and forbids all requests and other scripts.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { buildApp } from "./build-app.mjs";
import { buildCompare } from "./build-compare.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const shared = {
  bundle: true,
  minify: true,
  write: false,
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
};
const styleSheet = (path) =>
  build({
    ...shared,
    entryPoints: [join(root, path)],
    target: ["chrome100", "firefox100", "safari15.4"],
  });
const [script, style, staticStyle] = await Promise.all([
  build({
    ...shared,
    entryPoints: [join(root, "web/report/main.ts")],
    format: "iife",
    target: ["chrome100", "firefox100", "safari15.4"],
  }),
  styleSheet("web/report/page.css"),
  styleSheet("web/design/pictures.css"),
]);
const text = (result) => result.outputFiles[0].text.trim();
const hash = (content) => `'sha256-${createHash("sha256").update(content).digest("base64")}'`;
// "</script" in a string would end the script element.
const code = text(script).replace(/<\/(script)/gi, "<\\/$1");
const css = text(style);
const licence = readFileSync(join(root, "node_modules/uplot/LICENSE"), "utf8").trim();
const policy = (sources) =>
  `default-src 'none'; ${sources}; img-src data:; base-uri 'none'; form-action 'none'`;

const template = (name) => readFileSync(join(root, "web/report", name), "utf8");
const head = template("head.html");

function write(name, body, parts) {
  const page = template(body)
    .replace("<!--BUILD:HEAD-->", () => head)
    .replace(/<!--BUILD:([A-Z]+)-->/g, (mark, part) => parts[part] ?? mark);
  writeFileSync(join(root, "dist/web", name), page);
  console.error(`dist/web/${name}: ${(Buffer.byteLength(page) / 1024).toFixed(0)} KiB`);
}

mkdirSync(join(root, "dist/web"), { recursive: true });
write("report.html", "page.html", {
  POLICY: policy(`script-src ${hash(code)}; style-src ${hash(css)}`),
  STYLE: css,
  SCRIPT: code,
  LICENCE: `The charts are drawn with uPlot (github.com/leeoniya/uPlot):\n\n${licence}`,
});
const plainCss = text(staticStyle);
write("static.html", "static.html", { POLICY: policy(`style-src ${hash(plainCss)}`), STYLE: plainCss });
await buildApp(root);
await buildCompare(root);
