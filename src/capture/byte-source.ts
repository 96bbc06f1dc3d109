/**
 * Bytes in order from a file or standard input, plain or gzip (told by content). `read` fills as much of the target as is at hand and
 * returns 0 only at the end. Plain files are read synchronously, straight into the target: asynchronous streams cost 2-4 times more.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { Readable } from "node:stream";
import { constants, createGunzip } from "node:zlib";
import { UsageError } from "../base/errors.ts";

export interface ByteSource {
  /** For messages: the path as given, or "standard input". */
  readonly name: string;
  /** Bytes of the file on disk, where known (for progress). */
  readonly size: number | null;
  /** Bytes of the file consumed so far. */
  consumed(): number;
  /** Can the same bytes be had again by opening it a second time? */
  readonly rereadable: boolean;
  readonly compressed: boolean;
  /** The target is asked for when the bytes are at hand: kernel memory may move while a stream is waited for. */
  read(target: () => Uint8Array): number | Promise<number>;
  close(): void;
}

export function openByteSource(path: string): Promise<ByteSource> {
  return path === "-" ? openStream(process.stdin, "standard input") : openFile(path);
}

async function openFile(path: string): Promise<ByteSource> {
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    const why = code === "ENOENT" ? "no such file" : code === "EACCES" ? "permission denied" : String(code);
    throw new UsageError(
      "no-such-file",
      `${path}: ${why}`,
      "give the path of a capture file, or - for standard input",
      { cause },
    );
  }
  const stat = fstatSync(fd);
  if (stat.isDirectory()) {
    closeSync(fd);
    throw new UsageError("no-such-file", `${path}: is a directory`, "give the path of a capture file");
  }
  if (!stat.isFile()) {
    // A named pipe or device: read it as a stream.
    closeSync(fd);
    const { createReadStream } = await import("node:fs");
    return openStream(createReadStream(path, { highWaterMark: 1 << 18 }), path);
  }
  const head = new Uint8Array(2);
  const n = readSync(fd, head, 0, 2, 0);
  if (n === 2 && head[0] === 0x1f && head[1] === 0x8b) {
    let consumed = 0;
    const compressed = Readable.from(
      (function* () {
        for (;;) {
          const chunk = Buffer.allocUnsafe(1 << 16);
          const got = readSync(fd, chunk, 0, chunk.length, consumed);
          if (got === 0) return;
          consumed += got;
          yield chunk.subarray(0, got);
        }
      })(),
    );
    return fromStream(gunzip(compressed), path, {
      size: stat.size,
      consumed: () => consumed,
      rereadable: true,
      compressed: true,
      close: () => closeSync(fd),
    });
  }
  let position = 0;
  return {
    name: path,
    size: stat.size,
    consumed: () => position,
    rereadable: true,
    compressed: false,
    read(target) {
      const into = target();
      const got = readSync(fd, into, 0, into.length, position);
      position += got;
      return got;
    },
    close: () => closeSync(fd),
  };
}

/** A cut gzip file yields everything up to the cut; the capture layer then sees where the records end. */
function gunzip(compressed: Readable): Readable {
  const out = createGunzip({ finishFlush: constants.Z_SYNC_FLUSH, chunkSize: 1 << 18 });
  compressed.on("error", (error) => out.destroy(error));
  return compressed.pipe(out);
}

async function openStream(stream: Readable, name: string): Promise<ByteSource> {
  const iterator = stream[Symbol.asyncIterator]();
  let first = Buffer.alloc(0);
  while (first.length < 2) {
    const { value, done } = await iterator.next();
    if (done) break;
    first = Buffer.concat([first, value as Buffer]);
  }
  let consumed = first.length;
  async function* rest(): AsyncGenerator<Buffer> {
    if (first.length > 0) yield first;
    for (;;) {
      const { value, done } = await iterator.next();
      if (done) return;
      consumed += (value as Buffer).length;
      yield value as Buffer;
    }
  }
  const compressed = first.length >= 2 && first[0] === 0x1f && first[1] === 0x8b;
  const bytes = Readable.from(rest(), { objectMode: false });
  return fromStream(compressed ? gunzip(bytes) : bytes, name, {
    size: null,
    consumed: () => consumed,
    rereadable: false,
    compressed,
    close: () => stream.destroy(),
  });
}

function fromStream(
  stream: Readable,
  name: string,
  rest: Pick<ByteSource, "size" | "consumed" | "rereadable" | "compressed" | "close">,
): ByteSource {
  const iterator = stream[Symbol.asyncIterator]();
  let held: Uint8Array = new Uint8Array(0);
  return {
    name,
    ...rest,
    async read(target) {
      while (held.length === 0) {
        const { value, done } = await iterator.next();
        if (done) return 0;
        held = value as Uint8Array;
      }
      const into = target();
      const n = Math.min(held.length, into.length);
      into.set(held.subarray(0, n));
      held = held.subarray(n);
      return n;
    },
    close() {
      stream.destroy();
      rest.close();
    },
  };
}
