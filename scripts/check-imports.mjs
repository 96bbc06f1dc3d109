// The import rule of the house: a room may import from rooms left of it, never back. Exits 1 and names each offence.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const src = join(root, "src");
// room -> the rooms it may import from (itself always)
const line = [
  "base",
  "capture",
  ["clock", "simulate", "estimators"],
  "epoch",
  ["archive", "transport"],
  "collect",
  "query",
  "network",
];
const allowed = new Map();
const seen = [];
for (const step of line) {
  const rooms = [step].flat();
  for (const room of rooms) allowed.set(room, new Set(seen));
  seen.push(...rooms);
}
// Estimators are judged by simulated traffic in their tests, and the simulator may feed estimators' delay columns.
for (const top of ["evaluate", "server"]) allowed.set(top, new Set(seen));
allowed.set("cli", new Set([...seen, "evaluate", "server"]));
allowed.set("index.ts", new Set([...seen, "evaluate", "server"]));

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
