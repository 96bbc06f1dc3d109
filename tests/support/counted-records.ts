/** Records of the counting estimator without packets or files: one flow with this many packets per epoch, all with the same delay. */
import { ByteWriter } from "../../src/base/bytes.ts";
import { FlowKeySpec } from "../../src/capture/flow/flow-key.ts";
import { parseFlowKey } from "../../src/capture/flow/flow-text.ts";
import { encodeFlowKey } from "../../src/capture/flow/flow-words.ts";
import { geometryFingerprint } from "../../src/epoch/compatible.ts";
import type { EpochBounds, EpochRecord } from "../../src/epoch/record.ts";
import { numberedRecord } from "./numbered-record.ts";

export interface CountedEpoch {
  point: string;
  startNs: bigint;
  lengthNs: bigint;
  packets: number;
  /** Delay of the receiver's packets. */
  delayNs?: number;
  seed?: bigint;
  key?: string;
  parameters?: string;
  epoch?: Partial<EpochBounds>;
}

export function countedRecord(one: CountedEpoch): EpochRecord {
  const { point, startNs, lengthNs, packets, delayNs = 0, seed = 1n } = one;
  const out = new ByteWriter();
  out.u32(packets > 0 ? 1 : 0);
  if (packets > 0) {
    for (const word of [7, 9, ...KEY, packets, 100 * packets]) out.u32(word);
    out.i64(BigInt(Math.round(delayNs * packets)));
  }
  const record = numberedRecord(0, {
    point,
    role: "none",
    seed,
    ...(one.key === undefined ? {} : { key: one.key }),
    ...(one.parameters === undefined ? {} : { parameters: one.parameters }),
    payload: out.finish(),
    counters: { frames: packets, packets, short: 0, backward: 0, skipped: {}, dropped: null },
    epoch: {
      mode: "aligned",
      startNs,
      endNs: startNs + lengthNs,
      referenceNs: startNs,
      startId: 0n,
      endId: 0n,
      cutHead: false,
      cutTail: false,
      ...one.epoch,
    },
  });
  return { ...record, fingerprint: geometryFingerprint(record) };
}

const KEY = encodeFlowKey(FlowKeySpec.parse(), parseFlowKey("udp 10.0.0.1:1000 > 10.0.0.2:53"));
