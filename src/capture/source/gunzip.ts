/**
 * gzip as a pull of pieces: members one after the other, zeros behind the last one ignored. Where the data is damaged, ends early or is followed
 * by something else, everything decompressed before that piece is handed out before the error; node's own stream iterator would drop it.
 * Memory: the output of one piece of input, at most a thousand times its size.
 */

/** The next piece of a stream of bytes; null at its end. */
export type NextPiece = () => Uint8Array | null | Promise<Uint8Array | null>;

/** The trailer (check sum and length) of the last member goes in alone: when it is wrong, all data has come out before. */
const TRAILER_BYTES = 8;

export function isGzip(head: Uint8Array): boolean {
  return head.length >= 2 && head[0] === 0x1f && head[1] === 0x8b;
}

/** Compressed bytes handed to the decompressor at once: each hand-over costs as much as some ten kilobytes. */
const LARGE_BYTES = 1 << 18;
/** The same where they are known to be damaged: what a damaged piece would have yielded is lost. */
const SMALL_BYTES = 1 << 12;

/**
 * A file of gzip: `read` gives up to so many bytes from a position on, none behind its end. Where it is damaged, it is gone through again up to there, and
 * the damaged stretch in small pieces, so that little of what is before the damage is lost.
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
        // Where the file just ends, everything has come out.
        if (again || (error as NodeJS.ErrnoException).code === "Z_BUF_ERROR") throw error;
        again = true;
        // The damage is in the last piece, or in the trailer that was held back from the one before it.
        const careful = Math.max(0, position - 2 * LARGE_BYTES);
        position = 0;
        skip = delivered;
        engine = pieces(() => (position < careful ? Math.min(LARGE_BYTES, careful - position) : SMALL_BYTES));
      }
    }
  };
}

export function gunzipPieces(next: NextPiece): NextPiece {
  // Loaded here: most captures are not packed.
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
  // Also where zeros follow the last member: the write in progress is then never answered.
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
