/** Records from the network: epochs the sender's token permits are accepted, others are refused by name. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { numberedRecord } from "../../tests/support/numbered-record.ts";
import { RecordArchive } from "../archive/archive.ts";
import { geometryFingerprint } from "../epoch/compatible.ts";
import { type EpochBounds, type EpochRecord, encodeRecord } from "../epoch/record.ts";
import { formatParameters, parseParameters } from "../estimators/parameters.ts";
import { ESTIMATORS, findEstimator } from "../estimators/table.ts";
import { frameRecord } from "../transport/batch.ts";
import { Ingest } from "./ingest.ts";

const directory = mkdtempSync(join(tmpdir(), "hoptime-ingest-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const START = 1_700_000_000_000_000_000n;
const lda = findEstimator("lda");

function record(epoch: Partial<EpochBounds>, change: Partial<EpochRecord> = {}): EpochRecord {
  const made = numberedRecord(0, {
    estimator: lda.name,
    payloadVersion: lda.version,
    parameters: formatParameters(lda, parseParameters(lda), true),
    payload: new Uint8Array(0),
    epoch: {
      ...{ mode: "control", startNs: START, endNs: START, referenceNs: START },
      ...{ startId: 7n, endId: 7n, cutHead: false, cutTail: false, ...epoch },
    },
    ...change,
  });
  return { ...made, fingerprint: geometryFingerprint(made) };
}

test.each<[string, EpochRecord, string]>([
  ["a void control epoch, which takes no time", record({}, { void: "End 7 was not seen" }), "stored"],
  ["an epoch between two delimiters of one timestamp", record({ mode: "delimited", endId: 8n }), "stored"],
  ["an aligned epoch without length", record({ mode: "aligned", startId: 0n, endId: 0n }), "refused"],
  ["an epoch that ends before it starts", record({ endNs: START - 1n }), "refused"],
  ["an epoch of more than a day", record({ endNs: START + 86_400_000_000_001n }), "refused"],
])("%s", async (_, given, outcome) => {
  const archive = await RecordArchive.create(directory);
  try {
    const { results } = await new Ingest(archive, ESTIMATORS).take(
      Buffer.concat(frameRecord(encodeRecord(given))),
      null,
    );
    expect(results).toMatchObject([{ outcome }]);
  } finally {
    archive.close();
  }
});
