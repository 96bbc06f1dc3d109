/**
 * Location of objects: s3://BUCKET/PREFIX at an endpoint, with credentials from the usual AWS environment variables. Plain data: it is passed between threads.
 */
import { UsageError } from "../../base/errors.ts";

export interface ObjectPlace {
  /** http(s)://HOST[:PORT] */
  endpoint: string;
  region: string;
  bucket: string;
  /** Without leading and trailing slashes; may be empty. */
  prefix: string;
  accessKey: string;
  secretKey: string;
  sessionToken: string | null;
}

const EXPECTED = "write s3://BUCKET or s3://BUCKET/PREFIX";

export function isObjectUrl(text: string): boolean {
  return /^s3:\/\//i.test(text);
}

/** Throws a UsageError if the address is invalid, or credentials are missing. */
export function readObjectPlace(
  text: string,
  settings: { endpoint?: string | undefined; region?: string | undefined } = {},
  env: NodeJS.ProcessEnv = process.env,
): ObjectPlace {
  const { bucket, prefix } = bucketOf(text);
  const region = settings.region ?? env["AWS_REGION"] ?? env["AWS_DEFAULT_REGION"] ?? "us-east-1";
  const endpoint =
    settings.endpoint ??
    env["AWS_ENDPOINT_URL_S3"] ??
    env["AWS_ENDPOINT_URL"] ??
    `https://s3.${region}.amazonaws.com`;
  const url = URL.canParse(endpoint) ? new URL(endpoint) : null;
  if ((url?.protocol !== "http:" && url?.protocol !== "https:") || url.pathname !== "/" || url.search !== "")
    throw new UsageError(
      "bad-option",
      `'${endpoint}' is not the address of an object store`,
      "write http://HOST:PORT or https://HOST",
    );
  const [accessKey, secretKey] = [env["AWS_ACCESS_KEY_ID"] ?? "", env["AWS_SECRET_ACCESS_KEY"] ?? ""];
  if (accessKey === "" || secretKey === "")
    throw new UsageError(
      "bad-option",
      `${text}: no credentials`,
      "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    );
  const sessionToken = env["AWS_SESSION_TOKEN"] || null;
  return { endpoint: url.origin, region, bucket, prefix, accessKey, secretKey, sessionToken };
}

/** Name for messages. */
export function placeName({ bucket, prefix }: Pick<ObjectPlace, "bucket" | "prefix">): string {
  return `s3://${bucket}${prefix === "" ? "" : `/${prefix}`}`;
}

/** Bucket names follow the rules of S3. */
export function bucketOf(text: string): { bucket: string; prefix: string } {
  const match = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/i.exec(text);
  const prefix = (match?.[2] ?? "").replace(/^\/+|\/+$/g, "");
  if (!match?.[1] || /[?#]|\/\//.test(prefix))
    throw new UsageError("bad-option", `'${text}' names no bucket`, EXPECTED);
  return { bucket: match[1], prefix };
}
