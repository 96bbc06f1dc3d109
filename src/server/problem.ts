/** Converts errors to HTTP: a status, and JSON with the fields of the library's errors. */
import { FormatError, UsageError } from "../base/errors.ts";

export interface Problem {
  error: string;
  message: string;
  problem?: string;
  hint?: string;
  parameter?: string;
  expected?: string;
}

/** An error with an HTTP status of its own. */
export class HttpError extends Error {
  readonly status: number;
  readonly code: string;
  readonly retryAfterS: number | undefined;
  constructor(status: number, code: string, message: string, retryAfterS?: number) {
    super(message);
    this.name = "HttpError";
    this.status = status;
    this.code = code;
    this.retryAfterS = retryAfterS;
  }
}

const STATUS: Partial<Record<UsageError["code"], number>> = {
  "no-records": 404,
  "no-such-file": 404,
  "not-writable": 503,
  "store-away": 503,
  "out-of-memory": 503,
};

export function problemOf(error: unknown): { status: number; problem: Problem } {
  if (error instanceof HttpError)
    return { status: error.status, problem: { error: error.code, message: error.message } };
  if (error instanceof UsageError) {
    const { code, message, problem, hint, parameter, expected } = error;
    return {
      status: STATUS[code] ?? 400,
      problem: {
        error: code,
        message,
        problem,
        ...(hint === undefined ? {} : { hint }),
        ...(parameter === undefined ? {} : { parameter }),
        ...(expected === undefined ? {} : { expected }),
      },
    };
  }
  if (error instanceof FormatError)
    return { status: 400, problem: { error: error.code, message: error.message } };
  const { statusCode, code, message, syscall } = error as {
    statusCode?: number;
    code?: string;
    message: string;
    syscall?: string;
  };
  // Fastify's own errors: body too large, invalid JSON, unsupported media type.
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500)
    return { status: statusCode, problem: { error: "bad-request", message } };
  // A full or failing disk: the client keeps its records and retries.
  if (code !== undefined && syscall !== undefined)
    return {
      status: 503,
      problem: { error: "not-writable", message: `the collector cannot store: ${code}` },
    };
  return {
    status: 500,
    problem: { error: "internal", message: "an error of the collector; its log has the details" },
  };
}

/** The reverse: turns a collector's error response into the library's error. */
export function errorOf(url: string, status: number, body: string): UsageError {
  try {
    const reported = JSON.parse(body) as Partial<Problem>;
    if (typeof reported.message === "string" && typeof reported.error === "string") {
      const { problem = reported.message, parameter, expected } = reported;
      const hint =
        reported.hint ?? (status === 401 ? "give ‘token-file FILE’ (hoptime token makes one)" : undefined);
      return new UsageError(reported.error as UsageError["code"], problem, hint, { parameter, expected });
    }
  } catch {
    // Not a collector's error format.
  }
  return new UsageError("not-supported", `${url}: answered with status ${status}, not like a collector`);
}
