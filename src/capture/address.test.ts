import { isIP } from "node:net";
import fc from "fast-check";
import { expect, test } from "vitest";
import { UsageError } from "../base/errors.ts";
import { formatIpv4, formatIpv6, parseAddress, requireAddress } from "./address.ts";

const word = fc.oneof(fc.constantFrom(0, 1, 0xffff, 0x10000, 0xffff_ffff), fc.nat({ max: 0xffff_ffff }));

test("what is formatted is parsed again", () => {
  fc.assert(
    fc.property(word, (w) => {
      expect(parseAddress(formatIpv4(w))).toEqual({ version: 4, words: [w] });
    }),
    { seed: 1 },
  );
  fc.assert(
    fc.property(fc.tuple(word, word, word, word), (words) => {
      const text = formatIpv6(words);
      expect(isIP(text)).toBe(6);
      expect(parseAddress(text)).toEqual({ version: 6, words });
    }),
    { seed: 2, numRuns: 2000 },
  );
});

test("IPv6 text is that of RFC 5952", () => {
  const cases: [string, string][] = [
    ["2001:db8::1", "2001:0db8:0:0:0:0:0:1"],
    ["2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"],
    ["2001:0:0:1::1", "2001:0:0:1:0:0:0:1"],
    ["2001:db8::1:0:0:1", "2001:db8:0:0:1:0:0:1"],
    ["::", "0:0:0:0:0:0:0:0"],
    ["::1", "0::1"],
    ["fe80::", "fe80:0:0:0:0:0:0:0"],
    ["::ffff:192.0.2.1", "::ffff:c000:201"],
    ["1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"],
  ];
  for (const [expected, given] of cases) expect(formatIpv6(parseAddress(given)!.words)).toBe(expected);
});

test("addresses that node accepts are accepted, and no others", () => {
  const texts = [
    "1.2.3.4",
    "255.255.255.255",
    "::",
    "::1",
    "1::",
    "1::2",
    "1:2:3:4:5:6:7:8",
    "1:2:3:4:5:6:1.2.3.4",
    "::1.2.3.4",
    "1:2:3:4:5:6:7::",
  ];
  const wrong = [
    "",
    "1.2.3",
    "1.2.3.4.5",
    "256.1.1.1",
    "1.2.3.0004",
    ":",
    ":::",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1::2::3",
    "12345::",
    "g::",
    "1:2:3:4:5:6:7:1.2.3.4",
    ":1::",
    "1.2.3.4::",
    "::1.2.3",
    "fe80::1%eth0",
  ];
  for (const text of texts) expect([text, parseAddress(text)?.version]).toEqual([text, isIP(text)]);
  for (const text of wrong) expect([text, parseAddress(text)]).toEqual([text, null]);
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(..."01af:."), maxLength: 20 }), (text) => {
      // Node accepts zone ids, and leading zeros in IPv4; this parser does not.
      if (!/(^|[.:])0\d/.test(text)) expect(parseAddress(text)?.version ?? 0).toBe(isIP(text));
    }),
    { seed: 3, numRuns: 5000 },
  );
});

test("what is no address is the caller's fault", () => {
  expect(() => requireAddress("10.0.0", "filter")).toThrow(UsageError);
  expect(() => requireAddress("10.0.0", "filter")).toThrow("filter: '10.0.0' is not an IP address");
});
