/** `hoptime collect` as users run it: a process of the built program, on its own port. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";

export interface CollectProcess {
  url: string;
  pid: number;
  /** Returns its log so far. */
  log(): string;
  /** Stops it as a user would; with `kill` as a crash would. */
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

/** Returns the program's output; on failure the error contains its status and standard error. */
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
