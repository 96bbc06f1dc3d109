/**
 * Commands that run until they are stopped: the first signal ends them cleanly, a second one at once. `observe` on a pipe, with its records, is in
 * observe-soak.test.ts.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, it } from "vitest";
import { CLI, freePort, outputOf } from "../support/cli.ts";
import { DEMO } from "../support/demo-captures.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-signals-"));
const children: ChildProcess[] = [];
afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(scratch, { recursive: true, force: true });
});

interface Running {
  child: ChildProcess;
  ended: ReturnType<typeof outputOf>;
}

function start(...args: string[]): Running {
  const child = spawn(process.execPath, [CLI, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  return { child, ended: outputOf(child) };
}

/** Each is running when its promise resolves. */
const commands: Record<string, (name: string) => Promise<Running>> = {
  collect: async (name) => {
    const port = await freePort();
    const running = start("collect", "--data", join(scratch, name), "--listen", `127.0.0.1:${port}`);
    // Its first line says that it listens.
    if (running.child.stderr) await once(running.child.stderr, "data");
    // A client that never finishes its request; a clean end waits for it.
    const client = connect(port, "127.0.0.1").on("error", () => {});
    await once(client, "connect");
    client.write("POST /v1/records HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n");
    return running;
  },
  simulate: async (name) => {
    const out = join(scratch, name);
    const running = start("simulate", "--out", out, "--duration", "600s", "--rate", "400k");
    while (!existsSync(out)) await sleep(20);
    return running;
  },
  reference: async () => {
    const socket = createSocket("udp4").bind(0, "127.0.0.1");
    await once(socket, "listening");
    const port = String(socket.address().port);
    const running = start("reference", "--to", "127.0.0.1", "--port", port, "--rate", "200", "--for", "1h");
    await once(socket, "message");
    socket.close();
    return running;
  },
  top: async () => {
    const running = start("top", DEMO.before, DEMO.after, "--speed", "0.2", "--window", "20ms");
    // It prints when the first interval is over, long before its end.
    if (running.child.stdout) await once(running.child.stdout, "data");
    return running;
  },
};

describe.each(Object.entries(commands))("%s", (name, run) => {
  it("ends cleanly at a signal", async () => {
    const { child, ended } = await run(`${name}-once`);
    child.kill("SIGTERM");
    const { status, signal, out, err } = await ended;
    expect({ status, signal }, err).toEqual({ status: name === "simulate" ? 143 : 0, signal: null });
    if (name === "reference") expect(out).toMatch(/references? to 127\.0\.0\.1/);
    if (name === "simulate" && existsSync(join(scratch, `${name}-once`)))
      expect(readdirSync(join(scratch, `${name}-once`))).toEqual([]);
  });

  it("ends at once at the second", async () => {
    const { child, ended } = await run(`${name}-twice`);
    child.kill("SIGINT");
    await sleep(5);
    child.kill("SIGTERM");
    const { status, signal } = await ended;
    expect(signal).toBeNull();
    // Of the second signal, unless the first one had already finished.
    expect([0, 130, 143]).toContain(status);
    // Without a signal, they would run for minutes or hours: longer than the test.
  });
});
