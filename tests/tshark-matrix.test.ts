/**
 * Our decoder against tshark's own reading: addresses, protocol, ports, frame count, timestamps, lengths; outermost header and, with `inner`,
 * the innermost. Every disagreement is a failure unless it is listed below with its reason.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { filesUnder, sharedTraces, unpackCorpus } from "./shared-traces.ts";
import { tsharkConfig, tsharkVersion } from "./tshark.ts";
import { EXCEPTIONS } from "./tshark-exceptions.ts";
import { compareAll, describeTally } from "./tshark-matrix.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-tshark-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const version = tsharkVersion();
if (!version) console.log("tshark matrix: skipped, tshark is not installed");
const config = version ? tsharkConfig(scratch) : "";
const traces = version ? sharedTraces("tshark matrix on the shared captures") : null;
const full = process.env["HOPTIME_FULL"] === "1";
/** Files of the corpus in a normal run: every n-th, a different start per format would change nothing. */
const SAMPLE_STEP = 9;

describe.skipIf(!traces)("tshark and we read the shared captures alike", () => {
  const files = traces ? unpackCorpus(traces, scratch) : [];

  test("robustness corpus", { timeout: 900_000 }, async () => {
    const chosen = full ? files : files.filter((_, i) => i % SAMPLE_STEP === 0);
    const tally = await compareAll(chosen, config, EXCEPTIONS);
    console.log(`robustness corpus (${full ? "all" : "sample"}): ${describeTally(tally)}`);
    expect(tally.unexplained.length).toBe(0);
  });

  test("replay and two-point captures", { timeout: 900_000 }, async () => {
    const all = [...filesUnder(join(traces!, "replay")), ...filesUnder(join(traces!, "twopoint"))];
    const captures = all.filter((f) => /\.(pcap|pcapng|erf)(\.gz)?$/.test(f));
    const chosen = full
      ? captures
      : captures.filter((f) => /mawi|waikato|mpls|det6g|quic-ns3/.test(basename(f) + f));
    const tally = await compareAll(chosen, config, EXCEPTIONS);
    console.log(`replay and two-point (${full ? "all" : "some"}): ${describeTally(tally)}`);
    expect(tally.unexplained.length).toBe(0);
  });
});
