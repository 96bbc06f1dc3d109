/**
 * Our decoder compared with tshark's: addresses, protocol, ports, frame count, timestamps, lengths; outermost header and, with `inner`, the innermost. Every
 * disagreement is a failure unless it is listed below with a reason.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { type LinkFrame, validFrame } from "../support/arbitrary-frames.ts";
import { readFrames } from "../support/capture-rows.ts";
import { encapsulations } from "../support/encapsulations.ts";
import { PcapngWriter } from "../support/pcap-writer.ts";
import { FULL } from "../support/rounds.ts";
import { filesUnder, sharedTraces, unpackCorpus } from "../support/shared-traces.ts";
import { tsharkConfig, tsharkVersion } from "../support/tshark.ts";
import { EXCEPTIONS } from "../support/tshark-exceptions.ts";
import { compareAll, describeTally } from "../support/tshark-matrix.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-tshark-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const version = tsharkVersion();
if (!version) console.log("tshark matrix: skipped, tshark is not installed");
const config = version ? tsharkConfig(scratch) : "";
const traces = version ? sharedTraces("tshark matrix on the shared captures") : null;
/** Files of the corpus in a normal run: every n-th. HOPTIME_FULL=1 uses all (ten minutes). */
const SAMPLE_STEP = 17;

/** Link types that this tshark shows as plain data: SLIP, PPP of pppd, PPI. */
const NOT_IN_TSHARK = new Set([8, 166, 192]);

/** All frames in one pcapng file, an interface per link type. */
function captureOf(frames: readonly LinkFrame[], name: string): string {
  const linkTypes = [...new Set(frames.map((f) => f.link))];
  const w = new PcapngWriter().section();
  for (const link of linkTypes) w.interface({ link, resolution: 9 });
  for (const [i, { link, frame }] of frames.entries())
    w.enhanced({
      interfaceId: linkTypes.indexOf(link),
      ticks: 1_700_000_000_000_000_000n + BigInt(i),
      frame,
    });
  const path = join(scratch, name);
  writeFileSync(path, w.done());
  return path;
}

describe.skipIf(!version)("tshark and we read generated frames alike", () => {
  test("one of every encapsulation", async () => {
    const all = encapsulations();
    // Nothing that we claim to decode is skipped.
    const { frames: read } = await readFrames(captureOf(all, "all.pcapng"));
    expect(read.flatMap((f, i) => (f.row ? [] : [`${all[i]!.name}: ${f.reason}`]))).toEqual([]);
    const frames = all.filter((f) => !NOT_IN_TSHARK.has(f.link));
    const file = captureOf(frames, "encapsulations.pcapng");
    const tally = await compareAll([file], config, EXCEPTIONS);
    for (const d of tally.unexplained) d.file = frames[d.frame - 1]?.name ?? d.file;
    console.log(`encapsulations: ${describeTally(tally)}`);
    expect(tally.unexplained.length).toBe(0);
  });

  test("random stacks of links, tags, labels, tunnels and extension headers", async () => {
    const frames = fc
      .sample(validFrame, { seed: 7, numRuns: 4000 })
      .filter((f) => !NOT_IN_TSHARK.has(f.link));
    const tally = await compareAll([captureOf(frames, "random.pcapng")], config, EXCEPTIONS);
    console.log(`random stacks: ${describeTally(tally)}`);
    expect(tally.unexplained.length).toBe(0);
  });
});

describe.skipIf(!traces)("tshark and we read the shared captures alike", () => {
  const files = traces ? unpackCorpus(traces, scratch) : [];

  test("robustness corpus", { timeout: 900_000 }, async () => {
    const chosen = FULL ? files : files.filter((_, i) => i % SAMPLE_STEP === 0);
    const tally = await compareAll(chosen, config, EXCEPTIONS);
    console.log(`robustness corpus (${FULL ? "all" : "sample"}): ${describeTally(tally)}`);
    expect(tally.unexplained.length).toBe(0);
  });

  test("replay and two-point captures", { timeout: 900_000 }, async () => {
    const all = [...filesUnder(join(traces!, "replay")), ...filesUnder(join(traces!, "twopoint"))];
    const captures = all.filter((f) => /\.(pcap|pcapng|erf)(\.gz)?$/.test(f));
    const chosen = FULL ? captures : captures.filter((f) => /mawi|waikato.*pcapng|det6g|quic-ns3/.test(f));
    const tally = await compareAll(chosen, config, EXCEPTIONS);
    console.log(`replay and two-point (${FULL ? "all" : "some"}): ${describeTally(tally)}`);
    expect(tally.unexplained.length).toBe(0);
  });
});
