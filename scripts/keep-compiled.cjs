// Preloaded into the program (node --require) when its compiled pieces are made (code-cache.mjs), in each of its threads: writes them to a folder, a file each.
const { join } = require("node:path");
const { existsSync, mkdirSync, renameSync, writeFileSync } = require("node:fs");
const { availableParallelism } = require("node:os");
const { isMainThread } = require("node:worker_threads");
const v8 = require("node:v8");

const { HOPTIME_PROGRAM_FOLDER: program, HOPTIME_COMPILED_FOLDER: target } = process.env;
const folderOf = (main) => join(target, main ? "program" : "feed-program");
const PATIENCE_MS = 10_000;
// Compiled pieces are only good for the flags they were made with: those that a program starts with.
v8.setFlagsFromString = () => {};
const { kept } = require(join(program, "load.js"));
kept.scripts = new Map();
process.on("exit", () => {
  const folder = folderOf(isMainThread);
  const made = `${folder}.part`;
  mkdirSync(made, { recursive: true });
  for (const [name, script] of kept.scripts) writeFileSync(join(made, name), script.createCachedData());
  renameSync(made, folder);
});
if (isMainThread && process.env.HOPTIME_COMPILED_THREADS === "2" && availableParallelism() > 1) {
  // The program does not wait for its thread to end; here what it leaves is wanted.
  const { exit } = process;
  process.exit = (code) => {
    const started = Date.now();
    setInterval(() => {
      if (existsSync(folderOf(false)) || Date.now() - started > PATIENCE_MS) exit(code);
    }, 10);
  };
}
