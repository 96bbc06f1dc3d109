/**
 * The default store: static retrieval by a ribbon (kernels/maple/ribbon.ts), built at the end of the epoch. It is not in the paper, and better than the paper's
 * structures wherever an epoch's packets can be buffered: about 1.02 r bits per packet for r stored bits, and a stored packet never gets a wrong or a second
 * group.
 *
 * The stored value is code XOR r bits of the key's hash. For a packet that was never stored, the result is then r random bits, which are a group's number with
 * probability k / 2^r, else No-Match. Limits: no answer before the end of the epoch; of several packets with the same key, only the first is stored.
 *
 *   body: packets u32 | left out u32 | blocks u32 | slots u32 | index (blocks + 1) x u32 | 0 or 4 zero bytes | words u64
 */
import { ByteReader, ByteWriter } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import type { Kernels } from "../../../base/kernels.ts";
import { withAsked } from "./asked.ts";
import type { PacketStore, StoreGeometry } from "./packet-store.ts";

/** Larger blocks waste less space but need more seeds to be tried: 1.8 % and three tries at this size. */
const BLOCK_KEYS = 3000;
const EXTRA_SLOTS = 48;
export const RIBBON_HEAD_BYTES = 16;
/** The index stores the block's seed in this many low bits, below its first slot. */
const SEED_BITS = 6;

/** Positions in a body, from its first 16 bytes. */
export interface RibbonLayout {
  packets: number;
  leftOut: number;
  blocks: number;
  slots: number;
  indexAt: number;
  wordsAt: number;
  bytes: number;
}

export function ribbonLayout(head: Uint8Array, codeBits: number): RibbonLayout {
  const reader = new ByteReader(head, { file: "maple ribbon" });
  const packets = reader.u32();
  const leftOut = reader.u32();
  const blocks = reader.u32();
  const slots = reader.u32();
  const indexAt = RIBBON_HEAD_BYTES;
  const wordsAt = indexAt + 8 * Math.ceil((blocks + 1) / 2);
  if (blocks < 1 || slots < 64 * blocks || slots > 2 ** (32 - SEED_BITS)) {
    throw new FormatError(
      "bad-record",
      "maple ribbon",
      8,
      `impossible layout: ${blocks} blocks of ${slots} slots`,
    );
  }
  const bytes = wordsAt + 8 * codeBits * Math.ceil(slots / 64);
  return { packets, leftOut, blocks, slots, indexAt, wordsAt, bytes };
}

interface Built {
  index: number;
  words: number;
  blocks: number;
  slots: number;
  wordCount: number;
  tries: number;
  free(): void;
}

export class RibbonStore implements PacketStore {
  readonly geometry: StoreGeometry;
  packets = 0;
  leftOut = 0;
  readonly #kernels: Kernels;
  #keys = 0;
  #codes = 0;
  #room = 0;
  #built: Built | null = null;

  constructor(kernels: Kernels, geometry: StoreGeometry) {
    if (geometry.groups > 2 ** geometry.codeBits || geometry.codeBits > 16) {
      throw new RangeError(`${geometry.groups} groups do not fit ${geometry.codeBits} bits`);
    }
    this.#kernels = kernels;
    this.geometry = geometry;
  }

  /** Creates a store over columns that the caller keeps; nothing is copied. */
  static from(
    kernels: Kernels,
    geometry: StoreGeometry,
    keys: number,
    codes: number,
    count: number,
  ): RibbonStore {
    const store = new RibbonStore(kernels, geometry);
    store.packets = count;
    store.#build(keys, codes);
    return store;
  }

