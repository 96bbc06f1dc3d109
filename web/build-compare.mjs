// Builds dist/web/compare/index.html, which compares two captures in the browser: one file that can be hosted anywhere or opened from disk. A page from disk
// may not load a worker or fetch kernels, so both are embedded. The code is that of src/, with replacements (web/compare/platform) for the few files that need
// Node.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const TWINS = {
  "node:fs": "fs",
  "src/base/package-file.ts": "package-file",
  "src/capture/source/byte-source.ts": "byte-source",
  "src/capture/source/capture-path.ts": "capture-path",
  "src/match/feed-thread.ts": "feed-thread",
};
const TARGET = ["chrome100", "firefox113", "safari16.4"];

/** Resolves imports to the replacements; any other Node module is an error. */
export function twins(root) {
  const twin = (name) => ({ path: join(root, "web/compare/platform", `${TWINS[name]}.ts`) });
  return {
    name: "twins",
    setup(of) {
      of.onResolve({ filter: /^node:/ }, ({ path, importer }) =>
        TWINS[path]
          ? twin(path)
          : {
              errors: [
                { text: `${relative(root, importer)} imports ${path}: it has no twin in web/compare` },
              ],
            },
      );
      of.onResolve({ filter: /^\.\.?\// }, ({ path, resolveDir }) => {
        const name = relative(root, join(resolveDir, path));
        return TWINS[name] ? twin(name) : undefined;
      });
    },
  };
}

export async function buildCompare(root) {
  const shared = { bundle: true, minify: true, write: false, charset: "utf8", legalComments: "none" };
  const bundle = async (path, options = {}) => {
    const { outputFiles } = await build({
      ...{ ...shared, entryPoints: [join(root, path)], logLevel: "warning", target: TARGET },
      ...options,
    });
    return outputFiles[0].text.trim();
  };
  const inPage = (code) => code.replace(/<\/(script)/gi, "<\\/$1").replace(/<!--/g, "<\\!--");
  const [worker, script, style] = await Promise.all([
    bundle("web/compare/worker.ts", {
      format: "iife",
      plugins: [twins(root)],
      inject: [join(root, "web/compare/platform/buffer.ts")],
      loader: { ".wasm": "binary" },
    }),
    bundle("web/compare/main.ts", { format: "iife" }),
    bundle("web/compare/compare.css"),
  ]);
  const hash = (content) => `'sha256-${createHash("sha256").update(content).digest("base64")}'`;
  const code = inPage(script);
  const parts = {
    POLICY: `default-src 'none'; script-src ${hash(code)} 'wasm-unsafe-eval'; worker-src blob:; style-src ${hash(style)}; img-src data:; base-uri 'none'; form-action 'none'`,
    STYLE: style,
    // Compressed to a third of its size.
    WORKER: gzipSync(worker, { level: 9 }).toString("base64"),
    SCRIPT: code,
    LICENCE: `The charts are drawn with uPlot (github.com/leeoniya/uPlot):\n\n${readFileSync(join(root, "node_modules/uplot/LICENSE"), "utf8").trim()}`,
  };
  const html = readFileSync(join(root, "web/compare/page.html"), "utf8").replace(
    /<!--BUILD:([A-Z]+)-->/g,
    (mark, name) => parts[name] ?? mark,
  );
  mkdirSync(join(root, "dist/web/compare"), { recursive: true });
  writeFileSync(join(root, "dist/web/compare/index.html"), html);
  const kB = (bytes) => (bytes / 1000).toFixed(0);
  console.error(`dist/web/compare: ${kB(Buffer.byteLength(html))} kB, ${kB(gzipSync(html).length)} kB gzip`);
}
