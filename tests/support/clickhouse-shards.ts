/**
 * A cluster of ClickHouse servers on loopback, with ZooKeeper (Debian's libzookeeper-java), through which statements reach all servers. Null if either is
 * missing.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { CLICKHOUSE_SERVER, ClickhouseServer, freePorts, NO_CLICKHOUSE } from "./clickhouse-server.ts";

const JARS = [
  "zookeeper",
  "zookeeper-jute",
  "slf4j-api",
  "metrics-core",
  "snappy-java",
  "netty-all",
  "netty",
].map((name) => `/usr/share/java/${name}.jar`);

/** Reason why tests with shards are skipped; null if they can run. */
export const NO_SHARDS =
  CLICKHOUSE_SERVER === null
    ? NO_CLICKHOUSE
    : !existsSync(JARS[0] ?? "") || spawnSync("java", ["-version"]).status !== 0
      ? "ZooKeeper or Java is not installed (Debian: apt install libzookeeper-java default-jre-headless)"
      : null;

export const SHARDS_NAME = "shards";

export class ClickhouseShards {
  readonly servers: ClickhouseServer[] = [];
  readonly #folder = mkdtempSync(join(tmpdir(), "hoptime-shards-"));
  #zookeeper: ChildProcess | null = null;

  /** Starts this many shards with this many replicated servers each. */
  static async start(shards: number, replicas = 1): Promise<ClickhouseShards> {
    const started = new ClickhouseShards();
    try {
      await started.#start(shards, replicas);
      return started;
    } catch (error) {
      await started.close();
      throw error;
    }
  }

  async #start(shards: number, replicas: number): Promise<void> {
    const count = shards * replicas;
    const [keeper = 0, ...ports] = await freePorts(1 + 3 * count);
    await this.#startZookeeper(keeper);
    const each = Array.from({ length: count }, (_, i) => ({
      ...{ shard: Math.floor(i / replicas), replica: i % replicas },
      ...{ port: ports[i] ?? 0, tcpPort: ports[count + i] ?? 0, copyPort: ports[2 * count + i] ?? 0 },
    }));
    const cluster = Array.from({ length: shards }, (_, shard) => {
      const own = each.filter((e) => e.shard === shard);
      const list = own.map((e) => `<replica><host>127.0.0.1</host><port>${e.tcpPort}</port></replica>`);
      return `<shard><internal_replication>${replicas > 1}</internal_replication>${list.join("")}</shard>`;
    });
    const common = `<remote_servers><${SHARDS_NAME}>${cluster.join("")}</${SHARDS_NAME}></remote_servers>
<zookeeper><node><host>127.0.0.1</host><port>${keeper}</port></node></zookeeper>
<distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl><interserver_http_host>127.0.0.1</interserver_http_host>`;
    const servers = each.map(({ port, tcpPort, copyPort, shard, replica }) =>
      ClickhouseServer.start({
        ports: [port, tcpPort],
        more: `${common}<interserver_http_port>${copyPort}</interserver_http_port><macros><shard>${shard}</shard><replica>${replica}</replica></macros>`,
      }),
    );
    this.servers.push(...(await Promise.all(servers)));
  }

  async #startZookeeper(port: number): Promise<void> {
    const file = join(this.#folder, "zoo.cfg");
    mkdirSync(join(this.#folder, "zookeeper"));
    const settings = { tickTime: 1000, dataDir: join(this.#folder, "zookeeper"), clientPort: port };
    const lines = Object.entries({
      ...settings,
      clientPortAddress: "127.0.0.1",
      "admin.enableServer": false,
      "4lw.commands.whitelist": "srvr",
    });
    writeFileSync(file, lines.map(([name, value]) => `${name}=${value}\n`).join(""));
    const main = "org.apache.zookeeper.server.ZooKeeperServerMain";
    this.#zookeeper = spawn(
      "java",
      ["-Xmx96m", "-XX:TieredStopAtLevel=1", "-cp", JARS.join(":"), main, file],
      {
        stdio: "ignore",
      },
    );
    for (let i = 0; i < 600; i++) {
      if (await serves(port)) return;
      await sleep(50);
    }
    throw new Error("ZooKeeper does not answer");
  }

  async close(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.close()));
    this.#zookeeper?.kill("SIGKILL");
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Returns whether it accepts sessions; a server of version 18.16 exits if not. */
function serves(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    let answer = "";
    const socket = connect(port, "127.0.0.1", () => socket.write("srvr"));
    socket.on("data", (bytes: Buffer) => {
      answer += bytes.toString();
    });
    socket.setTimeout(500, () => socket.destroy());
    socket.on("error", () => resolve(false));
    socket.on("close", () => resolve(answer.includes("Mode: standalone")));
  });
}
