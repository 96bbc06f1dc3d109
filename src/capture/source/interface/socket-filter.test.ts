import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { plainIp } from "../../../../tests/support/arbitrary-frames.ts";
import { readRows } from "../../../../tests/support/capture-rows.ts";
import * as p from "../../../../tests/support/packets.ts";
import { pcapFile } from "../../../../tests/support/pcap-writer.ts";
import { Kernels } from "../../../base/kernels.ts";
import { compileFilter, parseFilter } from "../../filter/filter.ts";
import { CaptureReader } from "../../reader.ts";
import { socketFilter } from "./socket-filter.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-socket-filter-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const kernels = new Kernels();

/** Interprets classic BPF as the kernel does on a packet socket; null if a load misses, which drops the packet. */
function run(program: Uint8Array, frame: Uint8Array, kind = 0): number {
  const code = new DataView(program.buffer, program.byteOffset, program.length);
  const view = new DataView(frame.buffer, frame.byteOffset, frame.length);
  let a = 0;
  for (let pc = 0; ; pc++) {
    const op = code.getUint16(8 * pc, true);
    const [jt, jf, k] = [
      code.getUint8(8 * pc + 2),
      code.getUint8(8 * pc + 3),
      code.getUint32(8 * pc + 4, true),
    ];
    const branch = (taken: boolean) => {
      pc += taken ? jt : jf;
    };
    if (op === 0x06) return k;
    if (op === 0x05) pc += k;
    else if (op === 0x80) a = frame.length;
    else if (op === 0x54) a = (a & k) >>> 0;
    else if (op === 0x15) branch(a === k);
    else if (op === 0x25) branch(a > k);
    else if (op === 0x35) branch(a >= k);
    else if (op === 0x45) branch((a & k) !== 0);
    else if (k === 0xffff_f000) a = view.getUint16(12);
    else if (k === 0xffff_f004) a = kind;
    else {
      const at = k < 0x8000_0000 ? k : k - 0xfff0_0000 + 14;
      const size = op === 0x20 ? 4 : op === 0x28 ? 2 : op === 0x30 ? 1 : 0;
      if (size === 0 || at < 0) throw new Error(`instruction ${pc}: ${op} ${k}`);
      if (at + size > frame.length) return 0;
      a = size === 4 ? view.getUint32(at) : size === 2 ? view.getUint16(at) : view.getUint8(at);
    }
  }
}

const EXPRESSIONS = [
  "tcp",
  "udp port 53",
  "not udp",
  "ip and not tcp",
  "ip6",
  "src net 10.0.0.0/8",
  "host 10.1.2.3 or ip6 and udp",
  "not (portrange 0-30000 or port 50000)",
  "portrange 0-32767",
  "src port 53 and dst portrange 1000-65535",
  "net 128.0.0.0/1 and not src net 192.0.0.0/2",
  "dst net 8000::/1",
  "icmp or icmp6",
  "not (ip6 or net 128.0.0.0/1)",
  "sctp or tcp portrange 0-20000",
  "vlan or tcp",
  "tcp and less 100",
  "not vlan and (udp or ttl > 100)",
];
const SNAP = 96;
const WHOLE = { bytes: SNAP, plainBytes: SNAP };
const tree = (text: string) => parseFilter(text);

describe("a packet that the exact filter takes passes the kernel's", () => {
  for (const text of EXPRESSIONS) {
    test(text, async () => {
      const { program } = socketFilter(tree(text), "both", WHOLE);
      const exact = compileFilter(text, kernels);
      const frames = fc
        .sample(fc.tuple(plainIp, fc.constantFrom(null, null, 7)), { numRuns: 400, seed: 8 })
        .map(([{ type, data }, tag]) =>
          p.stack(tag === null ? [p.ethernet(type)] : [p.ethernet(0x8100), p.vlan(tag, type)], data),
        );
      const file = join(scratch, "frames.pcap");
      const packets = frames.map((frame, i) => ({ timeNs: BigInt(i) * 1_000_000_000n, frame }));
      writeFileSync(file, pcapFile(packets, { nano: true, snapLength: SNAP }));
      const reader = await CaptureReader.open(kernels, file, { filter: exact });
      const taken = new Set<number>();
      while (await reader.next())
        for (const timeNs of reader.batch.timeNs.subarray(0, reader.batch.count)) taken.add(timeNs / 1e9);
      reader.close();
      reader.free();
      exact.free();
      expect(taken.size, "the expression says something").toBeLessThan(frames.length);
      const passed = frames.map((frame) => run(program, frame));
      for (const i of taken) expect(passed[i], `frame ${i}`).toBe(SNAP);
    });
  }
});

const frame = (type: number, proto: number, ports: { sport: number; dport: number }) =>
  p.stack(
    [
      p.ethernet(type),
      type === 0x0800
        ? p.ipv4({ proto, src: Uint8Array.of(10, 0, 0, 1), dst: Uint8Array.of(10, 0, 1, 1) })
        : p.ipv6({ next: proto }),
      proto === 6 ? p.tcp(ports) : p.udp(ports),
    ],
    new Uint8Array(20),
  );
