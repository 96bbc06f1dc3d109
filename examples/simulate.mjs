// A simulated link with known true delays, per packet, and captures of both ends to test a tool.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compareCaptures, exportSimulation, Kernels, simulate } from "hoptime";

const scenario = {
  seed: 7,
  traffic: { kind: "synthetic", ratePps: 5000, durationS: 2 },
  path: [
    { kind: "queue", utilisation: 0.8 },
    { kind: "loss", model: "uniform", probability: 0.01 },
  ],
};
const kernels = new Kernels();

// The true delays, packet by packet, in memory.
let sent = 0;
let lost = 0;
for await (const packet of simulate(kernels, scenario).packets()) {
  sent++;
  if (packet.delayNs === null) lost++;
}
console.log(`truth: ${sent} sent, ${lost} lost`);

// The same packets as captures of the two ends.
const folder = mkdtempSync(join(tmpdir(), "hoptime-example-"));
await exportSimulation(kernels, scenario, folder);
console.log(readdirSync(folder).sort().join(" "));
const { segment } = await compareCaptures({
  before: join(folder, "sender.pcap"),
  after: join(folder, "receiver.pcap"),
});
console.log(`compared: ${segment.sent} sent, ${segment.lost + segment.tail} lost or under way at the end`);
rmSync(folder, { recursive: true });

/* Prints:
truth: 10096 sent, 91 lost
receiver.pcap sender.pcap truth.json
compared: 10096 sent, 91 lost or under way at the end
*/
