/** observe --sender with the receiver's clock behind or drifting: records give the same results as compare. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import { Random } from "../../src/base/random.ts";
import { compareCaptures } from "../../src/compare/compare.ts";
import { observePoint } from "../../src/observe/observe-point.ts";
import { askArchive } from "../../src/query/segment/ask.ts";
import { type SmallPacket, writePcap } from "../support/small-pcap.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-clock-behind-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const START = 1_700_000_000_000_000_000n;

test.each([
  ["behind", -50_000, 0],
  ["ahead", 50_000, 0],
  ["losing 20 ppm", 0, -2e-5],
])("a clock %s", async (name, offsetNs, drift) => {
  const random = new Random(name);
  const sent = Array.from({ length: 8000 }, (_, i): SmallPacket => {
    const flow = { src: "10.0.0.1", dst: "10.2.0.9", sport: 1000 + (i % 8), dport: 80, ipid: i };
    return { timeNs: START + BigInt(i * 500_000), ...flow };
  });
  const received = sent.map((p) => {
    const at = Number(p.timeNs - START) + 15_000 + random.exponential(200_000);
    return { ...p, timeNs: START + BigInt(Math.round(at + offsetNs + drift * at)) };
  });
  const mean =
    sent.reduce((sum, p, i) => sum + Number((received[i]?.timeNs ?? 0n) - p.timeNs), 0) / sent.length;
  const [before, after] = [join(scratch, `${name}-a.pcap`), join(scratch, `${name}-b.pcap`)];
  writePcap(before, sent);
  writePcap(
    after,
    received.sort((a, b) => Number(a.timeNs - b.timeNs)),
  );
  const directory = join(scratch, `${name}-records`);
  const report = await observePoint({
    ...{ files: [after], point: "B", role: "receiver", directory, estimators: ["maple", "sds"] },
    ...{ sender: { files: [before], windowNs: 1e9 }, cut: { mode: "aligned", lengthNs: 1_000_000_000n } },
  });
  expect(report.notes).toContain("8,000 packets found at the sender, 0 not found");
  const answer = askArchive(RecordArchive.open(directory), { between: ["A", "B"] });
  for (const estimator of ["maple", "sds"]) {
    const latency = answer.estimates[estimator]?.latency;
    expect(Math.abs((latency?.meanNs ?? 0) - mean), estimator).toBeLessThan(1);
    expect(latency?.lowNs, estimator).toBeLessThanOrEqual(mean);
    expect(latency?.highNs, estimator).toBeGreaterThanOrEqual(mean);
  }
  const exact = await compareCaptures({ before, after });
  expect(Math.abs((exact.segment.latency?.meanNs ?? 0) - mean)).toBeLessThan(1);
});
