// An archive is a directory of plain files: it is listed without opening any, read record by record, merged by copying, and limited by age or size.
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FormatError, observePoint, RecordArchive, retain, UsageError } from "hoptime";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-example-"));
const [site1, site2] = [join(scratch, "site1"), join(scratch, "site2")];
const cut = { mode: "aligned", lengthNs: 100_000_000n };
const estimators = ["lda"];
await observePoint({ files: ["demo/router-in.pcap.gz"], point: "in", directory: site1, estimators, cut });
await observePoint({ files: ["demo/router-out.pcap.gz"], point: "out", directory: site2, estimators, cut });

// Records of two sites in one directory: names do not collide, and no index has to be rebuilt.
cpSync(site2, site1, { recursive: true });
const archive = RecordArchive.open(site1);
for (const point of archive.points()) {
  const { entries } = archive.list({ points: [point] });
  let packets = 0;
  for (const entry of entries) {
    try {
      packets += archive.readHead(entry).head.counters.packets;
    } catch (error) {
      // A damaged record has its own error: file, offset and reason.
      if (!(error instanceof FormatError)) throw error;
      console.log(`${error.file}: byte ${error.offset}: ${error.code}`);
    }
  }
  console.log(`${point}: ${entries.length} records, ${packets} packets`);
}
archive.close();

const { removed } = retain(site1, { keepNs: 300_000_000n }, { points: ["in"] });
console.log(`${removed} records of 'in' removed, older than 300 ms before its newest`);

try {
  RecordArchive.open(scratch);
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.log(`${error.code}; ${error.hint}`);
}
rmSync(scratch, { recursive: true });

/* Prints:
in: 7 records, 6664 packets
out: 7 records, 6330 packets
3 records of 'in' removed, older than 300 ms before its newest
no-such-file; give a directory that hoptime observe has written
*/
