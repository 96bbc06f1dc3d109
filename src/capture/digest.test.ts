/** The digest is a wire format: taps of different versions must agree on it. These tests define which bytes it depends on. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { plainIp } from "../../tests/support/arbitrary-frames.ts";
import { readRows } from "../../tests/support/capture-rows.ts";
import { FrameDecoder } from "../../tests/support/frame-decoder.ts";
import { file } from "../../tests/support/numbered-captures.ts";
import * as p from "../../tests/support/packets.ts";
import { pcapFile } from "../../tests/support/pcap-writer.ts";
import { Random } from "../base/random.ts";
import { DEFAULT_COVER } from "./reader.ts";

const decoder = new FrameDecoder();
const COVER = DEFAULT_COVER;

function digest(link: number, frame: Uint8Array, wire = frame.length, cover = COVER): bigint {
  const { row, reason } = decoder.decode(link, frame, wire, { cover });
  if (!row) throw new Error(`not decoded: ${reason}`);
  return row.digest;
}
const raw = (data: Uint8Array, cover = COVER) => digest(101, data, data.length, cover);

/** Position of the L4 checksum of a packet, by protocol; later fragments have none. */
const CHECKSUMS: Record<number, [number, number]> = {
  6: [16, 2],
  17: [6, 2],
  136: [6, 2],
  33: [6, 2],
  1: [2, 2],
  58: [2, 2],
  2: [2, 2],
  132: [8, 4],
};

const packets = plainIp.filter(({ data }) => decoder.decode(101, data, data.length).row !== undefined);

describe("the digest of a packet stays the same", () => {
  test("when TTL, DSCP, ECN, flow label or IP checksum change", () => {
    fc.assert(
      fc.property(packets, fc.uint8Array({ minLength: 6, maxLength: 6 }), ({ type, data }, noise) => {
        const changed = Uint8Array.from(data);
        if (type === 0x0800) {
          changed[1] = noise[0]!;
          changed[8] = noise[1]!;
          changed.set(noise.subarray(2, 4), 10);
        } else {
          changed[0] = 0x60 | (noise[0]! & 15);
          changed.set(noise.subarray(1, 4), 1);
          changed[7] = noise[4]!;
        }
        expect(raw(changed)).toBe(raw(data));
      }),
      { seed: 1, numRuns: 1000 },
    );
  });

  test("when the L4 checksum changes, for every protocol that has one", () => {
    for (const [proto, [at, length]] of Object.entries(CHECKSUMS)) {
      const inside = Uint8Array.from({ length: 60 }, (_, i) => i * 7);
      for (const ip of [p.ipv4({ proto: Number(proto) }), p.ipv6({ next: Number(proto) })]) {
        const data = p.stack([ip], inside);
        const changed = Uint8Array.from(data);
        const l4 = data.length - inside.length;
        for (let i = 0; i < length; i++) changed[l4 + at + i]! ^= 0xa5;
        expect(raw(changed), `protocol ${proto}`).toBe(raw(data));
        changed[l4 + at + length]! ^= 1;
        expect(raw(changed), `protocol ${proto}, behind the checksum`).not.toBe(raw(data));
      }
    }
  });

  test("whatever link carries it: MAC addresses, tags, labels, PPPoE, cooked captures", () => {
    fc.assert(
      fc.property(
        packets,
        fc.uint8Array({ minLength: 12, maxLength: 12 }),
        fc.nat({ max: 4095 }),
        ({ type, data }, mac, id) => {
          const expected = raw(data);
          const protocol = type === 0x0800 ? 0x21 : 0x57;
          const frames: [number, p.Layer[]][] = [
            [1, [p.ethernet(type, mac)]],
            [1, [p.ethernet(0x8100, mac), p.vlan(id, type)]],
            [1, [p.ethernet(0x88a8), p.vlan(5, 0x8100), p.vlan(id, type)]],
            [1, [p.ethernet(0x8847), p.mpls(id, 3)]],
            [1, [p.ethernet(0x8864), p.pppoe(id), p.ppp(protocol)]],
            [113, [p.sll(type)]],
            [276, [p.sll2(type)]],
            [9, [p.ppp(protocol)]],
          ];
          for (const [link, layers] of frames) expect(digest(link, p.stack(layers, data))).toBe(expected);
        },
      ),
      { seed: 2, numRuns: 300 },
    );
  });

  test("when Ethernet padding or a frame check sequence follows", () => {
    fc.assert(
      fc.property(packets, fc.uint8Array({ maxLength: 50 }), ({ data }, behind) => {
        const padded = p.stack([p.trailer(behind)], data);
        expect(digest(101, padded)).toBe(raw(data));
      }),
      { seed: 3, numRuns: 500 },
    );
  });

  test("under any two snap lengths that both show what is covered", () => {
    fc.assert(
      fc.property(packets, fc.integer({ min: 20, max: 300 }), fc.nat(), fc.nat(), ({ data }, cover, a, b) => {
        const minimum = Math.min(data.length, Math.max(cover, 40));
        const cut = (n: number) => data.subarray(0, minimum + (n % (data.length - minimum + 1)));
        expect(digest(101, cut(a), data.length, cover)).toBe(digest(101, cut(b), data.length, cover));
      }),
      { seed: 4, numRuns: 2000 },
    );
  });

  test("when extension headers reach past what is covered and one capture shows more of them", () => {
    const chain = [p.ipv6({ next: 0 }), p.extension(60, 3), p.extension(43, 3), p.routing(6), p.tcp()];
    const data = p.stack(chain, new Uint8Array(100).fill(9));
    for (const cover of [40, 44, 64, 73, 74, 100, 129])
      for (let n = cover; n <= data.length; n++)
        expect(digest(101, data.subarray(0, n), data.length, cover), `cover ${cover}, ${n} bytes`).toBe(
          raw(data, cover),
        );
  });
});

