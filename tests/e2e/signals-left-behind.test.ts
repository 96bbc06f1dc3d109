/** Every command, ended by a signal at work: no temporary files, no partial files and no processes remain, and neither do they after a second signal. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, it } from "vitest";
import { CLI, outputOf } from "../support/cli.ts";
import { DEMO } from "../support/demo-captures.ts";
import { pipePacket } from "../support/pipe-traffic.ts";
import { pcapHeader } from "../support/small-pcap.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-left-"));
const children: ChildProcess[] = [];
afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(scratch, { recursive: true, force: true });
});

interface Case {
  args: (out: string) => string[];
  /** It is at work. */
  running: (child: ChildProcess, out: string, temporary: string) => Promise<unknown>;
  /** Exit code after one signal; null: the signal itself ends it. */
  status: number | null;
  /** False: `running` is only an estimate. */
  known?: boolean;
  /** Names of the files that may remain. */
  keeps?: RegExp;
}

const printed = (child: ChildProcess) =>
  Promise.race([
    ...[child.stdout, child.stderr].flatMap((s) => (s ? [once(s, "data")] : [])),
    once(child, "close"),
  ]);
const poll = async (child: ChildProcess, test: () => boolean) => {
  while (!test() && child.exitCode === null) await sleep(10);
};
const some = (path: string) => existsSync(path) && readdirSync(path).length > 0;
/** A capture without an end: the command waits for its standard input. */
const waits = async (child: ChildProcess) => {
  child.stdin?.write(pcapHeader());
  await sleep(700);
};

const NETWORK = JSON.stringify({
  format: "hoptime.topology/1",
  name: "chain",
  routers: Array.from({ length: 40 }, (_, i) => ({ name: `n${i}` })),
  links: Array.from({ length: 39 }, (_, i) => ({ from: `n${i}`, to: `n${i + 1}` })),
});
const map = join(scratch, "map.json");
writeFileSync(map, NETWORK);

const cases: Record<string, Case> = {
  "demo --live": {
    args: () => ["demo", "--live", "--json"],
    running: printed,
    status: 0,
  },
  "simulate --network": {
    args: (out) => ["simulate", "--network", map, "--to", join(out, "records"), "--duration", "1h"],
    running: (child, _, temporary) => poll(child, () => some(temporary)),
    status: 143,
    keeps: /^records/,
  },
  simulate: {
    args: (out) => ["simulate", "--out", join(out, "sim"), "--duration", "600s", "--rate", "400k"],
    running: (child, out) => poll(child, () => some(join(out, "sim"))),
    status: 143,
  },
  page: { args: () => ["page", "--listen", "127.0.0.1:0"], running: printed, status: 0 },
  "collect --station": {
    args: (out) => [
      ...["collect", "--data", join(out, "data"), "--listen", "127.0.0.1:0"],
      ...["--topology", map, "--station", "127.0.0.1:0"],
    ],
    running: printed,
    status: 0,
    keeps: /^data/,
  },
  reproduce: {
    args: (out) => ["reproduce", "lds-9", "lda-6", "--out", join(out, "report"), "--jobs", "2"],
    running: () => sleep(1500),
    status: 143,
    known: false,
    keeps: /^report/,
  },
  evaluate: {
    args: () => ["evaluate", DEMO.before, "--memory", "64kB"],
    running: () => sleep(700),
    status: null,
  },
  "compare -": {
    args: (out) => [
      ...["compare", "-", DEMO.after, "--html", join(out, "r.html"), "--prometheus", join(out, "m.prom")],
      ...["--packets", join(out, "p.csv")],
    ],
    running: waits,
    status: null,
  },
  "inspect -": { args: () => ["inspect", "-"], running: waits, status: null },
  "size --capture -": { args: () => ["size", "lda", "--capture", "-"], running: waits, status: null },
  "localise -": {
    args: (out) => ["localise", "-", DEMO.after, "--html", join(out, "l.html")],
    running: waits,
    status: null,
  },
  "observe -": {
    args: (out) => ["observe", "-", "--point", "A", "--to", join(out, "records"), "--epoch", "100ms"],
    // Its handlers are installed when it has stored something.
    async running(child, out) {
      child.stdin?.write(pcapHeader());
      for (let n = 0; child.exitCode === null && !existsSync(join(out, "records")); n++) {
        child.stdin?.write(pipePacket(n, 1_700_000_000_000_000_000n + BigInt(n) * 20_000_000n));
        await sleep(10);
      }
    },
    status: 0,
    keeps: /^records/,
  },
};

describe.each(Object.entries(cases))("%s", (name, { args, running, status, keeps, known = true }) => {
  it.each([1, 2])("leaves nothing behind after %i signals", async (signals) => {
    const own = join(scratch, `${name.replace(/\W/g, "")}${signals}`);
    const [out, temporary] = [join(own, "out"), join(own, "tmp")];
    for (const folder of [out, temporary]) mkdirSync(folder, { recursive: true });
    const env = { ...process.env, TMPDIR: temporary };
    const child = spawn(process.execPath, [CLI, ...args(out)], { stdio: ["pipe", "pipe", "pipe"], env });
    children.push(child);
    const ended = outputOf(child);
    await running(child, out, temporary);
    child.kill("SIGTERM");
    if (signals === 2) {
      await sleep(5);
      child.kill("SIGINT");
    }
    const got = await ended;
    // If it is unknown when its handlers are installed, the signal itself may have ended it.
    if (signals === 1 && (got.signal !== "SIGTERM" || known))
      expect({ status: got.status, signal: got.signal }, got.err).toEqual({
        ...{ status, signal: status === null ? "SIGTERM" : null },
      });
    expect(readdirSync(temporary)).toEqual([]);
    const left = readdirSync(out, { recursive: true }).map(String);
    expect(left.filter((file) => file.endsWith(".partial"))).toEqual([]);
    expect(left.filter((file) => !keeps?.test(file))).toEqual([]);
    // Processes that it started have the last directory of its arguments, or its own, in their environment.
    const mine = () =>
      readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && environmentOf(pid).includes(temporary));
    await expect.poll(mine).toEqual([]);
  });
});

function environmentOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1");
  } catch {
    return "";
  }
}
