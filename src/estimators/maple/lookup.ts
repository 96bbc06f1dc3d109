/**
 * Looks up packets in a sealed epoch through a range reader. A few packets are answered from the words they need (the ribbon: 8 bytes of index and 16 r bytes
 * of words; SVBF: a burst per hash function); for many, the store is read as a whole and kept. Works on a payload in memory and on a record in an archive.
 */

import { FormatError } from "../../base/errors.ts";
import type { Kernels } from "../../base/kernels.ts";
import type { ListedFlow, PacketAnswers, PacketLookup } from "../estimator.ts";
import { combineAnswers, emptyAnswers, joinAnswers } from "../packet-answers.ts";
import { joinRanges } from "../packet-keys.ts";
import { costsOf } from "./costs.ts";
import type { RangeReader } from "./flow-index.ts";
import type { Identity } from "./identity.ts";
import { MaplePart } from "./part-lookup.ts";
import { decodePayloadHead } from "./payload.ts";

export class MaplePayload implements PacketLookup {
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

  /** Returns false if no part stores packets under this identity. */
  has(identity: Identity): boolean {
    return this.parts.some((p) => p.head.sections[identity].bytes > 0);
  }

  /** `wireBytes`: packet sizes, 0 if unknown; needed if queueing delays are stored. */
  lookup(identity: Identity, keys: BigUint64Array, wireBytes?: ArrayLike<number>): PacketAnswers {
    const answers = emptyAnswers(keys.length);
    for (const part of this.parts) combineAnswers(answers, part.lookup(identity, keys, wireBytes));
    return answers;
  }

  get lists(): boolean {
    return this.parts.some((p) => p.index !== null);
  }

  findFlow(hashHigh: number, keyWords: ArrayLike<number>): ListedFlow | null {
    const found = this.parts.flatMap((p) => p.index?.find(hashHigh, keyWords) ?? []);
    return found.length <= 1 ? (found[0] ?? null) : found.reduce(joinFlows);
  }

  get keepsFlows(): boolean {
    return this.parts.some((p) => p.flowDelays !== null);
  }

  flowPackets(hash: bigint): PacketAnswers | null {
    const found = this.parts.flatMap((p) => p.flowPackets(hash) ?? []);
    return found.length <= 1 ? (found[0] ?? null) : joinAnswers(found);
  }

  everyPacket(): PacketAnswers {
    return joinAnswers(this.parts.map((part) => part.everyPacket()));
  }

  flows(): Iterable<ListedFlow> {
    const [first, ...more] = this.parts;
    if (more.length === 0) return first?.index?.all() ?? [];
    const all = new Map<string, ListedFlow>();
    for (const part of this.parts) {
      for (const flow of part.index?.all() ?? []) {
        const name = flow.keyWords.join();
        const before = all.get(name);
        all.set(name, before ? joinFlows(before, flow) : flow);
      }
    }
    return all.values();
  }

  costs(): Record<string, number> {
    return costsOf(
      this.parts.map((p) => p.head),
      this.bytes,
    );
  }

  get absentAccepted(): number {
    return 1 - this.parts.reduce((none, part) => none * (1 - part.absentAccepted), 1);
  }

  /** The value of the worst part. */
  get boundsHold(): number {
    return Math.min(1, ...this.parts.map((p) => p.boundsHold));
  }

  free(): void {
    for (const part of this.parts) part.free();
  }
}

/** Joins the entries of one flow in two parts: all IPIDs of either. */
function joinFlows(a: ListedFlow, b: ListedFlow): ListedFlow {
  const ranges = joinRanges([...a.ranges, ...b.ranges]);
  return { keyWords: a.keyWords, packets: a.packets + b.packets, ranges };
}
