/**
 * The compiled kernels (kernels/*.ts -> dist/kernels.wasm): one module, compiled once per process, and one instance per job with its own memory. Addresses are
 * plain numbers. `memory.buffer` is replaced when the memory grows: never keep a typed array across a call that may allocate; take it again from the views
 * here.
 */
import { readFileSync } from "node:fs";
import { UsageError } from "./errors.ts";
import type { KernelExports } from "./kernel-exports.ts";
import { findPackageFile } from "./package-file.ts";

/** The part of the WebAssembly API used here. Node's types leave it to the DOM library, which is not loaded. */
export interface WasmModule {
  readonly kind?: "module";
}
export interface KernelMemory {
  /** A SharedArrayBuffer if the memory is shared. */
  readonly buffer: ArrayBuffer;
}
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => WasmModule;
  Instance: new (module: WasmModule, imports: object) => { exports: Record<string, unknown> };
};

/** The largest memory of an instance: addresses are 32-bit. */
const MAX_MEMORY = "4 GiB";

/** Memory that kernels need beside their large blocks: heads, tables of constant size. */
const SMALL_BLOCKS_BYTES = 1 << 17;

/** The kernels' memory is exhausted. The caller's message names what used it up and what to lower. */
export class MemoryError extends UsageError {
  constructor(what = "", hint = "ask for less", options?: { cause?: unknown }) {
    const whose = what === "" ? "" : `: ${what}`;
    super("out-of-memory", `the memory of the kernels (${MAX_MEMORY}) is exhausted${whose}`, hint, options);
    this.name = "MemoryError";
  }
}

/**
 * Returns the MemoryError that a failure stands for, or null for other failures. Kernels are compiled without assertions, so their only deliberate trap is that
 * of memory that cannot grow.
 */
export function memoryError(error: unknown, what?: string, hint?: string): MemoryError | null {
  if (error instanceof MemoryError && what === undefined) return error;
  const trapped =
    error instanceof Error && error.name === "RuntimeError" && /unreachable/.test(error.message);
  return trapped || error instanceof MemoryError ? new MemoryError(what, hint, { cause: error }) : null;
}

let plain: WasmModule | undefined;
let shared: WasmModule | undefined;

function wasmBytes(): Uint8Array {
  const file = findPackageFile("kernels.wasm");
  if (!file) throw new Error("dist/kernels.wasm is missing: run `npm run build`");
  return readFileSync(file);
}

/** Returns the position of the flags byte of the module's only memory, which says whether it has a maximum and is shared. */
function memoryFlags(bytes: Uint8Array): number {
  const memorySection = 5;
  let at = 8;
  while (at < bytes.length) {
    const section = bytes[at++];
    let size = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++] ?? 0;
      size |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    if (section === memorySection) return at + 1;
    at += size;
  }
  throw new Error("dist/kernels.wasm has no memory: run `npm run build`");
}

/** Changes the module's memory to a shared one, which other threads can be given. */
function sharing(bytes: Uint8Array): Uint8Array {
  const hasMaximum = 1;
  const isShared = 2;
  const at = memoryFlags(bytes);
  if (bytes[at] !== hasMaximum) throw new Error("dist/kernels.wasm has a memory without bound");
  bytes[at] = hasMaximum | isShared;
  return bytes;
}

function plainModule(): WasmModule {
  plain ??= new WebAssembly.Module(wasmBytes());
  return plain;
}
function sharedModule(): WasmModule {
  shared ??= new WebAssembly.Module(sharing(wasmBytes()));
  return shared;
}

function outside(address: number): never {
  throw new RangeError(`kernel address ${address} is outside the memory`);
}

export class Kernels {
  readonly memory: KernelMemory;
  /** The raw exports, by name: `kernels.call.walkPcap(cursor, batch)`. */
  readonly call: KernelExports;
  #buffer: ArrayBuffer | undefined;
  #u8 = new Uint8Array(0);
  #u32 = new Uint32Array(0);
  #f64 = new Float64Array(0);
  #i64 = new BigInt64Array(0);
  #u64 = new BigUint64Array(0);

  /** `shared`: the memory is a SharedArrayBuffer, which other threads can read and write. */
  constructor(options: { shared?: boolean } = {}) {
    const instance = new WebAssembly.Instance(options.shared ? sharedModule() : plainModule(), {});
    this.memory = instance.exports["memory"] as KernelMemory;
    this.call = instance.exports as unknown as KernelExports;
  }

  #refresh(): void {
    const buffer = this.memory.buffer;
    if (this.#buffer === buffer) return;
    this.#buffer = buffer;
    this.#u8 = new Uint8Array(buffer);
    this.#u32 = new Uint32Array(buffer);
    this.#f64 = new Float64Array(buffer);
    this.#i64 = new BigInt64Array(buffer);
    this.#u64 = new BigUint64Array(buffer);
  }

  get u8(): Uint8Array {
    this.#refresh();
    return this.#u8;
  }
  get u32(): Uint32Array {
    this.#refresh();
    return this.#u32;
  }
  get f64(): Float64Array {
    this.#refresh();
    return this.#f64;
  }
  get i64(): BigInt64Array {
    this.#refresh();
    return this.#i64;
  }
  get u64(): BigUint64Array {
    this.#refresh();
    return this.#u64;
  }

  alloc(bytes: number): number {
    // WebAssembly would truncate the number to 32 bits.
    if (bytes >= 2 ** 32) throw new MemoryError();
    try {
      return this.call.alloc(bytes) >>> 0;
    } catch (error) {
      throw memoryError(error) ?? error;
    }
  }

  free(address: number): void {
    this.call.free(address);
  }

  /**
   * Throws a MemoryError if blocks of these sizes, with small ones beside them, do not all fit: call it before a kernel's `…New`. That function would trap
   * halfway, and nobody could free what it has allocated by then.
   */
  ensure(...blocks: number[]): void {
    const held: number[] = [];
    try {
      for (const bytes of [...blocks, SMALL_BLOCKS_BYTES]) held.push(this.alloc(bytes));
    } finally {
      for (const address of held) this.free(address);
    }
  }

  // Single fields of records, by address (kernel-layout.ts has their offsets). Loops use the views above instead.
  readU32(address: number): number {
    return this.u32[address >>> 2] ?? outside(address);
  }
  writeU32(address: number, value: number): void {
    this.u32[address >>> 2] = value;
  }
  readF64(address: number): number {
    return this.f64[address >>> 3] ?? outside(address);
  }
  writeF64(address: number, value: number): void {
    this.f64[address >>> 3] = value;
  }
  readI64(address: number): bigint {
    return this.i64[address >>> 3] ?? outside(address);
  }
  writeU64(address: number, value: bigint): void {
    this.u64[address >>> 3] = value;
  }

  /** Returns a 64-bit unsigned counter as a number (exact below 2^53). */
  readCounter(address: number): number {
    return this.readU32(address + 4) * 0x1_0000_0000 + this.readU32(address);
  }
}
