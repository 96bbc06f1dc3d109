/** Packets picked by their digest, the same at every point (PSAMP, trajectory sampling), and the fingerprint that says how. */
import { ByteReader, ByteWriter, crc32c } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import { mix64Into } from "../../base/hash.ts";
import type { PacketBatch } from "../../capture/batch.ts";
import type { NoAnswer, ParameterSpec, SealedEpoch } from "../estimator.ts";

/** Rows of our own: references and probes of a simulation. */
const OWN = (1 << 22) | (1 << 23);

export class PacketSampler {
  readonly #high: number;
  readonly #low: number;
  readonly #out = new Uint32Array(2);
  /** A packet is taken where its 32-bit hash is below. */
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

/** A packet timestamped further from the epoch's start (52 days) is not of this epoch, whatever its timestamp says: it is not sampled. */
export const MAX_TIME_NS = 2 ** 52;

export const NO_RECORD: NoAnswer = { reason: "no-packets", text: "one of the two points has no record" };

/** Of estimators that keep what is sampled, `max` of it per epoch. */
export function samplingParameters(max: { default: number; max: number; help: string }): ParameterSpec[] {
  const rate = { default: 0.001, min: 1e-9, max: 1, help: "share of packets that is sampled" };
  return [
    { name: "rate", kind: "number", ...rate },
    { name: "max", kind: "integer", min: 1, ...max },
  ];
}

/** What is beyond the smaller of two cuts was shed by one of two taps; null: nothing was. */
export function smallerCut<T extends number | bigint>(a: T | null, b: T | null): T | null {
  if (a === null || b === null) return a ?? b;
  return a < b ? a : b;
}

/** A payload's beginning: u32 fingerprint, u8 1 where something was shed, then the cut as `cut` reads it (0 where nothing was). */
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
