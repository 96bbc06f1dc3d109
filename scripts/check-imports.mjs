// Checks the import rules. Exits 1 and lists each offence.
// - A room may import only from rooms to its left; this includes types.
// - Files must not need each other in a circle to load; types may refer back within a room.
// - Packages are used only as PACKAGES allows, and imported by name. Only the command line loads its own parts on demand (import()); optional packages are
//   loaded in the same way.
// - Nothing imports the public index; outside of src/, tests and benches import only from tests/support.
import { readdirSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { parseAst } from "rolldown/parseAst";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const src = join(root, "src");
// The rooms from left to right. Rooms of the same step do not import each other, except as in ALSO.
const line = [
  "base",
  ["capture", "flow-records"],
  ["clock", "simulate"],
  "match",
  "delays",
  "estimators",
  "epoch",
  ["archive", "transport"],
  ["observe", "collect", "inspect"],
  "results",
  "query",
  ["network", "compare"],
  "present",
  ["evaluate", "server"],
  ["cli", "index.ts"],
];
// NetFlow and IPFIX come in captures; localising on captures compares them hop by hop; records waiting to be sent are stored on disk like other records.
const ALSO = { "flow-records": ["capture"], network: ["compare"], transport: ["archive"] };
/** Packages that each room may use. */
const PACKAGES = {
  typebox: ["base", "simulate", "network", "query", "server"],
  saxes: ["network"],
  "d3-force": ["present"],
  commander: ["cli"],
  fastify: ["server"],
  yaml: ["server"],
  "@duckdb/node-api": ["results"],
  "@nats-io/transport-node": ["transport", "server"],
  "@nats-io/jetstream": ["transport", "server"],
  "@nats-io/kv": ["transport", "server"],
  "hyparquet-writer": ["present", "cli", "query", "results", "collect"],
};
/** Optional packages, which these rooms load on demand. */
const OPTIONAL = {
  koffi: ["capture"],
  "@duckdb/node-api": ["results"],
  "@nats-io/transport-node": ["transport"],
  "@nats-io/jetstream": ["transport"],
  "@nats-io/kv": ["transport"],
};
/** Rooms that load parts of themselves on demand. */
const LOADS_LATE = new Set(["cli"]);

const allowed = new Map();
const seen = [];
for (const step of line) {
  const rooms = [step].flat();
  for (const room of rooms) allowed.set(room, new Set([...seen, ...(ALSO[room] ?? [])]));
  seen.push(...rooms);
}

/** Returns the imports of a file: specifier, types only or not, loaded on demand or not. */
function importsOf(text, file) {
  const found = [];
  const visit = (node) => {
    if (/^(Import|ExportNamed|ExportAll)Declaration$/.test(node.type) && node.source) {
      const kinds = (node.specifiers ?? []).map((s) => s.importKind ?? s.exportKind);
      const types =
        node.importKind === "type" ||
        node.exportKind === "type" ||
        (kinds.length > 0 && kinds.every((k) => k === "type"));
      found.push({ spec: node.source.value, types, late: false });
    } else if (node.type === "ImportExpression")
      found.push({ spec: node.source.value ?? null, types: false, late: true });
    else if (node.type === "TSImportType")
      found.push({ spec: (node.source ?? node.argument)?.value ?? null, types: true, late: false });
    for (const value of Object.values(node))
      for (const child of Array.isArray(value) ? value : [value])
        if (child !== null && typeof child === "object" && typeof child.type === "string") visit(child);
  };
  visit(parseAst(text, { lang: "ts" }, file));
  return found;
}

const files = readdirSync(src, { recursive: true })
  .map((f) => String(f).split(sep).join("/"))
  .filter((f) => f.endsWith(".ts"));
const offences = [];
/** The files that must be loaded before a file of src/. */
const needs = new Map();
for (const file of files) {
  const room = file.split("/")[0];
  const isTest = file.endsWith(".test.ts");
  const offence = (what) => offences.push(`src/${file}: ${what}`);
  if (!allowed.has(room)) offence(`'${room}' is not a room (see architecture: rooms)`);
  const loaded = [];
  needs.set(file, loaded);
  for (const { spec, types, late } of importsOf(readFileSync(join(src, file), "utf8"), file)) {
    if (isTest && spec === null) continue;
    if (spec === null) offence("imports what is only known when it runs");
    else if (!spec.startsWith(".")) checkPackage(spec, room, isTest, late, offence);
    else checkFile(file, room, { spec, types, late, isTest }, loaded, offence);
  }
}

function checkPackage(spec, room, isTest, late, offence) {
  if (spec.startsWith("node:") || isTest) return;
  if (builtinModules.includes(spec)) {
    offence(`write 'node:${spec}'`);
    return;
  }
  const name = spec
    .split("/")
    .slice(0, spec.startsWith("@") ? 2 : 1)
    .join("/");
  if (late && OPTIONAL[name]?.includes(room)) return;
  if (!PACKAGES[name]?.includes(room)) offence(`'${room}' may not use the package '${name}'`);
  if (late && !LOADS_LATE.has(room)) offence(`loads '${spec}' late: only ${[...LOADS_LATE]} does`);
}

function checkFile(file, room, { spec, types, late, isTest }, loaded, offence) {
  const target = relative(src, resolve(src, dirname(file), spec))
    .split(sep)
    .join("/");
  if (target.startsWith("../")) {
    if (!isTest || !target.startsWith("../tests/support/")) offence(`imports ${spec}, outside src`);
    return;
  }
  const targetRoom = target.split("/")[0];
  if (target.endsWith(".test.ts")) offence(`imports the test ${spec}`);
  if (isTest) return;
  if (!types && !late) loaded.push(target);
  if (late && !LOADS_LATE.has(room)) offence(`loads ${spec} late: only ${[...LOADS_LATE]} does`);
  if (targetRoom === room) return;
  if (targetRoom === "index.ts") offence("imports the public index; import the file itself");
  else if (!allowed.get(room)?.has(targetRoom)) offence(`'${room}' may not import '${targetRoom}' (${spec})`);
}

/** Returns each circle of files that need each other to load. */
function circles() {
  const state = new Map();
  const found = [];
  const visit = (file, path) => {
    state.set(file, "open");
    for (const next of needs.get(file) ?? []) {
      if (state.get(next) === "open") found.push([...path.slice(path.indexOf(next)), next].join(" → "));
      else if (!state.has(next)) visit(next, [...path, next]);
    }
    state.set(file, "done");
  };
  for (const file of needs.keys()) if (!state.has(file)) visit(file, [file]);
  return found;
}
for (const circle of circles()) offences.push(`files that need each other to load: ${circle}`);

if (offences.length > 0) {
  console.error(offences.join("\n"));
  process.exit(1);
}
console.error(`import rule holds in ${files.length} files`);
