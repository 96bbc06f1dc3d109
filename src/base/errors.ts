/**
 * The two kinds of failure that are not a bug of hoptime, and their codes. A plain `Error` anywhere is a bug.
 *
 * UsageError: a mistake of the caller (option, question, request). CLI: exit 2 with one line; HTTP: 4xx.
 * FormatError: bytes that are not what they claim to be, with the file and the offset of the fault.
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

/** Which parameter is wrong, its value, and the allowed values. */
export interface UsageFields {
  /** The parameter's name in the library or in a question, never as a flag: `sort`, `epoch`, `lda`. */
  parameter?: string | undefined;
  value?: unknown;
  expected?: string | undefined;
  cause?: unknown;
}

/** A mistake of the caller. Hints and notes quote other parameters in typographic quotes (‘cover 82’); the command line prints those as flags. */
export class UsageError extends Error {
  readonly code: UsageCode;
  /** What is wrong, without the parameter's name. */
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

/** Returns the usual UsageError: "sort: invalid value 'x' (expected packets, mean or p99)". */
export function invalidValue(
  parameter: string,
  value: unknown,
  expected: string,
  { code = "bad-option", hint, cause }: { code?: UsageCode; hint?: string; cause?: unknown } = {},
): UsageError {
  const problem = `invalid value '${value}' (expected ${expected})`;
  return new UsageError(code, problem, hint, { parameter, value, expected, cause });
}

/** Returns "a, b or c": the allowed values, in the form that `expected` takes. */
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
