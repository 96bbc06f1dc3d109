/** Records of several writers: each writer's own, one that is the same for all, and parts of one epoch. */
import { ByteWriter } from "../../src/base/bytes.ts";
import type { EpochRecord } from "../../src/epoch/record.ts";
import { numberedRecord } from "./numbered-record.ts";

export function ownRecord(n: number, writer: number): EpochRecord {
  return numberedRecord(n, { point: `W${writer}` });
}

export function commonRecord(n: number): EpochRecord {
  return numberedRecord(n, { point: "common" });
}

/** Packets of the writer's own flow, in its part of the epoch. */
export function partRecord(n: number, writer: number, writers: number): EpochRecord {
  const packets = 10 + writer;
  const out = new ByteWriter();
  out.u32(1);
  for (const word of [writer, 0, ...Array(10).fill(0), packets, 100 * packets]) out.u32(word);
  out.i64(BigInt(n));
  const base = numberedRecord(n, { point: "shared", payload: out.finish() });
  const partNs = 1_000_000_000n / BigInt(writers);
  const firstNs = base.epoch.startNs + BigInt(writer) * partNs;
  return {
    ...base,
    epoch: { ...base.epoch, cutHead: writer > 0, cutTail: writer < writers - 1 },
    counters: { ...base.counters, packets },
    spans: [{ firstNs, lastNs: firstNs + partNs - 1n, packets }],
  };
}
