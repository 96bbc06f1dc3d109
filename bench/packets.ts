/**
 * Measures queries for packets over the network (MAPLE, section 5): an hour of 1 s epochs of a point, a real collector, real HTTP. One packet with its
 * approximate time, a thousand, one with a less precise time, and a capture's packets in the binary format. Reports the time to the complete answer, and the
 * collector's CPU time for it, which does not depend on other load. Arguments: packets per second (default 2,000), epochs (default 3,600).
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RecordArchive } from "../src/archive/archive.ts";
import { Kernels } from "../src/base/kernels.ts";
import type { EpochRecord } from "../src/epoch/record.ts";
import { observeScenario } from "../src/evaluate/observed-run.ts";
import { encodeCapturedQuestion, splitPieces } from "../src/query/packet/captured-wire.ts";
import { PACKET_QUESTION_TYPE } from "../src/server/wire.ts";
import { RECEIVER } from "../src/simulate/scenario.ts";
import { startCollect } from "../tests/support/collect-process.ts";

const [ratePps = 2000, epochs = 3600] = process.argv.slice(2).map(Number);
const SECOND_NS = 1_000_000_000n;
const root = mkdtempSync(join(tmpdir(), "hoptime-packets-bench-"));
const data = join(root, "data");

const { records: store } = await observeScenario(
  new Kernels(),
  {
    seed: 7,
    traffic: { kind: "population", ratePps, durationS: 3, flows: 50 },
    path: [{ kind: "delay", model: { kind: "uniform", lowNs: 100_000, highNs: 3_000_000 } }],
  },
  { cut: { mode: "aligned", lengthNs: SECOND_NS }, estimators: ["maple:identity=both,index=true"] },
);
const own = store
  .list()
  .entries.map((e) => store.readRecord(e))
  .filter((r) => r.point === RECEIVER && r.estimator === "maple");
const [model] = own.sort((a, b) => b.counters.packets - a.counters.packets);
if (!model) throw new Error("no record of maple");
const archive = await RecordArchive.create(join(data, "records"));
const moved = (by: number): EpochRecord => {
  const { startNs, endNs, referenceNs } = model.epoch;
  const ns = BigInt(by) * SECOND_NS;
  return {
    ...model,
    epoch: { ...model.epoch, startNs: startNs + ns, endNs: endNs + ns, referenceNs: referenceNs + ns },
  };
};
for (let at = 0; at < epochs; at += 100)
  await archive.store(
    Array.from({ length: Math.min(100, epochs - at) }, (_, i) => ({ record: moved(at + i) })),
  );
archive.close();

const collector = await startCollect(data);
/** CPU seconds of the collector so far. */
function cpuS(): number {
  const fields = readFileSync(`/proc/${collector.pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}
const random = (n: number) => Math.floor(Math.random() * n);
const digest = () => Array.from({ length: 16 }, () => random(16).toString(16)).join("");
const span = () => {
  const startNs = model.epoch.startNs + BigInt(random(epochs)) * SECOND_NS;
  return { from: `${startNs + 400_000_000n}`, to: `${startNs + 600_000_000n}` };
};

async function measure(name: string, ask: () => { body: string | Uint8Array; type?: string }, times = 200) {
  const ms: number[] = [];
  let cpu = 0;
  for (let n = -3; n < times; n++) {
    const { body, type = "application/json" } = ask();
    if (n === 0) cpu = cpuS();
    const from = performance.now();
    const response = await fetch(`${collector.url}/v1/packets`, {
      method: "POST",
      headers: { "content-type": type },
      body: typeof body === "string" ? body : new Uint8Array(body),
    });
    const bytes = new Uint8Array(await response.arrayBuffer());
    if (!response.ok) throw new Error(new TextDecoder().decode(bytes));
    if (n >= 0) ms.push(performance.now() - from);
    if (type === PACKET_QUESTION_TYPE && n === 0)
      console.log(`  ${[...splitPieces(bytes)].length} pieces, ${bytes.length} B back`);
  }
  ms.sort((a, b) => a - b);
  const at = (share: number) => ms[Math.min(ms.length - 1, Math.floor(share * ms.length))]?.toFixed(1);
  const each = ((1000 * (cpuS() - cpu)) / times).toFixed(1);
  console.log(
    `${name}: median ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${ms.at(-1)?.toFixed(1)} ms; ${each} ms of CPU`,
  );
}

try {
  console.log(`${epochs} epochs of 1 s, ${model.counters.packets} packets each, ${model.payload.length} B`);
  const json = (question: object) => ({ body: JSON.stringify(question) });
  await measure("one packet, its time known to a second", () => json({ digests: [digest()], ...span() }));
  await measure("1,000 packets of a second", () =>
    json({ digests: Array.from({ length: 1000 }, digest), ...span(), group: "all" }),
  );
  await measure(
    "one packet of a minute",
    () => {
      const { from } = span();
      return json({ digests: [digest()], from, to: `${BigInt(from) + 60n * SECOND_NS}` });
    },
    30,
  );
  await measure("one packet of the whole hour", () => json({ digests: [digest()] }), 3);
  const count = 100_000;
  const packets = {
    count,
    originNs: model.epoch.startNs,
    timeNs: Float64Array.from({ length: count }, (_, i) => i * 100_000),
    keys: BigUint64Array.from({ length: count }, () => BigInt(`0x${digest()}`)),
    wireBytes: new Uint32Array(count).fill(500),
  };
  const { startNs } = model.epoch;
  const body = encodeCapturedQuestion({
    ...{ fromNs: startNs, toNs: startNs + 11n * SECOND_NS, slackNs: 50e6, findOffset: false, packets },
  });
  console.log(`${count} packets of a capture of 10 s, ${body.length} B`);
  await measure("  answered", () => ({ body, type: PACKET_QUESTION_TYPE }), 10);
} finally {
  await collector.stop();
  rmSync(root, { recursive: true, force: true });
}
