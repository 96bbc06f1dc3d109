/**
 * RLI on the user's captures: every n-th regular packet is the reference for those in between (section IV-A of the paper), in compare and observe; and
 * references with a key.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import type { EstimateReport } from "../../src/compare/estimate-report.ts";
import { compareWithEstimates } from "../../src/compare/estimates.ts";
import { encodeAuthenticatedStamp } from "../../src/delays/stamp.ts";
import { parseParameters } from "../../src/estimators/parameters.ts";
import { findEstimator } from "../../src/estimators/table.ts";
import { observePoint } from "../../src/observe/observe-point.ts";
import { askArchive } from "../../src/query/segment/ask.ts";
import { type SmallPacket, writePcap } from "../support/small-pcap.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-rli-own-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const START = 1_700_000_000_000_000_000n;
const MS = 1_000_000;
const CUT = { mode: "aligned", lengthNs: 1_000_000_000n } as const;

/** Delay of the path: up and down over 300 ms, between 0.5 and 3.5 ms. */
const delayAt = (ns: number) => Math.round(2 * MS + 1.5 * MS * Math.sin(ns / (48 * MS)));

/** 10,000 packets of ten flows over 4 s. */
function bothEnds(): { before: string; after: string; meanNs: number } {
  const sent = Array.from({ length: 10_000 }, (_, i): SmallPacket => {
    const flow = { src: "10.0.0.1", dst: "10.2.0.9", sport: 1000 + (i % 10), dport: 80 };
    return { timeNs: START + BigInt(i * 400_000), ...flow, ipid: i };
  });
  const received = sent.map((p, i) => ({ ...p, timeNs: p.timeNs + BigInt(delayAt(i * 400_000)) }));
  const [before, after] = [join(scratch, "before.pcap"), join(scratch, "after.pcap")];
  writePcap(before, sent);
  writePcap(
    after,
    received.sort((a, b) => Number(a.timeNs - b.timeNs)),
  );
  const meanNs = sent.reduce((sum, _, i) => sum + delayAt(i * 400_000), 0) / sent.length;
  return { before, after, meanNs };
}
const ends = bothEnds();

describe("every n-th packet as a reference", () => {
  test("compare shows how near RLI comes to the exact delays", async () => {
    const estimator = findEstimator("rli");
    const plans = [{ estimator, parameters: parseParameters(estimator, "every=20") }];
    const { before, after, meanNs } = ends;
    const { estimates } = await compareWithEstimates({ before, after }, { plans });
    const rli = estimates?.["rli"] as EstimateReport | undefined;
    expect((rli?.meanNs ?? 0) / meanNs).toBeCloseTo(1, 3);
    expect(rli?.lowNs).toBeLessThan(meanNs);
    expect(rli?.highNs).toBeGreaterThan(meanNs);
    // All packets count, including those used as references.
    expect(rli?.flows?.map((f) => f.packets)).toEqual(Array(10).fill(1000));
    for (const flow of rli?.flows ?? []) expect(Math.abs(flow.relativeError ?? 1)).toBeLessThan(0.01);
  });

  test("observe does it with the sender's capture", async () => {
    const directory = join(scratch, "records");
    await observePoint({
      ...{ files: [ends.after], point: "B", role: "receiver", directory, cut: CUT },
      ...{ estimators: ["rli"], parameters: { rli: "every=20" } },
      sender: { files: [ends.before], windowNs: 1e9 },
    });
    const answer = askArchive(RecordArchive.open(directory), { between: ["A", "B"], estimators: ["rli"] });
    expect((answer.estimates["rli"]?.latency?.meanNs ?? 0) / ends.meanNs).toBeCloseTo(1, 3);
  });

  test("without delays from elsewhere it is refused", async () => {
    const observing = observePoint({
      ...{ files: [ends.after], point: "B", directory: join(scratch, "none"), cut: CUT },
      ...{ estimators: ["rli"], parameters: { rli: "every=20" } },
    });
    await expect(observing).rejects.toThrow(/rli needs the delay of each packet/);
  });
});

describe("references with a key", () => {
  const key = Buffer.alloc(32, "key");
  /** The same at the receiver, with a signed reference every 10 ms. */
  function withReferences(): string {
    const packets: SmallPacket[] = [];
    for (let i = 0; i < 4000; i++) {
      const ns = i * MS;
      const base = { timeNs: START + BigInt(ns), dst: "10.2.0.9", ipid: i };
      if (i % 10 !== 0) packets.push({ ...base, src: "10.0.0.1", sport: 1000, dport: 80 });
      else {
        const timeNs = base.timeNs - BigInt(delayAt(ns));
        const stamp = { sequence: i / 10, timeNs, session: 1, synchronised: true, errorNs: 1000 };
        const payload = encodeAuthenticatedStamp(stamp, key);
        packets.push({ ...base, src: "10.0.0.9", sport: 862, dport: 862, payload });
      }
    }
    const file = join(scratch, "signed.pcap");
    writePcap(file, packets);
    return file;
  }
  const file = withReferences();
  const observe = (name: string, more: object) =>
    observePoint({
      ...{ files: [file], point: "B", role: "receiver", directory: join(scratch, name), cut: CUT },
      ...{ estimators: ["rli"], ...more },
    });

  test("are used by rli and for the delays of others, and the records do not hold the key", async () => {
    await observe("rli", { referenceKey: key });
    await observe("sds", { referenceKey: key, references: {}, estimators: ["sds"] });
    for (const name of ["rli", "sds"]) {
      const archive = RecordArchive.open(join(scratch, name));
      const { estimates } = askArchive(archive, { between: ["A", "B"], estimators: [name] });
      expect((estimates[name]?.latency?.meanNs ?? 0) / (2 * MS)).toBeCloseTo(1, 1);
    }
  });

  test("with another key nothing is used; without one, asking for it is refused", async () => {
    const report = await observe("wrong", {
      referenceKey: Buffer.alloc(32, "x"),
      references: {},
      estimators: ["sds"],
    });
    expect(report.notes.join()).toMatch(/^0 references gave the delays of 0 packets/);
    await expect(observe("none", { parameters: { rli: "authenticated=true" } })).rejects.toThrow(
      /need their key/,
    );
  });
});
