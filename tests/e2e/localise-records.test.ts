/** The localiser on records only: a path of three points from simulated captures, with a slow period in the second segment. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { localiseCaptures } from "../../src/network/localise/from-captures.ts";
import { localiseRecords } from "../../src/network/localise/from-records.ts";
import { observePoint } from "../../src/observe/observe-point.ts";
import { DEMO, type Frame, readFrames, writeFrames } from "../support/demo-captures.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-records-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

test("a slow stretch is found from kilobytes, where the captures show it too", async () => {
  // Point A is the demo's first; B and C see the same packets later: 2 ms, then 1 ms, which becomes 5 ms for 100 ms.
  const at = (frames: Frame[], delay: (ns: bigint) => bigint): Frame[] =>
    frames.map((f) => ({ ...f, ns: f.ns + delay(f.ns) })).sort((a, b) => (a.ns < b.ns ? -1 : 1));
  const a = readFrames(DEMO.before);
  const startNs = a[0]!.ns;
  const b = at(a, (ns) => 2_000_000n + (ns % 50_000n));
  const slow = { from: startNs + 300_000_000n, to: startNs + 400_000_000n };
  const c = at(b, (ns) => (ns >= slow.from && ns < slow.to ? 5_000_000n : 1_000_000n) + (ns % 70_000n));
  const points = { A: a, B: b, C: c };
  const directory = join(scratch, "records");
  const files: string[] = [];
  for (const [point, frames] of Object.entries(points)) {
    const file = writeFrames(join(scratch, `${point}.pcap`), frames);
    files.push(file);
    await observePoint({
      files: [file],
      point,
      directory,
      estimators: ["lda"],
      cut: { mode: "aligned", lengthNs: 20_000_000n },
    });
  }
  const { localisation, originNs } = localiseRecords({ directory, points: ["A", "B", "C"] });
  const exact = await localiseCaptures({ files, epochNs: 20e6 });
  for (const [found, origin] of [
    [localisation, originNs],
    [exact.localisation, exact.originNs],
  ] as const) {
    const spike = found.spikes.find((s) => s.segment !== null)!;
    expect(spike.segment).toEqual({ from: "B", to: "C" });
    const began = origin + BigInt(Math.round(spike.fromNs));
    expect(Number(began - slow.from) / 1e6).toBeGreaterThan(-21);
    expect(Number(began - slow.from) / 1e6).toBeLessThan(21);
  }
  expect(localisation.segments[0]!.latency!.meanNs).toBeCloseTo(
    exact.localisation.segments[0]!.latency!.meanNs,
    -5,
  );
});
