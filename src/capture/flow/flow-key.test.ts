import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { plainIp } from "../../../tests/support/arbitrary-frames.ts";
import * as p from "../../../tests/support/packets.ts";
import { pcapFile } from "../../../tests/support/pcap-writer.ts";
import { UsageError } from "../../base/errors.ts";
import { Kernels } from "../../base/kernels.ts";
import { CaptureReader } from "../reader.ts";
import { type FlowKey, FlowKeySpec } from "./flow-key.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-key-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const kernels = new Kernels();

/** Returns the flow and the hash of each row of some frames under a key. */
async function flowsOf(
  frames: Uint8Array[],
  text: string,
): Promise<{ key: FlowKey; hash: string; words: number[] }[]> {
  const path = join(scratch, "frames.pcap");
  writeFileSync(path, pcapFile(frames.map((frame) => ({ timeNs: 1n, frame }))));
  const key = FlowKeySpec.parse(text);
  const reader = await CaptureReader.open(kernels, path, { key });
  const out: { key: FlowKey; hash: string; words: number[] }[] = [];
  while (await reader.next()) {
    const { meta, addrA, addrB, addrC, addrD, flowHash, count } = reader.batch;
    for (let i = 0; i < count; i++) {
      const v6 = (meta[2 * i + 1]! & (1 << 27)) !== 0;
      const columns = v6 ? [meta, addrA, addrB, addrC, addrD] : [meta, addrA];
      const words = columns.flatMap((c) => [c[2 * i]!, c[2 * i + 1]!]);
      while (words.length < 10) words.push(0);
      out.push({ key: key.describe(words), hash: `${flowHash[2 * i]},${flowHash[2 * i + 1]}`, words });
    }
  }
  reader.close();
  reader.free();
  return out;
}
const one = async (frame: Uint8Array, text: string) => (await flowsOf([frame], text))[0]!.key;

const tcp4 = p.stack([
  p.ethernet(0x8100),
  p.vlan(42, 0x0800),
  p.ipv4({ proto: 6, tos: 0xb8 }),
  p.tcp({ sport: 40_000, dport: 443 }),
]);
const udp6 = p.stack([
  p.ethernet(0x86dd),
  p.ipv6({ next: 17, trafficClass: 0x28 }),
  p.udp({ sport: 5000, dport: 53 }),
]);

describe("a key says what a packet is accounted to", () => {
  const none = { src: null, dst: null, proto: null, sport: null, dport: null };
  const cases: [string, FlowKey, FlowKey][] = [
    [
      "5tuple",
      { src: "10.1.2.3", dst: "192.168.9.8", proto: 6, sport: 40_000, dport: 443 },
      { src: "2001:db8::1", dst: "2001:db8:ff00::2", proto: 17, sport: 5000, dport: 53 },
    ],
    [
      "hosts",
      { ...none, src: "10.1.2.3", dst: "192.168.9.8" },
      { ...none, src: "2001:db8::1", dst: "2001:db8:ff00::2" },
    ],
    ["src", { ...none, src: "10.1.2.3" }, { ...none, src: "2001:db8::1" }],
    ["dst/16", { ...none, dst: "192.168.0.0/16" }, { ...none, dst: "2001:db8::/32" }],
    ["src/24/127", { ...none, src: "10.1.2.0/24" }, { ...none, src: "2001:db8::/127" }],
    [
      "prefix/8/40",
      { ...none, src: "10.0.0.0/8", dst: "192.0.0.0/8" },
      { ...none, src: "2001:db8::/40", dst: "2001:db8:ff00::/40" },
    ],
    ["src/0", { ...none, src: "0.0.0.0/0" }, { ...none, src: "::/0" }],
    ["ports", { ...none, sport: 40_000, dport: 443 }, { ...none, sport: 5000, dport: 53 }],
    ["sport", { ...none, sport: 40_000 }, { ...none, sport: 5000 }],
    ["dport,proto", { ...none, proto: 6, dport: 443 }, { ...none, proto: 17, dport: 53 }],
    ["proto", { ...none, proto: 6 }, { ...none, proto: 17 }],
    ["dscp", { ...none, dscp: 46 }, { ...none, dscp: 10 }],
    ["vlan", { ...none, vlan: 42 }, none],
    ["dst , dscp", { ...none, dst: "192.168.9.8", dscp: 46 }, { ...none, dst: "2001:db8:ff00::2", dscp: 10 }],
  ];
  test.each(cases)("%s", async (text, v4, v6) => {
    expect(await one(tcp4, text)).toEqual(v4);
    expect(await one(udp6, text)).toEqual(v6);
  });

  test("a packet without ports has none, which is not port 0", async () => {
    const icmp = p.stack([p.ethernet(0x0800), p.ipv4({ proto: 1 }), p.icmp(8)]);
    const later = p.stack([p.ethernet(0x0800), p.ipv4({ proto: 17, fragment: 9 }), p.udp()]);
    for (const frame of [icmp, later])
      expect(await one(frame, "5tuple")).toMatchObject({ sport: null, dport: null });
    const udpZero = p.stack([p.ethernet(0x0800), p.ipv4({ proto: 17 }), p.udp({ sport: 0, dport: 0 })]);
    expect(await one(udpZero, "ports")).toMatchObject({ sport: 0, dport: 0 });
  });

  test("a key without addresses joins both versions of IP", async () => {
    const udp4 = p.stack([p.ethernet(0x0800), p.ipv4({ proto: 17 }), p.udp({ sport: 5000, dport: 53 })]);
    const [a, b] = await flowsOf([udp4, udp6], "ports,proto");
    expect(a).toEqual(b);
  });
});