describe("the digest of a packet changes", () => {
  /** Positions that a hop may change, that are checksums, or that determine how the packet is parsed (flipping them makes it another kind of packet). */
  const excluded = (data: Uint8Array, l4: number, proto: number, v4: boolean): Set<number> => {
    const out = new Set(v4 ? [0, 1, 8, 10, 11] : [0, 1, 2, 3, 7]);
    const sum = CHECKSUMS[proto];
    if (sum) for (let i = 0; i < sum[1]; i++) out.add(l4 + sum[0] + i);
    for (let i = 20; v4 && i < l4; i++) out.add(i);
    for (let i = COVER; i < data.length; i++) out.add(i);
    return out;
  };

  test("with every single bit that is covered", () => {
    // 64 bits: the chance that any of these ~10^5 flips leaves the digest unchanged by accident is 10^-14.
    fc.assert(
      fc.property(
        fc.constantFrom(6, 17, 1, 132, 33, 47, 253),
        fc.uint8Array({ minLength: 40, maxLength: 140 }),
        fc.boolean(),
        (proto, inside, v4) => {
          const data = p.stack([v4 ? p.ipv4({ proto }) : p.ipv6({ next: proto })], inside);
          const l4 = v4 ? 20 : 40;
          const skip = excluded(data, l4, proto, v4);
          const expected = raw(data);
          for (let i = 0; i < data.length; i++) {
            if (skip.has(i)) continue;
            const changed = Uint8Array.from(data);
            changed[i]! ^= 1 << (i % 8);
            const got = decoder.decode(101, changed, changed.length).row;
            // A shorter length, a fragment, another protocol: another packet, or no row at all.
            if (got) expect(got.digest, `byte ${i}`).not.toBe(expected);
          }
        },
      ),
      { seed: 5, numRuns: 150 },
    );
  });

  test("and looks random: one flipped bit turns half of the bits, on average", () => {
    // Mean of 64-bit Hamming distances over 4,096 flips: standard error 4 / 64 = 0.0625; 6 of them are exceeded with probability 2e-9.
    const data = p.stack(
      [p.ipv4({ proto: 6 }), p.tcp()],
      Uint8Array.from({ length: 64 }, (_, i) => i),
    );
    let sum = 0;
    let flips = 0;
    for (let i = 12; flips < 4096; i = i === data.length - 1 ? 12 : i + 1) {
      if (i === 36 || i === 37) continue;
      const salted = Uint8Array.from(data);
      salted.set(p.be16(flips), 4);
      const changed = Uint8Array.from(salted);
      changed[i]! ^= 1 << (flips % 8);
      let x = raw(changed) ^ raw(salted);
      for (; x > 0n; x &= x - 1n) sum++;
      flips++;
    }
    expect(Math.abs(sum / flips - 32)).toBeLessThan(6 * 0.0625);
  });

  test("with the seed", () => {
    const data = p.stack([p.ipv4({ proto: 6 }), p.tcp()]);
    expect(decoder.decode(101, data, data.length, { seed: 1n }).row!.digest).not.toBe(raw(data));
  });

  test("but never with what lies past the cover", () => {
    const data = p.stack([p.ipv4({ proto: 17 }), p.udp()], new Uint8Array(200));
    const changed = Uint8Array.from(data).fill(7, COVER);
    expect(raw(changed)).toBe(raw(data));
  });
});

test("a hundred thousand packets that differ in their IPID or counter alone have as many digests", () => {
  // Birthday bound for 10^5 values of 64 bits: 2.7e-10.
  const seen = new Set<bigint>();
  const data = Uint8Array.from(p.stack([p.ipv4({ proto: 17 }), p.udp()], new Uint8Array(8)));
  for (let i = 0; i < 50_000; i++) {
    data.set(p.be16(i), 4);
    seen.add(raw(data));
  }
  data.set(p.be16(0), 4);
  for (let i = 1; i <= 50_000; i++) {
    data.set(p.be32(i), 28);
    seen.add(raw(data));
  }
  expect(seen.size).toBe(100_000);
});

