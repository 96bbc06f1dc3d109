import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createServer as createRawServer } from "node:net";
import { afterEach, expect, test } from "vitest";
import { HttpClient } from "./request.ts";
import { unreachable } from "./unreachable.ts";

let close: (() => void) | null = null;
afterEach(() => close?.());

async function portOf(server: Server | ReturnType<typeof createRawServer>): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  close = () => server.close();
  return (server.address() as AddressInfo).port;
}

async function refusal(url: string): Promise<string> {
  const client = new HttpClient({ url });
  const cause = await client.send({ method: "GET", path: "/v1/health" }).then(
    () => null,
    (error: unknown) => error,
  );
  client.close();
  expect(cause).not.toBeNull();
  const { message, hint } = unreachable(url, cause);
  return `${message}; ${hint}`;
}

test("https:// to a server that speaks plain HTTP names the other scheme", async () => {
  const port = await portOf(createServer((_, reply) => reply.end()));
  expect(await refusal(`https://127.0.0.1:${port}`)).toContain("use http:// instead of https://");
});

test("http:// to a server that hangs up, as one for TLS does, names the other scheme", async () => {
  const port = await portOf(createRawServer((socket) => socket.once("data", () => socket.destroy())));
  expect(await refusal(`http://127.0.0.1:${port}`)).toContain("https:// instead of http://");
});

test("a port where nothing listens asks for the collector", async () => {
  const port = await portOf(createServer());
  close?.();
  const text = await refusal(`http://127.0.0.1:${port}`);
  expect(text).toContain("nothing listens there");
  expect(text).toContain("is hoptime collect running there?");
});

test("what is wrong with a certificate is named with the parameter that helps", () => {
  const of = (code: string, message: string, more = {}) =>
    unreachable("https://collector", Object.assign(new Error(message), { code, ...more })).message;
  expect(of("DEPTH_ZERO_SELF_SIGNED_CERT", "self-signed certificate")).toContain("‘ca FILE’");
  expect(of("UNABLE_TO_VERIFY_LEAF_SIGNATURE", "unable to verify the first certificate")).toContain(
    "‘ca FILE’",
  );
  expect(of("CERT_HAS_EXPIRED", "certificate has expired")).toContain("renew");
  expect(
    of("ERR_TLS_CERT_ALTNAME_INVALID", "Hostname/IP does not match", { reason: "IP: 10.0.0.1" }),
  ).toContain("for another host (IP: 10.0.0.1)");
  expect(of("ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED", "tlsv13 alert certificate required")).toContain(
    "‘cert FILE’ and ‘cert-key FILE’",
  );
});
