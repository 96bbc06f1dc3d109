/** The scenario of the README: simulated captures of a chain of points and the blamed segments; and typical mistakes of a new user. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Kernels } from "../../src/base/kernels.ts";
import { localisationJson, localiseCaptures } from "../../src/network/localise/from-captures.ts";
import { localiseRecords } from "../../src/network/localise/from-records.ts";
import { observePoint } from "../../src/observe/observe-point.ts";
import { exportSimulation } from "../../src/simulate/export.ts";
import { readScenario } from "../../src/simulate/scenario-text.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-chain-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const names = ["sender", "r1", "r2", "r3", "receiver"];
const at = (name: string) => join(scratch, `${name}.pcap`);
const scenario = new URL("../../demo/chain.json", import.meta.url).pathname;
beforeAll(async () => {
  await exportSimulation(new Kernels(), readScenario(scenario), scratch, { link: "raw", packets: false });
});

test("a corrected delay a fraction of a nanosecond below zero is in the bucket of zero", () => {
  const { bucketOfNs } = new Kernels().call;
  expect([-0.4, -0.999, 0, 0.4, -1, -1.5].map((ns) => bucketOfNs!(ns))).toEqual([0, 0, 0, 0, -2, -2]);
});

describe("the chain of the README", () => {
  test("the segment that loses packets for a while is blamed for loss, the queue for delay, no other segment", async () => {
    const captured = await localiseCaptures({ files: names.map(at) });
    const { spikes, lossSpikes, segments, notes } = captured.localisation;
    expect(new Set(lossSpikes.flatMap((s) => (s.segment ? [s.segment.from] : [])))).toEqual(new Set(["r2"]));
    expect(new Set(spikes.flatMap((s) => (s.segment ? [s.segment.from] : [])))).toEqual(new Set(["sender"]));
    const truth = JSON.parse(readFileSync(join(scratch, "truth.json"), "utf8")) as {
      totals: { lost: number };
    };
    expect(segments.reduce((sum, s) => sum + s.lost, 0)).toBe(truth.totals.lost);
    // The interval of the last segment contains its loss of 0.1 %.
    expect(segments[3]!.loss!.low).toBeLessThan(0.001);
    expect(segments[3]!.loss!.high).toBeGreaterThan(0.001);
    expect(notes).toEqual([]);
    const json = localisationJson(captured) as { lossSpikes: { fromNs: string }[] };
    expect(json.lossSpikes[0]!.fromNs).toMatch(/^1704067202\d{9}$/);
  });

  test("two points that are not neighbours will do: what lies between is one segment", async () => {
    const { localisation } = await localiseCaptures({ files: [at("sender"), at("receiver")] });
    expect(localisation.lossSpikes.some((s) => s.segment?.to === "receiver")).toBe(true);
  });

  test("a clock that is 37 s off at an inner point parts no epochs, and moves no blame", async () => {
    const off = join(scratch, "off.pcap");
    const bytes = readFileSync(at("r1"));
    for (let i = 24; i < bytes.length; i += 16 + bytes.readUInt32LE(i + 8))
      bytes.writeUInt32LE(bytes.readUInt32LE(i) + 37, i);
    writeFileSync(off, bytes);
    const right = (await localiseCaptures({ files: names.map(at) })).localisation;
    expect(right.lossSpikes.some((s) => s.segment?.from === "r2")).toBe(true);
    for (const clock of ["asis", "relative"] as const) {
      const { localisation } = await localiseCaptures({
        files: names.map((n) => (n === "r1" ? off : at(n))),
        names,
        clock,
      });
      expect(localisation.epochs.length).toBe(right.epochs.length);
      const who = (l: typeof right) => [...l.spikes, ...l.lossSpikes].map((s) => s.segment);
      expect(who(localisation)).toEqual(who(right));
      expect(localisation.notes.join()).toContain("epochs at r1 differ by more than half an epoch");
    }
  });

  test("records show no loss where there is none, whatever is in flight at the edges of epochs", async () => {
    const directory = join(scratch, "records");
    for (const point of ["sender", "r1", "r2", "r3"])
      await observePoint({
        files: [at(point)],
        point,
        directory,
        estimators: ["lda"],
        cut: { mode: "aligned", lengthNs: 500_000_000n },
      });
    const { localisation } = localiseRecords({ directory, points: ["sender", "r1", "r2", "r3"] });
    const [first, second] = localisation.segments;
    // Nothing is lost there; equal numbers of packets in flight enter and leave, except at the first and the last edge.
    expect(first!.lost).toBeLessThan(50);
    expect(second!.lost).toBeLessThan(50);
    expect(new Set(localisation.lossSpikes.flatMap((s) => (s.segment ? [s.segment.from] : [])))).toEqual(
      new Set(["r2"]),
    );
  });

  test("records of other parameters are refused once and by name, not epoch by epoch", async () => {
    const directory = join(scratch, "unlike");
    for (const [point, rows] of [
      ["sender", "128"],
      ["r1", "256"],
      ["r2", "256"],
    ] as const)
      await observePoint({
        files: [at(point)],
        point,
        directory,
        estimators: ["lda"],
        parameters: { lda: `rows=${rows}` },
        cut: { mode: "aligned", lengthNs: 500_000_000n },
      });
    expect(() => localiseRecords({ directory, points: ["sender", "r1"] })).toThrow(
      /no epoch of sender → r1 has an answer: .*differ in (geometry|parameters)/,
    );
    const { localisation } = localiseRecords({ directory, points: ["sender", "r1", "r2"] });
    expect(localisation.notes.filter((n) => n.includes("geometry"))).toHaveLength(1);
    expect(localisation.segments[1]!.latency!.meanNs).toBeCloseTo(2e6, -2);
  });

  test.each([
    [{ files: ["sender", "r1", "sender"] }, /sender\.pcap is given twice/],
    [{ files: ["sender", "r1"], names: ["a", ""] }, /a name is empty/],
    [{ files: ["sender", "r1"], epochNs: 1 }, /^epoch: 1(\.0+)? ns makes [\d,]+ epochs of .*sender\.pcap/],
    [{ files: ["sender", "none"] }, /none\.pcap: contains no packets/],
    [{ files: ["sender", "r1"], filter: "udp port 9" }, /no packet was seen at two neighbouring points/],
  ])("%j is refused with one line", async ({ files, ...options }, message) => {
    writeFileSync(at("none"), readFileSync(at("r1")).subarray(0, 24));
    const failure = await localiseCaptures({ files: files.map(at), ...options }).catch((e: Error) => e);
    expect(failure).toMatchObject({ name: "UsageError" });
    expect((failure as Error).message).toMatch(message);
    expect((failure as Error).message).not.toContain("\n");
  });
});
