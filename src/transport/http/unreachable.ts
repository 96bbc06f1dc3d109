/** Reasons for a failed exchange with a collector, for people. */
import { UsageError } from "../../base/errors.ts";

/** Codes of Node and OpenSSL for a certificate that no known authority has signed. */
const UNKNOWN_AUTHORITY = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
]);

/** Returns a configuration mismatch between the two, with what to do; null if the collector may just be unreachable. */
function mismatch(url: string, cause: unknown): string | null {
  const { code = "", message } = cause as NodeJS.ErrnoException;
  if (UNKNOWN_AUTHORITY.has(code))
    return `its certificate is of an unknown authority (${message}): give the authority with ‘ca FILE’`;
  if (code === "CERT_HAS_EXPIRED") return "its certificate has expired: renew it";
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID")
    return `its certificate is of another host (${(cause as { reason?: string }).reason ?? message})`;
  if (/certificate required|bad certificate/.test(message))
    return "it asks for a certificate of the client: give ‘cert FILE’ and ‘cert-key FILE’";
  // What a TLS client reports for an answer in plain text, depending on the OpenSSL version.
  if (code === "EPROTO" || code.startsWith("ERR_SSL_WRONG_VERSION") || code.startsWith("ERR_SSL_PACKET"))
    return "it does not speak TLS: http:// in place of https://?";
  if (code === "ECONNRESET" && url.startsWith("http:"))
    return `it closes the connection (${message}): https:// in place of http://?`;
  return null;
}

/** By the system's code. */
const ABSENCES: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there",
  ENOTFOUND: "unknown host",
  EAI_AGAIN: "the host's name cannot be resolved now",
  EHOSTUNREACH: "the host is unreachable",
  ENETUNREACH: "the network is unreachable",
  ETIMEDOUT: "no answer",
};

function absence(cause: unknown): string {
  const { code, message } = cause as NodeJS.ErrnoException;
  return ABSENCES[code ?? ""] ?? (message || code || "no answer");
}

export function whyUnreachable(url: string, cause: unknown): string {
  return mismatch(url, cause) ?? absence(cause);
}

export function unreachable(url: string, cause: unknown): UsageError {
  const wrong = mismatch(url, cause);
  return wrong === null
    ? new UsageError("no-records", `${url}: ${absence(cause)}`, "is hoptime collect running there?", {
        cause,
      })
    : new UsageError("no-records", `${url}: ${wrong}`, undefined, { cause });
}
