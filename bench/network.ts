/**
 * A whole simulated network with one collector over HTTP, with results in DuckDB and in ClickHouse: 10, 100 and 1,000 points on a ring, LDA with 1 s epochs.
 * Measures CPU time and memory of each part, because they share the machine's cores. Arguments: seconds of simulated time (default 60), points (default
 * 10,100,1000), stores (default duckdb,clickhouse).
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { CLICKHOUSE_SERVER, ClickhouseServer, NO_CLICKHOUSE } from "../tests/support/clickhouse-server.ts";
import { runHoptime, startCollect } from "../tests/support/collect-process.ts";

const [seconds = "60", points = "10,100,1000", stores = "duckdb,clickhouse"] = process.argv.slice(2);
const root = mkdtempSync(join(tmpdir(), "hoptime-bench-network-"));

/** CPU seconds so far, and memory in MB. */
function usage(pid: number): { cpuS: number; rssMb: number } {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return { cpuS: (Number(fields[11]) + Number(fields[12])) / 100, rssMb: (Number(fields[21]) * 4096) / 1e6 };
}

function ring(count: number): string {
  const file = join(root, `ring-${count}.csv`);
  writeFileSync(file, Array.from({ length: count }, (_, i) => `p${i},p${(i + 1) % count},1\n`).join(""));
  return file;
}

/** Waits until nothing is left to be estimated or written: two consecutive checks with the same result. */
async function rowsWritten(url: string, name: string): Promise<void> {
  for (let before = -1, same = 0; same < 2; ) {
    await sleep(700);
    const { records } = (await (await fetch(`${url}/v1/health`)).json()) as { records: { rows: number } };
    same = records.rows === before ? same + 1 : 0;
    before = records.rows;
    process.stderr.write(`${name}: ${before} rows written\n`);
  }
}

async function round(count: number, store: string): Promise<string> {
  const server = store === "clickhouse" ? await ClickhouseServer.start() : null;
  const data = join(root, `${store}-${count}`);
  const collect = await startCollect(data, server ? ["--clickhouse", `${server.origin}/bench`] : []);
  try {
    const [before, beforeServer] = [usage(collect.pid), server ? usage(server.pid) : null];
    const startedMs = performance.now();
    const args = [
      "simulate",
      "--network",
      ring(count),
      "--rate",
      "100",
      "--duration",
      `${seconds}s`,
      "--to",
      collect.url,
      "--json",
    ];
    const run = JSON.parse(await runHoptime(args)) as { packets: number; records: number; bytes: number };
    const sentS = (performance.now() - startedMs) / 1000;
    await rowsWritten(collect.url, `${store}, ${count} points`);
    const allS = (performance.now() - startedMs) / 1000;
    const now = usage(collect.pid);
    const own = (1e6 * (now.cpuS - before.cpuS)) / run.records;
    const theirs =
      server && beforeServer ? (1e6 * (usage(server.pid).cpuS - beforeServer.cpuS)) / run.records : 0;
    const asked = performance.now();
    await (await fetch(`${collect.url}/v1/overview`)).text();
    const overviewMs = performance.now() - asked;
    const cells = [
      ...[
        store,
        count,
        run.records,
        run.packets,
        (run.records / sentS).toFixed(0),
        (allS - sentS).toFixed(1),
      ],
      ...[own.toFixed(0), theirs.toFixed(0), (((own + theirs) * run.records) / run.packets).toFixed(1)],
      ...[now.rssMb.toFixed(0), server ? usage(server.pid).rssMb.toFixed(0) : "", overviewMs.toFixed(0)],
    ];
    return `| ${cells.join(" | ")} |`;
  } finally {
    await collect.stop();
    await server?.close();
  }
}

console.log(
  "| results in | points | records | packets | records/s | then behind, s | collector, µs CPU/record | ClickHouse, µs CPU/record | CPU s per million packets | collector, MB | ClickHouse, MB | overview, ms |",
);
console.log("|---|---|---|---|---|---|---|---|---|---|---|---|");
try {
  for (const store of stores.split(","))
    if (store === "clickhouse" && CLICKHOUSE_SERVER === null) console.log(NO_CLICKHOUSE);
    else for (const count of points.split(",").map(Number)) console.log(await round(count, store));
} finally {
  rmSync(root, { recursive: true, force: true });
}
