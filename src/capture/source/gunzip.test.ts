/** gzip files, complete, truncated and damaged: reading in large pieces must return what small pieces do. */
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { Random } from "../../base/random.ts";
import { gunzipFile, gunzipPieces, type NextPiece } from "./gunzip.ts";

const random = new Random(5);
/** Compresses to about half its size. */
const content = Buffer.from(Array.from({ length: 3_000_000 }, () => Math.floor(random.float() * 16)));
const packed = gzipSync(content, { level: 1 });

async function drain(next: NextPiece): Promise<{ bytes: Buffer; error: string | null }> {
  const pieces: Uint8Array[] = [];
  try {
    for (let piece = await next(); piece !== null; piece = await next()) pieces.push(piece);
    return { bytes: Buffer.concat(pieces), error: null };
  } catch (error) {
    return { bytes: Buffer.concat(pieces), error: (error as NodeJS.ErrnoException).code ?? "?" };
  }
}

function file(bytes: Uint8Array) {
  let maximum = 0;
  let read = 0;
  const next = gunzipFile((position, length) => {
    maximum = Math.max(maximum, length);
    read += Math.min(length, Math.max(0, bytes.length - position));
    return bytes.subarray(position, position + length);
  });
  return { next, read: () => read, maximum: () => maximum };
}

function smallPieces(bytes: Uint8Array): NextPiece {
  let at = 0;
  return gunzipPieces(() => {
    const piece = bytes.subarray(at, at + 4096);
    at += piece.length;
    return piece.length === 0 ? null : piece;
  });
}

describe("a file of gzip", () => {
  test("comes out whole, read once, in large pieces; members one after the other, too", async () => {
    for (const bytes of [packed, Buffer.concat([packed, packed, Buffer.alloc(512)])]) {
      const { next, read, maximum } = file(bytes);
      const { bytes: out, error } = await drain(next);
      expect(error).toBeNull();
      expect(out.length).toBe(bytes === packed ? content.length : 2 * content.length);
      expect(out.subarray(0, content.length).equals(content)).toBe(true);
      expect(read()).toBe(bytes.length);
      expect(maximum()).toBeGreaterThan(100_000);
    }
  });

  test("that is cut yields everything before the cut, read once", async () => {
    for (const length of [20, 4097, 300_000, packed.length - 3]) {
      const cut = packed.subarray(0, length);
      const { next, read } = file(cut);
      const { bytes, error } = await drain(next);
      expect(error).toBe("Z_BUF_ERROR");
      const small = await drain(smallPieces(cut));
      expect(bytes.equals(small.bytes)).toBe(true);
      expect(read()).toBe(length);
    }
  });

  test("that is damaged yields what small pieces yield, and then fails", async () => {
    for (const at of [40, 5_000, 262_144, 700_001, packed.length - 6]) {
      const damaged = Buffer.from(packed);
      damaged.fill(0xff, at, at + 5);
      const { bytes, error } = await drain(file(damaged).next);
      const small = await drain(smallPieces(damaged));
      expect(error).toBe(small.error);
      expect(error).not.toBeNull();
      // Pieces begin at different positions: the difference is at most what one piece yields.
      expect(Math.abs(bytes.length - small.bytes.length)).toBeLessThan(4 * 4096);
      const same = Math.min(bytes.length, small.bytes.length);
      expect(bytes.subarray(0, same).equals(small.bytes.subarray(0, same))).toBe(true);
    }
  });
});
