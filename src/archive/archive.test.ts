import { spawnSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { FIRST_NS, numberedRecord } from "../../tests/support/numbered-record.ts";
import { FormatError, UsageError } from "../base/errors.ts";
import type { EpochRecord } from "../epoch/record.ts";
import { RecordArchive } from "./archive.ts";
import { KnownRecords } from "./known-records.ts";
import { folderName, parseFileName, parseFolderName, recordPath } from "./names.ts";
import { retain } from "./retention.ts";
import type { StoreOutcome } from "./writer.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-archive-"));
let directory = "";
let count = 0;
beforeEach(() => {
  directory = join(root, String(count++), "records");
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

const store = async (records: EpochRecord[], raw = false) =>
  (await RecordArchive.create(directory)).store(records.map((record) => ({ record, options: { raw } })));

describe("names", () => {
  it("become folders and come back, whatever they hold", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 20 }), (name) => {
        const folder = folderName(name);
        expect(folder).toMatch(/^(_|[A-Za-z0-9%-][A-Za-z0-9.%-]*)$/);
        expect(parseFolderName(folder)).toBe(name);
      }),
      { seed: 41 },
    );
  });

  it("of files give the epoch and the role", () => {
    const times = fc.bigInt({ min: -(1n << 62n), max: 1n << 62n });
    const ids = fc.bigInt({ min: 0n, max: (1n << 64n) - 1n });
    fc.assert(
      fc.property(
        times,
        times,
        ids,
        ids,
        fc.constantFrom("aligned", "control", "delimited"),
        (startNs, endNs, a, b, mode) => {
          const aligned = mode === "aligned";
          const bounds = {
            mode,
            startNs,
            endNs,
            startId: aligned ? 0n : a,
            endId: aligned ? 0n : b,
          } as const;
          const record = numberedRecord(1, {
            role: "receiver",
            epoch: { ...bounds, referenceNs: 0n, cutHead: false, cutTail: false },
          });
          expect(parseFileName(recordPath(record).at(-1)!)).toEqual({ role: "receiver", epoch: bounds });
        },
      ),
      { seed: 42 },
    );
  });
});

