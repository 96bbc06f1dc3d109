/** `hoptime collect` as people run it: a process of the built program, on a port of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";

export interface CollectProcess {
  url: string;
  pid: number;
  /** What it has logged so far. */
  log(): string;
  /** Ends it as a user would; `kill`: as a crash would. */
  stop(how?: "kill"): Promise<void>;
}

export async function startCollect(data: string, args: readonly string[] = []): Promise<CollectProcess> {
  const child: ChildProcess = spawn(
    process.execPath,
    ["dist/cli/main.js", "collect", "--data", data, "--listen", "127.0.0.1:0", ...args],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  let said = "";
  child.stderr?.on("data", (d: Buffer) => {
    said += d.toString();
  });
  const ended = once(child, "exit");
  for (;;) {
    const url = /collecting at (\S+?),/.exec(said)?.[1];
    if (url !== undefined) {
      return {
        url,
        pid: child.pid ?? 0,
        log: () => said,
        stop: async (how) => {
          child.kill(how === "kill" ? "SIGKILL" : "SIGTERM");
          await ended;
        },
      };
    }
    if (child.exitCode !== null) throw new Error(said);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The program's output; its status and complaints in the error where it fails. */
export async function runHoptime(args: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, ["dist/cli/main.js", ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let [out, err] = ["", ""];
  child.stdout.on("data", (d: Buffer) => {
    out += d.toString();
  });
  child.stderr.on("data", (d: Buffer) => {
    err += d.toString();
  });
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`exit ${code}: ${err}`);
  return out;
}
