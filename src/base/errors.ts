/**
 * The two kinds of failure that are not our bug, and their codes. A plain `Error` anywhere else is a bug of ours.
 *
 * UsageError: the caller's fault (flag, question, request): CLI exit 2 with one line, HTTP 4xx.
 * FormatError: bytes that are not what they claim to be, with the file and the offset where it showed.
 */

export type UsageCode =
  | "bad-flag"
  | "bad-filter"
  | "bad-key"
  | "bad-parameter"
  | "bad-time"
  | "bad-question"
  | "no-such-file"
  | "not-writable"
  | "mismatch"
  | "no-records"
  | "bad-topology"
  | "not-supported"
  | "out-of-memory";

export type FormatCode =
  | "empty"
  | "unknown-format"
  | "truncated"
  | "bad-header"
  | "bad-record"
  | "bad-checksum"
  | "bad-version"
  | "bad-gzip";

export class UsageError extends Error {
  readonly code: UsageCode;
  /** What to do about it, in one line. */
  readonly hint: string | undefined;
  constructor(code: UsageCode, message: string, hint?: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "UsageError";
    this.code = code;
    this.hint = hint;
  }
}

export class FormatError extends Error {
  readonly code: FormatCode;
  readonly file: string;
  /** Byte offset in the (uncompressed) stream. */
  readonly offset: number;
  constructor(
    code: FormatCode,
    file: string,
    offset: number,
    message: string,
    options?: { cause?: unknown },
  ) {
    super(`${file}: at byte ${offset}: ${message}`, options);
    this.name = "FormatError";
    this.code = code;
    this.file = file;
    this.offset = offset;
  }
}
