/**
 * Copies a capture as pcapng with comments on its packets, which Wireshark shows and filters by `frame.comment`. pcapng is copied block by block; pcap and ERF
 * become one section with one interface. The copy ends at damage in the capture, which the comparison has already reported.
 *
 *   Enhanced Packet Block: type 6 | length | interface | time high, low | captured | wire | data, padded | options | length
 *   a comment is option 1:  code u16 | bytes u16 | text, padded
 */
import { closeSync, openSync, writeFileSync } from "node:fs";
import { FormatError } from "../../base/errors.ts";
import { PCAP_HEADER_BYTES, type PcapHeader, sniff } from "../../capture/format/sniff.ts";
import { type ByteSource, openByteSource } from "../../capture/source/byte-source.ts";
import { parseCapturePath } from "../../capture/source/capture-path.ts";

const SECTION = 0x0a0d_0d0a;
const [OLD_PACKET, ENHANCED_PACKET] = [2, 6];
const SIMPLE_PACKET = 3;
const LINK_ERF = 197;
const PACKET_HEAD = 28;
const MAX_BLOCK = 1 << 28;
const PIECE_BYTES = 1 << 20;

/** `commentOf`: comment by frame number, from 1; null for none. */
export async function annotateCapture(
  path: string,
  target: string,
  commentOf: (frame: number) => string | null,
): Promise<void> {
  const { file } = parseCapturePath(path);
  const input = new Input(await openByteSource(file));
  const output = new Output(target);
  try {
    const head = await input.peek(PCAP_HEADER_BYTES);
    const found = sniff(head);
    if (found.format === null) throw new FormatError("unknown-format", file, 0, found.reason);
    if (found.format === "pcapng") await copyBlocks(input, output, commentOf);
    else if (found.format === "pcap") await convertPcap(input, output, found.header, commentOf);
    else await convertErf(input, output, commentOf);
  } finally {
    input.close();
    output.close();
  }
}

async function copyBlocks(
  input: Input,
  output: Output,
  commentOf: (frame: number) => string | null,
): Promise<void> {
  let little = true;
  for (let frame = 0; ; ) {
    const start = await input.peek(12);
    if (start.length < 12) return;
    const head = view(start);
    const type = head.getUint32(0, true);
    if (type === SECTION) little = head.getUint32(8, true) === 0x1a2b_3c4d;
    const length = head.getUint32(4, little);
    if (length < 12 || length > MAX_BLOCK) return;
    const block = await input.take(length);
    // The capture is truncated: only whole blocks are written.
    if (block === null) return;
    const kind = view(block).getUint32(0, little);
    // The lengths stated by sections are no longer right; all ones means unknown.
    if (type === SECTION && length >= 24) block.fill(0xff, 16, 24);
    if (kind === SIMPLE_PACKET || kind === OLD_PACKET || kind === ENHANCED_PACKET) frame++;
    const comment = kind === OLD_PACKET || kind === ENHANCED_PACKET ? commentOf(frame) : null;
    output.write(comment === null ? block : withComment(block, comment, little));
  }
}

/** Inserts the comment before the existing options of the block. */
function withComment(block: Uint8Array, comment: string, little: boolean): Uint8Array {
  const captured = view(block).getUint32(20, little);
  const optionsAt = PACKET_HEAD + padded(captured);
  if (optionsAt > block.length - 4) return block;
  const rest = block.subarray(optionsAt, block.length - 4);
  return packetBlock(
    block.subarray(0, optionsAt),
    [commentOption(comment, little), rest.length > 0 ? rest : new Uint8Array(4)],
    little,
  );
}

/** Joins a block's head, data and options, and sets its length. */
function packetBlock(body: Uint8Array, options: Uint8Array[], little: boolean): Uint8Array {
  const length = body.length + options.reduce((sum, o) => sum + o.length, 0) + 4;
  const out = new Uint8Array(length);
  out.set(body);
  let at = body.length;
  for (const option of options) {
    out.set(option, at);
    at += option.length;
  }
  view(out).setUint32(4, length, little);
  view(out).setUint32(length - 4, length, little);
  return out;
}

function commentOption(comment: string, little: boolean): Uint8Array {
  const text = new TextEncoder().encode(comment);
  const out = new Uint8Array(4 + padded(text.length));
  view(out).setUint16(0, 1, little);
  view(out).setUint16(2, text.length, little);
  out.set(text, 4);
  return out;
}

