/** Kill -9 anywhere: what was reported as stored is there and complete, nothing is there in part or twice, and the next run completes it. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { afterAll, describe, expect, it } from "vitest";
import { numberedRecord } from "../../tests/support/numbered-record.ts";
import { RecordArchive } from "./archive.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-crash-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const ROUNDS = 20;
const RECORDS = 300;

describe("a writer that is killed", () => {
  it("loses nothing that it reported, and leaves nothing in part", async () => {
    const script = join(root, "crash-writer.mjs");
    buildSync({
      entryPoints: [fileURLToPath(new URL("../../tests/support/crash-writer.ts", import.meta.url))],
      bundle: true,
      platform: "node",
      format: "esm",
      outfile: script,
    });
    const directory = join(root, "records");
    let random = 12345;
    let killedInside = 0;
    for (let round = 0; round < ROUNDS; round++) {
      random = (Math.imul(random, 1103515245) + 12345) >>> 0;
      // Counted from the first store, so that a slow start of the process does not use up the window.
      const { stored, killed } = await runWriter(script, directory, 1 + ((random >>> 8) % 120));
      if (killed && stored < RECORDS) killedInside++;
      const found = readAll(directory);
      expect(found.size, `round ${round}`).toBeGreaterThanOrEqual(stored);
      for (let n = 0; n < stored; n++) expect(found.has(n), `record ${n} of ${stored} reported`).toBe(true);
    }
    expect(killedInside, "kills that hit the writer at work").toBeGreaterThan(ROUNDS / 3);
    const { stored } = await runWriter(script, directory, null);
    expect(stored).toBe(RECORDS);
    expect([...readAll(directory).keys()].sort((a, b) => a - b)).toEqual(
      Array.from({ length: RECORDS }, (_, n) => n),
    );
    // Temporary files of killed writers are removed later, and never read as records.
    expect(readdirSync(join(directory, ".tmp")).length).toBeLessThanOrEqual(ROUNDS * 8);
  });
});

/** Returns all records by number; fails on one that is damaged, there twice, or different from what was made. */
function readAll(directory: string): Set<number> {
  const archive = RecordArchive.open(directory);
  const { entries, foreign } = archive.list();
  expect(foreign).toEqual([]);
  const found = new Set<number>();
  for (const entry of entries) {
    const record = archive.readRecord(entry);
    const n = record.counters.packets;
    expect(found.has(n)).toBe(false);
    expect(record.payload).toEqual(numberedRecord(n).payload);
    found.add(n);
  }
  return found;
}

function runWriter(
  script: string,
  directory: string,
  killAfterMs: number | null,
): Promise<{ stored: number; killed: boolean }> {
  return new Promise((resolve, reject) => {
    const child: ChildProcess = spawn(process.execPath, [script, directory, String(RECORDS)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let out = "";
    let armed = false;
    child.stdout!.on("data", (chunk: Buffer) => {
      out += chunk.toString();
      if (killAfterMs === null || armed) return;
      armed = true;
      setTimeout(() => child.kill("SIGKILL"), killAfterMs);
    });
    child.on("error", reject);
    child.on("close", (code, signal) => {
      if (code !== 0 && signal !== "SIGKILL") reject(new Error(`the writer ended with ${code}`));
      const last = [...out.matchAll(/stored (\d+)\n/g)].at(-1);
      resolve({ stored: last ? Number(last[1]) : 0, killed: signal === "SIGKILL" });
    });
  });
}
