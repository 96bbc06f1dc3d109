/** Runs the built command line as users do. */
import { type ChildProcess, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { ROOT } from "./demo-captures.ts";

export const CLI = join(ROOT, "dist/cli/main.js");

export interface Ended {
  status: number | null;
  out: string;
  err: string;
}

/** Runs a command to its end, by default in the checkout. */
export function runCli(args: readonly string[], options: { cwd?: string; input?: Buffer } = {}): Ended {
  const run = spawnSync(process.execPath, [CLI, ...args], { cwd: ROOT, maxBuffer: 1 << 28, ...options });
  return { status: run.status, out: run.stdout.toString(), err: run.stderr.toString() };
}

/** Returns the output of a command that must not fail; the error contains its standard error. */
export function cliOutput(args: readonly string[], options: { cwd?: string } = {}): string {
  const { status, out, err } = runCli(args, options);
  if (status !== 0) throw new Error(`hoptime ${args.join(" ")} ended with ${status}: ${err}`);
  return out;
}

/** Returns the output of a started process when it has ended. */
export async function outputOf(child: ChildProcess): Promise<Ended & { signal: string | null }> {
  let [out, err] = ["", ""];
  child.stdout?.on("data", (part: Buffer) => {
    out += part.toString();
  });
  child.stderr?.on("data", (part: Buffer) => {
    err += part.toString();
  });
  // A process that ends closes its standard input; a writer then gets an error that does not matter.
  child.stdin?.on("error", () => {});
  const [status, signal] = (await once(child, "close")) as [number | null, string | null];
  return { status, signal, out, err };
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  return port;
}
