/**
 * The delays of each flow of an archived epoch, found by the hash of its key (written by kernels/maple/flow-delays.ts). They answer questions about a flow,
 * without keys, IPIDs or the order of packets. A question reads the head and one bucket of about 32 flows.
 *
 *   flows u32 | buckets u32 | packets of flows not kept u32 | 1 u32 | first bit of each bucket (buckets + 1) x u32 | bits, lowest of a byte first
 *   a bucket: its flows by print (the low 13 bits of the hash), each
 *     print minus the previous one as a Rice code with 8 low bits | packets m as an Elias gamma code
 *     | m group numbers, sorted, each minus the previous one, as Rice codes with floor(log2(groups / m)) low bits (0 if m > groups)
 *
 * Limits: a flow that did not pass is found with probability 32 / 2^13 = 0.4 %; two flows with the same bucket and print get a common answer, marked as a
 * guess.
 */
import { ByteReader } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import type { RangeReader } from "./flow-index.ts";

const HEAD_BYTES = 16;
const PRINT_MASK = (1 << 13) - 1;
const PRINT_SHIFT = 8;
export const DELAY_FLOWS_PER_BUCKET = 32;
/** Fourth word of the section: the kind of index. */
export const FLOW_DELAYS_KIND = 1;

export class FlowDelays {
  readonly flows: number;
  /** Packets of flows that did not fit into the tap's flow table. */
  readonly unlisted: number;
  readonly #buckets: number;
  readonly #groups: number;
  readonly #bytes: number;
  readonly #read: RangeReader;

  constructor(read: RangeReader, bytes: number, groups: number) {
    this.#read = read;
    this.#bytes = bytes;
    this.#groups = groups;
    const head = new ByteReader(read(0, HEAD_BYTES), { file: "maple flow delays" });
    this.flows = head.u32();
    this.#buckets = head.u32();
    this.unlisted = head.u32();
    if (this.#buckets < 1 || this.#bitsAt > bytes) throw bad(4, `${this.#buckets} buckets do not fit`);
  }

  get #bitsAt(): number {
    return HEAD_BYTES + 4 * (this.#buckets + 1);
  }

  /** Returns the group numbers, ascending, of the packets of flows with this hash; several lists if several flows look the same. */
  find(hash: bigint): Uint16Array[] {
    const bucket = Number(((hash >> 32n) * BigInt(this.#buckets)) >> 32n);
    const edges = new ByteReader(this.#read(HEAD_BYTES + 4 * bucket, 8), { file: "maple flow delays" });
    const [from, to] = [edges.u32(), edges.u32()];
    const first = from >>> 3;
    const last = Math.ceil(to / 8);
    if (from > to || this.#bitsAt + last > this.#bytes) {
      throw bad(HEAD_BYTES + 4 * bucket, "a bucket lies outside of the bits");
    }
    const bits = new BitReader(this.#read(this.#bitsAt + first, last - first), from & 7, to - 8 * first);
    const wanted = Number(hash & BigInt(PRINT_MASK));
    const found: Uint16Array[] = [];
    for (let print = 0; bits.more; ) {
      print += bits.rice(PRINT_SHIFT);
      const codes = this.#codes(bits, bits.gamma());
      if (print === wanted) found.push(codes);
      else if (print > wanted) break;
    }
    return found;
  }

  #codes(bits: BitReader, m: number): Uint16Array {
    // Each packet takes at least one bit, so a length beyond the remaining bits means corruption.
    if (m > bits.left) throw bad(this.#bitsAt, `a flow of ${m} packets does not fit ${bits.left} bits`);
    const codes = new Uint16Array(m);
    const shift = Math.max(0, Math.floor(Math.log2(Math.max(1, Math.floor(this.#groups / m)))));
    let code = 0;
    for (let i = 0; i < m; i++) {
      code += bits.rice(shift);
      if (code >= this.#groups) throw bad(this.#bitsAt, `there is no group ${code}`);
      codes[i] = code;
    }
    return codes;
  }
}

function bad(offset: number, message: string): FormatError {
  return new FormatError("bad-record", "maple flow delays", offset, message);
}

class BitReader {
  readonly #bytes: Uint8Array;
  readonly #end: number;
  #at: number;

  constructor(bytes: Uint8Array, at: number, end: number) {
    this.#bytes = bytes;
    this.#at = at;
    this.#end = end;
  }

  get more(): boolean {
    return this.#at < this.#end;
  }

  get left(): number {
    return this.#end - this.#at;
  }

  rice(shift: number): number {
    let quotient = 0;
    while (this.#bit() === 1) quotient++;
    return quotient * 2 ** shift + this.#low(shift);
  }

  gamma(): number {
    let low = 0;
    while (this.#bit() === 0) low++;
    if (low > 31) throw bad(0, "a length of more than 32 bits");
    return 2 ** low + this.#low(low);
  }

  #low(bits: number): number {
    let value = 0;
    for (let i = 0; i < bits; i++) value += this.#bit() * 2 ** i;
    return value;
  }

  #bit(): number {
    if (this.#at >= this.#end) throw bad(0, "a bucket ends within a flow");
    const bit = (this.#bytes[this.#at >>> 3]! >>> (this.#at & 7)) & 1;
    this.#at++;
    return bit;
  }
}