  static open(kernels: Kernels, geometry: StoreGeometry, body: Uint8Array): RibbonStore {
    const layout = ribbonLayout(body.subarray(0, RIBBON_HEAD_BYTES), geometry.codeBits);
    if (body.length !== layout.bytes) {
      const message = `${body.length} bytes, expected ${layout.bytes}`;
      throw new FormatError("bad-record", "maple ribbon", 0, message);
    }
    checkIndex(body, layout);
    const store = new RibbonStore(kernels, geometry);
    store.packets = layout.packets;
    store.leftOut = layout.leftOut;
    // One more group of words, because the last window may reach into it.
    const address = kernels.alloc(body.length + 8 * geometry.codeBits);
    kernels.u8.set(body, address);
    kernels.u8.fill(0, address + body.length, address + body.length + 8 * geometry.codeBits);
    store.#built = {
      index: address + layout.indexAt,
      words: address + layout.wordsAt,
      blocks: layout.blocks,
      slots: layout.slots,
      wordCount: (layout.bytes - layout.wordsAt) / 8,
      tries: 0,
      free: () => kernels.free(address),
    };
    return store;
  }

  get bits(): number {
    return this.#built ? this.#built.wordCount * 64 + (this.#built.blocks + 1) * 32 : 0;
  }

  get absentAccepted(): number {
    return this.geometry.groups / 2 ** this.geometry.codeBits;
  }

  /** Block seeds tried while building. */
  get tries(): number {
    return this.#built?.tries ?? 0;
  }

  insert(keys: number, codes: number, count: number): void {
    if (this.#built) throw new Error("a ribbon takes no packets after it was built");
    const kernels = this.#kernels;
    if (this.packets + count > this.#room) {
      const room = Math.max(4096, 2 * this.#room, this.packets + count);
      const [newKeys, newCodes] = [kernels.alloc(room * 8), kernels.alloc(room * 2)];
      const { u8 } = kernels;
      if (this.#room > 0) {
        u8.copyWithin(newKeys, this.#keys, this.#keys + this.packets * 8);
        u8.copyWithin(newCodes, this.#codes, this.#codes + this.packets * 2);
        kernels.free(this.#keys);
        kernels.free(this.#codes);
      }
      [this.#keys, this.#codes, this.#room] = [newKeys, newCodes, room];
    }
    const { u8 } = kernels;
    u8.copyWithin(this.#keys + this.packets * 8, keys, keys + count * 8);
    u8.copyWithin(this.#codes + this.packets * 2, codes, codes + count * 2);
    this.packets += count;
  }

  close(): void {
    if (this.#built) return;
    this.#build(this.#keys, this.#codes);
    if (this.#room > 0) {
      this.#kernels.free(this.#keys);
      this.#kernels.free(this.#codes);
      this.#room = 0;
    }
  }

  lookup(keys: number, count: number, out: number): void {
    const { index, words, blocks } = this.#whole();
    const { seed, codeBits, groups } = this.geometry;
    withAsked(this.#kernels, { keys, count, out }, (asked) =>
      this.#kernels.call.ribbonLookup(index, words, blocks, seed, codeBits, groups, asked),
    );
  }

  body(): Uint8Array {
    const { index, words, blocks, slots, wordCount } = this.#whole();
    const { u8 } = this.#kernels;
    const out = new ByteWriter(RIBBON_HEAD_BYTES + 8 * Math.ceil((blocks + 1) / 2) + wordCount * 8);
    out.u32(this.packets);
    out.u32(this.leftOut);
    out.u32(blocks);
    out.u32(slots);
    out.bytes(u8.subarray(index, index + (blocks + 1) * 4));
    if ((blocks + 1) % 2 === 1) out.u32(0);
    out.bytes(u8.subarray(words, words + wordCount * 8));
    return out.finish();
  }

  free(): void {
    this.#built?.free();
    if (this.#room > 0) {
      this.#kernels.free(this.#keys);
      this.#kernels.free(this.#codes);
    }
  }

  #whole(): Built {
    if (!this.#built) throw new Error("a ribbon is asked before it was built");
    return this.#built;
  }

  #build(keys: number, codes: number): void {
    const { call } = this.#kernels;
    const { seed, codeBits } = this.geometry;
    const address =
      call.ribbonBuild(keys, codes, this.packets, seed, codeBits, BLOCK_KEYS, EXTRA_SLOTS) >>> 0;
    if (address === 0) throw new Error(`a ribbon of ${this.packets} packets could not be built`);
    const fields = this.#kernels.u32.subarray(address >>> 2, (address >>> 2) + 10);
    const [, , blocks = 0, index = 0, words = 0, wordCount = 0, slots = 0, repeats = 0, tries = 0] = fields;
    this.leftOut = repeats;
    this.#built = { index, words, blocks, slots, wordCount, tries, free: () => call.ribbonFree(address) };
  }
}

/** Checks the index: corrupt bytes must not lead a lookup outside of the words. */
function checkIndex(body: Uint8Array, layout: RibbonLayout): void {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  let before = 0;
  for (let b = 0; b <= layout.blocks; b++) {
    const at = layout.indexAt + 4 * b;
    const slot = view.getUint32(at, true) >>> SEED_BITS;
    const right = b === 0 ? slot === 0 : slot >= before + 64 && slot <= layout.slots;
    if (!right || (b === layout.blocks && slot !== layout.slots)) {
      throw new FormatError(
        "bad-record",
        "maple ribbon",
        at,
        `block ${b} begins at slot ${slot}, which cannot be`,
      );
    }
    before = slot;
  }
}
