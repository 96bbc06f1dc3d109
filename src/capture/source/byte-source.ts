/**
 * Bytes in order from a file or standard input, plain or gzip (detected from the content). `read` fills as much of the target as is available and returns 0
 * only at the end. Plain files are read synchronously, straight into the target: asynchronous streams cost 2-4 times more. Damaged or truncated gzip data
 * yields all that can be recovered, then throws on every read.
 */
import { closeSync, createReadStream, fstatSync, openSync, readSync } from "node:fs";
import type { Readable } from "node:stream";
import { UsageError } from "../../base/errors.ts";
import { untilAborted } from "../../base/until-aborted.ts";
import { gunzipFile, gunzipPieces, isGzip, type NextPiece } from "./gunzip.ts";

export interface ByteSource {
  /** Name for messages: the path as given, or "standard input". */
  readonly name: string;
  /** Size of the file on disk, if known (for progress). */
  readonly size: number | null;
  /** Number of bytes of the file consumed so far. */
  consumed(): number;
  /** Whether opening the source a second time gives the same bytes. */
  readonly rereadable: boolean;
  readonly compressed: boolean;
  /** `target` is called once bytes are available: kernel memory may move while a stream is waited for. */
  read(target: () => Uint8Array): number | Promise<number>;
  close(): void;
}

const STREAM_BYTES = 1 << 18;

/** Opens a path. If `signal` aborts, a stream being waited for ends as if its writer had closed it. */
export function openByteSource(path: string, signal?: AbortSignal): Promise<ByteSource> {
  return path === "-" ? openStream(process.stdin, "standard input", signal) : openFile(path, signal);
}

/** Returns the error for a capture that could not be opened. */
export function notOpened(path: string, cause: unknown, hint: string): UsageError {
  const code = (cause as NodeJS.ErrnoException).code;
  const why = code === "ENOENT" ? "no such file" : code === "EACCES" ? "permission denied" : String(code);
  return new UsageError("no-such-file", `${path}: ${why}`, hint, { value: path, cause });
}

async function openFile(path: string, signal?: AbortSignal): Promise<ByteSource> {
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch (cause) {
    throw notOpened(path, cause, "give the path of a capture file, or - for standard input");
  }
  const stat = fstatSync(fd);
  if (stat.isDirectory()) {
    closeSync(fd);
    throw new UsageError("no-such-file", `${path}: is a directory`, "give the path of a capture file");
  }
  if (!stat.isFile()) {
    // Read a named pipe or device as a stream. A pipe must not be opened twice: its writer would see the first reader close.
    return openStream(createReadStream(path, { fd, highWaterMark: STREAM_BYTES }), path, signal);
  }
  let position = 0;
  let open = true;
  const common = {
    size: stat.size,
    consumed: () => position,
    rereadable: true,
    close() {
      if (open) closeSync(fd);
      open = false;
    },
  };
  const head = new Uint8Array(2);
  if (isGzip(head.subarray(0, readSync(fd, head, 0, 2, 0)))) {
    const read = (from: number, length: number) => {
      const piece = new Uint8Array(open ? length : 0);
      const got = open ? readSync(fd, piece, 0, length, from) : 0;
      position = Math.max(position, from + got);
      return piece.subarray(0, got);
    };
    return fromPieces(gunzipFile(read), { name: path, compressed: true, ...common });
  }
  return {
    name: path,
    compressed: false,
    ...common,
    read(target) {
      const into = target();
      const got = readSync(fd, into, 0, into.length, position);
      position += got;
      return got;
    },
  };
}

/** Reads a stream that is already open. */
export async function openStream(stream: Readable, name: string, signal?: AbortSignal): Promise<ByteSource> {
  const iterator = stream[Symbol.asyncIterator]();
  let consumed = 0;
  let waiting: Uint8Array | null = null;
  const next: NextPiece = async () => {
    if (waiting) {
      const piece = waiting;
      waiting = null;
      return piece;
    }
    if (signal?.aborted) return null;
    const got = await (signal ? untilAborted(iterator.next(), signal) : iterator.next());
    if (got === null || got.done) return null;
    const { value } = got;
    consumed += (value as Buffer).length;
    return value as Buffer;
  };
  // Two bytes identify gzip; a pipe may deliver them one by one.
  let head: Uint8Array = new Uint8Array(0);
  while (head.length < 2) {
    const piece = await next();
    if (!piece) break;
    head = head.length === 0 ? piece : Buffer.concat([head, piece]);
  }
  waiting = head;
  const compressed = isGzip(head);
  return fromPieces(compressed ? gunzipPieces(next) : next, {
    name,
    size: null,
    consumed: () => consumed,
    rereadable: false,
    compressed,
    close: () => void stream.destroy(),
  });
}

function fromPieces(next: NextPiece, rest: Omit<ByteSource, "read">): ByteSource {
  let held: Uint8Array = new Uint8Array(0);
  let failure: unknown = null;
  return {
    ...rest,
    async read(target) {
      while (held.length === 0) {
        if (failure !== null) throw failure;
        try {
          const piece = await next();
          if (!piece) return 0;
          held = piece;
        } catch (error) {
          failure = error;
        }
      }
      const into = target();
      const n = Math.min(held.length, into.length);
      into.set(held.subarray(0, n));
      held = held.subarray(n);
      return n;
    },
  };
}
