/** Numbered packets and capture files with them, for the tests of the reader. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PlainRow } from "./capture-rows.ts";
import * as p from "./packets.ts";

export const scratch = mkdtempSync(join(tmpdir(), "hoptime-reader-"));
// Test files of src/ share a process, so the directory is removed when the process ends, not after the first file.
process.once("exit", () => rmSync(scratch, { recursive: true, force: true }));
let files = 0;
/** Writes a file that is removed after the tests. */
export function file(content: Uint8Array, name = `capture-${files++}`): string {
  const path = join(scratch, name);
  writeFileSync(path, content);
  return path;
}

export const START = 1_700_000_000_123_456_789n;
/** Packet `n`, distinguished by its identification and ports. */
export function udpFrame(n: number, payload = 20): Uint8Array {
  const inside = new Uint8Array(payload).fill(n);
  return p.stack(
    [
      p.ethernet(0x0800),
      p.ipv4({ proto: 17, id: n & 0xffff }),
      p.udp({ sport: 1000 + (n % 60_000), dport: 53 }),
    ],
    inside,
  );
}
export const packets = Array.from({ length: 10 }, (_, n) => ({
  timeNs: START + BigInt(n) * 1001n,
  frame: udpFrame(n),
}));
export const times = (rows: PlainRow[]) => rows.map((r) => r.timeNs);
export const ids = (rows: PlainRow[]) => rows.map((r) => r.ipid);
export const range = (n: number) => Array.from({ length: n }, (_, i) => i);
