/** Reads a pcapng file, independently of the program, to check the output of `compare --annotate` frame by frame. Little-endian and big-endian sections. */
import { readFileSync } from "node:fs";

export interface NgFrame {
  /** Numbered as in Wireshark. */
  number: number;
  block: number;
  interfaceId: number;
  /** In the interface's own unit; null if the block has no time. */
  ticks: bigint | null;
  data: Buffer;
  comments: string[];
}

export function pcapngFrames(path: string): NgFrame[] {
  const bytes = readFileSync(path);
  const frames: NgFrame[] = [];
  let little = true;
  const u32 = (at: number) => (little ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at));
  const u16 = (at: number) => (little ? bytes.readUInt16LE(at) : bytes.readUInt16BE(at));
  for (let at = 0; at < bytes.length; ) {
    if (bytes.readUInt32BE(at) === 0x0a0d0d0a) little = bytes.readUInt32LE(at + 8) === 0x1a2b3c4d;
    const [type, length] = [u32(at), u32(at + 4)];
    if (length < 12 || length % 4 !== 0 || u32(at + length - 4) !== length)
      throw new Error(`block at ${at}: lengths ${length} and ${u32(at + length - 4)}`);
    const end = at + length - 4;
    if (type === 3) {
      const captured = Math.min(u32(at + 8), end - at - 12);
      const data = bytes.subarray(at + 12, at + 12 + captured);
      frames.push({ number: frames.length + 1, block: 3, interfaceId: 0, ticks: null, data, comments: [] });
    } else if (type === 6 || type === 2) {
      const captured = u32(at + 20);
      const comments: string[] = [];
      for (let o = at + 28 + ((captured + 3) & ~3); o + 4 <= end; ) {
        const [code, size] = [u16(o), u16(o + 2)];
        if (code === 0) break;
        if (code === 1) comments.push(bytes.toString("utf8", o + 4, o + 4 + size));
        o += 4 + ((size + 3) & ~3);
        if (o > end) throw new Error(`an option of the block at ${at} is longer than the block`);
      }
      frames.push({
        number: frames.length + 1,
        block: type,
        interfaceId: type === 6 ? u32(at + 8) : u16(at + 8),
        ticks: (BigInt(u32(at + 12)) << 32n) | BigInt(u32(at + 16)),
        data: bytes.subarray(at + 28, at + 28 + captured),
        comments,
      });
    }
    at += length;
  }
  return frames;
}
