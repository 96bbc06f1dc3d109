/**
 * Replaces src/capture/source/byte-source.ts: reads bytes of a File. The next piece is read while the current one is decoded, so memory is two pieces per
 * capture, however large it is. Compressed files go through the browser's own decompressor.
 */
import { UsageError } from "../../../src/base/errors.ts";
import type { ByteSource, openByteSource as original } from "../../../src/capture/source/byte-source.ts";
import { fileOf } from "./files.ts";

/** Each read request takes about a millisecond. */
const PIECE_BYTES = 1 << 22;
/** Piece of compressed bytes. If a piece is damaged, its whole content is lost, so pieces are small. */
const PACKED_BYTES = 1 << 16;

type NextPiece = () => Promise<Uint8Array | null>;

export const openByteSource: typeof original = async (path) => {
  const file = fileOf(path);
  if (!file) throw new UsageError("no-such-file", `${path}: no such file`, "choose a capture file");
  const head = await bytesOf(file, 0, 2);
  const compressed = head[0] === 0x1f && head[1] === 0x8b;
  const place = { position: 0 };
  const pieces = compressed ? unpacked(file, place) : { next: plain(file, place), cancel: () => {} };
  return fromPieces(pieces.next, {
    name: path,
    size: file.size,
    consumed: () => place.position,
    rereadable: true,
    compressed,
    close: pieces.cancel,
  });
};

async function bytesOf(file: File, from: number, length: number): Promise<Uint8Array> {
  return new Uint8Array(await file.slice(from, from + length).arrayBuffer());
}

function plain(file: File, place: { position: number }): NextPiece {
  let asked = 0;
  const ask = () => {
    const from = asked;
    asked = Math.min(file.size, from + PIECE_BYTES);
    // An error is reported when this piece is read.
    const piece = asked > from ? bytesOf(file, from, asked - from) : null;
    piece?.catch(() => {});
    return piece;
  };
  let ahead: Promise<Uint8Array> | null | undefined;
  return async () => {
    const piece = await (ahead === undefined ? ask() : ahead);
    ahead = piece === null ? null : ask();
    place.position += piece?.length ?? 0;
    return piece;
  };
}

function unpacked(file: File, place: { position: number }): { next: NextPiece; cancel: () => void } {
  const stream = new DecompressionStream("gzip");
  const writer = stream.writable.getWriter();
  const reader = stream.readable.getReader();
  let ended = false;
  // Errors of either end are reported to the reader.
  const feed = async () => {
    for (let from = 0; from < file.size && !ended; from += PACKED_BYTES) {
      await writer.write((await bytesOf(file, from, PACKED_BYTES)) as Uint8Array<ArrayBuffer>);
      place.position = Math.min(file.size, from + PACKED_BYTES);
    }
    await writer.close();
  };
  feed().catch((error) => writer.abort(error).catch(() => {}));
  return {
    next: async () => {
      try {
        const { value, done } = await reader.read();
        return done ? null : value;
      } catch (error) {
        throw new Error(gzipTrouble((error as Error).message), { cause: error });
      }
    },
    cancel: () => {
      ended = true;
      reader.cancel().catch(() => {});
    },
  };
}

/** Replaces a browser's gzip error by a useful message. */
function gzipTrouble(why: string): string {
  if (/junk|additional|trailing/i.test(why))
    return "the gzip file has several parts, of which browsers read the first: unpack it first";
  if (/truncated|unexpected end|incomplete/i.test(why)) return "the gzip data end too early: the file is cut";
  return /compress|gzip|header|invalid|corrupt/i.test(why) ? "the gzip data are damaged" : why;
}

function fromPieces(next: NextPiece, rest: Omit<ByteSource, "read">): ByteSource {
  let held: Uint8Array | null = new Uint8Array(0);
  let failure: unknown = null;
  const give = (into: Uint8Array): number => {
    if (held === null) return 0;
    const n = Math.min(held.length, into.length);
    into.set(held.subarray(0, n));
    held = held.subarray(n);
    return n;
  };
  const fetchAndGive = async (target: () => Uint8Array): Promise<number> => {
    if (failure !== null) throw failure;
    try {
      do held = await next();
      while (held?.length === 0);
    } catch (error) {
      failure = error;
      throw error;
    }
    return give(target());
  };
  return {
    ...rest,
    read: (target) => (held === null || held.length > 0 ? give(target()) : fetchAndGive(target)),
  };
}
