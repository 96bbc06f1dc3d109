/** The sender's capture begins late, so many packets have no delay: epochs and flows are weighted by the packets with a delay, not by those that arrived. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import { Random } from "../../src/base/random.ts";
import { observePoint } from "../../src/observe/observe-point.ts";
import { askArchive } from "../../src/query/segment/ask.ts";
import { type SmallPacket, writePcap } from "../support/small-pcap.ts";

const directory = mkdtempSync(join(tmpdir(), "hoptime-late-sender-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const START = 1_700_000_000_000_000_000n;
const FLOWS = 60;
const LATE_MS = 700;

test("a sender's capture that begins late moves no mean", async () => {
  const random = new Random("late sender");
  const packets = Array.from({ length: 3000 }, (_, i) => {
    const ms = i;
    // One second of short delays, two of long ones; the first 0.7 s of the short ones have no sender.
    const delayNs = (ms < 1000 ? 2e6 : 40e6) + random.exponential(1e6);
    const flow = Math.floor(FLOWS * random.float() ** 2);
    const name = { src: "10.0.0.1", dst: "10.2.0.9", sport: 1000 + flow, dport: 80, ipid: i };
    const sent: SmallPacket = { timeNs: START + BigInt(ms * 1_000_000), ...name };
    return { ms, flow, delayNs: Math.round(delayNs), sent };
  });
  const received = packets
    .map(({ sent, delayNs }) => ({ ...sent, timeNs: sent.timeNs + BigInt(delayNs) }))
    .sort((a, b) => Number(a.timeNs - b.timeNs));
  const measured = packets.filter((p) => p.ms >= LATE_MS);
  const [before, after] = [join(directory, "a.pcap"), join(directory, "b.pcap")];
  writePcap(
    before,
    measured.map((p) => p.sent),
  );
  writePcap(after, received);
  const to = join(directory, "records");
  await observePoint({
    ...{ files: [after], point: "B", role: "receiver", directory: to, estimators: ["maple", "sds", "flows"] },
    ...{ sender: { files: [before], windowNs: 1e9 }, cut: { mode: "aligned", lengthNs: 1_000_000_000n } },
  });
  const { estimates, groups } = askArchive(RecordArchive.open(to), { between: ["A", "B"], top: FLOWS });
  const meanOf = (some: typeof measured) => some.reduce((sum, p) => sum + p.delayNs, 0) / some.length;
  for (const estimator of ["maple", "sds"]) {
    const latency = estimates[estimator]?.latency;
    expect(Math.abs((latency?.meanNs ?? 0) - meanOf(measured)), estimator).toBeLessThan(2);
  }
  let judged = 0;
  for (const { estimator, key, latency } of groups) {
    const own = measured.filter((p) => p.flow === (key.sport ?? 0) - 1000);
    if (own.length === 0) continue;
    judged++;
    // Bounds of MAPLE's groups; two flows that share all cells of SDS would be a guess.
    expect(latency?.lowNs, `${estimator} ${key.sport}`).toBeLessThanOrEqual(meanOf(own) + 1);
    expect(latency?.highNs, `${estimator} ${key.sport}`).toBeGreaterThanOrEqual(meanOf(own) - 1);
    expect((latency?.highNs ?? 0) - (latency?.lowNs ?? 0), `${estimator} ${key.sport}`).toBeLessThan(4e6);
  }
  expect(judged).toBeGreaterThan(1.8 * FLOWS);
});
