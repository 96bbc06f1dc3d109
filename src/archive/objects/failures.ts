/** Errors of an object store in one line: what, where, what to do. */
import { UsageError } from "../../base/errors.ts";
import type { ObjectAnswer } from "./exchange.ts";
import { type ObjectPlace, placeName } from "./object-place.ts";

const KEYS = new Set(["InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken"]);

export function refused(place: ObjectPlace, { status, body }: ObjectAnswer): Error {
  const text = new TextDecoder().decode(body.subarray(0, 4096));
  const code = /<Code>([^<]*)<\/Code>/.exec(text)?.[1] ?? "";
  const where = `${placeName(place)} at ${place.endpoint}`;
  if (KEYS.has(code) || status === 401)
    return new UsageError(
      "bad-option",
      `${where}: wrong credentials (${code || `status ${status}`})`,
      "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the region",
    );
  if (code === "NoSuchBucket" || (status === 404 && code === ""))
    return new UsageError("bad-option", `${where}: no bucket '${place.bucket}'`, "make it first");
  if (status === 403)
    return new UsageError(
      "bad-option",
      `${where}: not permitted (${code || "status 403"})`,
      "the user needs to list, read and write the bucket",
    );
  if (status >= 500 || status === 429)
    return new UsageError("store-away", `${where}: ${code || `status ${status}`}`);
  if (code === "")
    return new UsageError(
      "bad-option",
      `${place.endpoint} does not answer like an object store (status ${status})`,
      "give the address of its S3 interface",
    );
  return new Error(`${where}: ${code} (status ${status})`);
}

export function away(place: ObjectPlace, cause: unknown): UsageError {
  const { code, message } = cause as NodeJS.ErrnoException;
  const what = code === "ECONNREFUSED" ? "refuses the connection" : `cannot be reached (${message || code})`;
  return new UsageError("store-away", `object store at ${place.endpoint} ${what}`, "is it running?", {
    cause,
  });
}
