/**
 * Asking a sealed epoch for packets, through a range reader: a few packets are answered from the words they need (the ribbon: 8 bytes of index
 * and 16 r bytes of words; SVBF: a burst per hash function); for many, a store is read whole and kept. Works alike on a payload in
 * memory and on a record in an archive.
 */
import { FormatError } from "../../base/errors.ts";
import type { Kernels } from "../../base/kernels.ts";
import { answerOf, type CellAnswer } from "./cell-table.ts";
import { FlowIndex, type RangeReader } from "./flow-index.ts";
import { type Identity, storeSeed } from "./identity.ts";
import { decodeCells, decodePartHead, decodePayloadHead, PART_HEAD_BYTES, type PartHead } from "./payload.ts";
import { openStore } from "./stores/open.ts";
import { MATCH, MULTI_MATCH, NO_MATCH, type PacketStore, type StoreGeometry } from "./stores/packet-store.ts";
import { RIBBON_HEAD_BYTES, ribbonLayout } from "./stores/ribbon.ts";
import { BLOOM_HEAD_BYTES, tailBytes } from "./stores/svbf.ts";

/** One row per packet asked for. */
export interface PacketAnswers {
  count: number;
  /** NO_MATCH, MATCH or MULTI_MATCH. */
  kind: Uint8Array;
  /** What is told, and what the true delay cannot lie outside of if the packet was stored; NaN where there is no answer. */
  valueNs: Float64Array;
  lowNs: Float64Array;
  highNs: Float64Array;
  /** Variance of delays within the group told. */
  varianceNs2: Float64Array;
  /** Packets of the group told: breaks ties between epochs. */
  groupPackets: Float64Array;
}

export function emptyAnswers(count: number): PacketAnswers {
  return {
    count,
    kind: new Uint8Array(count),
    valueNs: new Float64Array(count).fill(Number.NaN),
    lowNs: new Float64Array(count).fill(Number.NaN),
    highNs: new Float64Array(count).fill(Number.NaN),
    varianceNs2: new Float64Array(count),
    groupPackets: new Float64Array(count),
  };
}

/** Reading a store whole costs about this many bytes' worth of one range read. */
const BYTES_PER_RANGE_READ = 4096;
/** No IP packet is longer: bounds what an unknown size may hide. */
const MOST_BYTES = 65_535;

export class MaplePayload {
  readonly parts: readonly MaplePart[];
  readonly bytes: number;

  constructor(kernels: Kernels, read: RangeReader, bytes: number) {
    this.bytes = bytes;
    const exact: RangeReader = (offset, length) => {
      const got = read(offset, length);
      if (got.length !== length) {
        throw new FormatError("truncated", "maple payload", offset + got.length, `expected ${length} bytes`);
      }
      return got;
    };
    this.parts = decodePayloadHead(exact, bytes).map(
      (part) => new MaplePart(kernels, (offset, length) => exact(part.offset + offset, length), part.bytes),
    );
  }

  static of(kernels: Kernels, payload: Uint8Array): MaplePayload {
    return new MaplePayload(
      kernels,
      (offset, length) => payload.subarray(offset, offset + length),
      payload.length,
    );
  }

  /** False where no part keeps packets under this identity. */
  has(identity: Identity): boolean {
    return this.parts.some((p) => p.head.sections[identity].bytes > 0);
  }

  /** `wireBytes`: sizes of the packets, 0 where unknown; they matter where queueing delays are stored. */
  lookup(identity: Identity, keys: BigUint64Array, wireBytes?: ArrayLike<number>): PacketAnswers {
    const answers = emptyAnswers(keys.length);
    for (const part of this.parts) combine(answers, part.lookup(identity, keys, wireBytes));
    return answers;
  }

  free(): void {
    for (const part of this.parts) part.free();
  }
}

