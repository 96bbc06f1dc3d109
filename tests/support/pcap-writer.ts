/** Writes small capture files byte by byte for tests: all kinds of pcap, pcapng block by block, ERF. Can also write invalid files. */

export interface PlainPacket {
  timeNs: bigint;
  frame: Uint8Array;
  /** Length on the wire; default: that of the frame. */
  wire?: number;
}

export interface PcapOptions {
  nano?: boolean;
  bigEndian?: boolean;
  /** Kuznetzov's format: 24 bytes before each packet. */
  modified?: boolean;
  link?: number;
  snapLength?: number;
}

/** Writes a pcap file; packets are cut to the snap length. */
export function pcapFile(packets: readonly PlainPacket[], options: PcapOptions = {}): Buffer {
  const { nano = false, bigEndian = false, modified = false, link = 1, snapLength = 65_535 } = options;
  const out = new ByteWriter(bigEndian, 24 + packets.reduce((n, p) => n + 24 + p.frame.length, 0));
  out.u32(modified ? 0xa1b2cd34 : nano ? 0xa1b23c4d : 0xa1b2c3d4);
  out.u16(2).u16(4).u32(0).u32(0).u32(snapLength).u32(link);
  for (const { timeNs, frame, wire } of packets) {
    const captured = Math.min(frame.length, snapLength);
    const fraction = timeNs % 1_000_000_000n;
    out.u32(Number(timeNs / 1_000_000_000n)).u32(Number(nano ? fraction : fraction / 1000n));
    out.u32(captured).u32(wire ?? frame.length);
    if (modified) out.u32(3).u16(0x0800).u16(0);
    out.bytes(captured === frame.length ? frame : frame.subarray(0, captured));
  }
  return out.done();
}

