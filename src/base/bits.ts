/**
 * Writes and reads numbers of any width as a stream of bits, lowest bit first. The last byte is padded with zeros.
 *
 * expGolomb: exponential Golomb code of order k, for counts with a long tail. With L the bit length of x + 2^k, the code is L - 1 - k zeros, a one, then the
 * lower L - 1 bits. Small values cost k + 1 bits; a value 2^d times as large costs 2d bits more.
 */
import { FormatError } from "./errors.ts";

export class BitWriter {
  #bytes: Uint8Array;
  #length = 0;
  /** Bits that do not fill a byte yet, fewer than 8. */
  #rest = 0;
  #count = 0;

  constructor(capacity = 256) {
    this.#bytes = new Uint8Array(Math.max(16, capacity));
  }

  /** Writes the lower `width` bits (0 to 53) of a non-negative integer that fits them. */
  bits(value: number, width: number): void {
    while (width > 0) {
      const take = Math.min(16, width);
      const part = take === width ? value : value % 0x1_0000;
      this.#rest |= part << this.#count;
      this.#count += take;
      width -= take;
      if (width > 0) value = Math.floor(value / 0x1_0000);
      while (this.#count >= 8) {
        this.#push(this.#rest & 0xff);
        this.#rest >>>= 8;
        this.#count -= 8;
      }
    }
  }

  expGolomb(value: number, order: number): void {
    const shifted = value + 2 ** order;
    const length = bitLength(shifted);
    const zeros = length - 1 - order;
    this.bits(0, zeros);
    this.bits(1, 1);
    this.bits(shifted - 2 ** (length - 1), length - 1);
  }

  finish(): Uint8Array {
    if (this.#count > 0) this.#push(this.#rest);
    this.#rest = 0;
    this.#count = 0;
    return this.#bytes.slice(0, this.#length);
  }

  #push(byte: number): void {
    if (this.#length === this.#bytes.length) {
      const grown = new Uint8Array(2 * this.#length);
      grown.set(this.#bytes);
      this.#bytes = grown;
    }
    this.#bytes[this.#length++] = byte;
  }
}

export class BitReader {
  readonly #bytes: Uint8Array;
  readonly #file: string;
  readonly #offset: number;
  #at = 0;
  #rest = 0;
  #count = 0;

  constructor(bytes: Uint8Array, source: { file?: string; baseOffset?: number } = {}) {
    this.#bytes = bytes;
    this.#file = source.file ?? "bytes";
    this.#offset = source.baseOffset ?? 0;
  }

  bits(width: number): number {
    let value = 0;
    let scale = 1;
    while (width > 0) {
      const take = Math.min(16, width);
      while (this.#count < take) {
        this.#rest |= this.#next() << this.#count;
        this.#count += 8;
      }
      value += (this.#rest & (2 ** take - 1)) * scale;
      this.#rest >>>= take;
      this.#count -= take;
      scale *= 0x1_0000;
      width -= take;
    }
    return value;
  }

  expGolomb(order: number): number {
    let zeros = 0;
    while (this.bits(1) === 0) if (++zeros + order > 52) throw this.#bad("a number is beyond 2^53");
    const length = zeros + order;
    return this.bits(length) + 2 ** length - 2 ** order;
  }

  /** Checks that only padding is left: zero bits, less than a byte of them. */
  expectEnd(): void {
    if (this.#at !== this.#bytes.length)
      throw this.#bad(`${this.#bytes.length - this.#at} bytes are left over`);
    if (this.#rest !== 0) throw this.#bad("the padding is not zero");
  }

  #next(): number {
    if (this.#at >= this.#bytes.length) {
      throw new FormatError("truncated", this.#file, this.#offset + this.#at, "the bits end early");
    }
    return this.#bytes[this.#at++]!;
  }

  #bad(message: string): FormatError {
    return new FormatError("bad-record", this.#file, this.#offset + this.#at, message);
  }
}

/** Returns the bit length of a whole number below 2^53; 0 for 0. */
export function bitLength(value: number): number {
  if (value < 0x1_0000_0000) return 32 - Math.clz32(value);
  return 64 - Math.clz32(Math.floor(value / 0x1_0000_0000));
}