/** What another epoch or part says of the same packets: more than one answer is a Multi-Match, told is the larger group's (section 3.3.4). */
export function combine(into: PacketAnswers, other: PacketAnswers): void {
  for (let i = 0; i < into.count; i++) {
    if (other.kind[i] === NO_MATCH) continue;
    const first = into.kind[i] === NO_MATCH;
    const told = first || other.groupPackets[i]! > into.groupPackets[i]!;
    into.kind[i] = first ? other.kind[i]! : MULTI_MATCH;
    into.lowNs[i] = first ? other.lowNs[i]! : Math.min(into.lowNs[i]!, other.lowNs[i]!);
    into.highNs[i] = first ? other.highNs[i]! : Math.max(into.highNs[i]!, other.highNs[i]!);
    if (!told) continue;
    into.valueNs[i] = other.valueNs[i]!;
    into.varianceNs2[i] = other.varianceNs2[i]!;
    into.groupPackets[i] = other.groupPackets[i]!;
  }
}

export class MaplePart {
  readonly head: PartHead;
  readonly #kernels: Kernels;
  readonly #read: RangeReader;
  #cells: CellAnswer[] | null = null;
  readonly #whole = new Map<Identity, PacketStore>();
  #index: FlowIndex | null = null;

  constructor(kernels: Kernels, read: RangeReader, bytes: number) {
    this.#kernels = kernels;
    this.#read = read;
    this.head = decodePartHead(read(0, PART_HEAD_BYTES), bytes);
  }

  get cells(): readonly CellAnswer[] {
    const { offset, bytes } = this.head.sections.cells;
    this.#cells ??= decodeCells(this.#read(offset, bytes)).map(answerOf);
    return this.#cells;
  }

  /** The epoch's flows, where the tap listed them. */
  get index(): FlowIndex | null {
    const { offset, bytes } = this.head.sections.index;
    if (bytes === 0) return null;
    this.#index ??= new FlowIndex((at, length) => this.#read(offset + at, length), bytes);
    return this.#index;
  }

  lookup(identity: Identity, keys: BigUint64Array, wireBytes?: ArrayLike<number>): PacketAnswers {
    const answers = emptyAnswers(keys.length);
    const { bytes } = this.head.sections[identity];
    if (bytes === 0 || keys.length === 0) return answers;
    const { kind } = this.head.geometry;
    const ranged = kind === "ribbon" || kind === "svbf";
    const words =
      this.#whole.has(identity) || !ranged || keys.length * BYTES_PER_RANGE_READ > bytes
        ? this.#askWhole(identity, keys)
        : kind === "ribbon"
          ? this.#askRibbon(identity, keys)
          : this.#askSvbf(identity, keys);
    this.#tell(answers, words, wireBytes);
    return answers;
  }

  free(): void {
    for (const store of this.#whole.values()) store.free();
    this.#whole.clear();
  }

  #geometry(identity: Identity): StoreGeometry {
    return { ...this.head.geometry, seed: storeSeed(this.head.geometry.seed, identity) };
  }