/** Writes numbers in one byte order into a buffer that grows. */
export class ByteWriter {
  readonly #big: boolean;
  #buffer: Buffer;
  #length = 0;
  constructor(bigEndian = false, expected = 64) {
    this.#big = bigEndian;
    this.#buffer = Buffer.alloc(expected);
  }
  /** Reserves this many bytes and returns their offset. */
  #take(bytes: number): number {
    const at = this.#length;
    this.#length += bytes;
    if (this.#length > this.#buffer.length) {
      const grown = Buffer.alloc(Math.max(this.#length, 2 * this.#buffer.length));
      this.#buffer.copy(grown);
      this.#buffer = grown;
    }
    return at;
  }
  u8(v: number): this {
    const at = this.#take(1);
    this.#buffer[at] = v;
    return this;
  }
  u16(v: number): this {
    const at = this.#take(2);
    if (this.#big) this.#buffer.writeUInt16BE(v, at);
    else this.#buffer.writeUInt16LE(v, at);
    return this;
  }
  u32(v: number): this {
    const at = this.#take(4);
    if (this.#big) this.#buffer.writeUInt32BE(v >>> 0, at);
    else this.#buffer.writeUInt32LE(v >>> 0, at);
    return this;
  }
  u64(v: bigint): this {
    const at = this.#take(8);
    if (this.#big) this.#buffer.writeBigUInt64BE(BigInt.asUintN(64, v), at);
    else this.#buffer.writeBigUInt64LE(BigInt.asUintN(64, v), at);
    return this;
  }
  bytes(b: Uint8Array): this {
    const at = this.#take(b.length);
    this.#buffer.set(b, at);
    return this;
  }
  done(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }
}

export interface NgOption {
  code: number;
  value: Uint8Array;
}

export interface NgInterface {
  link?: number;
  snapLength?: number;
  /** The if_tsresol byte: 9 is ns, 0x80 | 32 is 2^-32 s. */
  resolution?: number;
  offsetSeconds?: bigint;
  name?: string;
  options?: NgOption[];
}

export interface NgPacket {
  interfaceId?: number;
  ticks: bigint;
  frame: Uint8Array;
  wire?: number;
  options?: NgOption[];
  /** Drop count of an old packet block; 65535 means unknown. */
  drops?: number;
}

/** pcapng block by block: `new PcapngWriter().section().interface({}).enhanced({...}).done()`. */
export class PcapngWriter {
  #big = false;
  readonly #blocks: Buffer[] = [];

  /** Any block; a wrong `length` makes a damaged file. */
  block(type: number, body: Uint8Array, length = 12 + padded(body).length, trailer = length): this {
    const w = new ByteWriter(this.#big);
    this.#blocks.push(w.u32(type).u32(length).bytes(padded(body)).u32(trailer).done());
    return this;
  }
  raw(bytes: Uint8Array): this {
    this.#blocks.push(Buffer.from(bytes));
    return this;
  }
  section(bigEndian = false, options: NgOption[] = []): this {
    this.#big = bigEndian;
    const w = this.writer().u32(0x1a2b3c4d).u16(1).u16(0).u64(-1n);
    return this.block(0x0a0d0d0a, w.bytes(this.options(options)).done());
  }
  interface({
    link = 1,
    snapLength = 0,
    resolution,
    offsetSeconds,
    name,
    options = [],
  }: NgInterface = {}): this {
    const all = [...options];
    if (name !== undefined) all.push({ code: 2, value: Buffer.from(name) });
    if (resolution !== undefined) all.push({ code: 9, value: Buffer.from([resolution]) });
    if (offsetSeconds !== undefined) all.push({ code: 14, value: this.writer().u64(offsetSeconds).done() });
    const w = this.writer().u16(link).u16(0).u32(snapLength);
    return this.block(1, w.bytes(this.options(all)).done());
  }
  enhanced({ interfaceId = 0, ticks, frame, wire, options = [] }: NgPacket): this {
    const w = this.writer()
      .u32(interfaceId)
      .u32(Number(ticks >> 32n))
      .u32(Number(ticks & 0xffff_ffffn));
    w.u32(frame.length).u32(wire ?? frame.length);
    return this.block(6, w.bytes(padded(frame)).bytes(this.options(options)).done());
  }
  old({ interfaceId = 0, ticks, frame, wire, options = [], drops = 0xffff }: NgPacket): this {
    const w = this.writer()
      .u16(interfaceId)
      .u16(drops)
      .u32(Number(ticks >> 32n))
      .u32(Number(ticks & 0xffff_ffffn));
    w.u32(frame.length).u32(wire ?? frame.length);
    return this.block(2, w.bytes(padded(frame)).bytes(this.options(options)).done());
  }
  simple(frame: Uint8Array, wire = frame.length): this {
    return this.block(3, this.writer().u32(wire).bytes(frame).done());
  }
  /** Interface statistics with isb_ifdrop and isb_osdrop. */
  statistics(interfaceId: number, ifDrop: bigint | null, osDrop: bigint | null = null): this {
    const options: NgOption[] = [];
    if (ifDrop !== null) options.push({ code: 5, value: this.writer().u64(ifDrop).done() });
    if (osDrop !== null) options.push({ code: 7, value: this.writer().u64(osDrop).done() });
    const w = this.writer().u32(interfaceId).u32(0).u32(0);
    return this.block(5, w.bytes(this.options(options)).done());
  }
  /** A writer in the section's byte order, for option values. */
  writer(): ByteWriter {
    return new ByteWriter(this.#big);
  }
  options(list: readonly NgOption[]): Buffer {
    if (list.length === 0) return Buffer.alloc(0);
    const w = this.writer();
    for (const { code, value } of list) w.u16(code).u16(value.length).bytes(padded(value));
    return w.u16(0).u16(0).done();
  }
  done(): Buffer {
    return Buffer.concat(this.#blocks);
  }
}

function padded(bytes: Uint8Array): Uint8Array {
  if (bytes.length % 4 === 0) return bytes;
  return Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)]);
}

export interface ErfRecord {
  timeNs: bigint;
  frame: Uint8Array;
  wire?: number;
  /** 2 is Ethernet. */
  type?: number;
  iface?: number;
  loss?: number;
  /** Extension headers of 8 bytes. */
  extensions?: number;
}

/** ERF: little-endian 32.32 time, the rest big-endian, records padded to 8 bytes. */
export function erfFile(records: readonly ErfRecord[]): Buffer {
  const parts: Buffer[] = [];
  for (const { timeNs, frame, wire, type = 2, iface = 0, loss = 0, extensions = 0 } of records) {
    const prefix = type === 2 ? 2 : type === 3 || type === 4 || type === 5 ? 4 : 0;
    const body = 16 + 8 * extensions + prefix + frame.length;
    const length = (body + 7) & ~7;
    const record = Buffer.alloc(length);
    const seconds = timeNs / 1_000_000_000n;
    // Rounded up, so that both truncation and rounding give the same ns again.
    const fraction = (((timeNs % 1_000_000_000n) << 32n) + 999_999_999n) / 1_000_000_000n;
    record.writeBigUInt64LE((seconds << 32n) | fraction, 0);
    record[8] = type | (extensions > 0 ? 0x80 : 0);
    record[9] = iface;
    record.writeUInt16BE(length, 10);
    record.writeUInt16BE(loss, 12);
    record.writeUInt16BE(wire ?? frame.length, 14);
    for (let i = 0; i < extensions; i++) record[16 + 8 * i] = i + 1 < extensions ? 0x85 : 0x05;
    record.set(frame, 16 + 8 * extensions + prefix);
    parts.push(record);
  }
  return Buffer.concat(parts);
}
