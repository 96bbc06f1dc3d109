import { readFileSync } from "node:fs";
import { UsageError } from "./errors.ts";

/** A text that a parameter names the file of: a certificate, a token, credentials. */
export function readTextFile(parameter: string, file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new UsageError("no-such-file", `${file}: cannot be read`, undefined, {
      parameter,
      value: file,
      cause,
    });
  }
}
