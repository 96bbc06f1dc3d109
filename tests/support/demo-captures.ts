/** The demo's two captures as records that tests change: cut, shift, tag, lose, repeat; written again as pcap. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));

export interface Frame {
  ns: bigint;
  data: Buffer;
  wire: number;
}

export const DEMO = {
  before: join(ROOT, "demo/router-in.pcap.gz"),
  after: join(ROOT, "demo/router-out.pcap.gz"),
};

export function readFrames(file: string): Frame[] {
  let bytes = readFileSync(file);
  if (bytes[0] === 0x1f) bytes = gunzipSync(bytes);
  const frames: Frame[] = [];
  for (let p = 24; p + 16 <= bytes.length; ) {
    const captured = bytes.readUInt32LE(p + 8);
    frames.push({
      ns: BigInt(bytes.readUInt32LE(p)) * 1_000_000_000n + BigInt(bytes.readUInt32LE(p + 4)),
      data: bytes.subarray(p + 16, p + 16 + captured),
      wire: bytes.readUInt32LE(p + 12),
    });
    p += 16 + captured;
  }
  return frames;
}

export function writeFrames(file: string, frames: Frame[], snapLength = 65_535): string {
  const header = Buffer.alloc(24);
  header.writeUInt32LE(0xa1b23c4d, 0);
  header.writeUInt16LE(2, 4);
  header.writeUInt16LE(4, 6);
  header.writeUInt32LE(snapLength, 16);
  header.writeUInt32LE(1, 20);
  const parts: Buffer[] = [header];
  for (const f of frames) {
    const data = f.data.subarray(0, snapLength);
    const record = Buffer.alloc(16);
    record.writeUInt32LE(Number(f.ns / 1_000_000_000n), 0);
    record.writeUInt32LE(Number(f.ns % 1_000_000_000n), 4);
    record.writeUInt32LE(data.length, 8);
    record.writeUInt32LE(f.wire, 12);
    parts.push(record, data);
  }
  writeFileSync(file, Buffer.concat(parts));
  return file;
}

/** Adds a VLAN tag, as on a trunk. */
export function tagged(frame: Frame, vlan: number): Frame {
  const tag = Buffer.from([0x81, 0x00, vlan >> 8, vlan & 255]);
  const data = Buffer.concat([frame.data.subarray(0, 12), tag, frame.data.subarray(12)]);
  return { ...frame, data, wire: frame.wire + 4 };
}

export function shifted(frames: Frame[], by: (ns: bigint) => bigint): Frame[] {
  return frames.map((f) => ({ ...f, ns: f.ns + by(f.ns) }));
}
