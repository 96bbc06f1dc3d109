// The import rule of the house: a room may import from rooms left of it, never back. Exits 1 and names each offence.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const src = join(root, "src");
// The rooms from left to right; rooms of one step do not import each other, except as ALSO says.
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
// NetFlow and IPFIX come in captures; a path is localised from captures by comparing them hop by hop.
const ALSO = { "flow-records": ["capture"], network: ["compare"] };
const allowed = new Map();
const seen = [];
for (const step of line) {
  const rooms = [step].flat();
  for (const room of rooms) allowed.set(room, new Set([...seen, ...(ALSO[room] ?? [])]));
  seen.push(...rooms);
}

const files = readdirSync(src, { recursive: true })
  .map(String)
  .filter((f) => f.endsWith(".ts"));
const offences = [];
for (const file of files) {
  const room = file.split(sep)[0];
  if (!allowed.has(room)) offences.push(`src/${file}: '${room}' is not a room (see architecture: rooms)`);
  const text = readFileSync(join(src, file), "utf8");
  for (const [, spec] of text.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)) {
    const target = relative(src, resolve(src, dirname(file), spec));
    if (target.startsWith("..")) {
      if (!file.endsWith(".test.ts")) offences.push(`src/${file}: imports ${spec}, outside src`);
      continue;
    }
    const targetRoom = target.split(sep)[0];
    if (targetRoom === room) continue;
    // Tests may use the simulator as their source of traffic and the index as a user would.
    if (file.endsWith(".test.ts")) continue;
    if (!allowed.get(room)?.has(targetRoom))
      offences.push(`src/${file}: '${room}' may not import '${targetRoom}' (${spec})`);
    if (targetRoom === "index.ts")
      offences.push(`src/${file}: imports the public index; import the file itself`);
  }
}
if (offences.length > 0) {
  console.error(offences.join("\n"));
  process.exit(1);
}
console.error(`import rule holds in ${files.length} files`);
