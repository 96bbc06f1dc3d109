/**
 * Reads a BPF ring buffer in place. The kernel maps its data twice in a row, so that every record is contiguous.
 *
 *   page 0      reader position, u64; written by this side
 *   page 1      writer position, u64
 *   then        records: length u32 (bit 31: not written yet, bit 30: discarded), u32, then the bytes; each begins at a multiple of 8
 *
 * The size of such a map is a power of two of pages. A record that does not fit is not written; the program counts it.
 */
import type { Mapping } from "../source/interface/libc.ts";
import type { BpfMap } from "./bpf-map.ts";
import type { Libbpf } from "./libbpf.ts";

const PAGE = 4096;
const PROT_READ = 1;
const PROT_WRITE = 2;
const MAP_SHARED = 1;
const HEAD_BYTES = 8;
const BUSY = 0x8000_0000;
const DISCARDED = 0x4000_0000;

export class RingBuffer {
  readonly #bpf: Libbpf;
  readonly #bytes: number;
  readonly #own: Mapping;
  readonly #shared: Mapping;
  readonly #reader: BigUint64Array;
  readonly #writer: BigUint64Array;
  readonly #data: DataView;
  #closed = false;

  constructor(bpf: Libbpf, map: BpfMap) {
    this.#bpf = bpf;
    this.#bytes = map.maxEntries;
    const { libc } = bpf;
    const own = libc.mmap(null, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, map.fd, 0);
    const length = PAGE + 2 * this.#bytes;
    const shared = own === null ? null : libc.mmap(null, length, PROT_READ, MAP_SHARED, map.fd, PAGE);
    if (own === null || shared === null) throw new Error(`mapping a ring buffer: errno ${libc.errno()}`);
    this.#own = own;
    this.#shared = shared;
    this.#reader = new BigUint64Array(libc.view(own, PAGE), 0, 1);
    const view = libc.view(shared, length);
    this.#writer = new BigUint64Array(view, 0, 1);
    this.#data = new DataView(view, PAGE);
  }

  /**
   * Reads up to `most` records in order: `each` gets the position of a record in `data`, which may be overwritten once it returns. Returns the number of
   * records.
   */
  read(most: number, each: (data: DataView, at: number) => void): number {
    if (this.#closed) return 0;
    const end = Number(Atomics.load(this.#writer, 0));
    let at = Number(Atomics.load(this.#reader, 0));
    let found = 0;
    while (at < end && found < most) {
      const offset = at % this.#bytes;
      const head = this.#data.getUint32(offset, true);
      if ((head & BUSY) !== 0) break;
      if ((head & DISCARDED) === 0) {
        each(this.#data, offset + HEAD_BYTES);
        found++;
      }
      at += (HEAD_BYTES + (head & ~(BUSY | DISCARDED)) + 7) & ~7;
    }
    Atomics.store(this.#reader, 0, BigInt(at));
    return found;
  }

  /** Number of bytes not read yet. */
  get waiting(): number {
    return this.#closed ? 0 : Number(Atomics.load(this.#writer, 0) - Atomics.load(this.#reader, 0));
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#bpf.libc.munmap(this.#own, PAGE);
    this.#bpf.libc.munmap(this.#shared, PAGE + 2 * this.#bytes);
  }
}
