/**
 * Why a NATS server with TLS does not answer. A server that rejects a client's certificate, or misses one, ends the connection after the handshake; the client
 * only sees that no answer comes. So the handshake is repeated to get the alert that ends it.
 */
import { connect } from "node:net";
import { connect as connectTls } from "node:tls";
import { type NatsEndpoint, parseNatsUrl } from "./nats-url.ts";

const LIMIT_MS = 3000;

/** Null if TLS is not the cause. */
export async function tlsRefusal(endpoint: NatsEndpoint): Promise<string | null> {
  const [server = ""] = parseNatsUrl(endpoint.url).servers;
  const at = server.lastIndexOf(":");
  const host = server.slice(0, at).replace(/^\[|\]$/g, "");
  const socket = connect(Number(server.slice(at + 1)), host);
  const { ca, certificate: cert, key } = endpoint;
  try {
    return await new Promise<string | null>((resolve) => {
      const limit = setTimeout(() => resolve(null), LIMIT_MS);
      const end = (why: string | null) => {
        clearTimeout(limit);
        resolve(why);
      };
      socket.once("error", () => end(null));
      socket.once("close", () => end(null));
      // The first thing that a server sends, before TLS: INFO {…}.
      socket.once("data", (bytes: Buffer) => {
        if (!/"tls_(required|available|verify)":true/.test(bytes.toString())) return end(null);
        const secure = connectTls({ socket, host, ca, cert, key, rejectUnauthorized: false });
        secure.on("error", (error: Error) => end(alertOf(error, cert !== undefined)));
        secure.resume();
      });
    });
  } finally {
    socket.destroy();
  }
}

function alertOf({ message }: Error, hasCertificate: boolean): string | null {
  if (!/alert/i.test(message)) return null;
  const alert = /alert ([a-z ]+)/i.exec(message)?.[1]?.trim() ?? "handshake failure";
  return hasCertificate
    ? `the servers do not take this client's certificate (${alert})`
    : `the servers ask for a client certificate (${alert})`;
}
