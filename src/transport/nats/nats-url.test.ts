import { expect, it } from "vitest";
import { isNatsUrl, parseNatsUrl } from "./nats-url.ts";

it("addresses of a cluster name its servers, and who asks", () => {
  expect(parseNatsUrl("nats://n1,n2:4333")).toMatchObject({ servers: ["n1:4222", "n2:4333"], tls: false });
  expect(parseNatsUrl("tls://u:p%40s@n1,tls://[::1]:4223")).toEqual({
    ...{ servers: ["n1:4222", "[::1]:4223"], tls: true, user: "u", password: "p@s" },
    shown: "tls://n1:4222,[::1]:4223",
  });
  expect(isNatsUrl("http://a")).toBe(false);
});

it("what is no address is refused without showing a password", () => {
  for (const text of [
    "nats://",
    "nats://u:secret@",
    "nats://a,,b",
    "nats://a/path",
    "nats://a?x=1",
    "a:4222",
  ])
    expect(() => parseNatsUrl(text)).toThrow(/^(?!.*secret).*is not the address of a NATS cluster/);
});
