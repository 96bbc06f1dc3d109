/**
 * COLATE compared with the true delays, on the reference traffic (10 s, 400 kpps, heavy-tailed flows): the rows of docs/estimators/colate.md.
 *
 *   node scripts/bench.mjs colate [accuracy] [seeds] [partial] [literal] [triangle] [calibration] [router]    all if none is named
 *
 * accuracy:     errors of flows by size, coverage of the intervals, bits per packet of a record on disk; all flows known, with and without loss, and through a
 *               queue.
 * seeds:        the same geometry with seeds 11 to 15, which were not used for tuning.
 * partial:      only flows of at least 10, or at least 100, packets are known.
 * literal:      the method as published, on the same packets.
 * triangle:     three points that all send to each other (section 6.2), with and without one vector per peer.
 * calibration:  coverage of 95 % intervals over twenty seeds, with the default geometry.
 * router:       a real router with 5 % loss (HOPTIME_SHARED), over seeds and counters per flow.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Kernels } from "../src/base/kernels.ts";
import { encodeRecord } from "../src/epoch/record.ts";
import {
  asPublished,
  COLATE_SEED,
  type ColateAccuracy,
  colateAccuracy,
  colateCalibration,
  partlyKnown,
} from "../src/evaluate/colate-experiments.ts";
import { colateOnRouter, type Tally } from "../src/evaluate/colate-router.ts";
import { runTriangle } from "../src/evaluate/colate-triangle.ts";
import { independentFlows, referenceQueue } from "../src/simulate/presets.ts";
import type { Scenario } from "../src/simulate/scenario.ts";
import { numberedRecord } from "../tests/support/numbered-record.ts";

const parts = process.argv.slice(2);
const wants = (part: string) => parts.length === 0 || parts.includes(part);
const kernels = new Kernels();
const percent = (x: number, digits = 2) => (Number.isNaN(x) ? "–" : `${(100 * x).toFixed(digits)} %`);

/** Bits per packet of the sender's record as the archive would write it. */
function bitsOnDisk({ senderPayload, packets }: ColateAccuracy): number {
  const record = numberedRecord(1);
  const counters = { ...record.counters, packets };
  const bytes = encodeRecord({ ...record, estimator: "colate", payload: senderPayload, counters }).length;
  return (8 * bytes) / packets;
}

async function accuracy(name: string, scenario: Scenario, texts: readonly string[]): Promise<void> {
  const rows = await colateAccuracy(kernels, scenario, texts, [
    [100, 999],
    [1000, 9999],
    [10_000, Number.POSITIVE_INFINITY],
  ]);
  for (const row of rows) {
    const cells = row.scores.map((s) =>
      `${percent(s.median)} / ${percent(s.within5, 0)} / ${percent(s.inInterval, 0)}${s.answered < s.flows ? ` (${s.answered} of ${s.flows})` : ""}`.padEnd(
        36,
      ),
    );
    console.log(
      `${name.padEnd(22)} ${row.text.replace(BITS, "").padEnd(24)} ${bitsOnDisk(row).toFixed(2)}  ${cells.join(" ")}`,
    );
  }
}

/** 26 bits of 256 ns: 8.6 s of delays in a counter. */
const BITS = ",check=0,b=26,unit=256,delay=1e6";

if (wants("accuracy")) {
  console.log(
    "median error / within 5 % / in the 95 % interval, by packets of the flow; bit: of a record on disk, per packet",
  );
  console.log(
    `${"traffic".padEnd(22)} ${"parameters".padEnd(24)} bit   ${["100-999", "1k-10k", ">= 10k"].map((t) => t.padEnd(36)).join(" ")}`,
  );
  const one = [16_384, 65_536, 262_144].map((n) => `n=${n},m=2,vectors=1${BITS}`);
  await accuracy("independent", independentFlows(), [...one, `n=65536,m=2${BITS}`]);
  for (const seed of [1, 2, 3])
    await accuracy(`queue 88 %, seed ${seed}`, referenceQueue(0.88, { seed }), [one[1]!]);
  for (const probability of [0.001, 0.01]) {
    const loss = { kind: "loss", model: "uniform", probability } as const;
    await accuracy(`loss ${100 * probability} %`, independentFlows({ loss }), [
      `n=65536,m=2${BITS}`,
      `n=65536,m=8${BITS}`,
    ]);
  }
}

if (wants("seeds")) {
  console.log("\nother seeds, 65,536 counters, m = 2, one vector");
  for (const seed of [11, 12, 13, 14, 15]) {
    await accuracy(`independent, seed ${seed}`, independentFlows({ seed }), [`n=65536,m=2,vectors=1${BITS}`]);
  }
}

