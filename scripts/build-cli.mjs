// Builds the command line as a few CommonJS files: finding a hundred modules takes longer than running them, and in each thread Node's loader of ES modules
// takes longer to start than the CommonJS one. The code is first bundled as ES modules, which can be split by command; then each piece is converted.
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { build, transform } from "esbuild";
import { keepCompiled } from "./code-cache.mjs";

/** Commander can start programs as subcommands, which hoptime does not use; the module needed for this is loaded only on use. */
const startsNothing = {
  name: "starts-nothing",
  setup(of) {
    of.onResolve({ filter: /^node:child_process$/ }, ({ importer }) =>
      /[\\/]commander[\\/]/.test(importer) ? { path: "child_process", namespace: "late" } : undefined,
    );
    of.onLoad({ filter: /.*/, namespace: "late" }, () => ({
      contents: 'exports.spawn = (...args) => process.getBuiltinModule("node:child_process").spawn(...args);',
    }));
  },
};

/** Minifies local names in other packages, which saves a quarter of their size. hoptime's own names are kept for stack traces. */
const shortens = {
  name: "shortens",
  setup(of) {
    of.onLoad({ filter: /[\\/]node_modules[\\/].*\.[cm]?js$/ }, async ({ path }) => {
      const { code } = await transform(readFileSync(path, "utf8"), { minify: true, legalComments: "inline" });
      return { contents: code };
    });
  },
};

export async function bundle(root, entryPoints, options) {
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints,
    bundle: true,
    platform: "node",
    format: "esm",
    outdir: "dist/cli",
    write: false,
    metafile: true,
    logLevel: "warning",
    legalComments: "inline",
    plugins: [startsNothing, shortens],
    // Native and optional.
    external: ["koffi", "@duckdb/node-api", "@nats-io/transport-node", "@nats-io/jetstream", "@nats-io/kv"],
    ...options,
  });
  return { files: outputFiles, inputs: Object.keys(metafile.inputs) };
}

/** Returns the licences of the packages in the bundle. */
export function licences(root, inputs) {
  const folders = inputs.map((input) => /^.*node_modules\/(@[^/]+\/)?[^/]+/.exec(input)?.[0]).filter(Boolean);
  return [...new Set(folders)].sort().map((folder) => {
    const at = join(root, folder);
    const file = readdirSync(at).find((name) => /^licen[cs]e/i.test(name));
    // The text is stored here for packages without a licence file.
    const kept = join(root, "scripts", "licences", `${basename(folder)}.txt`);
    if (!file && !existsSync(kept))
      throw new Error(`${folder} has no licence file; put its text into ${kept}`);
    return `${basename(folder)}\n\n${readFileSync(file ? join(at, file) : kept, "utf8").trim()}\n`;
  });
}

const HERE = 'const hoptimeFileUrl = require("node:url").pathToFileURL(__filename).href;';

/**
 * Reads imported names once, when the piece is loaded. With the default transform, each use is a call of two getters, even in loops. Exports never change, so
 * this is safe.
 */
const takeOnce = (text) =>
  text.replace(
    /^import \{([^}]*)\} from ("\.\/[^"]+");$/gm,
    (_, names, piece) => `const {${names.replaceAll(" as ", ": ")}} = require(${piece});`,
  );

async function turn({ path, text }) {
  const asks = text.includes("import.meta.url");
  const { code } = await transform(takeOnce(text), {
    format: "cjs",
    platform: "node",
    target: "node20.19",
    supported: { "dynamic-import": false },
    // Saves a third of the size; names are kept for stack traces.
    minifyWhitespace: true,
    minifySyntax: true,
    lineLimit: 160,
    ...(asks ? { banner: HERE, define: { "import.meta.url": "hoptimeFileUrl" } } : {}),
    legalComments: "inline",
  });
  // Pieces are wrapped into a function when they are loaded, so the #! line is removed.
  writeFileSync(path, code.replace(/^#!.*\n/, ""));
}

export async function buildCli(root) {
  const folder = join(root, "dist", "cli");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const made = [
    // The collector's workers share pieces with the commands. The worker of `compare` has to start fast, so it is one file.
    await bundle(
      root,
      [
        { in: "src/cli/main.ts", out: "program" },
        { in: "src/server/ask-worker.ts", out: "ask-worker" },
        { in: "src/server/pairing-worker.ts", out: "pairing-worker" },
        { in: "src/archive/write-worker.ts", out: "write-worker" },
      ],
      { splitting: true, chunkNames: "[name]-[hash]" },
    ),
    await bundle(root, [{ in: "src/match/feed-worker.ts", out: "feed-program" }], {}),
    await bundle(root, ["src/cli/load.ts"], {}),
  ];
  const files = made.flatMap((part) => part.files);
  await Promise.all(files.map(turn));
  const texts = licences(
    root,
    made.flatMap((part) => part.inputs),
  );
  writeFileSync(join(folder, "LICENCES.txt"), texts.join("\n"));
  writeFileSync(join(folder, "package.json"), '{ "type": "commonjs" }\n');
  // Programs are loaded with their compiled code (src/cli/load.ts).
  const start = (name) => `require("./load.js").load(require("node:path").join(__dirname, "${name}"));\n`;
  const main = join(folder, "main.js");
  writeFileSync(main, `#!/usr/bin/env node\n${start("program.js")}`);
  chmodSync(main, 0o755);
  writeFileSync(join(folder, "feed-worker.js"), start("feed-program.js"));
  keepCompiled(root);
}