const takes = (text: string, packet: Uint8Array, kind = 0) =>
  run(socketFilter(tree(text), "both", WHOLE).program, packet, kind) === SNAP;

test("plain packets that do not match are left out by the kernel already", () => {
  const dns = frame(0x0800, 17, { sport: 4000, dport: 53 });
  const web6 = frame(0x86dd, 6, { sport: 4000, dport: 443 });
  expect(takes("udp port 53", dns)).toBe(true);
  expect(takes("udp port 53", web6)).toBe(false);
  expect(takes("port 443", web6)).toBe(true);
  expect(takes("not port 443", web6)).toBe(false);
  expect(takes("src net 10.0.0.0/24 and dst net 10.0.1.0/24", dns)).toBe(true);
  expect(takes("dst net 10.0.0.0/24", dns)).toBe(false);
  expect(takes("ip", web6)).toBe(false);
  expect(takes("outbound", dns, 4)).toBe(true);
  expect(takes("outbound", dns, 0)).toBe(false);
  expect(takes("inbound and udp", dns, 0)).toBe(true);
});

test("the direction is the kernel's to keep", () => {
  const dns = frame(0x0800, 17, { sport: 1, dport: 53 });
  const passes = (direction: "in" | "out" | "both", kind: number) =>
    run(socketFilter(null, direction, WHOLE).program, dns, kind) === SNAP;
  expect([0, 3, 4].map((kind) => passes("in", kind))).toEqual([true, true, false]);
  expect([0, 3, 4].map((kind) => passes("out", kind))).toEqual([false, false, true]);
  expect([0, 3, 4].map((kind) => passes("both", kind))).toEqual([true, true, true]);
});

test("what the kernel cannot decide is left to the exact filter", () => {
  expect(socketFilter(tree("vlan 7"), "both", WHOLE).selective).toBe(false);
  expect(socketFilter(tree("ttl > 10 or udp"), "both", WHOLE).selective).toBe(false);
  expect(socketFilter(tree("ttl > 10 and udp"), "both", WHOLE).selective).toBe(true);
  const long = Array.from({ length: 60 }, (_, i) => `host 10.0.0.${i + 1}`).join(" or ");
  const { program, selective } = socketFilter(tree(long), "both", WHOLE);
  expect(selective).toBe(false);
  expect(run(program, frame(0x0800, 17, { sport: 1, dport: 1 }))).toBe(SNAP);
});

/** IPv4 options shift the ports, a tag shifts everything: neither packet is plain. */
const optionedOrTagged = fc
  .record({
    words: fc.constantFrom(0, 0, 0, 1, 10),
    tagged: fc.constantFrom(false, false, true),
    payload: fc.integer({ min: 20, max: 120 }),
    id: fc.nat(65_535),
  })
  .map(({ words, tagged, payload, id }) =>
    p.stack(
      [
        ...(tagged ? [p.ethernet(0x8100), p.vlan(7, 0x0800)] : [p.ethernet(0x0800)]),
        p.ipv4({ proto: 17, id, options: new Uint8Array(4 * words).fill(1) }),
        p.udp({ sport: 1, dport: 2 }),
      ],
      new Uint8Array(payload),
    ),
  );

test("fewer bytes of plain packets are captured, and their rows are the same", async () => {
  const plainBytes = 78;
  const { program } = socketFilter(null, "both", { bytes: SNAP, plainBytes });
  let shortened = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.oneof(
          plainIp.map(({ type, data }) => p.stack([p.ethernet(type)], data)),
          optionedOrTagged,
        ),
        { minLength: 1, maxLength: 8 },
      ),
      async (frames) => {
        const lengths = frames.map((bytes) => Math.min(bytes.length, run(program, bytes)));
        for (const [i, bytes] of frames.entries()) {
          const plain = bytes.length > plainBytes && bytes[12] === 8 && bytes[13] === 0 && bytes[14] === 0x45;
          expect(lengths[i]).toBe(plain ? plainBytes : Math.min(bytes.length, SNAP));
          if (plain) shortened++;
        }
        const rowsOf = async (name: string, bytesOf: (i: number) => number) => {
          const file = join(scratch, `${name}.pcap`);
          const packets = frames.map((bytes, i) => ({
            timeNs: BigInt(i),
            frame: bytes.subarray(0, bytesOf(i)),
            wire: bytes.length,
          }));
          writeFileSync(file, pcapFile(packets, { nano: true }));
          const { rows } = await readRows(file, { cover: 64 });
          return rows.map(({ captured, ...row }) => row);
        };
        expect(await rowsOf("shortened", (i) => lengths[i]!)).toEqual(
          await rowsOf("whole", (i) => Math.min(frames[i]!.length, SNAP)),
        );
      },
    ),
    { numRuns: 300, seed: 78 },
  );
  expect(shortened).toBeGreaterThan(50);
});
