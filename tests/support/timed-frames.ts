/** Frames at given times in microseconds, written to captures and compared: for tests that know the result from how the captures were written. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { compareCaptures } from "../../src/compare/compare.ts";
import { pcapFile } from "./pcap-writer.ts";

export interface Frame {
  us: number;
  frame: Uint8Array;
}

const START = 1_700_000_000_000_000_000n;

/** For one test file: its captures are in a separate directory, which is removed after the tests. */
export function timedFrames() {
  const scratch = mkdtempSync(join(tmpdir(), "hoptime-frames-"));
  afterAll(() => rmSync(scratch, { recursive: true, force: true }));
  let files = 0;
  const capture = (frames: readonly Frame[], options = {}): string => {
    const path = join(scratch, `${files++}.pcap`);
    const sorted = [...frames].sort((a, b) => a.us - b.us);
    const packets = sorted.map(({ us, frame }) => ({
      timeNs: START + BigInt(Math.round(us)) * 1000n,
      frame,
    }));
    writeFileSync(path, pcapFile(packets, options));
    return path;
  };
  const compare = (before: readonly Frame[], after: readonly Frame[], more = {}) =>
    compareCaptures({ before: capture(before), after: capture(after), ...more });
  return { capture, compare };
}
