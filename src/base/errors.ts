/**
 * The two kinds of failure that are not a bug of hoptime, and their codes. A plain `Error` anywhere else is a bug.
 *
 * UsageError: the caller's fault (option, question, request): CLI exit 2 with one line, HTTP 4xx.
 * FormatError: bytes that are not what they claim to be, with the file and the offset where it showed.
 */

export type UsageCode =
  | "bad-option"
  | "bad-filter"
  | "bad-key"
  | "bad-parameter"
  | "bad-time"
  | "bad-question"
  | "no-such-file"
  | "not-writable"
  | "store-away"
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
  | "bad-signature"
  | "bad-version"
  | "bad-gzip";

/** Which parameter is wrong, what was given, what is allowed. */
export interface UsageFields {
  /** By its name in the library or in a question, never as a flag: `sort`, `epoch`, `lda`. */
  parameter?: string | undefined;
  value?: unknown;
  expected?: string | undefined;
  cause?: unknown;
}

/** Hints and notes name other parameters in typographic quotes: ‘cover 82’. The command line shows those as flags. */
export class UsageError extends Error {
  readonly code: UsageCode;
  /** What is wrong, without the name of the parameter. */
  readonly problem: string;
  /** What to do about it, in one line. */
  readonly hint: string | undefined;
  readonly parameter: string | undefined;
  readonly value: unknown;
  readonly expected: string | undefined;
  constructor(code: UsageCode, problem: string, hint?: string, fields: UsageFields = {}) {
    const { parameter, value, expected, cause } = fields;
    super(
      parameter === undefined ? problem : `${parameter}: ${problem}`,
      cause === undefined ? {} : { cause },
    );
    this.name = "UsageError";
    this.code = code;
    this.problem = problem;
    this.hint = hint;
    this.parameter = parameter;
    this.value = value;
    this.expected = expected;
  }
}

/** The usual case: "sort: invalid value 'x' (expected packets, mean or p99)". */
export function invalidValue(
  parameter: string,
  value: unknown,
  expected: string,
  { code = "bad-option", hint, cause }: { code?: UsageCode; hint?: string; cause?: unknown } = {},
): UsageError {
  const problem = `invalid value '${value}' (expected ${expected})`;
  return new UsageError(code, problem, hint, { parameter, value, expected, cause });
}

/** "a, b or c": what is allowed, as `expected` takes it. */
export function oneOf(choices: readonly string[]): string {
  const [last, ...rest] = [...choices].reverse();
  return rest.length === 0 ? (last ?? "") : `${rest.reverse().join(", ")} or ${last}`;
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
