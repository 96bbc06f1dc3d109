// Writes src/base/kernel-layout.ts: the field offsets of the kernels' records, and the kernels' exported constants. They come from the compiler: a small module
// that exports every offset and constant is compiled with the kernels and run. The file is committed, so that types can be checked without a build.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const target = join(root, "src", "base", "kernel-layout.ts");
/** In the kernels' directory, so that its imports are theirs; removed after compilation. */
const probe = join(root, "kernels", "layout-probe.ts");

const RECORD = /@unmanaged\s+export class (\w+) \{([\s\S]*?)\n\}/g;
const FIELD = /^ {2}(\w+): [\w.]+;/gm;
const CONSTANT = /^export const ([A-Z][A-Z0-9_]*): ([uif]\d+) =/gm;

/** Returns the exported records and constants of every kernel file. */
function declared() {
  const files = [];
  for (const folder of readdirSync(join(root, "kernels"), { withFileTypes: true })) {
    if (!folder.isDirectory()) continue;
    for (const name of readdirSync(join(root, "kernels", folder.name)).sort()) {
      const text = readFileSync(join(root, "kernels", folder.name, name), "utf8");
      const records = [...text.matchAll(RECORD)].map(([, record, body]) => ({
        name: record,
        fields: [...body.matchAll(FIELD)].map(([, field]) => field),
      }));
      const constants = [...text.matchAll(CONSTANT)].map(([, constant, type]) => ({ name: constant, type }));
      const path = `${folder.name}/${name.replace(/\.ts$/, "")}`;
      if (records.length + constants.length > 0) files.push({ path, records, constants });
    }
  }
  const names = files.flatMap(({ records }) => records.map(({ name }) => name));
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice) throw new Error(`two kernels export a record '${twice}': their layouts need names of their own`);
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

const camel = (path) =>
  path
    .split("/")
    .at(-1)
    .replace(/-(\w)/g, (_, c) => c.toUpperCase());

function probeText(files) {
  const lines = [];
  files.forEach(({ path, records, constants }, f) => {
    lines.push(`import * as f${f} from "./${path}";`);
    for (const { name, fields } of records) {
      lines.push(`export const r${f}_${name}_bytes: u32 = offsetof<f${f}.${name}>();`);
      for (const field of fields)
        lines.push(`export const r${f}_${name}_f_${field}: u32 = offsetof<f${f}.${name}>("${field}");`);
    }
    for (const { name, type } of constants)
      lines.push(`export const c${f}_${name}: ${type} = f${f}.${name};`);
  });
  return `${lines.join("\n")}\n`;
}

function compiled(asc, text) {
  const module = join(root, "dist", "layout-probe.wasm");
  writeFileSync(probe, text);
  try {
    const flags = ["--outFile", module, "--config", "none", "--runtime", "stub", "--use", "abort="];
    execFileSync(asc, [probe, ...flags, "--disableWarning"], { cwd: root, stdio: ["ignore", 2, 2] });
    return new WebAssembly.Instance(new WebAssembly.Module(readFileSync(module)), {}).exports;
  } finally {
    rmSync(probe, { force: true });
    rmSync(module, { force: true });
  }
}

/** Unsigned constants are signed numbers when they come from the module. */
function literal(type, value) {
  if (type === "u64") return `${BigInt.asUintN(64, value)}n`;
  if (type === "i64") return `${value}n`;
  return type === "u32" ? String(value >>> 0) : String(value);
}

function layoutText(files, values) {
  const lines = [];
  files.forEach(({ path, records, constants }, f) => {
    for (const { name, fields } of records) {
      lines.push(`/** ${name} of kernels/${path}.ts. */`, `export const ${name}Layout = {`);
      for (const field of fields) lines.push(`  ${field}: ${values[`r${f}_${name}_f_${field}`].value},`);
      lines.push(`} as const;`, `export const ${name}Bytes = ${values[`r${f}_${name}_bytes`].value};`, "");
    }
    if (constants.length === 0) return;
    lines.push(`/** Constants of kernels/${path}.ts. */`, `export const ${camel(path)}Constants = {`);
    for (const { name, type } of constants)
      lines.push(`  ${name}: ${literal(type, values[`c${f}_${name}`].value)},`);
    lines.push("} as const;", "");
  });
  return `/** Where the fields of the kernels' records lie, in bytes, and the kernels' constants. Made by scripts/kernel-layout.mjs; not to be edited. */
${lines.join("\n").trimEnd()}
`;
}

/** Writes the file only if it differs, so that up-to-date files are not touched. */
export function writeKernelLayout(asc) {
  const files = declared();
  const text = layoutText(files, compiled(asc, probeText(files)));
  if (!existsSync(target) || readFileSync(target, "utf8") !== text) writeFileSync(target, text);
}
