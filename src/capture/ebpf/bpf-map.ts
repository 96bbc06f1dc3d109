/** A map of a loaded program. Memory that both sides share (BPF_F_MMAPABLE) is mapped and read in place; other maps are read by key. */
import type { Mapping } from "../source/interface/libc.ts";
import type { Handle, Libbpf } from "./libbpf.ts";

const PROT_READ_WRITE = 3;
const MAP_SHARED = 1;
const PAGE = 4096;
const ENOENT = 2;
/** Bytes read by one call within `entries`. */
const BATCH_BYTES = 1 << 20;

export class BpfMap {
  readonly fd: number;
  readonly valueBytes: number;
  readonly maxEntries: number;
  readonly #bpf: Libbpf;
  #mapped: { at: Mapping; bytes: number } | null = null;

  constructor(bpf: Libbpf, handle: Handle) {
    this.#bpf = bpf;
    this.fd = bpf.mapFd(handle);
    this.valueBytes = bpf.mapValueBytes(handle);
    this.maxEntries = bpf.mapEntries(handle);
  }

  /** Reads the value of a key; false if there is no such key. */
  lookup(key: Uint8Array, value: Uint8Array): boolean {
    const outcome = this.#bpf.lookup(this.fd, key, value);
    if (outcome === -ENOENT) return false;
    if (outcome !== 0) throw new Error(`lookup in a map: errno ${-outcome}`);
    return true;
  }

  update(key: Uint8Array, value: Uint8Array): void {
    const outcome = this.#bpf.update(this.fd, key, value, 0);
    if (outcome !== 0) throw new Error(`update of a map: errno ${-outcome}`);
  }

  remove(key: Uint8Array): boolean {
    return this.#bpf.remove(this.fd, key) === 0;
  }

  /** Returns the values of an entry of a per-CPU map, one for each possible CPU. */
  lookupPerCpu(key: Uint8Array): Uint8Array[] {
    const stride = (this.valueBytes + 7) & ~7;
    const cpus = this.#bpf.possibleCpus();
    const values = new Uint8Array(stride * cpus);
    if (!this.lookup(key, values)) return [];
    return Array.from({ length: cpus }, (_, cpu) =>
      values.subarray(cpu * stride, cpu * stride + this.valueBytes),
    );
  }

  /**
   * Reads all entries in large batches: `each` gets keys and values as arrays, which are overwritten afterwards. `perCpu`: each value is one per possible CPU;
   * `take`: entries are removed.
   */
  entries(
    keyBytes: number,
    each: (keys: Uint8Array, values: Uint8Array, count: number) => void,
    { perCpu = false, take = false }: { perCpu?: boolean; take?: boolean } = {},
  ): void {
    const stride = ((this.valueBytes + 7) & ~7) * (perCpu ? this.#bpf.possibleCpus() : 1);
    const valueBytes = perCpu ? stride : this.valueBytes;
    let room = Math.max(64, Math.min(this.maxEntries, Math.floor(BATCH_BYTES / (valueBytes + keyBytes))));
    let before: Uint8Array | null = null;
    let batch = new Uint8Array(Math.max(16, keyBytes));
    for (;;) {
      const keys = new Uint8Array(keyBytes * room);
      const values = new Uint8Array(valueBytes * room);
      const count = new Uint32Array([room]);
      const read = take ? this.#bpf.takeBatch : this.#bpf.lookupBatch;
      const outcome = read(this.fd, before, batch, keys, values, count, null);
      if (outcome === -28) {
        // ENOSPC: one hash bucket has more entries than fit.
        room *= 2;
        continue;
      }
      if (outcome !== 0 && outcome !== -ENOENT) throw new Error(`reading a map: errno ${-outcome}`);
      const found = count[0] ?? 0;
      if (found > 0) each(keys.subarray(0, found * keyBytes), values.subarray(0, found * valueBytes), found);
      if (outcome === -ENOENT) return;
      before = batch;
      batch = new Uint8Array(batch.length);
    }
  }

  /** Returns the memory of the entries, shared with the programs; not to be used after `close`. */
  memory(): ArrayBuffer {
    const bytes = (((this.valueBytes + 7) & ~7) * this.maxEntries + PAGE - 1) & ~(PAGE - 1);
    const { libc } = this.#bpf;
    if (this.#mapped) return libc.view(this.#mapped.at, this.#mapped.bytes);
    const at = libc.mmap(null, bytes, PROT_READ_WRITE, MAP_SHARED, this.fd, 0);
    if (at === null) throw new Error(`mapping a map: errno ${libc.errno()}`);
    this.#mapped = { at, bytes };
    return libc.view(at, bytes);
  }

  close(): void {
    if (this.#mapped) this.#bpf.libc.munmap(this.#mapped.at, this.#mapped.bytes);
    this.#mapped = null;
  }
}
