/**
 * How fast a collector takes records: messages of real records through the real HTTP server, to disk and back, and the questions that pages ask. One process serves, this one sends; the server's CPU time is measured, so that
 * the rates are per core whatever else runs here. Arguments: seconds of traffic per kind (default 60).
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { earlier } from "../src/base/time.ts";
import type { EpochRecord } from "../src/epoch/record.ts";
import { encodeRecord } from "../src/epoch/record.ts";
import { BATCH_TYPE, frameRecord } from "../src/transport/batch.ts";
import { observedRecords, POINTS } from "../tests/support/collector-records.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-ingest-"));
const port = 18_000 + (process.pid % 1000);
const url = `http://127.0.0.1:${port}`;
const server = spawn(
  process.execPath,
  [
    "dist/cli/main.js",
    "collect",
    "--data",
    join(root, "data"),
    "--listen",
    `127.0.0.1:${port}`,
    "--segment",
    `${POINTS.from}:${POINTS.to}`,
  ],
  { stdio: ["ignore", "ignore", "pipe"] },
);
let said = "";
server.stderr.on("data", (d: Buffer) => {
  said += d.toString();
});
while (!said.includes("collecting at")) await new Promise((resolve) => setTimeout(resolve, 50));

/** CPU seconds of the server so far. */
function cpuS(): number {
  const fields = readFileSync(`/proc/${server.pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

const moved = (record: EpochRecord, epochs: number): EpochRecord => {
  const by = BigInt(epochs) * 1_000_000_000n;
  const { startNs, endNs, referenceNs } = record.epoch;
  return {
    ...record,
    epoch: { ...record.epoch, startNs: startNs + by, endNs: endNs + by, referenceNs: referenceNs + by },
  };
};

async function sendAll(messages: readonly Buffer[]): Promise<void> {
  let at = 0;
  const sender = async () => {
    for (let body = messages[at++]; body; body = messages[at++]) {
      const response = await fetch(`${url}/v1/records`, {
        method: "POST",
        headers: { "content-type": BATCH_TYPE },
        body: new Uint8Array(body),
      });
      const { results } = (await response.json()) as { results: { outcome: string; reason?: string }[] };
      const bad = results.find((r) => r.outcome !== "stored");
      if (bad) throw new Error(`${bad.outcome}: ${bad.reason}`);
    }
  };
  await Promise.all([sender(), sender()]);
}

async function measure(
  name: string,
  estimator: string,
  count: number,
  perMessage: number,
  { ratePps, flows = 12, as = POINTS }: { ratePps: number; flows?: number; as?: typeof POINTS },
): Promise<void> {
  const { records } = await observedRecords([estimator], { seconds: 2, ratePps, flows });
  const first = records.map((r) => r.epoch.startNs).reduce(earlier);
  const taps = records.filter((r) => r.epoch.startNs === first && r.estimator === estimator.split(":")[0]);
  const all: Uint8Array[] = [];
  for (let e = 0; all.length < count; e++)
    for (const tap of taps) {
      const point = tap.point === POINTS.from ? as.from : as.to;
      all.push(encodeRecord({ ...moved(tap, e), point }, { raw: true }));
    }
  const messages: Buffer[] = [];
  for (let at = 0; at < all.length; at += perMessage)
    messages.push(Buffer.concat(all.slice(at, at + perMessage).flatMap(frameRecord)));
  const bytes = all.reduce((n, r) => n + r.length, 0);
  const [from, cpu] = [performance.now(), cpuS()];
  await sendAll(messages);
  const [wallS, used] = [(performance.now() - from) / 1000, cpuS() - cpu];
  const per = (s: number) => `${Math.round(all.length / s)} records/s, ${(bytes / s / 1e6).toFixed(0)} MB/s`;
  console.log(
    `${name}: ${all.length} records of ${Math.round(bytes / all.length)} B: ${per(wallS)} by the clock; ${per(used)} per core of CPU`,
  );
}

async function ask(name: string, path: string, init?: RequestInit): Promise<void> {
  const ms: number[] = [];
  for (let n = 0; n < 200; n++) {
    const from = performance.now();
    const response = await fetch(url + path, init);
    await response.arrayBuffer();
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    ms.push(performance.now() - from);
  }
  ms.sort((a, b) => a - b);
  console.log(`${name}: median ${ms[100]?.toFixed(1)} ms, p99 ${ms[197]?.toFixed(1)} ms`);
}

const settled = async () => {
  for (;;) {
    const { pairing } = (await (await fetch(`${url}/v1/health`)).json()) as {
      pairing: { pending: number; waiting: number };
    };
    if (pairing.waiting < 200 && pairing.pending < 10) return;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
};

try {
  await measure("lda", "lda", 7200, 200, { ratePps: 1000 });
  const from = performance.now();
  await settled();
  console.log(`lda: estimated and rolled up ${((performance.now() - from) / 1000).toFixed(1)} s later`);
  const pair = `from=${POINTS.from}&to=${POINTS.to}`;
  await ask(
    "latency over an hour of 1 s epochs in steps of a minute",
    `/v1/latency?${pair}&estimator=lda&step=1m`,
  );
  await ask("latency over an hour, epoch by epoch", `/v1/latency?${pair}&estimator=lda&limit=4000`);
  // As large as they are on a busy link; of a segment that is not watched, and of one that is.
  const lds = { ratePps: 100_000, flows: 30_000 };
  await measure("lds, stored", "lds:rows=4,columns=17500", 200, 8, { ...lds, as: { from: "C", to: "D" } });
  await measure("lds, stored and estimated", "lds:rows=4,columns=17500", 60, 8, lds);
} finally {
  server.kill("SIGKILL");
  await once(server, "exit");
  rmSync(root, { recursive: true, force: true });
}
