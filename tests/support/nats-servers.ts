/** Real nats-server processes on loopback: one, or a cluster of three, each with its own files; tests kill and restart them. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, mkdirSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { connectNats, type NatsLink } from "../../src/transport/nats/connection.ts";

/** Reason why tests with servers are skipped; null if they can run. */
export const NO_NATS =
  spawnSync("nats-server", ["--version"]).status === 0 ? null : "nats-server is not installed";

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export class NatsServers {
  readonly ports: number[];
  readonly #root: string;
  readonly #routes: number[];
  readonly #more: string;
  readonly #children: (ChildProcess | null)[];

  private constructor(root: string, ports: number[], routes: number[], more: string) {
    this.#root = root;
    this.ports = ports;
    this.#routes = routes;
    this.#more = more;
    this.#children = ports.map(() => null);
  }

  /** `more`: lines for the servers' configuration. `known`: ports, if others have to know them. */
  static async start(
    root: string,
    count: 1 | 3,
    more = "jetstream { store_dir: DIR }",
    known?: number[],
  ): Promise<NatsServers> {
    mkdirSync(root, { recursive: true });
    const ports = known ?? (await Promise.all(Array.from({ length: count }, freePort)));
    const routes = count === 1 ? [] : await Promise.all(Array.from({ length: count }, freePort));
    const servers = new NatsServers(root, ports, routes, more);
    await Promise.all(ports.map((_, i) => servers.startNode(i)));
    return servers;
  }

  get url(): string {
    return `nats://${this.ports.map((p) => `127.0.0.1:${p}`).join(",")}`;
  }

  /** Process ids of the running servers. */
  get pids(): number[] {
    return this.#children.flatMap((child) => child?.pid ?? []);
  }

  async startNode(i: number): Promise<void> {
    if (this.#children[i]) return;
    const file = join(this.#root, `node-${i}.conf`);
    const routes = this.#routes.map((p) => `nats://127.0.0.1:${p}`).join(", ");
    const cluster =
      this.#routes.length > 0
        ? `cluster { name: test, no_advertise: true, listen: "127.0.0.1:${this.#routes[i]}", routes: [${routes}] }`
        : "";
    const more = this.#more.replace("DIR", `"${join(this.#root, `node-${i}`)}"`);
    writeFileSync(file, `server_name: n${i}\nlisten: "127.0.0.1:${this.ports[i]}"\n${cluster}\n${more}\n`);
    const child = spawn("nats-server", ["-c", file], { stdio: ["ignore", "ignore", "pipe"] });
    child.stderr?.pipe(createWriteStream(join(this.#root, `node-${i}.log`), { flags: "a" }));
    this.#children[i] = child;
    await new Promise<void>((resolve, reject) => {
      let said = "";
      child.stderr?.on("data", (d: Buffer) => {
        said += d.toString();
        if (said.includes("Server is ready")) resolve();
      });
      child.once("exit", () => reject(new Error(said)));
    });
  }

  async killNode(i: number): Promise<void> {
    const child = this.#children[i];
    this.#children[i] = null;
    if (!child) return;
    child.removeAllListeners("exit");
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }

  /** Returns the leader of a stream; -1 if it has none at the moment. */
  async leaderOf(stream: string): Promise<number> {
    const link = await this.connect().catch(() => null);
    try {
      const info = await link?.streams.streams.info(stream);
      return Number(info?.cluster?.leader?.slice(1) ?? -1);
    } catch {
      return -1;
    } finally {
      await link?.close();
    }
  }

  connect(): Promise<NatsLink> {
    return connectNats({ url: this.url }, { name: "test" });
  }

  async stop(): Promise<void> {
    await Promise.all(this.ports.map((_, i) => this.killNode(i)));
  }
}

/** Waits until the cluster's JetStream answers. */
export async function untilReady(servers: NatsServers, limitMs = 20_000): Promise<void> {
  const untilMs = Date.now() + limitMs;
  for (;;) {
    try {
      const link = await servers.connect();
      await link.close();
      return;
    } catch (error) {
      if (Date.now() > untilMs) throw error;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}
