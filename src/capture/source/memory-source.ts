/** Bytes in memory as a source, for the few captures that are read as a whole. */
import type { ByteSource } from "./byte-source.ts";

export class MemorySource implements ByteSource {
  readonly name: string;
  readonly size: number;
  readonly rereadable = true;
  readonly compressed = false;
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(name: string, bytes: Uint8Array) {
    this.name = name;
    this.size = bytes.length;
    this.#bytes = bytes;
  }

  read(target: () => Uint8Array): Promise<number> {
    const into = target();
    const part = this.#bytes.subarray(this.#at, this.#at + into.length);
    into.set(part);
    this.#at += part.length;
    return Promise.resolve(part.length);
  }

  consumed(): number {
    return this.#at;
  }

  close(): void {}
}
