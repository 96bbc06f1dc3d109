// Bundles the packages that the library uses into dist/packages/NAME.js and changes the imports of dist/ accordingly. An installation then consists of hoptime
// alone, with a few kilobytes of each package (docs/decisions/0020-no-dependencies.md). The command line has its own bundle.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { dirname, join, relative } from "node:path";
import { parseAst } from "rolldown/parseAst";
import { bundle, licences } from "./build-cli.mjs";

/** Returns the import and export statements of a module that name a package. */
function packageImports(code) {
  return parseAst(code).body.filter(
    ({ type, source }) =>
      (type === "ImportDeclaration" || type === "ExportNamedDeclaration") &&
      source &&
      !/^(\.|node:)/.test(source.value) &&
      !builtinModules.includes(source.value),
  );
}

const fileName = (specifier) => `${specifier.replace(/^@/, "").replaceAll("/", "-")}.js`;

export async function bundlePackages(root) {
  const dist = join(root, "dist");
  const folder = join(dist, "packages");
  rmSync(folder, { recursive: true, force: true });
  const uses = new Map();
  for (const name of readdirSync(dist, { recursive: true }).map(String)) {
    if (!name.endsWith(".js") || /^(cli|bench|web|packages)[\\/]/.test(name)) continue;
    const path = join(dist, name);
    let code = readFileSync(path, "utf8");
    // From last to first, so that a replacement does not move the remaining ones.
    for (const statement of packageImports(code).reverse()) {
      const { value, start, end } = statement.source;
      if (!uses.has(value)) uses.set(value, new Set());
      for (const { type, imported } of statement.specifiers ?? []) {
        if (type === "ImportNamespaceSpecifier")
          throw new Error(`${name}: import the names that are used of '${value}', not all of it`);
        uses.get(value).add(type === "ImportDefaultSpecifier" ? "default" : imported.name);
      }
      const to = relative(dirname(path), join(folder, fileName(value))).replaceAll("\\", "/");
      code = code.slice(0, start) + JSON.stringify(to.startsWith(".") ? to : `./${to}`) + code.slice(end);
      writeFileSync(path, code);
    }
  }
  if (uses.size === 0) return;
  const { files, inputs } = await bundle(
    root,
    [...uses.keys()].map((name) => ({ in: `uses:${name}`, out: fileName(name).slice(0, -3) })),
    {
      splitting: true,
      minify: true,
      target: "node20.19",
      outdir: "dist/packages",
      chunkNames: "shared-[hash]",
      plugins: [entries(root, uses)],
    },
  );
  mkdirSync(folder, { recursive: true });
  for (const { path, text } of files) writeFileSync(path, text);
  writeFileSync(join(folder, "LICENCES.txt"), licences(root, inputs).join("\n"));
}

/** One entry per package, with the names that are used. Entries of one package share code. */
function entries(root, uses) {
  return {
    name: "uses",
    setup(of) {
      of.onResolve({ filter: /^uses:/ }, ({ path }) => ({ path: path.slice(5), namespace: "uses" }));
      of.onLoad({ filter: /.*/, namespace: "uses" }, ({ path }) => ({
        contents: `export { ${[...uses.get(path)].sort().join(", ")} } from "${path}";`,
        resolveDir: root,
      }));
    },
  };
}
