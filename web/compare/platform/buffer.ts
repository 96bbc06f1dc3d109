/** The parts of Node's Buffer that the code in the page uses. */
class Bytes extends Uint8Array {
  writeUInt16BE(value: number, at: number): void {
    new DataView(this.buffer, this.byteOffset).setUint16(at, value);
  }

  writeUInt32BE(value: number, at: number): void {
    new DataView(this.buffer, this.byteOffset).setUint32(at, value);
  }

  override toString(encoding?: string): string {
    // Texts of the kernels are ASCII, so latin1 is correct.
    const text = new TextDecoder("latin1").decode(this);
    return encoding === "base64" ? btoa(String.fromCharCode(...this)) : text;
  }
}

/** Returns a view of bytes, or a copy, as in Node. */
function from(bytes: ArrayBuffer | ArrayLike<number>, offset?: number, length?: number): Bytes {
  return bytes instanceof ArrayBuffer ? new Bytes(bytes, offset, length) : new Bytes(bytes);
}

function concat(parts: readonly Uint8Array[]): Bytes {
  const whole = new Bytes(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function compare(a: Uint8Array, b: Uint8Array): number {
  const differs = a.findIndex((byte, i) => byte !== b[i]);
  return differs < 0 || differs >= b.length ? a.length - b.length : a[differs]! - b[differs]!;
}

export const Buffer = { alloc: (length: number) => new Bytes(length), from, concat, compare };
