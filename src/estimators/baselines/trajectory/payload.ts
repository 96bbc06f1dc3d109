/**
 * The payload of trajectory sampling, version 1: samples in rising order of hash, digest, flow, time.
 *
 *   u32     fingerprint: CRC-32C of seed and rate
 *   u8      1 where samples were shed, else 0
 *   u32     cut: only samples whose hash is below it are listed (0 where none were shed)
 *   varint  samples
 *   per sample: u32 hash that it was picked by, u64 digest, u64 flow hash, zigzag time (ns after the epoch's start)
 */
import { ByteReader, ByteWriter } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import type { SealedEpoch } from "../../estimator.ts";

const NAME = "trajectory payload";

export interface Sample {
  hash: number;
  digest: bigint;
  flow: bigint;
  timeNs: number;
}

export interface Samples {
  fingerprint: number;
  /** Null: none were shed. */
  cut: number | null;
  list: Sample[];
}

export function compareSamples(a: Sample, b: Sample): number {
  if (a.hash !== b.hash) return a.hash - b.hash;
  if (a.digest !== b.digest) return a.digest < b.digest ? -1 : 1;
  if (a.flow !== b.flow) return a.flow < b.flow ? -1 : 1;
  return a.timeNs - b.timeNs;
}

/** At most `max` samples, those with the smallest hashes: the same whatever came first. */
export function boundSamples({ fingerprint, cut, list }: Samples, max: number): Samples {
  list.sort(compareSamples);
  const next = list[max]?.hash ?? null;
  const at = next === null ? cut : cut === null ? next : Math.min(cut, next);
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

/** `fingerprint`: what the payload must have, where that is known. */
export function decodeSamples(sealed: SealedEpoch, fingerprint?: number): Samples {
  const reader = new ByteReader(sealed.payload, { file: NAME });
  const bad = (message: string) => new FormatError("bad-record", NAME, reader.offset, message);
  const print = reader.u32();
  if (fingerprint !== undefined && print !== fingerprint) throw bad("made with another seed or rate");
  const shed = reader.u8();
  const cut = reader.u32();
  if (shed > 1 || (shed === 0 && cut !== 0)) throw bad("a cut is given though no samples were shed");
  const count = reader.varint();
  if (count > reader.remaining / 21) throw bad(`${count} samples do not fit into what is there`);
  if (count > sealed.packets) throw bad(`${count} samples of ${sealed.packets} packets`);
  const list: Sample[] = [];
  for (let i = 0; i < count; i++) {
    const sample: Sample = {
      hash: reader.u32(),
      digest: reader.u64(),
      flow: reader.u64(),
      timeNs: reader.zigzag(),
    };
    if (shed === 1 && sample.hash >= cut) throw bad("a sample lies beyond the cut");
    if (i > 0 && compareSamples(list[i - 1]!, sample) > 0) throw bad("samples are out of order");
    list.push(sample);
  }
  reader.expectEnd();
  return { fingerprint: print, cut: shed === 1 ? cut : null, list };
}

export function mergeSamples(a: Samples, b: Samples, max: number): Samples {
  if (a.fingerprint !== b.fingerprint)
    throw new FormatError("bad-record", NAME, 0, "the two were made with different seeds or rates");
  const cut = a.cut === null ? b.cut : b.cut === null ? a.cut : Math.min(a.cut, b.cut);
  return boundSamples({ fingerprint: a.fingerprint, cut, list: [...a.list, ...b.list] }, max);
}
