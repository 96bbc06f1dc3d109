// A point is observed as a stream: a source of packets, a tap per estimator, a sink for the records of every epoch. Here the source is captures and the sink is
// a directory; your own program can use its own sink (put, flush, close), and stop the observation with an AbortSignal.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  DirectorySink,
  ESTIMATORS,
  FlowKeySpec,
  Kernels,
  observe,
  openCaptures,
  parseParameters,
  RecordArchive,
} from "hoptime";

const directory = join(mkdtempSync(join(tmpdir(), "hoptime-example-")), "records");
const ending = new AbortController();
process.once("SIGINT", () => ending.abort());

for (const [point, file] of [
  ["A", "demo/router-in.pcap.gz"],
  ["B", "demo/router-out.pcap.gz"],
]) {
  const kernels = new Kernels();
  // Must be the same at both points: cover of the digest, flow key, and epochs.
  const alike = { cover: 64, seed: 1n };
  const source = openCaptures(kernels, [file], { capture: alike, signal: ending.signal });
  const sink = new DirectorySink({ directory, point });
  const lda = ESTIMATORS.find((e) => e.name === "lda");
  const { records, epochs, lanes } = await observe({
    ...alike,
    kernels,
    source,
    sink,
    point,
    lanes: [{ segment: "", role: "both", filter: "" }],
    taps: [{ estimator: lda, parameters: parseParameters(lda) }],
    cut: { mode: "aligned", lengthNs: 100_000_000n },
    key: FlowKeySpec.parse("5tuple"),
  });
  await sink.close();
  console.log(`${point}: ${lanes[0].packets} packets in ${epochs} epochs, ${records.stored} records stored`);
}

const archive = RecordArchive.open(directory);
const [first] = archive.list({ points: ["A"] }).entries;
const { counters, epoch } = archive.readRecord(first);
console.log(`the first of A begins at ${epoch.startNs} and holds ${counters.packets} packets`);
rmSync(directory, { recursive: true });

/* Prints:
A: 6664 packets in 7 epochs, 7 records stored
B: 6330 packets in 7 epochs, 7 records stored
the first of A begins at 1794712132900000000 and holds 932 packets
*/
