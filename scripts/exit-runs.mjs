// Does the program always end? Runs a command thousands of times, several at once so that the machine is loaded, and counts the runs that are still there
// when none of their threads has done or wanted anything for a while (nodejs/node#54918). Linux.
//
//   node scripts/exit-runs.mjs [--runs 2000] [--at-once 6] [--wait 20] [--main dist/cli/main.js] [-- ARGUMENTS]
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

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
const demo = (name) => join(root, "demo", name);
const command =
  positionals.length > 0
    ? positionals
    : ["compare", demo("router-in.pcap.gz"), demo("router-out.pcap.gz"), "--json"];
const runs = Number(values.runs);
let [started, hung, failed, bytes] = [0, 0, 0, 0];
const begin = Date.now();

/** Processor time that a process has taken, in ticks; null where the system does not tell. */
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
    const child = spawn(process.execPath, [values.main, ...command], { stdio: ["ignore", "pipe", "ignore"] });
    let got = 0;
    child.stdout.on("data", (piece) => {
      got += piece.length;
    });
    // A loaded machine may give a process no time for long. One that hangs gets its turn, and takes none of it.
    let before = ticks(child.pid);
    let idle = 0;
    const timer = setInterval(() => {
      const now = ticks(child.pid);
      idle = now === before && now !== null && sleeps(child.pid) ? idle + 1 : 0;
      before = now;
      if (idle < Number(values.wait)) return;
      hung++;
      console.log(`hung: run ${started}, pid ${child.pid}, ${got} bytes printed`);
      child.kill("SIGKILL");
    }, 1000);
    child.on("close", (code, signal) => {
      clearInterval(timer);
      if (signal === null) {
        if (code !== 0) failed++;
        // Every run prints the same: one that is cut short would show here.
        if (bytes === 0) bytes = got;
        else if (bytes !== got) console.log(`${got} bytes printed, not ${bytes}`);
      }
      resolve();
    });
  });
}

/** None of its threads waits for a processor. */
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
await Promise.all(Array.from({ length: Number(values["at-once"]) }, lane));
console.log(
  `${runs} runs, ${values["at-once"]} at once: ${hung} hung, ${failed} failed, ${((Date.now() - begin) / 1000).toFixed(0)} s`,
);
process.exitCode = hung + failed > 0 ? 1 : 0;
