/**
 * Several writers in one directory, in pid namespaces of their own if possible, killed or asked to end at any moment: nothing is lost, damaged or counted
 * twice.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { afterAll, describe, expect, it } from "vitest";
import { decodeCells } from "../../tests/support/counting-estimator.ts";
import { rounds } from "../../tests/support/rounds.ts";
import { commonRecord, ownRecord, partRecord } from "../../tests/support/writers-records.ts";
import { Random } from "../base/random.ts";
import { RecordArchive } from "./archive.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-writers-"));
const children: ChildProcess[] = [];
afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(root, { recursive: true, force: true });
});

const WRITERS = 4;
const ROUNDS = rounds(6, 50); // per writer; half of them are killed, half asked to end
const NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child=SIGKILL"];
const namespaces = spawnSync(NAMESPACE[0] ?? "", [...NAMESPACE.slice(1), "true"]).status === 0;
const random = new Random(2026);

interface Life {
  /** Epochs that it reported as stored. */
  stored: number;
  ended: boolean;
}

/** One life of a writer, until a signal some time after it began to write. */
function live(
  script: string,
  directory: string,
  writer: number,
  from: number,
  signal: NodeJS.Signals,
  afterMs: number | null,
): Promise<Life> {
  const node = [process.execPath, script, directory, writer, WRITERS, from, from + 400].map(String);
  // The first process of a namespace has the id 1 there, like those of other namespaces.
  const [command = "", ...args] = namespaces ? [...NAMESPACE, ...node] : node;
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  let [out, err, armed] = ["", "", false];
  child.stderr.on("data", (chunk) => {
    err += chunk;
  });
  child.stdout.on("data", (chunk) => {
    out += chunk;
    if (armed || afterMs === null) return;
    armed = true;
    setTimeout(() => end(child, signal), afterMs);
  });
  return new Promise((resolve, reject) =>
    child.on("close", () => {
      if (err !== "") reject(new Error(err));
      const last = [...out.matchAll(/stored (\d+)\n/g)].at(-1);
      resolve({ stored: last ? Number(last[1]) : from, ended: armed });
    }),
  );
}

/** SIGTERM goes to the writer itself, from outside its namespace; SIGKILL goes to the process that made the namespace, and thereby to everything in it. */
function end(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    const inside =
      namespaces && signal === "SIGTERM"
        ? readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim()
        : "";
    if (inside !== "") process.kill(Number(inside), signal);
    else child.kill(signal);
  } catch {
    // It has already ended.
  }
}

function expectWhole(directory: string, stored: readonly number[]): void {
  const archive = RecordArchive.open(directory);
  const { entries, foreign } = archive.list();
  expect(foreign).toEqual([]);
  const records = new Map(
    entries.map((entry) => {
      const record = archive.readRecord(entry);
      return [`${record.point}/${record.epoch.startNs}`, record];
    }),
  );
  expect(records.size).toBe(entries.length);
  for (const [writer, epochs] of stored.entries()) {
    for (let n = 0; n < epochs; n++) {
      const at = `${commonRecord(n).epoch.startNs}`;
      expect(records.get(`W${writer}/${at}`)).toEqual(ownRecord(n, writer));
      expect(records.get(`common/${at}`)).toEqual(commonRecord(n));
      const shared = records.get(`shared/${at}`);
      const cells = decodeCells({ payload: shared?.payload ?? new Uint8Array(), packets: 0 });
      const part = partRecord(n, writer, WRITERS);
      // Its part is included, and only once.
      expect(cells.get(`${writer}:0`)?.packets).toBe(part.counters.packets);
      expect([...cells.values()].reduce((sum, c) => sum + c.packets, 0)).toBe(shared?.counters.packets);
    }
  }
}

describe("several writers in one directory", () => {
  it("lose, damage and repeat nothing, whenever they are killed or asked to end", async () => {
    const script = join(root, "crash-writers.mjs");
    buildSync({
      entryPoints: [fileURLToPath(new URL("../../tests/support/crash-writers.ts", import.meta.url))],
      bundle: true,
      platform: "node",
      format: "esm",
      outfile: script,
    });
    const directory = join(root, "records");
    const stored = Array<number>(WRITERS).fill(0);
    const hits = { SIGKILL: 0, SIGTERM: 0 };
    const lives = async (writer: number) => {
      for (let round = 0; round < ROUNDS; round++) {
        const signal = round % 2 === 0 ? "SIGKILL" : "SIGTERM";
        const from = stored[writer] ?? 0;
        // Some existing records are stored again.
        const again = Math.max(0, from - 3);
        const life = await live(
          script,
          directory,
          writer,
          again,
          signal,
          1 + Math.floor(60 * random.float()),
        );
        stored[writer] = Math.max(from, life.stored);
        if (life.ended) hits[signal]++;
      }
    };
    await Promise.all(stored.map((_, writer) => lives(writer)));
    for (const n of Object.values(hits))
      expect(n).toBeGreaterThanOrEqual(Math.floor(0.95 * (ROUNDS / 2) * WRITERS));
    expectWhole(directory, stored);
    // The next run of each writer completes what is missing, and then every epoch has every part.
    const most = Math.max(...stored);
    const last = await Promise.all(
      stored.map(async (from, writer) => {
        let at = from;
        while (at < most) at = (await live(script, directory, writer, at, "SIGTERM", null)).stored;
        return at;
      }),
    );
    expectWhole(
      directory,
      last.map((n) => Math.min(n, most)),
    );
    // Leftovers of killed writers are removed later, and are not listed as records.
    expect(readdirSync(join(directory, ".tmp")).length).toBeLessThanOrEqual(4 * hits.SIGKILL);
  });
});
