/**
 * A ClickHouse server for a test: on loopback, on free ports, in its own directory. Uses Debian's clickhouse-server (18.16) or a newer one; null if none is
 * installed. With HOPTIME_CHDB=DIR it is a current ClickHouse in a Node process; DIR is where `npm install chdb` was run (CONTRIBUTING.md).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const PLACES = ["/usr/sbin/clickhouse-server", "/usr/bin/clickhouse-server"];
/** Directory in which chdb is installed; undefined if it is not used. */
export const CHDB = process.env["HOPTIME_CHDB"];
export const CLICKHOUSE_SERVER =
  CHDB === undefined ? (PLACES.find((path) => existsSync(path)) ?? null) : process.execPath;
export const NO_CLICKHOUSE = "clickhouse-server is not installed (Debian: apt install clickhouse-server)";

export interface ServerChange {
  password?: string;
  /** Additional configuration, as XML. */
  more?: string;
  /** HTTP and native port, if others have to know them. */
  ports?: [http: number, native: number];
}

export class ClickhouseServer {
  readonly folder = mkdtempSync(join(tmpdir(), "hoptime-clickhouse-"));
  readonly #change: ServerChange;
  #process: ChildProcess | null = null;
  port = 0;
  tcpPort = 0;

  private constructor(change: ServerChange) {
    this.#change = change;
  }

  static async start(change: ServerChange = {}): Promise<ClickhouseServer> {
    const server = new ClickhouseServer(change);
    [server.port, server.tcpPort] = change.ports ?? ((await freePorts(2)) as [number, number]);
    server.#configure();
    await server.up();
    return server;
  }

  get pid(): number {
    return this.#process?.pid ?? 0;
  }

  get origin(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Starts it, also again after `kill`. */
  async up(): Promise<void> {
    if (CLICKHOUSE_SERVER === null) throw new Error(NO_CLICKHOUSE);
    const program = fileURLToPath(new URL("./chdb-program.mjs", import.meta.url));
    const child = spawn(
      CLICKHOUSE_SERVER,
      CHDB === undefined
        ? [`--config-file=${join(this.folder, "config.xml")}`]
        : [program, this.folder, `${this.port}`, CHDB],
      { cwd: this.folder, stdio: CHDB === undefined ? "ignore" : ["ignore", "ignore", "inherit"] },
    );
    this.#process = child;
    for (let i = 0; i < 300; i++) {
      const ok = await fetch(`${this.origin}/ping`).then(
        (r) => r.ok,
        () => false,
      );
      if (ok) return;
      if (child.exitCode !== null) throw new Error(`clickhouse-server ended with ${child.exitCode}`);
      await sleep(50);
    }
    throw new Error("clickhouse-server does not answer");
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.#process;
    this.#process = null;
    if (!child || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
  }

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  #configure(): void {
    const { folder, port, tcpPort } = this;
    const { password = "", more = "" } = this.#change;
    writeFileSync(
      join(folder, "config.xml"),
      `<yandex><logger><level>error</level><log>${folder}/log</log><errorlog>${folder}/errors</errorlog></logger>
<http_port>${port}</http_port><tcp_port>${tcpPort}</tcp_port><listen_host>127.0.0.1</listen_host>
<path>${folder}/data/</path><tmp_path>${folder}/tmp/</tmp_path><format_schema_path>${folder}/schemas/</format_schema_path>
<users_config>users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>500000000</mark_cache_size>${more}</yandex>\n`,
    );
    writeFileSync(
      join(folder, "users.xml"),
      `<yandex><profiles><default><max_memory_usage>4000000000</max_memory_usage></default></profiles>
<users><default><password>${password}</password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default></users>
<quotas><default></default></quotas></yandex>\n`,
    );
  }
}

export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  const ports: number[] = [];
  for (const server of servers) {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    ports.push((server.address() as { port: number }).port);
  }
  for (const server of servers) await new Promise((resolve) => server.close(resolve));
  return ports;
}