describe("the archive", () => {
  it("gives back what was stored, for many points in one folder", async () => {
    const records = [0, 1, 2].flatMap((n) =>
      ["A", "B/eth0", "…"].map((point) => numberedRecord(n, { point })),
    );
    expect(await store(records)).toMatchObject({ stored: 9, unchanged: 0 });
    const archive = RecordArchive.open(directory);
    expect(archive.points()).toEqual(["A", "B/eth0", "…"].sort());
    const { entries, foreign } = archive.list();
    expect(foreign).toEqual([]);
    expect(entries.map((e) => archive.readRecord(e))).toEqual(expect.arrayContaining(records));
    expect(entries).toHaveLength(9);
    expect(archive.list({ points: ["B/eth0"] }).entries.map((e) => e.point)).toEqual([
      "B/eth0",
      "B/eth0",
      "B/eth0",
    ]);
    expect(archive.list({ estimators: ["lda"] }).entries).toEqual([]);
  });

  it("is unchanged by the same records again, in one call or many, by whatever program", async () => {
    const records = [0, 1, 2].map((n) => numberedRecord(n));
    await store(records);
    const before = snapshot();
    const again = records.map((r) => ({
      ...r,
      program: "hoptime 99",
      delayError: null,
      counters: { ...r.counters, frames: 0 },
    }));
    expect(await store([...again, ...again])).toMatchObject({
      stored: 0,
      unchanged: 6,
      replaced: 0,
      merged: 0,
      bytes: 0,
    });
    expect(snapshot()).toEqual(before);
    expect(await store([numberedRecord(7), numberedRecord(7)])).toMatchObject({ stored: 1, unchanged: 1 });
  });

  it("names a conflict, keeps what was there, and stores all others", async () => {
    await store([numberedRecord(1)]);
    const other = numberedRecord(1, { seed: 2n });
    const { outcomes, ...counts } = await store([numberedRecord(0), other, numberedRecord(2)]);
    expect(counts).toMatchObject({ stored: 2, unchanged: 0, replaced: 0, merged: 0 });
    expect(outcomes.map((o) => o.outcome)).toEqual(["stored", "refused", "stored"]);
    expect(refusal(outcomes[1])).toMatch(/counting at A, epoch 2023-11-14T22:13:21.*differ in seed/);
    const archive = RecordArchive.open(directory);
    expect(archive.list().entries.map((e) => archive.readRecord(e))).toEqual(
      [0, 1, 2].map((n) => numberedRecord(n)),
    );
  });

  it("takes a longer record of an epoch for one that observation had cut off, never a shorter", async () => {
    const cut = (cutTail: boolean, packets: number, endNs = FIRST_NS + 9n) => {
      const base = numberedRecord(0);
      return {
        ...base,
        counters: { ...base.counters, packets },
        epoch: {
          ...base.epoch,
          mode: "delimited" as const,
          startId: 5n,
          endNs,
          endId: cutTail ? 0n : 6n,
          cutTail,
        },
      };
    };
    await store([cut(true, 10)]);
    expect(await store([cut(false, 20, FIRST_NS + 99n)])).toMatchObject({ stored: 0, replaced: 1 });
    const archive = RecordArchive.open(directory);
    expect(archive.list().entries.map((e) => archive.readRecord(e).counters.packets)).toEqual([20]);
    // The shorter one is part of what is there.
    expect(await store([cut(true, 10)])).toMatchObject({ unchanged: 1, replaced: 0 });
    expect(archive.list().entries.map((e) => archive.readRecord(e).counters.packets)).toEqual([20]);
  });

  it("keeps epochs of two lengths beside each other where they begin together", async () => {
    const lasting = (lengthNs: bigint, packets: number) => {
      const base = numberedRecord(0);
      const spans = [{ firstNs: FIRST_NS + 1n, lastNs: FIRST_NS + lengthNs - 1n, packets }];
      const counters = { ...base.counters, packets };
      return {
        ...base,
        spans,
        counters,
        epoch: { ...base.epoch, endNs: FIRST_NS + lengthNs, cutHead: true },
      };
    };
    const [short, long] = [lasting(1_000_000_000n, 10), lasting(2_000_000_000n, 20)];
    await store([short]);
    expect(await store([long])).toMatchObject({ stored: 1, replaced: 0 });
    expect(await store([short])).toMatchObject({ stored: 0, unchanged: 1 });
    const archive = RecordArchive.open(directory);
    expect(archive.list().entries.map((e) => archive.readRecord(e).counters.packets)).toEqual([10, 20]);
  });

  it("names what is damaged or foreign, and answers with the rest", async () => {
    await store([0, 1, 2, 3].map((n) => numberedRecord(n)));
    const archive = RecordArchive.open(directory);
    const { entries } = archive.list();
    truncateSync(entries[0]!.file, 50);
    const bytes = readFileSync(entries[1]!.file);
    bytes[bytes.length - 9]! ^= 4;
    writeFileSync(entries[1]!.file, bytes);
    writeFileSync(entries[2]!.file, readFileSync(entries[3]!.file));
    const foreignFile = join(dirname(entries[0]!.file), "notes.txt");
    writeFileSync(foreignFile, "hello");
    mkdirSync(join(directory, "not%a-folder"));
    const listed = archive.list();
    expect(listed.foreign.sort()).toEqual([foreignFile, join(directory, "not%a-folder")].sort());
    const outcome = listed.entries.map((e) => {
      try {
        return archive.readRecord(e).counters.packets;
      } catch (error) {
        expect(error).toBeInstanceOf(FormatError);
        return (error as FormatError).message.replace(`${e.file}: `, "");
      }
    });
    expect(outcome[0]).toMatch(/at byte 50: .*cut within its head/);
    expect(outcome[1]).toMatch(/record is damaged/);
    expect(outcome[2]).toMatch(/belongs at A\/_\/counting/);
    expect(outcome[3]).toBe(3);
    rmSync(entries[3]!.file);
    expect(() => archive.readRecord(entries[3]!)).toThrow(/no longer there/);
    // Observing again repairs damaged records; a complete record of something else must not be removed.
    expect(await store([0, 1, 3].map((n) => numberedRecord(n)))).toMatchObject({ stored: 1, replaced: 2 });
    expect(refusal((await store([numberedRecord(2)])).outcomes[0])).toMatch(/differ in epoch/);
  });

  it("lists the epochs of a time range as a look at all of them does", async () => {
    const lengths = [1, 2, 1800, 3600, 9000, 100_000, 3, 50_000, 1];
    let at = FIRST_NS;
    const records = lengths.map((seconds) => {
      const startNs = at;
      at += BigInt(seconds) * 1_000_000_000n;
      const base = numberedRecord(1);
      return { ...base, epoch: { ...base.epoch, startNs, endNs: at, referenceNs: startNs } };
    });
    await store(records);
    const archive = RecordArchive.open(directory);
    const instant = fc.bigInt({ min: FIRST_NS - 10n ** 12n, max: at + 10n ** 12n });
    fc.assert(
      fc.property(
        fc.option(instant, { nil: undefined }),
        fc.option(instant, { nil: undefined }),
        (fromNs, toNs) => {
          const expected = records
            .map((r) => r.epoch)
            .filter(
              (e) => (fromNs === undefined || e.endNs > fromNs) && (toNs === undefined || e.startNs < toNs),
            )
            .map((e) => e.startNs);
          expect(archive.list({ fromNs, toNs }).entries.map((e) => e.epoch.startNs)).toEqual(expected);
        },
      ),
      { numRuns: 200, seed: 43 },
    );
  });

  it("reads an archive of version 1, whose records lie in the folders of their hours, and stores beside them", async () => {
    const old = [0, 1, 700, 3600].map((n) => numberedRecord(n));
    await store(old);
    for (const { file } of RecordArchive.open(directory).list().entries) {
      renameSync(file, join(dirname(dirname(file)), basename(file)));
    }
    writeFileSync(join(directory, "archive.json"), '{"format":"hoptime.archive/1"}');
    // Existing records are found; new ones go to folders of ten minutes.
    expect(await store([...old, numberedRecord(2)])).toMatchObject({ stored: 1, unchanged: 4 });
    expect(readFileSync(join(directory, "archive.json"), "utf8")).toContain("hoptime.archive/2");
    const archive = RecordArchive.open(directory);
    const all = archive.list();
    expect(all.foreign).toEqual([]);
    expect(all.entries.map((e) => e.epoch.startNs)).toEqual(
      [0, 1, 2, 700, 3600].map((n) => numberedRecord(n).epoch.startNs),
    );
    for (const entry of all.entries) {
      const { startNs, endNs } = entry.epoch;
      expect(archive.readRecord(entry).epoch.startNs).toBe(startNs);
      expect(archive.list({ fromNs: startNs, toNs: endNs }).entries).toEqual([entry]);
    }
  });

  it("reads heads and parts of payloads without the rest", async () => {
    await store(
      [0, 1, 2].map((n) => numberedRecord(n)),
      true,
    );
    const archive = RecordArchive.open(directory);
    for (const entry of archive.list().entries) {
      const record = archive.readRecord(entry);
      const { head, layout } = archive.readHead(entry);
      expect({ ...head, payload: record.payload }).toEqual(record);
      expect(layout).toMatchObject({ packed: false, storedBytes: record.payload.length });
      expect(archive.readPayloadRange(entry, 10, 64)).toEqual(record.payload.slice(10, 74));
      expect(archive.readPayloadRange(entry, 0, 0)).toEqual(new Uint8Array(0));
      expect(() => archive.readPayloadRange(entry, 90, 100)).toThrow(RangeError);
    }
    archive.close();
    await store([numberedRecord(9, { payload: new Uint8Array(5000) })]);
    const packed = archive.list().entries.at(-1)!;
    expect(() => archive.readPayloadRange(packed, 0, 1)).toThrow(/packed/);
    archive.close();
  });

  it("keeps no more than it may: the oldest go, and their folders", async () => {
    const hours = [0, 1, 2, 3].flatMap((h) => [0, 1].map((n) => numberedRecord(h * 3600 + n)));
    await store(hours);
    const archive = RecordArchive.open(directory);
    const bytes = (files: string[]) => files.reduce((sum, f) => sum + readFileSync(f).length, 0);
    const olderThanNs = FIRST_NS + 3600n * 1_000_000_000n;
    expect(retain(directory, { olderThanNs })).toMatchObject({ removed: 2 });
    const left = archive.list().entries.map((e) => e.file);
    expect(left).toHaveLength(6);
    expect(readdirSync(join(directory, "A", "_", "counting", "2023-11-14"))).toEqual(["23"]);
    const maxBytes = bytes(left.slice(-3));
    expect(retain(directory, { maxBytes })).toMatchObject({ removed: 3, keptBytes: maxBytes });
    expect(archive.list().entries.map((e) => e.file)).toEqual(left.slice(-3));
    expect(retain(directory, { maxBytes: 0 })).toMatchObject({ removed: 3 });
    expect(archive.points()).toEqual([]);
  });

  it("keeps each point for itself, and no wild timestamp moves its clock", async () => {
    const point = (name: string, n: number) => numberedRecord(n, { point: name });
    const far = 3 * 365 * 86_400;
    await store([
      ...Array.from({ length: 30 }, (_, n) => point("A", n)),
      ...[far, far + 1].map((n) => point("A", n)),
      ...Array.from({ length: 5 }, (_, n) => point("B", n)),
    ]);
    const keepNs = 7n * 86_400n * 1_000_000_000n;
    expect(retain(directory, { keepNs }, { points: ["A"] })).toMatchObject({ removed: 0 });
    expect(retain(directory, { keepNs: 10n * 1_000_000_000n }, { points: ["A"] })).toMatchObject({
      removed: 20 - 1,
    });
    const archive = RecordArchive.open(directory);
    expect(archive.list({ points: ["B"] }).entries).toHaveLength(5);
    expect(archive.list({ points: ["A"] }).entries).toHaveLength(13);
    // If the far ones continue, they set the time.
    await store(Array.from({ length: 12 }, (_, n) => point("A", far + n)));
    expect(retain(directory, { keepNs }, { points: ["A"] })).toMatchObject({ removed: 11 });
    expect(retain(directory, { maxBytes: 0 }, { points: ["A"] })).toMatchObject({ removed: 12 });
    expect(archive.points()).toEqual(["B"]);
  });

  it("is not held up by what is no file, and remembers no more than it may", async () => {
    await store([0, 1].map((n) => numberedRecord(n)));
    const archive = RecordArchive.open(directory);
    const [entry] = archive.list().entries;
    if (!entry) throw new Error("there is no record");
    rmSync(entry.file);
    if (spawnSync("mkfifo", [entry.file]).status === 0) {
      expect(() => archive.readRecord(entry)).toThrow(/not a regular file/);
      expect(() => archive.readHead(entry)).toThrow(/not a regular file/);
      rmSync(entry.file);
    }
    mkdirSync(entry.file);
    expect(() => archive.readRecord(entry)).toThrow(FormatError);
    const known = new KnownRecords(100);
    for (let folder = 0; folder < 50; folder++)
      for (let n = 0; n < 30; n++) known.add(join(root, `no-${folder}`), numberedRecord(n), "file");
    expect(known.size).toBeLessThanOrEqual(100);
    expect(known.find(join(root, "no-49"), numberedRecord(7))).toBe("file");
  });

  it("knows in turn of more folders than it remembers files of: what is later than all is not looked for", () => {
    const folders = Array.from({ length: 20 }, (_, i) => join(root, `turn-${i}`));
    for (const folder of folders) mkdirSync(folder, { recursive: true });
    const nameOf = (n: number) => recordPath(numberedRecord(n)).at(-1) ?? "";
    const known = new KnownRecords(10);
    for (let n = 0; n < 5; n++)
      for (const folder of folders) {
        expect(known.find(folder, numberedRecord(n))).toBeUndefined();
        writeFileSync(join(folder, nameOf(n)), "");
        known.add(folder, numberedRecord(n), join(folder, nameOf(n)));
      }
    expect(known.size).toBeLessThanOrEqual(10);
    const [first = ""] = folders;
    expect(known.has(first)).toBe(false);
    expect(known.find(first, numberedRecord(5))).toBeUndefined();
    expect(known.has(first)).toBe(false);
    // A record that is not later is looked up.
    expect(known.find(first, numberedRecord(2))).toBe(join(first, nameOf(2)));
    expect(known.has(first)).toBe(true);
  });

  it("refuses a directory that is missing, no archive, or of another format", async () => {
    expect(() => RecordArchive.open(join(root, "nowhere"))).toThrow(/no such directory/);
    await store([numberedRecord(0)]);
    // A collector's folder has its records one level further down; any other folder has none, whatever it contains.
    expect(() => RecordArchive.open(dirname(directory))).toThrow(
      expect.objectContaining({ hint: `the records are in ${directory}` }),
    );
    mkdirSync(join(root, "a", "b", "c", "d"), { recursive: true });
    expect(() => RecordArchive.open(join(root, "a"))).toThrow(/contains no records of hoptime/);
    // A part that was copied without the marker is still an archive.
    rmSync(join(directory, "archive.json"));
    expect(RecordArchive.open(directory).list().entries).toHaveLength(1);
    writeFileSync(join(directory, "archive.json"), '{"format":"hoptime.archive/3"}');
    expect(() => RecordArchive.open(directory)).toThrow(/hoptime.archive\/3/);
    await expect(RecordArchive.create(directory)).rejects.toThrow(UsageError);
  });
});

function refusal(outcome: StoreOutcome | undefined): string {
  return outcome?.outcome === "refused" ? outcome.reason.message : "";
}

/** Every file with its content. */
function snapshot(): Record<string, string> {
  const out: Record<string, string> = {};
  for (const name of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    const path = join(name.parentPath, name.name);
    if (name.isFile()) out[path] = readFileSync(path, "hex");
  }
  return out;
}
