/**
 * The payload of trajectory sampling, version 1: samples ascending by hash, digest, flow, time.
 *
 *   u32     fingerprint: CRC-32C of seed and rate
 *   u8      1 if samples were dropped, else 0
 *   u32     cut: only samples with a hash below it are listed (0 if none were dropped)
 *   varint  samples
 *   per sample: u32 hash that it was selected by, u64 digest, u64 flow hash, zigzag time (ns after the epoch's start)
 */
import { ByteWriter } from "../../../base/bytes.ts";
import type { SealedEpoch } from "../../estimator.ts";
import { readSampled, refuseOthers, smallerCut } from "../sampling.ts";

const NAME = "trajectory payload";

export interface Sample {
  hash: number;
  digest: bigint;
  flow: bigint;
  timeNs: number;
}

export interface Samples {
  fingerprint: number;
  /** Null: none were dropped. */
  cut: number | null;
  list: Sample[];
}

function compareSamples(a: Sample, b: Sample): number {
  if (a.hash !== b.hash) return a.hash - b.hash;
  if (a.digest !== b.digest) return a.digest < b.digest ? -1 : 1;
  if (a.flow !== b.flow) return a.flow < b.flow ? -1 : 1;
  return a.timeNs - b.timeNs;
}

/** Keeps at most `max` samples: those with the smallest hashes, whatever their order. */
export function boundSamples({ fingerprint, cut, list }: Samples, max: number): Samples {
  list.sort(compareSamples);
  const at = smallerCut(list[max]?.hash ?? null, cut);
  const kept = at === null ? list : list.filter((s) => s.hash < at);
  return { fingerprint, cut: at, list: kept };
}

export function encodeSamples(samples: Samples): Uint8Array {
  const out = new ByteWriter(16 + 28 * samples.list.length);
  out.u32(samples.fingerprint);
  out.u8(samples.cut === null ? 0 : 1);
  out.u32(samples.cut ?? 0);
  out.varint(samples.list.length);
  for (const { hash, digest, flow, timeNs } of samples.list) {
    out.u32(hash);
    out.u64(digest);
    out.u64(flow);
    out.zigzag(timeNs);
  }
  return out.finish();
}

/** `fingerprint`: the required value, if known. */
export function decodeSamples(sealed: SealedEpoch, fingerprint?: number): Samples {
  const head = readSampled(NAME, sealed, fingerprint, (r) => r.u32());
  const { reader, bad, cut, count } = head;
  if (count > reader.remaining / 21) throw bad(`${count} samples do not fit into the remaining bytes`);
  if (count > sealed.packets) throw bad(`${count} samples of ${sealed.packets} packets`);
  const list: Sample[] = [];
  for (let i = 0; i < count; i++) {
    const sample: Sample = {
      hash: reader.u32(),
      digest: reader.u64(),
      flow: reader.u64(),
      timeNs: reader.zigzag(),
    };
    if (cut !== null && sample.hash >= cut) throw bad("a sample lies beyond the cut");
    const before = list.at(-1);
    if (before && compareSamples(before, sample) > 0) throw bad("samples are out of order");
    list.push(sample);
  }
  reader.expectEnd();
  return { fingerprint: head.fingerprint, cut, list };
}

export function mergeSamples(a: Samples, b: Samples, max: number): Samples {
  refuseOthers(NAME, a, b);
  const cut = smallerCut(a.cut, b.cut);
  return boundSamples({ fingerprint: a.fingerprint, cut, list: [...a.list, ...b.list] }, max);
}
