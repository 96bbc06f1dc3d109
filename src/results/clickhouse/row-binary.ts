/**
 * Writes rows in ClickHouse's RowBinary: little-endian numbers; texts and arrays after their length (LEB128); a NULL flag byte before nullable
 * values.
 */

export class RowBinary {
  #bytes = Buffer.allocUnsafe(64 * 1024);
  #length = 0;

  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  text(value: string): this {
    const length = Buffer.byteLength(value);
    this.count(length);
    this.#room(length);
    this.#length += this.#bytes.write(value, this.#length);
    return this;
  }

  textOrNull(value: string | null): this {
    return value === null ? this.uint8(1) : this.uint8(0).text(value);
  }

  blob(value: Uint8Array): this {
    this.count(value.length);
    this.#room(value.length);
    this.#bytes.set(value, this.#length);
    this.#length += value.length;
    return this;
  }

  uint8(value: number): this {
    this.#room(1);
    this.#length = this.#bytes.writeUInt8(value, this.#length);
    return this;
  }

  int32(value: number): this {
    this.#room(4);
    this.#length = this.#bytes.writeInt32LE(value, this.#length);
    return this;
  }

  int64(value: bigint): this {
    this.#room(8);
    this.#length = this.#bytes.writeBigInt64LE(value, this.#length);
    return this;
  }

  uint64(value: bigint): this {
    this.#room(8);
    this.#length = this.#bytes.writeBigUInt64LE(value, this.#length);
    return this;
  }

  double(value: number): this {
    this.#room(8);
    this.#length = this.#bytes.writeDoubleLE(value, this.#length);
    return this;
  }

  doubleOrNull(value: number | null): this {
    return value === null ? this.uint8(1) : this.uint8(0).double(value);
  }

  /** Writes the length of a text or an array. */
  count(value: number): this {
    this.#room(5);
    let rest = value;
    while (rest >= 128) {
      this.#bytes[this.#length++] = (rest % 128) + 128;
      rest = Math.floor(rest / 128);
    }
    this.#bytes[this.#length++] = rest;
    return this;
  }

  #room(more: number): void {
    if (this.#length + more <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(2 * (this.#length + more));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}