describe("among packets of all lengths, in any order", () => {
  const random = new Random(11);
  const below = (n: number) => random.uint32() % n;
  const noise = (n: number) => Uint8Array.from({ length: n }, () => below(256));
  /** TCP, UDP, other protocols, fragments, options, and a few behind a tag. */
  const inner = Array.from({ length: 3000 }, () => {
    const kind = below(12);
    const proto = kind < 5 ? 6 : kind < 9 ? 17 : 47;
    const fragment = kind === 4 ? 0x2000 : kind === 8 ? 0x0010 : 0x4000;
    const options = kind === 3 ? new Uint8Array(8).fill(1) : new Uint8Array(0);
    return p.stack([p.ipv4({ proto, id: below(65_536), fragment, options })], noise(below(290)));
  });
  const packets = inner.map((data, i) => {
    const link = below(20) === 0 ? [p.ethernet(0x8100), p.vlan(3, 0x0800)] : [p.ethernet(0x0800)];
    const padding = below(3) === 0 ? [p.trailer(noise(below(40)))] : [];
    const frame = p.stack([...link, ...padding], data);
    const length = below(4) === 0 ? Math.min(frame.length, 42 + below(300)) : frame.length;
    return { timeNs: BigInt(i), frame: frame.subarray(0, length), wire: frame.length };
  });
  for (const cover of [20, 36, 37, 64, 128, 271, 292, 293, 400])
    test(`each has the digest that it has alone, with ${cover} bytes covered`, async () => {
      const rows = await readRows(file(pcapFile(packets)), { cover, batchRows: 700 });
      const alone = packets.map(({ frame, wire }) => decoder.decode(1, frame, wire, { cover }).row);
      expect(rows.rows.map((row) => row.digest)).toEqual(
        alone.filter((row) => row !== undefined).map((r) => r.digest),
      );
      // The same packets as raw IP, whose digests are computed one by one and word by word.
      const isWhole = (i: number) => packets[i]!.frame.length === packets[i]!.wire;
      const whole = rows.rows.filter((_, i) => isWhole(i));
      const raws = inner.filter((_, i) => isWhole(i));
      expect(whole.map((row) => row.digest)).toEqual(raws.map((data) => raw(data, cover)));
    });
});

describe("golden digests, kept for ever", () => {
  const payload = Uint8Array.from({ length: 150 }, (_, i) => (i * 37 + 11) & 255);
  const cases: [string, Uint8Array, number][] = [
    [
      "IPv4 TCP",
      p.stack(
        [
          p.ipv4({ proto: 6, id: 0xbeef, fragment: 0x4000 }),
          p.tcp({ sport: 51_000, dport: 443, seq: 0x01020304 }),
        ],
        payload,
      ),
      128,
    ],
    ["IPv4 UDP, short", p.stack([p.ipv4({ proto: 17 }), p.udp()], payload.subarray(0, 3)), 128],
    ["IPv4 ICMP echo", p.stack([p.ipv4({ proto: 1 }), p.icmp(8)], payload.subarray(0, 56)), 128],
    ["IPv4 SCTP", p.stack([p.ipv4({ proto: 132 }), p.sctp()], payload), 128],
    [
      "IPv4 with options",
      p.stack([p.ipv4({ proto: 17, options: new Uint8Array(12).fill(1) }), p.udp()], payload),
      128,
    ],
    ["IPv4 later fragment", p.stack([p.ipv4({ proto: 17, fragment: 0x20b9 })], payload), 128],
    ["IPv4 TCP, cover 64", p.stack([p.ipv4({ proto: 6 }), p.tcp()], payload), 64],
    ["IPv4 of no payload", p.stack([p.ipv4({ proto: 253 })]), 128],
    ["IPv6 TCP", p.stack([p.ipv6({ next: 6 }), p.tcp()], payload), 128],
    ["IPv6 UDP behind hop-by-hop", p.stack([p.ipv6({ next: 0 }), p.extension(17), p.udp()], payload), 128],
    [
      "IPv6 first fragment",
      p.stack([p.ipv6({ next: 44 }), p.fragment6(17, 1, 0xcafe), p.udp()], payload),
      128,
    ],
    ["IPv6 ICMP", p.stack([p.ipv6({ next: 58 }), p.icmp(128)], payload), 128],
  ];
  test.each(cases)("%s", (name, data, cover) => {
    expect(raw(data, cover).toString(16).padStart(16, "0")).toBe(GOLDEN[name]);
  });
});

const GOLDEN: Record<string, string> = {
  "IPv4 TCP": "da786dbf0dd83edf",
  "IPv4 UDP, short": "bc0e2d472814ad1d",
  "IPv4 ICMP echo": "5c2317a05a985bcf",
  "IPv4 SCTP": "6abb40edf8505d25",
  "IPv4 with options": "1f44a829179af283",
  "IPv4 later fragment": "4cdd7c2fa8711a13",
  "IPv4 TCP, cover 64": "2150f506ddc8387b",
  "IPv4 of no payload": "940711e41957d368",
  "IPv6 TCP": "8b0927f98712f21b",
  "IPv6 UDP behind hop-by-hop": "127721e63001c68c",
  "IPv6 first fragment": "518eabcc46735acd",
  "IPv6 ICMP": "dc32850f6f25b0fa",
};
