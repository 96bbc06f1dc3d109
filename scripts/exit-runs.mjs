// Tests that the program always ends. Runs a command thousands of times, several at once to load the machine, and counts the runs that still exist when all
// their threads have been idle for a while (nodejs/node#54918). Linux only.
//
// Without ARGUMENTS it runs typical commands in turn: mostly compare, also with a page, with estimators and on shortened captures, and writing and querying
// records.
//
//   node scripts/exit-runs.mjs [--runs 2000] [--at-once 6] [--wait 20] [--main dist/cli/main.js] [-- ARGUMENTS]
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { gunzipSync } from "node:zlib";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    runs: { type: "string", default: "2000" },
    "at-once": { type: "string", default: "6" },
    wait: { type: "string", default: "20" },
    main: { type: "string", default: join(root, "dist", "cli", "main.js") },
  },
});
/** Maximum difference in output length, due to the printed run time. */
const TIME_BYTES = 8;
const demo = (name) => join(root, "demo", name);
const scratch = mkdtempSync(join(tmpdir(), "hoptime-exit-"));
const commands = positionals.length > 0 ? [{ name: "given", args: positionals, bytes: 0 }] : everyday();
const runs = Number(values.runs);
let [started, hung, failed] = [0, 0, 0];
const begin = Date.now();

/** Writes the first tenth of a capture. */
function tenthOf(name) {
  const bytes = gunzipSync(readFileSync(demo(name)));
  let end = 24;
  while (end < bytes.length / 10) end += 16 + bytes.readUInt32LE(end + 8);
  const file = join(scratch, name.replace(".gz", ""));
  writeFileSync(file, bytes.subarray(0, end));
  return file;
}

/** The commands that are run in turn, each as often as it is listed. `RUN` in an argument is replaced by the number of the run. */
function everyday() {
  const names = ["router-in.pcap.gz", "router-out.pcap.gz"];
  const whole = names.map(demo);
  const few = names.map(tenthOf);
  const records = join(scratch, "records");
  for (const [i, point] of ["A", "B"].entries()) {
    const args = [
      "observe",
      whole[i],
      "--point",
      point,
      "--to",
      records,
      "--estimators",
      "lda,lds",
      "--epoch",
      "1s",
    ];
    const made = spawnSync(process.execPath, [values.main, ...args], { encoding: "utf8" });
    if (made.status !== 0) throw new Error(`observe: ${made.stderr}`);
  }
  const of = (times, name, ...args) => Array(times).fill({ name, args, bytes: 0 });
  return [
    ...of(8, "compare, a tenth", "compare", ...few, "--json"),
    ...of(2, "compare, text", "compare", ...few),
    ...of(3, "compare, all", "compare", ...whole, "--json"),
    ...of(2, "compare --html", "compare", ...few, "--json", "--html", join(scratch, "RUN.html")),
    ...of(2, "compare --estimators", "compare", ...few, "--json", "--estimators", "lda,lds,colate"),
    ...of(
      2,
      "observe",
      "observe",
      few[0],
      "--point",
      "A",
      "--to",
      join(scratch, "RUN"),
      "--estimators",
      "lda",
    ),
    ...of(3, "query", "query", records, "--between", "A", "B", "--json"),
  ];
}

/** Returns the processor time of a process in ticks; null if the system does not provide it. */
function ticks(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
    return Number(fields[11]) + Number(fields[12]);
  } catch {
    return null;
  }
}

function one() {
  return new Promise((resolve) => {
    const number = started;
    const command = commands[number % commands.length];
    const args = command.args.map((arg) => arg.replace("RUN", String(number)));
    const child = spawn(process.execPath, [values.main, ...args], { stdio: ["ignore", "pipe", "ignore"] });
    let got = 0;
    child.stdout.on("data", (piece) => {
      got += piece.length;
    });
    // On a loaded machine a process may wait long for a processor. A hanging one would get it, but not use it.
    let before = ticks(child.pid);
    let idle = 0;
    const timer = setInterval(() => {
      const now = ticks(child.pid);
      idle = now === before && now !== null && sleeps(child.pid) ? idle + 1 : 0;
      before = now;
      if (idle < Number(values.wait)) return;
      hung++;
      console.log(`hung: run ${number} (${command.name}), pid ${child.pid}, ${got} bytes printed`);
      child.kill("SIGKILL");
    }, 1000);
    child.on("close", (code, signal) => {
      clearInterval(timer);
      if (signal === null) {
        if (code !== 0) failed++;
        command.ended = (command.ended ?? 0) + 1;
        // All runs of a command print the same, except for the run time, so this shows truncated output.
        if (command.bytes === 0) command.bytes = got;
        else if (Math.abs(command.bytes - got) > TIME_BYTES)
          console.log(`${command.name}: ${got} bytes printed, not ${command.bytes}`);
      }
      for (const left of [".html", ""])
        rmSync(join(scratch, `${number}${left}`), { recursive: true, force: true });
      resolve();
    });
  });
}

/** Returns whether all threads of a process are asleep, not waiting for a processor. */
function sleeps(pid) {
  try {
    return readdirSync(`/proc/${pid}/task`).every(
      (task) => readFileSync(`/proc/${pid}/task/${task}/stat`, "utf8").split(") ")[1][0] === "S",
    );
  } catch {
    return false;
  }
}

async function lane() {
  while (started < runs) {
    started++;
    await one();
  }
}
function tell() {
  const count = started < runs ? `${started} of ${runs} runs` : `${runs} runs`;
  const seconds = ((Date.now() - begin) / 1000).toFixed(0);
  console.log(`${count}, ${values["at-once"]} at once: ${hung} hung, ${failed} failed, ${seconds} s`);
  for (const { name, ended = 0 } of new Set(commands)) console.log(`  ${name}: ${ended}`);
  rmSync(scratch, { recursive: true });
  process.exit(hung + failed > 0 ? 1 : 0);
}

// Prints the result so far if interrupted.
process.on("SIGINT", tell).on("SIGTERM", tell);
await Promise.all(Array.from({ length: Number(values["at-once"]) }, lane));
tell();
