// Records of two points as they arrive: paired, estimated once; records without a partner are listed. They come from a directory here, but any stream of
// records works.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { archiveRecords, collect, observePoint, RecordArchive } from "hoptime";

const directory = mkdtempSync(join(tmpdir(), "hoptime-example-"));
const observe = (point, file) =>
  observePoint({
    files: [file],
    point,
    directory,
    estimators: ["lda"],
    cut: { mode: "aligned", lengthNs: 100_000_000n },
  });
await observe("in", "demo/router-in.pcap.gz");

// The directory is followed until the signal; the other point's records arrive in the meantime.
const control = new AbortController();
const { signal } = control;
const archive = RecordArchive.open(directory);
const records = archiveRecords(archive, { followMs: 20, signal });
const observed = setTimeout(50).then(() => observe("out", "demo/router-out.pcap.gz"));

let estimates = 0;
const segments = [{ from: "in", to: "out", label: "" }];
for await (const event of collect(records, { segments, signal })) {
  if (event.kind !== "estimate") continue;
  const { mean, received } = event.estimate.answer.segment;
  if (estimates++ === 0)
    console.log(`first epoch: ${received} packets, ${(mean.valueNs / 1000).toFixed(0)} us`);
  if (estimates === 4) control.abort();
}
console.log(`${estimates} epochs`);
archive.close();
// The other point may still be storing its last records.
await observed;
rmSync(directory, { recursive: true });

/* Prints:
first epoch: 855 packets, 18502 us
4 epochs
*/
