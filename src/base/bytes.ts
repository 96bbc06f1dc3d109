/**
 * Writes and reads little-endian bytes, and computes CRC-32C (Castagnoli, the polynomial of iSCSI and ext4).
 *
 * The reader trusts nothing: every read is checked against the end, and missing or impossible bytes throw a FormatError with the file and the absolute offset.
 * The writer throws a RangeError for values that do not fit, which is a bug of ours. varint: LEB128 of 0 to 2^53 - 1 in its shortest form only, so that equal
 * values have equal bytes.
 */
import { FormatError } from "./errors.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export class ByteWriter {
  #bytes: Uint8Array;
  #view: DataView;
  #length = 0;

  constructor(capacity = 256) {
    this.#bytes = new Uint8Array(Math.max(16, capacity));
    this.#view = new DataView(this.#bytes.buffer);
  }

  get length(): number {
    return this.#length;
  }

  u8(value: number): void {
    const at = this.#claim(1, value, 0xff);
    this.#bytes[at] = value;
  }

  u16(value: number): void {
    const at = this.#claim(2, value, 0xffff);
    this.#view.setUint16(at, value, true);
  }

  u32(value: number): void {
    const at = this.#claim(4, value, 0xffffffff);
    this.#view.setUint32(at, value, true);
  }

  f64(value: number): void {
    const at = this.#reserve(8);
    this.#view.setFloat64(at, value, true);
  }

  u64(value: bigint): void {
    if (BigInt.asUintN(64, value) !== value) throw new RangeError(`${value} does not fit into u64`);
    const at = this.#reserve(8);
    this.#view.setBigUint64(at, value, true);
  }

  i64(value: bigint): void {
    if (BigInt.asIntN(64, value) !== value) throw new RangeError(`${value} does not fit into i64`);
    const at = this.#reserve(8);
    this.#view.setBigInt64(at, value, true);
  }

  varint(value: number): void {
    if (!Number.isSafeInteger(value) || value < 0)
      throw new RangeError(`${value} does not fit into a varint`);
    while (value >= 0x80) {
      // Bit operators cut values above 2^32, so divide instead.
      this.#byte((value % 0x80) | 0x80);
      value = Math.floor(value / 0x80);
    }
    this.#byte(value);
  }

  /** Writes a signed safe integer as a varint with short codes for small magnitudes: 0, -1, 1, -2 … become 0, 1, 2, 3 … */
  zigzag(value: number): void {
    if (!Number.isSafeInteger(value)) throw new RangeError(`${value} does not fit into a zigzag varint`);
    const magnitude = value < 0 ? -1 - value : value;
    // Doubling the whole value could pass 2^53, so only the first six bits are doubled to take the sign.
    const first = (magnitude % 64) * 2 + (value < 0 ? 1 : 0);
    const rest = Math.floor(magnitude / 64);
    this.#byte(rest > 0 ? first | 0x80 : first);
    if (rest > 0) this.varint(rest);
  }

  bytes(bytes: Uint8Array): void {
    const at = this.#reserve(bytes.length);
    this.#bytes.set(bytes, at);
  }

  /** Writes the length in bytes as a varint, then the text. */
  utf8(text: string): void {
    const bytes = encoder.encode(text);
    this.varint(bytes.length);
    this.bytes(bytes);
  }

  /** Overwrites a u32 written earlier, such as a length or checksum that was not known then. */
  patchU32(at: number, value: number): void {
    if (!(at >= 0 && at + 4 <= this.#length)) throw new RangeError(`no u32 was written at ${at}`);
    if (!(value >= 0 && value <= 0xffffffff)) throw new RangeError(`${value} does not fit into u32`);
    this.#view.setUint32(at, value, true);
  }

  /** Returns everything written so far as a view, valid until the next write. */
  view(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  /** Returns a copy of everything written so far. */
  finish(): Uint8Array {
    return this.#bytes.slice(0, this.#length);
  }

  #byte(value: number): void {
    // Reserve first: growing replaces #bytes, and `this.#bytes[this.#reserve(1)]` would still write into the old array.
    const at = this.#reserve(1);
    this.#bytes[at] = value;
  }

  #claim(size: number, value: number, max: number): number {
    if (!(Number.isInteger(value) && value >= 0 && value <= max)) {
      throw new RangeError(`${value} does not fit into u${8 * size}`);
    }
    return this.#reserve(size);
  }

  #reserve(size: number): number {
    const at = this.#length;
    const end = at + size;
    if (end > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(end, this.#bytes.length * 2));
      grown.set(this.view());
      this.#bytes = grown;
      this.#view = new DataView(grown.buffer);
    }
    this.#length = end;
    return at;
  }
}

export class ByteReader {
  readonly file: string;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #baseOffset: number;
  #at = 0;

