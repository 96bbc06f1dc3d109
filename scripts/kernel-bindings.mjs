// Writes src/base/kernel-exports.ts, the types of the kernels' exports, from the declarations that asc generates. The file is committed, so that types can be
// checked without a build.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const target = join(root, "src", "base", "kernel-exports.ts");

export function kernelExports(declarations) {
  const functions = [];
  const pattern = /\/\*\*\n\s+\* (kernels\/\S+)\n[\s\S]*?\*\/\s+export function (\w+)\((.*)\): (.+);/g;
  for (const [, path, name, parameters, result] of declarations.matchAll(pattern)) {
    // A class of the kernels is an address in TypeScript.
    const plain = (text) => text.replace(/__(?:Record|Internref)\w*(?:<[^>]*>)?(?: \| null)?/g, "number");
    functions.push({ file: dirname(path), line: `  ${name}(${plain(parameters)}): ${plain(result)};` });
  }
  functions.sort((a, b) => (a.file < b.file ? -1 : a.file > b.file ? 1 : 0));
  const lines = [];
  let file = "";
  for (const entry of functions) {
    if (entry.file !== file) lines.push(`  // ${(file = entry.file)}.ts`);
    lines.push(entry.line);
  }
  return `/** What the compiled kernels export. Made by scripts/kernel-bindings.mjs from the module; not to be edited. Addresses are numbers. */
export interface KernelExports {
${lines.join("\n")}
}
`;
}

/** Writes the file only if it differs, so that up-to-date files are not touched. */
export function writeKernelExports(declarationFile) {
  const text = kernelExports(readFileSync(declarationFile, "utf8"));
  if (!existsSync(target) || readFileSync(target, "utf8") !== text) writeFileSync(target, text);
}
