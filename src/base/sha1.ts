/**
 * SHA-1 (FIPS 180-4), for flow names of other tools (Community ID), not for secrets. Not from node:crypto, because loading that takes longer than a short
 * comparison.
 */
const BLOCK = 64;
const w = new Int32Array(80);
const state = new Int32Array(5);

const rotate = (x: number, by: number) => (x << by) | (x >>> (32 - by));

function block(bytes: DataView, at: number): void {
  for (let i = 0; i < 16; i++) w[i] = bytes.getInt32(at + 4 * i);
  for (let i = 16; i < 80; i++) w[i] = rotate(w[i - 3]! ^ w[i - 8]! ^ w[i - 14]! ^ w[i - 16]!, 1);
  let [a, b, c, d, e] = state as unknown as [number, number, number, number, number];
  for (let i = 0; i < 80; i++) {
    let f: number;
    if (i < 20) f = ((b & c) | (~b & d)) + 0x5a827999;
    else if (i < 40) f = (b ^ c ^ d) + 0x6ed9eba1;
    else if (i < 60) f = ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    else f = (b ^ c ^ d) + 0xca62c1d6;
    const next = (rotate(a, 5) + f + e + w[i]!) | 0;
    e = d;
    d = c;
    c = rotate(b, 30);
    b = a;
    a = next;
  }
  state[0]! += a;
  state[1]! += b;
  state[2]! += c;
  state[3]! += d;
  state[4]! += e;
}

/** Returns the 20-byte digest of the bytes. */
export function sha1(bytes: Uint8Array): Uint8Array {
  // Padding: one set bit, and the length in bits at the end of a block.
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / BLOCK) * BLOCK);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n);
  state.set([0x67452301, 0xefcdab89 | 0, 0x98badcfe | 0, 0x10325476, 0xc3d2e1f0 | 0]);
  for (let at = 0; at < padded.length; at += BLOCK) block(view, at);
  const out = new Uint8Array(20);
  const words = new DataView(out.buffer);
  for (let i = 0; i < 5; i++) words.setInt32(4 * i, state[i]!);
  return out;
}
