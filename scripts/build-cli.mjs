// The command line as few files of CommonJS: a hundred modules take longer to find than to run, and Node's loader of ES modules takes longer to
// come up, in each thread, than the one it starts with. Bundled as ES modules first, which can be split by command; then each piece is turned.
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { build, transform } from "esbuild";
import { keepCompiled } from "./code-cache.mjs";

/** Commander starts programs for subcommands of its own kind, which we have none of: what it takes to do so is loaded when it is asked for. */
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

/** Packages of others give up their local names, a quarter of their size; ours keep them, for stack traces. */
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
    // Native, and need not be there.
    external: ["koffi", "@duckdb/node-api", "@nats-io/transport-node", "@nats-io/jetstream", "@nats-io/kv"],
    ...options,
  });
  return { files: outputFiles, inputs: Object.keys(metafile.inputs) };
}

/** The licences of the packages that became part of the bundle. */
export function licences(root, inputs) {
  const folders = inputs.map((input) => /^.*node_modules\/(@[^/]+\/)?[^/]+/.exec(input)?.[0]).filter(Boolean);
  return [...new Set(folders)].sort().map((folder) => {
    const at = join(root, folder);
    const file = readdirSync(at).find((name) => /^licen[cs]e/i.test(name));
    // Of packages that leave the file out, the text is kept here.
    const kept = join(root, "scripts", "licences", `${basename(folder)}.txt`);
    if (!file && !existsSync(kept))
      throw new Error(`${folder} has no licence file; put its text into ${kept}`);
    return `${basename(folder)}\n\n${readFileSync(file ? join(at, file) : kept, "utf8").trim()}\n`;
  });
}

const HERE = 'const hoptimeFileUrl = require("node:url").pathToFileURL(__filename).href;';

/** What a piece takes from another, as it is when it is loaded: left to the transform, each use of it is a call of two getters, in loops too. Nothing that is exported changes. */
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
    // A third less to install and to read; names stay as they are, for stack traces.
    minifyWhitespace: true,
    lineLimit: 160,
    ...(asks ? { banner: HERE, define: { "import.meta.url": "hoptimeFileUrl" } } : {}),
    legalComments: "inline",
  });
  // Pieces are wrapped into a function when they are loaded: the first line is for a shell.
  writeFileSync(path, code.replace(/^#!.*\n/, ""));
}

export async function buildCli(root) {
  const folder = join(root, "dist", "cli");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const made = [
    // The collector's workers share their pieces with the commands; the one of `compare` has to be up soon, so it is one file.
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
  // Programs are loaded with what is compiled of them (src/cli/load.ts).
  const start = (name) => `require("./load.js").load(require("node:path").join(__dirname, "${name}"));\n`;
  const main = join(folder, "main.js");
  writeFileSync(main, `#!/usr/bin/env node\n${start("program.js")}`);
  chmodSync(main, 0o755);
  writeFileSync(join(folder, "feed-worker.js"), start("feed-program.js"));
  keepCompiled(root);
}
