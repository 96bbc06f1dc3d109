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
