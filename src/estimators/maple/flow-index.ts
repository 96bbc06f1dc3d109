/**
 * The flow index of an archived epoch (docs/formats/maple-payload.md): per flow, its key, its number of packets, and their IPIDs as ranges. A question about
 * one flow reads the head and one bucket of about eight flows.
 *
 *   flows u32 | buckets u32 | packets of flows not listed u32 | 0 u32 | ends of buckets (buckets + 1) x u32 | entries
 *   entry: flags u8 (1 IPv6, 2 extended, 4 ports) | ports u32 | protocol u8 | [DSCP, VLAN u32] | addresses 8 or 32 bytes
 *          | packets varint | ranges varint | per range: distance from the end of the previous one varint, length - 1 varint
 */
import { ByteReader } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import type { IpidRange, ListedFlow } from "../estimator.ts";

export type RangeReader = (offset: number, length: number) => Uint8Array;

const HEAD_BYTES = 16;
/** Position in the head of the kind of index: 0 here, 1 for flow-delays.ts. */
export const KIND_AT = 12;
export const FLOWS_PER_BUCKET = 8;

export class FlowIndex {
  readonly flows: number;
  /** Packets of flows that did not fit into the tap's flow table. */
  readonly unlisted: number;
  readonly bytes: number;
  readonly #buckets: number;
  readonly #read: RangeReader;

  constructor(read: RangeReader, bytes: number) {
    this.#read = read;
    this.bytes = bytes;
    const head = new ByteReader(read(0, HEAD_BYTES), { file: "maple flow index" });
    this.flows = head.u32();
    this.#buckets = head.u32();
    this.unlisted = head.u32();
    if (this.#buckets < 1 || HEAD_BYTES + 4 * (this.#buckets + 1) > bytes) {
      throw new FormatError("bad-record", "maple flow index", 4, `${this.#buckets} buckets do not fit`);
    }
  }

  /** Returns the flow with this key and hash (upper half), or null if it is not listed. */
  find(hashHigh: number, keyWords: ArrayLike<number>, at = 0): ListedFlow | null {
    const bucket = Number((BigInt(hashHigh >>> 0) * BigInt(this.#buckets)) >> 32n);
    const ends = new ByteReader(this.#read(HEAD_BYTES + 4 * bucket, 8), { file: "maple flow index" });
    for (const flow of this.#entries(ends.u32(), ends.u32())) {
      if (flow.keyWords.every((word, i) => word === keyWords[at + i])) return flow;
    }
    return null;
  }

  /** All flows, in the order of the index. */
  *all(): IterableIterator<ListedFlow> {
    yield* this.#entries(0, this.bytes - this.#entriesAt);
  }

  get #entriesAt(): number {
    return HEAD_BYTES + 4 * (this.#buckets + 1);
  }

  *#entries(from: number, to: number): IterableIterator<ListedFlow> {
    if (!(from <= to && this.#entriesAt + to <= this.bytes)) {
      throw new FormatError(
        "bad-record",
        "maple flow index",
        HEAD_BYTES,
        "a bucket lies outside of the index",
      );
    }
    const start = this.#entriesAt + from;
    const bytes = this.#read(start, to - from);
    const reader = new ByteReader(bytes, { file: "maple flow index", baseOffset: start });
    while (reader.remaining > 0) yield readFlow(reader);
  }
}

function readFlow(reader: ByteReader): ListedFlow {
  const flags = reader.u8();
  const v6 = (flags & 1) !== 0;
  const keyWords = new Uint32Array(10);
  keyWords[0] = reader.u32();
  const proto = reader.u8();
  const extended = (flags & 2) !== 0 ? reader.u32() : 0;
  // The upper half of `meta`: protocol in bits 0-7, DSCP and VLAN in 8-26, then IPv6 and ports as single bits.
  keyWords[1] = (proto | (extended << 8) | (v6 ? 1 << 27 : 0) | ((flags & 4) !== 0 ? 1 << 28 : 0)) >>> 0;
  for (let i = 2; i < (v6 ? 10 : 4); i++) keyWords[i] = reader.u32();
  const packets = reader.varint();
  const count = reader.varint();
  const ranges: IpidRange[] = [];
  let previous = 0;
  for (let i = 0; i < count; i++) {
    const at = reader.offset;
    const first = previous + reader.varint();
    const last = first + reader.varint();
    if (last > 0xffff) {
      throw new FormatError("bad-record", reader.file, at, `IPID ${last} is above 65535`);
    }
    ranges.push({ first, last });
    previous = last + 1;
  }
  return { keyWords, packets, ranges };
}
