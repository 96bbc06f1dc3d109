/** A record for a number; equal numbers give equal records. */
import { geometryFingerprint } from "../../src/epoch/compatible.ts";
import type { EpochRecord } from "../../src/epoch/record.ts";

export const FIRST_NS = 1_700_000_000_000_000_000n;

export function numberedRecord(n: number, change: Partial<EpochRecord> = {}): EpochRecord {
  const startNs = FIRST_NS + BigInt(n) * 1_000_000_000n;
  const record: EpochRecord = {
    point: "A",
    role: "sender",
    segment: "",
    estimator: "counting",
    payloadVersion: 3,
    parameters: "cells=7",
    key: "5tuple",
    cover: 64,
    inner: false,
    filter: "",
    delayError: null,
    seed: 1n,
    fingerprint: 0n,
    epoch: {
      mode: "aligned",
      startNs,
      endNs: startNs + 1_000_000_000n,
      referenceNs: startNs,
      startId: 0n,
      endId: 0n,
      cutHead: false,
      cutTail: false,
    },
    counters: { frames: n + 5, packets: n, short: 0, backward: 0, skipped: {}, dropped: null },
    void: null,
    program: "hoptime test",
    payload: Uint8Array.from({ length: 100 + (n % 50) }, (_, i) => (i * n) & 255),
    ...change,
  };
  return { ...record, fingerprint: geometryFingerprint(record) };
}
