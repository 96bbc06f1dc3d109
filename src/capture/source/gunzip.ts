/**
 * gzip decompression by pulling pieces: members one after the other, zeros after the last one ignored. If the data is damaged, truncated or followed by
 * something else, everything decompressed before that piece is returned before the error; node's own stream iterator would drop it. Memory: the output of one
 * piece of input, at most a thousand times its size.
 */

/** Returns the next piece of a stream of bytes; null at its end. */
export type NextPiece = () => Uint8Array | null | Promise<Uint8Array | null>;

/** The trailer (checksum and length) of the last member is fed separately: if it is wrong, all data has been returned before. */
const TRAILER_BYTES = 8;

export function isGzip(head: Uint8Array): boolean {
  return head.length >= 2 && head[0] === 0x1f && head[1] === 0x8b;
}

/** Compressed bytes passed to the decompressor at once: each call costs as much as some ten kilobytes. */
const LARGE_BYTES = 1 << 18;
/** The same in a stretch known to be damaged: the output of a damaged piece is lost. */
const SMALL_BYTES = 1 << 12;

/**
 * Reads a gzip file: `read` returns up to `length` bytes from a position, none beyond the end. At damage, the file is read again up to there, and the damaged
 * stretch in small pieces, so that little data before the damage is lost.
 */
export function gunzipFile(read: (position: number, length: number) => Uint8Array): NextPiece {
  let position = 0;
  let delivered = 0;
  const pieces = (length: () => number) =>
    gunzipPieces(() => {
      const piece = read(position, length());
      position += piece.length;
      return piece.length === 0 ? null : piece;
    });
  let engine = pieces(() => LARGE_BYTES);
  let again = false;
  return async () => {
    for (let skip = 0; ; ) {
      try {
        const piece = await engine();
        if (piece === null) return null;
        if (piece.length <= skip) {
          skip -= piece.length;
          continue;
        }
        const fresh = piece.subarray(skip);
        delivered += fresh.length;
        return fresh;
      } catch (error) {
        // If the file is merely truncated, everything has been returned already.
        if (again || (error as NodeJS.ErrnoException).code === "Z_BUF_ERROR") throw error;
        again = true;
        // The damage is in the last piece, or in the trailer held back from the previous one.
        const careful = Math.max(0, position - 2 * LARGE_BYTES);
        position = 0;
        skip = delivered;
        engine = pieces(() => (position < careful ? Math.min(LARGE_BYTES, careful - position) : SMALL_BYTES));
      }
    }
  };
}

export function gunzipPieces(next: NextPiece): NextPiece {
  // Loaded on demand: most captures are not compressed.
  const { constants, createGunzip } = process.getBuiltinModule("node:zlib");
  const engine = createGunzip({ flush: constants.Z_SYNC_FLUSH, chunkSize: 1 << 18 });
  const ready: Uint8Array[] = [];
  let failure: Error | null = null;
  let ended = false;
  let wake = () => {};
  engine.on("data", (piece: Uint8Array) => ready.push(piece));
  engine.on("error", (error) => {
    failure = error;
    wake();
  });
  // Also when zeros follow the last member: the pending write is then never acknowledged.
  engine.on("end", () => {
    ended = true;
    wake();
  });
  const feed = (piece: Uint8Array | null) =>
    new Promise<void>((resolve) => {
      wake = resolve;
      if (piece) engine.write(piece, () => resolve());
      else engine.end();
    });

  let tail: Uint8Array = new Uint8Array(0);
  let inputEnded = false;
  return async () => {
    for (;;) {
      const piece = ready.shift();
      if (piece) return piece;
      if (failure) throw failure;
      if (ended) return null;
      if (inputEnded) {
        await feed(null);
        continue;
      }
      const input = await next();
      if (input) {
        const all: Uint8Array = tail.length === 0 ? input : Buffer.concat([tail, input]);
        const body = Math.max(0, all.length - TRAILER_BYTES);
        tail = all.slice(body);
        if (body > 0) await feed(all.subarray(0, body));
      } else {
        inputEnded = true;
        if (tail.length > 0) await feed(tail);
      }
    }
  };
}
