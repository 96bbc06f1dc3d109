/** Signed requests to an object store: AWS Signature Version 4 with the hash of the body, path-style addresses. */
import { createHash, createHmac } from "node:crypto";
import type { ObjectPlace } from "./object-place.ts";

export interface ObjectRequest {
  method: "GET" | "HEAD" | "PUT" | "DELETE";
  /** Below the bucket; empty for the bucket itself. */
  key: string;
  query?: Readonly<Record<string, string>>;
  headers?: Readonly<Record<string, string>>;
  body?: Uint8Array;
}

export interface SignedRequest {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: Uint8Array | null;
}

export function signed(place: ObjectPlace, request: ObjectRequest, now: Date = new Date()): SignedRequest {
  const { endpoint, bucket, sessionToken } = place;
  const stamp = now.toISOString().replace(/[-:]|\.\d+/g, "");
  const path = `/${bucket}${request.key === "" ? "" : `/${request.key.split("/").map(encoded).join("/")}`}`;
  const query = Object.entries(request.query ?? {})
    .map(([name, value]) => `${encoded(name)}=${encoded(value)}`)
    .sort()
    .join("&");
  const body = request.body ?? null;
  const digest = sha256(body ?? "");
  const headers: Record<string, string> = {
    ...request.headers,
    host: new URL(endpoint).host,
    "x-amz-content-sha256": digest,
    "x-amz-date": stamp,
    ...(sessionToken === null ? {} : { "x-amz-security-token": sessionToken }),
  };
  headers["authorization"] = authorization(place, {
    method: request.method,
    path,
    query,
    headers,
    digest,
    stamp,
  });
  if (body) headers["content-length"] = `${body.length}`;
  return {
    method: request.method,
    url: `${endpoint}${path}${query === "" ? "" : `?${query}`}`,
    headers,
    body,
  };
}

export interface CanonicalRequest {
  method: string;
  /** Encoded as sent; query parameters sorted. */
  path: string;
  query: string;
  /** Names in lower case. */
  headers: Readonly<Record<string, string>>;
  /** SHA-256 of the body, in hexadecimal. */
  digest: string;
  /** 20130524T000000Z */
  stamp: string;
}

/** Value of the `authorization` header. */
export function authorization(
  { region, accessKey, secretKey }: Pick<ObjectPlace, "region" | "accessKey" | "secretKey">,
  { method, path, query, headers, digest, stamp }: CanonicalRequest,
): string {
  const names = Object.keys(headers).sort();
  const lines = names.map((name) => `${name}:${headers[name]?.trim()}\n`).join("");
  const canonical = [method, path, query, lines, names.join(";"), digest].join("\n");
  const day = stamp.slice(0, 8);
  const scope = `${day}/${region}/s3/aws4_request`;
  const key = [day, region, "s3", "aws4_request"].reduce<string | Buffer>(
    (secret, part) => createHmac("sha256", secret).update(part).digest(),
    `AWS4${secretKey}`,
  );
  const signature = createHmac("sha256", key)
    .update(["AWS4-HMAC-SHA256", stamp, scope, sha256(canonical)].join("\n"))
    .digest("hex");
  return `AWS4-HMAC-SHA256 Credential=${accessKey}/${scope}, SignedHeaders=${names.join(";")}, Signature=${signature}`;
}

/** RFC 3986: only unreserved characters are kept. */
function encoded(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function sha256(data: string | Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}
