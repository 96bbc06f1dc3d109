// Preloaded into the program (node --require) when its compiled pieces are made (code-cache.mjs), in each of its threads.
const { join } = require("node:path");
const { existsSync, renameSync, writeFileSync } = require("node:fs");
const { availableParallelism } = require("node:os");
const { isMainThread } = require("node:worker_threads");
const v8 = require("node:v8");

const folder = process.env.HOPTIME_COMPILED_FOLDER;
const fileOf = (main) => join(folder, main ? "program.compiled" : "feed-program.compiled");
const PATIENCE_MS = 10_000;
// Compiled pieces are only good for the flags they were made with: those that a program starts with.
v8.setFlagsFromString = () => {};
const { kept } = require(join(folder, "load.js"));
kept.scripts = new Map();
process.on("exit", () => {
  const index = {};
  const pieces = [];
  let at = 0;
  for (const [name, script] of kept.scripts) {
    const piece = script.createCachedData();
    const padding = Buffer.alloc((8 - (piece.length % 8)) % 8);
    index[name] = [at, piece.length];
    pieces.push(piece, padding);
    at += piece.length + padding.length;
  }
  let head = JSON.stringify(index);
  while ((head.length + 4) % 8 !== 0) head += " ";
  const length = Buffer.alloc(4);
  length.writeUInt32LE(head.length);
  const file = fileOf(isMainThread);
  writeFileSync(`${file}.part`, Buffer.concat([length, Buffer.from(head, "latin1"), ...pieces]));
  renameSync(`${file}.part`, file);
});
if (isMainThread && availableParallelism() > 1) {
  // The program does not wait for its thread to end; here what it leaves is wanted.
  const { exit } = process;
  process.exit = (code) => {
    const started = Date.now();
    setInterval(() => {
      if (existsSync(fileOf(false)) || Date.now() - started > PATIENCE_MS) exit(code);
    }, 10);
  };
}
