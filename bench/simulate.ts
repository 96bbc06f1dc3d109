/**
 * Speed of the simulator in M packets/s on one core: best of several runs of 10 s of the reference traffic (400 kpps), by the hops on the path. With --long
 * also 60 s (24 M packets) with its memory. --levels prints the delays of the reference queue by utilisation.
 *
 *   node scripts/bench.mjs simulate [--long] [--levels]
 */
import { Kernels } from "../src/base/kernels.ts";
import {
  independentFlows,
  referenceQueue,
  referenceTraffic,
  weibullDelays,
} from "../src/simulate/presets.ts";
import type { Hop, Scenario } from "../src/simulate/scenario.ts";
import { simulate } from "../src/simulate/simulate.ts";

const RUNS = 3;
const RATE_BPS = 3e9;
const queue: Hop = { kind: "queue", discipline: "red", rateBps: RATE_BPS };

async function seconds(run: () => Promise<number>): Promise<{ packets: number; best: number }> {
  let best = Number.POSITIVE_INFINITY;
  let packets = 0;
  for (let i = 0; i < RUNS; i++) {
    const start = process.cpuUsage();
    packets = await run();
    const used = process.cpuUsage(start);
    best = Math.min(best, (used.user + used.system) / 1e6);
  }
  return { packets, best };
}

const print = (name: string, { packets, best }: { packets: number; best: number }) =>
  console.log(
    `${name.padEnd(44)} ${(packets / best / 1e6).toFixed(2).padStart(6)} Mpps  (${packets} packets)`,
  );

async function combined(scenario: Scenario): Promise<number> {
  let n = 0;
  for await (const b of simulate(new Kernels(), scenario).combined()) n += b.count;
  return n;
}

async function observed(scenario: Scenario): Promise<number> {
  let n = 0;
  for await (const { point, batch } of simulate(new Kernels(), scenario).observe())
    if (point === "sender") n += batch.count;
  return n;
}

const traffic = referenceTraffic();
const classes = { keys: { classes: [0, 46].map((dscp) => ({ dscp, share: 1 })) } };
const through = (...path: Hop[]): Scenario => ({ traffic, path });
print("traffic alone", await seconds(() => combined(through())));
print("traffic + RED queue", await seconds(() => combined(through(queue))));
print("  both points observed", await seconds(() => observed(through(queue))));
print("  drain rate solved first", await seconds(() => combined(referenceQueue(0.88))));
print("  three queues in a row", await seconds(() => combined(through(queue, queue, queue))));
print("traffic + per-flow delays", await seconds(() => combined(independentFlows())));
print("population + Weibull delays", await seconds(() => combined(weibullDelays({ packets: 4_000_000 }))));
const ecmp: Hop = {
  kind: "paths",
  choose: "flow",
  paths: Array.from({ length: 4 }, () => ({ rateBps: RATE_BPS / 4 })),
};
print("traffic + ECMP over 4, observed", await seconds(() => observed(through(ecmp))));
const strict: Hop = {
  kind: "classes",
  scheduler: "strict",
  rateBps: RATE_BPS,
  classes: [{ dscp: [46] }, {}],
};
print(
  "traffic + strict priorities, combined",
  await seconds(() => combined({ traffic: { ...traffic, ...classes }, path: [strict] })),
);

if (process.argv.includes("--levels")) {
  console.log("\nreference queue, delay in us: utilisation, mean, p99, loss in %; seeds 1 to 5");
  for (const utilisation of [0.23, 0.55, 0.7, 0.88, 0.95]) {
    const cells: string[] = [];
    for (let seed = 1; seed <= 5; seed++) {
      const sim = simulate(new Kernels(), referenceQueue(utilisation, { seed }));
      const delays = new Float64Array((await sim.offered()).packets);
      let n = 0;
      let lost = 0;
      let sum = 0;
      for await (const { delayNs, count } of sim.combined())
        for (let i = 0; i < count; i++) {
          const d = delayNs[i]!;
          if (Number.isNaN(d)) lost++;
          else {
            sum += d;
            delays[n++] = d;
          }
        }
      const sorted = delays.subarray(0, n).sort();
      const p99 = sorted[Math.floor(0.99 * n)]!;
      cells.push(
        `${(sum / n / 1e3).toFixed(2)} / ${(p99 / 1e3).toFixed(1)} / ${((100 * lost) / (n + lost)).toFixed(3)}`,
      );
    }
    console.log(`${utilisation}: ${cells.join("   ")}`);
  }
}

if (process.argv.includes("--long")) {
  const kernels = new Kernels();
  const start = process.cpuUsage();
  let packets = 0;
  let maximum = 0;
  let batches = 0;
  const long: Scenario = { traffic: referenceTraffic({ durationS: 60 }), path: [queue] };
  for await (const { point, batch } of simulate(kernels, long).observe()) {
    if (point === "sender") packets += batch.count;
    if (++batches % 1000 === 0) maximum = Math.max(maximum, process.memoryUsage().rss);
  }
  const used = process.cpuUsage(start);
  print("\n60 s at 400 kpps, both points", { packets, best: (used.user + used.system) / 1e6 });
  console.log(
    `kernel memory ${(kernels.memory.buffer.byteLength / 2 ** 20).toFixed(0)} MB, process at most ${(maximum / 2 ** 20).toFixed(0)} MB (limit 300)`,
  );
  if (maximum > 300 * 2 ** 20) process.exitCode = 1;
}
