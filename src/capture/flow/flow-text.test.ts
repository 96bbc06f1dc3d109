import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import * as p from "../../../tests/support/packets.ts";
import { pcapFile } from "../../../tests/support/pcap-writer.ts";
import { tsharkVersion } from "../../../tests/support/tshark.ts";
import { UsageError } from "../../base/errors.ts";
import { formatIpv4, formatIpv6 } from "../address.ts";
import type { FlowKey } from "./flow-key.ts";
import { communityId, formatFlowKey, parseFlowKey, parseProtocol, protocolName } from "./flow-text.ts";

const key = (
  src: string,
  dst: string,
  proto: number,
  sport: number | null = null,
  dport: number | null = null,
): FlowKey => ({
  src,
  dst,
  proto,
  sport,
  dport,
});

test("flows as people write them", () => {
  expect(formatFlowKey(key("10.0.0.1", "10.0.0.9", 6, 443, 51_000))).toBe(
    "tcp 10.0.0.1:443 > 10.0.0.9:51000",
  );
  expect(formatFlowKey(key("2001:db8::1", "::1", 17, 53, 5000))).toBe("udp [2001:db8::1]:53 > [::1]:5000");
  expect(formatFlowKey(key("10.0.0.1", "10.0.0.9", 1))).toBe("icmp 10.0.0.1 > 10.0.0.9");
  expect(
    formatFlowKey({ src: null, dst: "10.0.0.0/8", proto: null, sport: null, dport: 80, dscp: 46, vlan: 7 }),
  ).toBe("* > 10.0.0.0/8:80 dscp 46 vlan 7");
  expect(formatFlowKey({ src: null, dst: null, proto: null, sport: null, dport: null })).toBe("all");
});

test("what is formatted is parsed again", () => {
  const port = fc.nat({ max: 65_535 });
  const v4 = fc.nat({ max: 0xffff_ffff }).map(formatIpv4);
  const word = fc.nat({ max: 0xffff_ffff });
  const v6 = fc.tuple(word, word, word, word).map(formatIpv6);
  const pair = fc.oneof(fc.tuple(v4, v4), fc.tuple(v6, v6));
  fc.assert(
    fc.property(pair, fc.nat({ max: 255 }), fc.option(fc.tuple(port, port)), ([src, dst], proto, ports) => {
      const flow = key(src, dst, proto, ports?.[0] ?? null, ports?.[1] ?? null);
      expect(parseFlowKey(formatFlowKey(flow))).toEqual(flow);
    }),
    { seed: 1, numRuns: 1000 },
  );
});

test("what is no flow is the caller's fault", () => {
  for (const text of [
    "",
    "tcp",
    "10.0.0.1 10.0.0.2",
    "quic 1.2.3.4:1 > 1.2.3.5:2",
    "tcp 1.2.3.4:99999 > 1.2.3.5:1",
    "tcp 1.2.3:1 > 1.2.3.4:2",
    "a > b > c",
  ])
    expect(() => parseFlowKey(text), text).toThrow(UsageError);
});

test("protocols by name and number", () => {
  for (let n = 0; n < 256; n++) expect(parseProtocol(protocolName(n))).toBe(n);
  expect(parseProtocol("TCP")).toBe(6);
  expect([parseProtocol("256"), parseProtocol("none"), parseProtocol("-1"), parseProtocol("1.5")]).toEqual([
    null,
    null,
    null,
    null,
  ]);
});

