/**
 * A collector that copies its records to an object store answers questions about packets the same from its directory, from the store alone, and
 * from both.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ObservedRecords, observedRecords, POINTS } from "../../tests/support/collector-records.ts";
import { ObjectServer } from "../../tests/support/object-server.ts";
import { RecordArchive } from "../archive/archive.ts";
import { ObjectStorage } from "../archive/objects/object-storage.ts";
import { Random } from "../base/random.ts";
import { encodeRecord } from "../epoch/record.ts";
import { askPackets } from "../query/packet/ask.ts";
import { askArchive } from "../query/segment/ask.ts";
import { BATCH_TYPE, frameRecord } from "../transport/batch.ts";
import { type RunningServer, startServer } from "./server.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-collect-objects-"));
/** Few check bits: some digests that nobody sent are found by chance, so their delays are read too. */
const ESTIMATORS = ["lda", "maple:k=16,check=4"];
const random = new Random("digests");
const digests = Array.from({ length: 200 }, () =>
  [0, 1]
    .map(() =>
      random
        .below(2 ** 32)
        .toString(16)
        .padStart(8, "0"),
    )
    .join(""),
);
let store: ObjectServer;
let observed: ObservedRecords;
beforeAll(async () => {
  store = await ObjectServer.start("records");
  observed = await observedRecords(ESTIMATORS, { seconds: 4, ratePps: 200 });
}, 60_000);
afterAll(async () => {
  await store?.close();
  rmSync(root, { recursive: true, force: true });
});

const start = (data: string, inStore: boolean): Promise<RunningServer> =>
  startServer({
    ...{ data: join(root, data), listen: "127.0.0.1:0", tickMs: 100 },
    ...(inStore ? { objects: store.place("records", "of/collector") } : {}),
  });

async function post({ url }: RunningServer): Promise<void> {
  // As taps send them: uncompressed, so that parts are read in place.
  const body = new Uint8Array(
    Buffer.concat(observed.records.flatMap((r) => frameRecord(encodeRecord(r, { raw: true })))),
  );
  const headers = { "content-type": BATCH_TYPE };
  expect((await fetch(`${url}/v1/records`, { method: "POST", headers, body })).status).toBe(200);
}

async function packets({ url }: RunningServer): Promise<string> {
  const body = JSON.stringify({ point: POINTS.to, digests });
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${url}/v1/packets`, { method: "POST", headers, body });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return text;
}

async function copied(server: RunningServer): Promise<number> {
  for (let i = 0; i < 600; i++) {
    const { waiting, copied } = server.service.health()["objects"] as { waiting: number; copied: number };
    if (waiting === 0) return copied;
    await sleep(50);
  }
  throw new Error("records wait still");
}

describe("a collector with an object store", () => {
  it("answers about packets that it has no longer as one that has them, and so does the store alone", async () => {
    const before = await start("data", false);
    await post(before);
    const expected = await packets(before);
    expect(JSON.parse(expected).epochs.refused).toEqual([]);
    await before.close();
    // Records from before the store was configured are copied at start.
    const after = await start("data", true);
    expect(await copied(after)).toBe(observed.records.length);
    await post(after);
    expect(await copied(after)).toBe(observed.records.length);
    for (const point of Object.values(POINTS))
      rmSync(join(root, "data", "records", point), { recursive: true });
    expect(await packets(after)).toBe(expected);
    await after.close();
    const storage = new ObjectStorage(store.place("records", "of/collector"));
    const archive = RecordArchive.open(storage.root, storage);
    const alone = await askPackets(archive, { packets: { by: "digest", digests }, point: POINTS.to });
    expect(JSON.parse(JSON.stringify(alone))).toEqual(JSON.parse(expected));
    const segment = askArchive(archive, { between: [POINTS.from, POINTS.to], estimators: ["lda"] });
    expect(segment.epochs.used).toBe(4);
    archive.close();
    storage.close();
  }, 60_000);

  it("refuses to start without its bucket", async () => {
    const objects = { ...store.place("nowhere") };
    const options = { data: join(root, "none"), listen: "127.0.0.1:0", objects };
    await expect(startServer(options)).rejects.toThrow(/^s3:\/\/nowhere at \S+: no bucket 'nowhere'$/);
  });
});