if (wants("partial")) {
  console.log(
    "\npart of the flows known, 65,536 counters, m = 2, one vector: median error / in the 95 % interval, 1k-10k packets",
  );
  for (const [name, scenario] of [
    ["independent", independentFlows({ seed: 11 })],
    ["queue 88 %", referenceQueue(0.88, { seed: 11 })],
  ] as const) {
    for (const { minimum, scores } of await partlyKnown(
      kernels,
      scenario,
      "n=65536,m=2,vectors=1",
      [10, 100],
    )) {
      const cells = scores.map(
        ({ decoder, score }) =>
          `${decoder} ${percent(score?.median ?? Number.NaN)} / ${percent(score?.inInterval ?? Number.NaN, 0)}`,
      );
      console.log(`${name.padEnd(14)} flows >= ${minimum} packets: ${cells.join(", ")}`);
    }
  }
}

if (wants("literal")) {
  console.log(
    "\nthe method as published, 65,536 counters, flows of 1,000 to 10,000 packets: median error of the mean, of the deviation",
  );
  for (const [name, scenario] of [
    ["independent", independentFlows()],
    ["queue 70 %", referenceQueue(0.7)],
    ["queue 88 %", referenceQueue(0.88)],
  ] as const) {
    const found = await asPublished(kernels, scenario);
    console.log(
      `${name.padEnd(14)} published: mean off by ${times(found.publishedMean)}, deviation by ${times(found.publishedDeviation)}; ${percent(found.publishedInside, 0)} in its 95 % intervals`,
    );
    console.log(
      `${"".padEnd(14)} ours, one flow at a time: ${percent(found.oneByOne)}; all flows together: ${percent(found.together)}`,
    );
  }
}

if (wants("triangle")) {
  console.log(
    "\nthe triangle: 400 k packets from A to B, as many from A to C and from C to B; flows of 500 packets and more",
  );
  for (const [name, t] of Object.entries(await runTriangle(kernels, COLATE_SEED))) {
    console.log(
      `${name.padEnd(38)} coverage ${percent(t.coverage, 1)}, answered ${percent(t.answered, 0)}, median error ${percent(t.median)}, ${t.memoryBytes >> 10} KiB kept and ${t.payloadBytes >> 10} KiB sent for two peers`,
    );
  }
}

if (wants("calibration")) {
  console.log(
    "\nthe default geometry in a tenth (n=6554, m=8, four vectors, 1 s), seeds 101 to 120: flows of 30 packets and more, exact mean in the 95 % interval",
  );
  const text = "n=6554";
  for (const [name, scenario] of [
    ["independent", (seed: number) => independentFlows({ seed, traffic: { durationS: 1 } })],
    ["queue 88 %", (seed: number) => referenceQueue(0.88, { seed, traffic: { durationS: 1 } })],
  ] as const) {
    const seeds = Array.from({ length: 20 }, (_, i) => 101 + i);
    const { held, answered, shares } = await colateCalibration(kernels, scenario, text, seeds);
    console.log(
      `${name.padEnd(14)} ${percent(held / answered, 1)} of ${answered} answers; by seed ${percent(Math.min(...shares), 1)} to ${percent(Math.max(...shares), 1)}`,
    );
  }
}

if (wants("router")) {
  const folder = join(
    process.env["HOPTIME_SHARED"] ?? join(process.cwd(), "..", "shared"),
    "traces/twopoint/linux-router",
  );
  if (!existsSync(folder)) console.log(`\nrouter: ${folder} is not there (HOPTIME_SHARED)`);
  else {
    console.log(
      "\na router that lost 5 %, seeds 1000 to 1039: flows of 30 packets and more, and the six largest; exact means in the 95 % intervals, mean error, mean half width",
    );
    for (const text of ["", "m=2", "m=8", "m=16", "m=32", "m=64"]) await router(folder, text, 40);
  }
}

async function router(folder: string, text: string, seeds: number): Promise<void> {
  const captures = {
    before: join(folder, "router-busy-in.pcap.gz"),
    after: join(folder, "router-busy-out.pcap.gz"),
  };
  const all = Array.from({ length: seeds }, (_, i) => 1000 + i);
  const found = await colateOnRouter(captures, text, all);
  const tell = ({ asked, answered, held, error, half }: Tally) =>
    `${held} of ${answered} answered (of ${asked}), ${percent(held / answered, 1)}, error ${percent(error / answered)}, half ${percent(half / answered)}`;
  console.log(
    `${(text || "default").padEnd(8)} all: ${tell(found.all)}; six: ${tell(found.six)}; all six at ${found.whole} of ${seeds} seeds; the segment's mean at ${found.segment}`,
  );
}

function times(x: number): string {
  return `${x.toPrecision(2)} times`;
}
