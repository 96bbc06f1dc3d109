import { readFileSync } from "node:fs";
import { reasonOf } from "./directory.ts";
import { UsageError } from "./errors.ts";

/** Reads the text of a file that a parameter names: a certificate, a token, credentials. */
export function readTextFile(parameter: string, file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const why = code === "ENOENT" ? "no such file" : `cannot be read: ${reasonOf(message)}`;
    throw new UsageError("no-such-file", `${file}: ${why}`, undefined, {
      parameter,
      value: file,
      cause,
    });
  }
}
