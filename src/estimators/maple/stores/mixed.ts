/**
 * A ribbon with a fractional number of bits. Packets are divided by hash among three ribbons, which store all bits of the group's number, all but one, or all
 * but two (kernels/maple/mixed.ts). A shortened number stands for two or four neighbouring groups, which get one answer. This uses the whole of a budget such
 * as 5.2 bits per packet: packets with more bits lower the median error by more than packets with fewer bits raise it.
 *
 *   body: packets u32 | left out u32 | thresholds of the classes 2 x u32 | bytes of the ribbons 3 x u32 | 0 u32 | the ribbons' bodies (ribbon.ts)
 */

import { ByteReader, ByteWriter } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import type { Kernels } from "../../../base/kernels.ts";
import { entryAt } from "../../../base/lists.ts";
import type { PacketStore, StoreGeometry } from "./packet-store.ts";
import { RibbonStore } from "./ribbon.ts";

const CLASSES = [0, 1, 2] as const;
const FILE = "maple mixed ribbons";

/** Shares of packets that store all bits, all but one and all but two, to save this many bits on average (0 to 1.5). */
function sharesFor(fewer: number): [number, number, number] {
  const two = 0.28 * fewer * fewer;
  const one = fewer - 2 * two;
  return [1 - one - two, one, two];
}

export class MixedStore implements PacketStore {
  readonly geometry: StoreGeometry;
  packets = 0;
  readonly #kernels: Kernels;
  readonly #thresholds: [number, number];
  /** One per class. */
  readonly ribbons: readonly RibbonStore[];

  private constructor(
    kernels: Kernels,
    geometry: StoreGeometry,
    thresholds: [number, number],
    ribbons: readonly RibbonStore[],
  ) {
    this.#kernels = kernels;
    this.geometry = geometry;
    this.#thresholds = thresholds;
    this.ribbons = ribbons;
  }

  /** `fewer`: bits per packet saved on average. */
  static create(kernels: Kernels, geometry: StoreGeometry, fewer: number): MixedStore {
    const [all, one] = sharesFor(fewer);
    const thresholds = [all, all + one].map((t) => Math.min(2 ** 32 - 1, Math.floor(t * 2 ** 32)));
    const ribbons = CLASSES.map((c) => new RibbonStore(kernels, classGeometry(geometry, c)));
    return new MixedStore(kernels, geometry, thresholds as [number, number], ribbons);
  }

  static open(kernels: Kernels, geometry: StoreGeometry, body: Uint8Array): MixedStore {
    const reader = new ByteReader(body, { file: FILE });
    const packets = reader.u32();
    reader.skip(4);
    const thresholds: [number, number] = [reader.u32(), reader.u32()];
    const bytes = CLASSES.map(() => reader.u32());
    reader.skip(4);
    if (bytes.reduce((a, b) => a + b) !== reader.remaining) {
      throw new FormatError(
        "bad-record",
        FILE,
        16,
        `${bytes.join(" + ")} bytes do not fit ${reader.remaining}`,
      );
    }
    const ribbons = CLASSES.map((c) =>
      RibbonStore.open(kernels, classGeometry(geometry, c), reader.bytes(bytes[c]!).slice()),
    );
    const store = new MixedStore(kernels, geometry, thresholds, ribbons);
    store.packets = packets;
    return store;
  }

  get leftOut(): number {
    return this.ribbons.reduce((n, r) => n + r.leftOut, 0);
  }

  get bits(): number {
    return this.ribbons.reduce((n, r) => n + r.bits, 0);
  }

  get absentAccepted(): number {
    const [first, second] = this.#thresholds;
    const shares = [first, second - first, 2 ** 32 - second].map((t) => t / 2 ** 32);
    return this.ribbons.reduce((sum, r, c) => sum + shares[c]! * r.absentAccepted, 0);
  }

  insert(keys: number, codes: number, count: number): void {
    this.#split(keys, codes, count, (c, part) =>
      entryAt(this.ribbons, c).insert(part.keys, part.codes, part.count),
    );
    this.packets += count;
  }

  close(): void {
    for (const ribbon of this.ribbons) ribbon.close();
  }

  lookup(keys: number, count: number, out: number): void {
    const kernels = this.#kernels;
    const answers = kernels.alloc(Math.max(8, 8 * count));
    this.#split(keys, 0, count, (c, part) => {
      entryAt(this.ribbons, c).lookup(part.keys, part.count, answers);
      kernels.call.mixedGather(answers, part.rows, part.count, c, this.geometry.groups, out);
    });
    kernels.free(answers);
  }

  body(): Uint8Array {
    const bodies = this.ribbons.map((r) => r.body());
    const out = new ByteWriter(32 + bodies.reduce((n, b) => n + b.length, 0));
    for (const word of [this.packets, this.leftOut, ...this.#thresholds]) out.u32(word);
    for (const body of bodies) out.u32(body.length);
    out.u32(0);
    for (const body of bodies) out.bytes(body);
    return out.finish();
  }

  free(): void {
    for (const ribbon of this.ribbons) ribbon.free();
  }

  #split(
    keys: number,
    codes: number,
    count: number,
    use: (c: number, part: { keys: number; codes: number; rows: number; count: number }) => void,
  ): void {
    const kernels = this.#kernels;
    const [first, second] = this.#thresholds;
    const room = (size: number) => kernels.alloc(Math.max(8, size * count));
    const [k, c, rows, counts, split] = [room(8), room(2), room(4), kernels.alloc(16), kernels.alloc(16)];
    kernels.u32.set([k, c, rows, counts], split >>> 2);
    kernels.call.mixedSplit(keys, codes, count, this.geometry.seed, first, second, split);
    const sizes = kernels.u32.slice(counts >>> 2, (counts >>> 2) + 3);
    let at = 0;
    for (const [i, size] of sizes.entries()) {
      if (size > 0) use(i, { keys: k + 8 * at, codes: c + 2 * at, rows: rows + 4 * at, count: size });
      at += size;
    }
    for (const address of [k, c, rows, counts, split]) kernels.free(address);
  }
}

function classGeometry(geometry: StoreGeometry, c: number): StoreGeometry {
  return {
    ...geometry,
    kind: "ribbon",
    groups: Math.ceil(geometry.groups / 2 ** c),
    codeBits: geometry.codeBits - c,
    seed: BigInt.asUintN(64, geometry.seed + BigInt(c)),
  };
}