test("equal keys have equal hashes, different keys different ones; the hash of a key alone is the same", async () => {
  const frames = fc
    .sample(plainIp, { seed: 1, numRuns: 300 })
    .map(({ type, data }) => p.stack([p.ethernet(type)], data));
  for (const text of ["5tuple", "hosts", "src/8", "dport", "prefix/16,proto", "dscp"]) {
    const flows = await flowsOf(frames, text);
    const byKey = new Map<string, string>();
    for (const { key: described, words, hash } of flows) {
      // In readable form: a field that the key leaves out must not influence the hash.
      const key = JSON.stringify(described);
      expect(byKey.get(key) ?? hash).toBe(hash);
      byKey.set(key, hash);
      const at = kernels.alloc(40);
      kernels.u32.set(words, at >>> 2);
      const alone = BigInt.asUintN(64, kernels.call.hashKey(at, 0x686f_7074_696d_6531n) as bigint);
      kernels.free(at);
      expect(`${alone & 0xffff_ffffn},${alone >> 32n}`).toBe(hash);
    }
    expect(new Set(byKey.values()).size).toBe(byKey.size);
  }
});

test("masked addresses keep their prefix and nothing else", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 32 }), fc.integer({ min: 0, max: 128 }), (n4, n6) => {
      const [, addr4, , a6, b6, c6, d6] = FlowKeySpec.parse(`src/${n4}/${n6}`).maskWords();
      const ones = (bits: number, width: number) => ((1n << BigInt(bits)) - 1n) << BigInt(width - bits);
      expect(addr4).toBe(ones(n4, 32) << 32n);
      expect((a6! << 64n) | b6!).toBe(ones(n6, 128));
      expect([c6, d6]).toEqual([0n, 0n]);
    }),
    { seed: 2 },
  );
});

test("only a whole 5-tuple counts as one", () => {
  expect(FlowKeySpec.parse().isFiveTuple).toBe(true);
  expect(FlowKeySpec.parse("hosts,ports,proto").isFiveTuple).toBe(true);
  expect(FlowKeySpec.parse("5tuple,dscp").isFiveTuple).toBe(true);
  for (const text of ["hosts", "src/31,dst,ports,proto", "src,ports,proto", "hosts,dport,proto"])
    expect(FlowKeySpec.parse(text).isFiveTuple).toBe(false);
});

test("what is no key is the caller's fault, and the message names the part", () => {
  for (const part of [
    "",
    "nonsense",
    "src/",
    "src/33",
    "src/24/",
    "src/24/129",
    "src/1e1",
    "src/0x10",
    "src/-1",
    "src/24/48/9",
    "prefix",
    "ports/3",
    "5tuple/2",
  ]) {
    expect(() => FlowKeySpec.parse(part)).toThrow(UsageError);
    expect(() => FlowKeySpec.parse(`proto,${part}`)).toThrow(`'${part}' is not a key field`);
  }
});