  constructor(bytes: Uint8Array, source: { file?: string; baseOffset?: number } = {}) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.file = source.file ?? "bytes";
    this.#baseOffset = source.baseOffset ?? 0;
  }

  /** Offset of the next read from the start of the file. */
  get offset(): number {
    return this.#baseOffset + this.#at;
  }

  /** Offset of the next read from the start of these bytes. */
  get position(): number {
    return this.#at;
  }

  get remaining(): number {
    return this.#bytes.length - this.#at;
  }

  u8(): number {
    return this.#bytes[this.#take(1, "u8")]!;
  }

  u16(): number {
    return this.#view.getUint16(this.#take(2, "u16"), true);
  }

  u32(): number {
    return this.#view.getUint32(this.#take(4, "u32"), true);
  }

  f64(): number {
    return this.#view.getFloat64(this.#take(8, "f64"), true);
  }

  u64(): bigint {
    return this.#view.getBigUint64(this.#take(8, "u64"), true);
  }

  i64(): bigint {
    return this.#view.getBigInt64(this.#take(8, "i64"), true);
  }

  varint(): number {
    const start = this.#at;
    let value = 0;
    let scale = 1;
    // Eight groups of seven bits reach 2^56: enough to detect an overflow of 2^53, and still exact below it.
    for (let i = 0; i < 8; i++) {
      const byte = this.#bytes[this.#take(1, "varint", start)]!;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        if (byte === 0 && i > 0) throw this.#bad(start, "a varint is not in its shortest form");
        if (value > Number.MAX_SAFE_INTEGER) break;
        return value;
      }
      scale *= 0x80;
    }
    throw this.#bad(start, "a varint is beyond 2^53 - 1");
  }

  zigzag(): number {
    const start = this.#at;
    const first = this.#bytes[this.#take(1, "zigzag varint")]!;
    let magnitude = (first & 0x7f) >>> 1;
    if (first >= 0x80) {
      const rest = this.varint();
      if (rest === 0) throw this.#bad(start, "a zigzag varint is not in its shortest form");
      magnitude += rest * 64;
    }
    const value = first & 1 ? -1 - magnitude : magnitude;
    if (!Number.isSafeInteger(value)) throw this.#bad(start, "a zigzag varint is beyond +-(2^53 - 1)");
    return value;
  }

  /** Returns the next bytes as a view of the same memory, not a copy. */
  bytes(length: number): Uint8Array {
    const at = this.#take(length, `${length} bytes`);
    return this.#bytes.subarray(at, at + length);
  }

  utf8(): string {
    const start = this.#at;
    const bytes = this.bytes(this.varint());
    try {
      return decoder.decode(bytes);
    } catch (cause) {
      throw new FormatError("bad-record", this.file, this.#baseOffset + start, "text is not UTF-8", {
        cause,
      });
    }
  }

  skip(length: number): void {
    this.#take(length, `${length} bytes to skip`);
  }

  /** Checks that everything has been read: extra bytes are as wrong as missing ones. */
  expectEnd(): void {
    if (this.remaining > 0) throw this.#bad(this.#at, `${this.remaining} bytes are left over`);
  }

  #take(size: number, what: string, start = this.#at): number {
    const at = this.#at;
    if (!(size >= 0 && size <= this.#bytes.length - at)) {
      throw new FormatError(
        "truncated",
        this.file,
        this.#baseOffset + start,
        `expected ${what}, but ${this.#bytes.length - start} bytes are left`,
      );
    }
    this.#at = at + size;
    return at;
  }

  #bad(at: number, message: string): FormatError {
    return new FormatError("bad-record", this.file, this.#baseOffset + at, message);
  }
}

// Slice-by-8: table t advances the checksum by a byte that lies t bytes before the end of an eight-byte step.
const CRC_TABLES = makeCrcTables();

/** Returns the CRC-32C. `seed` is the checksum of the preceding bytes, so that pieces chain: crc(ab) = crc(b, crc(a)). */
export function crc32c(bytes: Uint8Array, seed = 0): number {
  const t = CRC_TABLES;
  let crc = ~seed;
  let i = 0;
  for (const end = bytes.length - 7; i < end; i += 8) {
    const low = crc ^ (bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24));
    crc =
      t[1792 + (low & 0xff)]! ^
      t[1536 + ((low >>> 8) & 0xff)]! ^
      t[1280 + ((low >>> 16) & 0xff)]! ^
      t[1024 + (low >>> 24)]! ^
      t[768 + bytes[i + 4]!]! ^
      t[512 + bytes[i + 5]!]! ^
      t[256 + bytes[i + 6]!]! ^
      t[bytes[i + 7]!]!;
  }
  for (; i < bytes.length; i++) crc = t[(crc ^ bytes[i]!) & 0xff]! ^ (crc >>> 8);
  return ~crc >>> 0;
}

function makeCrcTables(): Int32Array {
  const tables = new Int32Array(8 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    // The reflected Castagnoli polynomial.
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
    tables[byte] = crc;
  }
  for (let i = 256; i < tables.length; i++) {
    const before = tables[i - 256]!;
    tables[i] = tables[before & 0xff]! ^ (before >>> 8);
  }
  return tables;
}
