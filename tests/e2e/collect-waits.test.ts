/** A worker that starts before NATS and ClickHouse waits for them, and ends at once when asked to; settings that cannot work end it with exit code 2. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, it } from "vitest";
import {
  CLICKHOUSE_SERVER,
  ClickhouseServer,
  freePorts,
  NO_CLICKHOUSE,
} from "../support/clickhouse-server.ts";
import { NatsServers, NO_NATS } from "../support/nats-servers.ts";

const why = NO_NATS ?? (CLICKHOUSE_SERVER === null ? NO_CLICKHOUSE : null);
if (why) console.log(`skipped: a worker that waits: ${why}`);
const root = mkdtempSync(join(tmpdir(), "hoptime-waits-"));
const children: ChildProcess[] = [];

class Worker {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown[]>;
  log = "";

  constructor(args: readonly string[]) {
    const all = ["collect", "--listen", "127.0.0.1:0", "--data", join(root, "data"), ...args];
    this.#child = spawn(process.execPath, ["dist/cli/main.js", ...all], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    children.push(this.#child);
    this.#child.stderr?.on("data", (d: Buffer) => {
      this.log += d.toString();
    });
    this.#ended = once(this.#child, "exit");
  }

  async logs(line: RegExp): Promise<void> {
    while (!line.test(this.log)) {
      if (this.#child.exitCode !== null) throw new Error(`ended: ${this.log}`);
      await sleep(20);
    }
  }

  /** Its exit code. */
  async ended(): Promise<unknown> {
    return (await this.#ended)[0];
  }

  stop(): Promise<unknown> {
    this.#child.kill("SIGTERM");
    return this.ended();
  }
}

describe.skipIf(why)("a worker that starts before the others", () => {
  let servers: NatsServers | null = null;
  let clickhouse: ClickhouseServer | null = null;
  afterAll(async () => {
    for (const child of children) child.kill("SIGKILL");
    await servers?.stop();
    await clickhouse?.close();
    rmSync(root, { recursive: true, force: true });
  });

  it("waits for NATS, then for ClickHouse, says so once, and works when both are there", async () => {
    const [http = 0, native = 0, nats = 0] = await freePorts(3);
    const url = `nats://127.0.0.1:${nats}`;
    const worker = new Worker(["--nats", url, "--clickhouse", `http://127.0.0.1:${http}/hoptime`]);
    await worker.logs(/waiting: nats:\/\/127\.0\.0\.1:\d+: no server answers/);
    servers = await NatsServers.start(join(root, "nats"), 1, "jetstream { store_dir: DIR }", [nats]);
    await worker.logs(
      /waiting: ClickHouse at http:\/\/127\.0\.0\.1:\d+ refuses the connection; is it running\?/,
    );
    // Further attempts add no lines.
    await sleep(1500);
    expect(worker.log.match(/waiting: ClickHouse/g)).toHaveLength(1);
    clickhouse = await ClickhouseServer.start({ ports: [http, native] });
    await worker.logs(/collecting at .* results in ClickHouse[\s\S]*worker \w+ of group .*\n/);
    expect(worker.log.trim().split("\n")).toHaveLength(4);
    expect(await worker.stop()).toBe(0);
  }, 60_000);

  it("ends at once while it waits", async () => {
    const [http = 0] = await freePorts(1);
    const worker = new Worker(["--clickhouse", `http://127.0.0.1:${http}/hoptime`]);
    await worker.logs(/waiting: ClickHouse/);
    await sleep(1200);
    const before = performance.now();
    expect(await worker.stop()).toBe(0);
    expect(performance.now() - before).toBeLessThan(5000);
    expect(worker.log).toMatch(/stopped\n$/);
  }, 60_000);

  it("does not wait where the servers refuse it, or are something else", async () => {
    const other = await NatsServers.start(
      join(root, "other"),
      1,
      "authorization { user: u, password: p }\njetstream { store_dir: DIR }",
    );
    // It keeps the connection open, because a reset instead of an answer shows nothing.
    const page = createServer((socket) =>
      socket.on("error", () => undefined).write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    );
    await new Promise<void>((resolve) => page.listen(0, "127.0.0.1", resolve));
    const { port } = page.address() as AddressInfo;
    clickhouse ??= await ClickhouseServer.start();
    try {
      for (const [args, line] of [
        [["--nats", other.url], /does not let this client in/],
        [["--clickhouse", `http://nobody@127.0.0.1:${clickhouse.port}/hoptime`], /wrong user or password/],
        [["--clickhouse", `https://127.0.0.1:${port}/hoptime`], /does not speak TLS/],
        [["--clickhouse", `http://127.0.0.1:${port}/hoptime`], /does not answer like ClickHouse/],
      ] as const) {
        const worker = new Worker(args);
        expect(await worker.ended(), worker.log).toBe(2);
        expect(worker.log).toMatch(line);
        expect(worker.log).not.toMatch(/waiting/);
      }
    } finally {
      page.close();
      await other.stop();
    }
  }, 60_000);
});
