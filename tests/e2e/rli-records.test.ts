/** RLI through records: only the receiving point is observed, and its records answer for flows. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import { encodeStamp } from "../../src/delays/stamp.ts";
import { observePoint } from "../../src/observe/observe-point.ts";
import { askArchive } from "../../src/query/segment/ask.ts";
import { type SmallPacket, writePcap } from "../support/small-pcap.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-rli-records-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const START = 1_700_000_000_000_000_000n;

/** 4 s: a packet per ms of two flows, a reference per 10 ms; the delay is 1 ms in the first 2 s, then 3 ms. */
function arrivals(): SmallPacket[] {
  const packets: SmallPacket[] = [];
  for (let ms = 0; ms < 4000; ms++) {
    const timeNs = START + BigInt(ms) * 1_000_000n;
    const delayNs = ms < 2000 ? 1_000_000n : 3_000_000n;
    if (ms % 10 === 0) {
      const payload = encodeStamp({
        ...{ sequence: ms / 10, timeNs: timeNs - delayNs, session: 1 },
        ...{ synchronised: true, errorNs: 1 },
      });
      packets.push({ timeNs, src: "10.0.0.9", dst: "10.2.0.9", sport: 862, dport: 862, ipid: ms, payload });
    } else {
      const [sport, dport] = [1000 + (ms % 2), 53];
      packets.push({ timeNs, src: "10.0.0.1", dst: "10.2.0.9", sport, dport, ipid: ms });
    }
  }
  return packets;
}

test("the records of the receiving point tell the delay of the segment and of each flow, over all epochs", async () => {
  const file = join(scratch, "b.pcap");
  writePcap(file, arrivals());
  const directory = join(scratch, "records");
  await observePoint({
    files: [file],
    point: "B",
    role: "receiver",
    directory,
    estimators: ["rli"],
    cut: { mode: "aligned", lengthNs: 1_000_000_000n },
  });
  const answer = askArchive(RecordArchive.open(directory), {
    between: ["A", "B"],
    estimators: ["rli"],
    top: 10,
  });
  const segment = answer.estimates["rli"]!;
  expect(segment.epochs).toBe(4);
  expect(segment.latency!.meanNs / 2e6).toBeCloseTo(1, 2);
  expect(segment.series.map((s) => Math.round(s.latency!.meanNs / 1e5))).toEqual([10, 10, 30, 30]);
  // References are not counted; each flow has half of the other packets.
  expect(answer.groups.map((f) => f.packets)).toEqual([2000, 1600]);
  for (const flow of answer.groups) expect(flow.latency!.meanNs / 2e6).toBeCloseTo(1, 1);
});

test("references tell other estimators' delays: observe --delays rli", async () => {
  const file = join(scratch, "c.pcap");
  writePcap(file, arrivals());
  const directory = join(scratch, "observed");
  const report = await observePoint({
    files: [file],
    point: "B",
    role: "receiver",
    directory,
    estimators: ["sds", "global-mean", "rli"],
    references: {},
    cut: { mode: "aligned", lengthNs: 1_000_000_000n },
  });
  expect(report.notes.join()).toMatch(/400 references gave the delays of 3,600 packets/);
  const answer = askArchive(RecordArchive.open(directory), { between: ["A", "B"] });
  for (const name of ["sds", "global-mean", "rli"]) {
    const { latency, series } = answer.estimates[name]!;
    expect(latency!.meanNs / 2e6, name).toBeCloseTo(1, 2);
    expect(series.map((s) => Math.round(s.latency!.meanNs / 1e5))).toEqual([10, 10, 30, 30]);
  }
});
