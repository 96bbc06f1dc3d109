// Two points observed separately, then queried together; only the records on disk are needed.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { askArchive, observePoint, RecordArchive } from "hoptime";

const directory = mkdtempSync(join(tmpdir(), "hoptime-example-"));
for (const [point, file] of [
  ["in", "demo/router-in.pcap.gz"],
  ["out", "demo/router-out.pcap.gz"],
])
  await observePoint({
    files: [file],
    point,
    directory,
    estimators: ["lda", "lds"],
    cut: { mode: "aligned", lengthNs: 100_000_000n },
  });

const archive = RecordArchive.open(directory);
const { estimates, groups } = askArchive(archive, { between: ["in", "out"], top: 2 });
archive.close();
const ms = (ns) => (ns / 1e6).toFixed(1);
for (const [name, { latency, lost, answered }] of Object.entries(estimates))
  console.log(
    `${name}: ${ms(latency.meanNs)} ms (${ms(latency.lowNs)} to ${ms(latency.highNs)}), ${lost} lost, ${(100 * answered.share).toFixed(0)} % answered`,
  );
for (const { text, packets, latency } of groups)
  console.log(`${text}: ${packets} packets, ${ms(latency.meanNs)} ms`);
rmSync(directory, { recursive: true });

/* Prints:
lda: 18.4 ms (18.2 to 18.6), 334 lost, 100 % answered
lds: 18.4 ms (17.9 to 18.8), 334 lost, 100 % answered
udp 198.18.1.7:43114 > 198.18.2.2:5202: 3500 packets, 18.3 ms
tcp 198.18.1.1:55506 > 198.18.2.2:5201: 546 packets, 18.3 ms
*/
