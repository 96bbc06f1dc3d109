// Two captures of the same packets, before and after a router: delay, loss, and the most delayed flows.
import { fileURLToPath } from "node:url";
import { compareCaptures } from "hoptime";

const capture = (name) => fileURLToPath(new URL(`../demo/${name}`, import.meta.url));

const report = await compareCaptures({
  before: capture("router-in.pcap.gz"),
  after: capture("router-out.pcap.gz"),
  flows: { top: 3, sort: "mean" },
});

const { segment } = report;
const ms = (ns) => `${(ns / 1e6).toFixed(1)} ms`;
console.log(`${segment.sent} packets sent, ${segment.lost} lost (${(100 * segment.lossRate).toFixed(1)} %)`);
// A latency is null if no packet matched.
if (segment.latency) console.log(`mean ${ms(segment.latency.meanNs)}, p99 ${ms(segment.latency.p99Ns)}`);
for (const { key, matched, latency } of report.flows)
  if (latency) console.log(`${key.src} > ${key.dst}: ${matched} packets, mean ${ms(latency.meanNs)}`);

/* Prints:
6664 packets sent, 320 lost (4.9 %)
mean 18.6 ms, p99 22.0 ms
198.18.1.16 > 198.18.2.2: 187 packets, mean 20.0 ms
198.18.1.20 > 198.18.2.2: 17 packets, mean 19.5 ms
198.18.1.21 > 198.18.2.2: 139 packets, mean 19.4 ms
*/
