/** Packet sampling by digest, the same at every point (PSAMP, trajectory sampling), and the fingerprint of its configuration. */
import { ByteReader, ByteWriter, crc32c } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import { mix64Into } from "../../base/hash.ts";
import type { PacketBatch } from "../../capture/batch.ts";
import type { NoAnswer, ParameterSpec, SealedEpoch } from "../estimator.ts";

/** hoptime's own packets: references and probes of a simulation. */
const OWN = (1 << 22) | (1 << 23);

export class PacketSampler {
  readonly #high: number;
  readonly #low: number;
  readonly #out = new Uint32Array(2);
  /** A packet is sampled if its 32-bit hash is below this. */
  limit: number;

  constructor(seed: bigint, rate: number) {
    this.#high = Number((BigInt.asUintN(64, seed) >> 32n) & 0xffff_ffffn);
    this.#low = Number(seed & 0xffff_ffffn);
    this.limit = Math.round(rate * 2 ** 32);
  }

  hash(low: number, high: number): number {
    mix64Into(high ^ this.#high, low ^ this.#low, this.#out);
    return this.#out[0]!;
  }

  /** Calls `take` with each sampled row and its hash. */
  each(batch: PacketBatch, from: number, to: number, take: (row: number, hash: number) => void): void {
    const { digest, flags } = batch;
    for (let i = from; i < to; i++) {
      const hash = this.hash(digest[2 * i]!, digest[2 * i + 1]!);
      if (hash < this.limit && (flags[i]! & OWN) === 0) take(i, hash);
    }
  }
}

export function samplingFingerprint(seed: bigint, text: string): number {
  const out = new ByteWriter();
  out.u64(BigInt.asUintN(64, seed));
  out.utf8(text);
  return crc32c(out.view());
}

/** A packet with a timestamp further than this (52 days) from the epoch's start cannot belong to the epoch and is not sampled. */
export const MAX_TIME_NS = 2 ** 52;

export const NO_RECORD: NoAnswer = { reason: "no-packets", text: "one of the two points has no record" };

/** Parameters of estimators that keep sampled items, at most `max` per epoch. */
export function samplingParameters(max: { default: number; max: number; help: string }): ParameterSpec[] {
  const rate = { default: 0.001, min: 1e-9, max: 1, help: "share of packets that is sampled" };
  return [
    { name: "rate", kind: "number", ...rate },
    { name: "max", kind: "integer", min: 1, ...max },
  ];
}

/** Combines the cuts of two taps: what is above the smaller cut was dropped by one of them. Null: nothing was dropped. */
export function smallerCut<T extends number | bigint>(a: T | null, b: T | null): T | null {
  if (a === null || b === null) return a ?? b;
  return a < b ? a : b;
}

/** Reads the start of a payload: u32 fingerprint, u8 1 if something was dropped, then the cut as `cut` reads it (0 if nothing was dropped). */
export function readSampled<T extends number | bigint>(
  name: string,
  sealed: SealedEpoch,
  fingerprint: number | undefined,
  readCut: (reader: ByteReader) => T,
) {
  const reader = new ByteReader(sealed.payload, { file: name });
  const bad = (message: string) => new FormatError("bad-record", name, reader.offset, message);
  const print = reader.u32();
  if (fingerprint !== undefined && print !== fingerprint) throw bad("made with another seed or rate");
  const shed = reader.u8();
  const cut = readCut(reader);
  if (shed > 1 || (shed === 0 && Number(cut) !== 0)) throw bad("a cut is given though nothing was shed");
  return { reader, bad, fingerprint: print, cut: shed === 1 ? cut : null, count: reader.varint() };
}

export function refuseOthers(name: string, a: { fingerprint: number }, b: { fingerprint: number }): void {
  if (a.fingerprint !== b.fingerprint)
    throw new FormatError("bad-record", name, 0, "the two were made with different seeds or rates");
}