test("Community IDs of the specification's baseline, both directions", () => {
  const both = (a: FlowKey, expected: string, icmp?: { type: number; code: number }) => {
    expect(communityId(a, icmp)).toBe(expected);
    if (!icmp)
      expect(communityId({ ...a, src: a.dst, dst: a.src, sport: a.dport, dport: a.sport })).toBe(expected);
  };
  both(key("128.232.110.120", "66.35.250.204", 6, 34_855, 80), "1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
  both(key("192.168.1.52", "8.8.8.8", 17, 54_585, 53), "1:d/FP5EW3wiY1vCndhwleRRKHowQ=");
  both(key("192.168.170.8", "192.168.170.56", 132, 7, 80), "1:jQgCxbku+pNGw8WPbEc/TS/uTpQ=");
  both(key("192.168.0.89", "192.168.0.1", 1), "1:X0snYXpgwiv9TZtqg64sgzUn6Dk=", { type: 8, code: 0 });
});

test("no Community ID where it cannot be known", () => {
  expect(communityId(key("10.0.0.1", "10.0.0.2", 1))).toBeNull();
  expect(communityId(key("::1", "::2", 58))).toBeNull();
  expect(communityId(key("10.0.0.0/8", "10.0.0.2", 6, 1, 2))).toBeNull();
  expect(communityId({ ...key("10.0.0.1", "10.0.0.2", 6), proto: null })).toBeNull();
  expect(communityId({ ...key("10.0.0.1", "10.0.0.2", 6), src: null })).toBeNull();
});

const version = tsharkVersion();
if (!version) console.log("Community ID against tshark: skipped, tshark is not installed");

test.skipIf(!version)("Community IDs are those of tshark", () => {
  const addresses = [Uint8Array.of(10, 0, 0, 1), Uint8Array.of(10, 0, 0, 2), Uint8Array.of(9, 255, 0, 7)];
  const flows: { frame: Uint8Array; id: string | null }[] = [];
  const text = (a: Uint8Array) => a.join(".");
  // The quoted packets are complete: for truncated ones tshark gives no ID, or one of their addresses alone.
  const quoted = p.stack([p.ipv4({ proto: 17 }), p.udp()]);
  const quoted6 = p.stack([p.ipv6({ next: 17 }), p.udp()]);
  for (const src of addresses)
    for (const dst of addresses) {
      const ip = (proto: number) => [p.ethernet(0x0800), p.ipv4({ proto, src, dst })];
      for (const [sport, dport] of [
        [1, 2],
        [40_000, 443],
        [443, 40_000],
        [7, 7],
      ] as const) {
        const at = (proto: number) => communityId(key(text(src), text(dst), proto, sport, dport));
        flows.push({ frame: p.stack([...ip(6), p.tcp({ sport, dport })]), id: at(6) });
        flows.push({ frame: p.stack([...ip(17), p.udp({ sport, dport })]), id: at(17) });
        flows.push({ frame: p.stack([...ip(132), p.sctp({ sport, dport })]), id: at(132) });
      }
      for (const [type, code] of [
        [8, 0],
        [0, 0],
        [13, 0],
        [3, 1],
        [11, 0],
      ] as const)
        flows.push({
          frame: p.stack([...ip(1), p.icmp(type, code)], type === 13 ? new Uint8Array(12) : quoted),
          id: communityId(key(text(src), text(dst), 1), { type, code }),
        });
      for (const [type, code] of [
        [128, 0],
        [129, 0],
        [135, 0],
        [1, 4],
      ] as const) {
        const frame = p.stack(
          [p.ethernet(0x86dd), p.ipv6({ next: 58 }), p.icmp(type, code)],
          type === 135 ? new Uint8Array(16) : quoted6,
        );
        flows.push({ frame, id: communityId(key("2001:db8::1", "2001:db8:ff00::2", 58), { type, code }) });
      }
      flows.push({
        frame: p.stack([...ip(253)], new Uint8Array(8)),
        id: communityId(key(text(src), text(dst), 253)),
      });
    }
  const scratch = mkdtempSync(join(tmpdir(), "hoptime-community-"));
  try {
    const path = join(scratch, "flows.pcap");
    writeFileSync(path, pcapFile(flows.map(({ frame }) => ({ timeNs: 1n, frame }))));
    const args = ["-n", "-r", path, "--enable-protocol", "communityid", "-T", "fields", "-e", "communityid"];
    const printed = execFileSync("tshark", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    expect(printed.trimEnd().split("\n")).toEqual(flows.map((f) => f.id));
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
});
