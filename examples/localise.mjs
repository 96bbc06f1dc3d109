// Captures at four points of a path: the share of each segment in delay and loss.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exportSimulation, Kernels, localiseCaptures } from "hoptime";

// Two queues with a long link between them, and bursts of loss behind the second point.
const folder = mkdtempSync(join(tmpdir(), "hoptime-example-"));
await exportSimulation(
  new Kernels(),
  {
    seed: 3,
    traffic: { kind: "synthetic", ratePps: 4000, durationS: 5 },
    path: [
      { kind: "queue", utilisation: 0.3, point: "r1" },
      { kind: "delay", model: { kind: "constant", ns: 2_000_000 }, point: "r2" },
      { kind: "loss", model: "bursts", probability: 0.02, meanBurst: 100 },
      { kind: "queue", utilisation: 0.3 },
    ],
  },
  folder,
);

const { localisation } = await localiseCaptures({
  files: ["sender", "r1", "r2", "receiver"].map((point) => join(folder, `${point}.pcap`)),
  epochNs: 250e6,
});
rmSync(folder, { recursive: true });

for (const { from, to, latency, share, lost } of localisation.segments)
  console.log(
    `${from} → ${to}: ${(latency.meanNs / 1e6).toFixed(2)} ms, ${Math.round(100 * share)} % of the path, ${lost} lost`,
  );
const { latency } = localisation.endToEnd;
console.log(`end to end ${(latency.meanNs / 1e6).toFixed(2)} ms`);

/* Prints:
sender → r1: 0.44 ms, 17 % of the path, 0 lost
r1 → r2: 2.00 ms, 79 % of the path, 0 lost
r2 → receiver: 0.10 ms, 4 % of the path, 190 lost
end to end 2.54 ms
*/