async function convertPcap(
  input: Input,
  output: Output,
  { swapped, nano, modified, link, snapLength }: PcapHeader,
  commentOf: (frame: number) => string | null,
): Promise<void> {
  await input.take(PCAP_HEADER_BYTES);
  output.write(sectionOf(link, snapLength, nano ? 9 : 6));
  const little = !swapped;
  const headBytes = modified ? 24 : 16;
  for (let frame = 1; ; frame++) {
    const head = await input.take(headBytes);
    if (head === null) return;
    const fields = view(head);
    const captured = fields.getUint32(8, little);
    if (captured > MAX_BLOCK) return;
    const data = await input.take(captured);
    if (data === null) return;
    const ticks = BigInt(fields.getUint32(0, little)) * (nano ? 1_000_000_000n : 1_000_000n);
    const time = ticks + BigInt(fields.getUint32(4, little));
    output.write(enhanced(data, time, fields.getUint32(12, little), commentOf(frame)));
  }
}

/** Keeps ERF records whole, with their own header, as link type ERF requires. */
async function convertErf(
  input: Input,
  output: Output,
  commentOf: (frame: number) => string | null,
): Promise<void> {
  output.write(sectionOf(LINK_ERF, 0, 9));
  for (let frame = 1; ; frame++) {
    const head = await input.peek(16);
    if (head.length < 16) return;
    const fields = view(head);
    const length = fields.getUint16(10, false);
    if (length < 16) return;
    const record = await input.take(length);
    if (record === null) return;
    const stamp = fields.getBigUint64(0, true);
    const time = (stamp >> 32n) * 1_000_000_000n + (((stamp & 0xffff_ffffn) * 1_000_000_000n) >> 32n);
    output.write(
      enhanced(record, time, Math.max(length, 16 + fields.getUint16(14, false)), commentOf(frame)),
    );
  }
}

function enhanced(data: Uint8Array, time: bigint, wire: number, comment: string | null): Uint8Array {
  const body = new Uint8Array(PACKET_HEAD + padded(data.length));
  const fields = view(body);
  fields.setUint32(0, ENHANCED_PACKET, true);
  fields.setUint32(12, Number(time >> 32n), true);
  fields.setUint32(16, Number(time & 0xffff_ffffn), true);
  fields.setUint32(20, data.length, true);
  fields.setUint32(24, wire, true);
  body.set(data, PACKET_HEAD);
  return packetBlock(body, comment === null ? [] : [commentOption(comment, true), new Uint8Array(4)], true);
}

/** Returns a section header and one interface whose times are in 10^-decimals s. */
function sectionOf(link: number, snapLength: number, decimals: number): Uint8Array {
  const out = new Uint8Array(28 + 32);
  const fields = view(out);
  fields.setUint32(0, SECTION, true);
  fields.setUint32(4, 28, true);
  fields.setUint32(8, 0x1a2b_3c4d, true);
  fields.setUint16(12, 1, true);
  out.fill(0xff, 16, 24);
  fields.setUint32(24, 28, true);
  fields.setUint32(28, 1, true);
  fields.setUint32(32, 32, true);
  fields.setUint16(36, link, true);
  fields.setUint32(40, snapLength, true);
  // if_tsresol
  fields.setUint16(44, 9, true);
  fields.setUint16(46, 1, true);
  fields.setUint8(48, decimals);
  fields.setUint32(56, 32, true);
  return out;
}

const padded = (bytes: number) => (bytes + 3) & ~3;
const view = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** Reads a source in pieces of any length. */
class Input {
  readonly #source: ByteSource;
  #held = new Uint8Array(0);

  constructor(source: ByteSource) {
    this.#source = source;
  }

  /** Returns the next n bytes without consuming them; fewer at the end. */
  async peek(n: number): Promise<Uint8Array> {
    while (this.#held.length < n) {
      const piece = new Uint8Array(Math.max(PIECE_BYTES, n - this.#held.length));
      // A damaged end was already reported by the comparison.
      const got = await Promise.resolve(this.#source.read(() => piece)).catch(() => 0);
      if (got === 0) break;
      const joined = new Uint8Array(this.#held.length + got);
      joined.set(this.#held);
      joined.set(piece.subarray(0, got), this.#held.length);
      this.#held = joined;
    }
    return this.#held.subarray(0, n);
  }

  /** Returns the next n bytes, or null if there are fewer. */
  async take(n: number): Promise<Uint8Array | null> {
    const bytes = await this.peek(n);
    if (bytes.length < n) return null;
    this.#held = this.#held.subarray(n);
    return bytes;
  }

  close(): void {
    this.#source.close();
  }
}

class Output {
  readonly #file: number;
  #pieces: Uint8Array[] = [];
  #bytes = 0;

  constructor(path: string) {
    this.#file = openSync(path, "w");
  }

  write(bytes: Uint8Array): void {
    this.#pieces.push(bytes);
    this.#bytes += bytes.length;
    if (this.#bytes >= PIECE_BYTES) this.#flush();
  }

  close(): void {
    this.#flush();
    closeSync(this.#file);
  }

  #flush(): void {
    writeFileSync(this.#file, Buffer.concat(this.#pieces));
    this.#pieces = [];
    this.#bytes = 0;
  }
}