  #section(identity: Identity): RangeReader {
    const { offset, bytes } = this.head.sections[identity];
    return (at, length) => this.#read(offset + at, Math.max(0, Math.min(length, bytes - at)));
  }

  #askWhole(identity: Identity, keys: BigUint64Array): Uint32Array {
    const kernels = this.#kernels;
    let store = this.#whole.get(identity);
    if (!store) {
      const { bytes } = this.head.sections[identity];
      const counts = this.cells.map((c) => c.count);
      store = openStore(kernels, this.#geometry(identity), this.#section(identity)(0, bytes), counts);
      this.#whole.set(identity, store);
    }
    const n = keys.length;
    const [at, out] = [kernels.alloc(8 * n), kernels.alloc(8 * n)];
    kernels.u64.set(keys, at >>> 3);
    store.lookup(at, n, out);
    const words = kernels.u32.slice(out >>> 2, (out >>> 2) + 2 * n);
    kernels.free(at);
    kernels.free(out);
    return words;
  }

  #askRibbon(identity: Identity, keys: BigUint64Array): Uint32Array {
    const kernels = this.#kernels;
    const { call } = kernels;
    const { seed, codeBits, groups } = this.#geometry(identity);
    const read = this.#section(identity);
    const layout = ribbonLayout(read(0, RIBBON_HEAD_BYTES), codeBits);
    const window = kernels.alloc(16 * codeBits);
    const words = new Uint32Array(2 * keys.length);
    keys.forEach((key, i) => {
      const block = call.ribbonBlock!(key, seed, layout.blocks) >>> 0;
      const entry = read(layout.indexAt + 4 * block, 8);
      const view = new DataView(entry.buffer, entry.byteOffset, 8);
      const head = view.getUint32(0, true);
      const slot = call.ribbonSlot!(key, seed, head, view.getUint32(4, true)) >>> 0;
      const bytes = read(layout.wordsAt + (slot >>> 6) * 8 * codeBits, 16 * codeBits);
      // At the end of the words there is no second group; it is not needed then.
      kernels.u8.fill(0, window, window + 16 * codeBits);
      kernels.u8.set(bytes, window);
      const value = call.ribbonValue!(key, seed, head, slot, window, codeBits) >>> 0;
      if (value >= groups) return;
      words[2 * i] = value | (MATCH << 16);
      words[2 * i + 1] = value | (value << 16);
    });
    kernels.free(window);
    return words;
  }

  #askSvbf(identity: Identity, keys: BigUint64Array): Uint32Array {
    const { call } = this.#kernels;
    const { seed, hashes, groups } = this.#geometry(identity);
    const read = this.#section(identity);
    const head = read(0, BLOOM_HEAD_BYTES);
    const bits = new DataView(head.buffer, head.byteOffset, head.length).getUint32(8, true);
    const words = new Uint32Array(2 * keys.length);
    const length = tailBytes(groups);
    keys.forEach((key, i) => {
      let all = (1n << BigInt(groups)) - 1n;
      for (let j = 0; j < hashes && all !== 0n; j++) {
        const at = call.svbfPosition!(key, seed, bits, j) >>> 0;
        let burst = 0n;
        for (const [b, byte] of read(BLOOM_HEAD_BYTES + (at >>> 3), length).entries())
          burst |= BigInt(byte) << BigInt(8 * b);
        all &= burst >> BigInt(at & 7);
      }
      const candidates = Array.from({ length: groups }, (_, g) => g).filter((g) => (all >> BigInt(g)) & 1n);
      if (candidates.length === 0) return;
      const count = (g: number) => this.cells[g]!.count;
      const best = candidates.reduce((a, b) => (count(b) > count(a) ? b : a));
      words[2 * i] = best | ((candidates.length === 1 ? MATCH : MULTI_MATCH) << 16);
      words[2 * i + 1] = candidates[0]! | (candidates.at(-1)! << 16);
    });
    return words;
  }

  #tell(answers: PacketAnswers, words: Uint32Array, wireBytes?: ArrayLike<number>): void {
    const { cells } = this;
    const { nsPerByte, totals } = this.head;
    for (let i = 0; i < answers.count; i++) {
      const kind = words[2 * i]! >>> 16;
      if (kind === NO_MATCH) continue;
      const cell = cells[words[2 * i]! & 0xffff]!;
      const range = words[2 * i + 1]!;
      const size = wireBytes?.[i] ?? 0;
      const known = nsPerByte === 0 || size > 0;
      answers.kind[i] = kind;
      answers.valueNs[i] = cell.meanNs + nsPerByte * (known ? size : totals.bytes / totals.stored);
      // A queueing delay was rounded to whole ns when it was stored.
      const slack = nsPerByte === 0 ? 0 : 1;
      answers.lowNs[i] = cells[range & 0xffff]!.lowNs + nsPerByte * (known ? size : 0) - slack;
      answers.highNs[i] = cells[range >>> 16]!.highNs + nsPerByte * (known ? size : MOST_BYTES) + slack;
      answers.varianceNs2[i] = cell.varianceNs2;
      answers.groupPackets[i] = cell.count;
    }
  }
}
