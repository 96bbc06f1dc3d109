// Preloaded (node --require) into each thread of the program when its compiled code is collected (code-cache.mjs): writes the pieces to a directory, one file
// each.
const { join } = require("node:path");
const { existsSync, mkdirSync, renameSync, writeFileSync } = require("node:fs");
const { availableParallelism } = require("node:os");
const { isMainThread } = require("node:worker_threads");
const v8 = require("node:v8");

const { HOPTIME_PROGRAM_FOLDER: program, HOPTIME_COMPILED_FOLDER: target } = process.env;
const folderOf = (main) => join(target, main ? "program" : "feed-program");
const PATIENCE_MS = 10_000;
// Compiled code is valid only for the same flags, so the program must not change them here.
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
  // The program does not wait for its second thread to end, but here the output of that thread is needed.
  const { exit } = process;
  process.exit = (code) => {
    const started = Date.now();
    setInterval(() => {
      if (existsSync(folderOf(false)) || Date.now() - started > PATIENCE_MS) exit(code);
    }, 10);
  };
}
