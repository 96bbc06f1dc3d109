import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { anyIp } from "../../../../tests/support/arbitrary-frames.ts";
import { type PlainRow, plainRow, readRows } from "../../../../tests/support/capture-rows.ts";
import * as p from "../../../../tests/support/packets.ts";
import { pcapFile } from "../../../../tests/support/pcap-writer.ts";
import { type RingPacket, ringBlock } from "../../../../tests/support/ring-block.ts";
import {
  CursorBytes,
  CursorLayout,
  cursorConstants,
  linkConstants,
  walkRingConstants,
} from "../../../base/kernel-layout.ts";
import { Kernels } from "../../../base/kernels.ts";
import { FLAG, PacketBatch } from "../../batch.ts";
import { DEFAULT_COVER, DEFAULT_SEED } from "../../reader.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-ring-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const kernels = new Kernels();

interface Walked {
  rows: PlainRow[];
  merged: number;
  hardware: number;
  noTime: number;
  outcome: number;
}

function walk(
  packets: readonly RingPacket[],
  options: {
    link?: number;
    longest?: number;
    hardwareOnly?: boolean;
    rows?: number;
    cut?: number;
    cover?: number;
  } = {},
): Walked {
  const { bytes, first } = ringBlock(packets);
  const batch = new PacketBatch(kernels, options.rows ?? 64);
  const cursor = kernels.call.cursorNew() >>> 0;
  const block = kernels.alloc(bytes.length + 64);
  kernels.u8.set(bytes, block);
  const set = (field: keyof typeof CursorLayout, value: number) =>
    kernels.writeU32(cursor + CursorLayout[field], value);
  kernels.writeU64(cursor + CursorLayout.seed, DEFAULT_SEED);
  set("cover", options.cover ?? DEFAULT_COVER);
  set("link", options.link ?? walkRingConstants.RING_ETHERNET);
  set("longest", options.longest ?? 0xffff_ffff);
  set("hardwareOnly", options.hardwareOnly ? 1 : 0);
  set("pos", block + first);
  set("limit", block + bytes.length - (options.cut ?? 0));
  set("left", packets.length);
  const rows: PlainRow[] = [];
  let outcome: number = cursorConstants.BATCH_FULL;
  while (outcome === cursorConstants.BATCH_FULL) {
    batch.count = 0;
    outcome = kernels.call.walkRing(cursor, batch.address);
    const originNs = kernels.readI64(cursor + CursorLayout.origin);
    for (let i = 0; i < batch.count; i++) rows.push(plainRow(batch, originNs, i));
  }
  const counter = (at: number) => kernels.readCounter(cursor + at);
  const result = {
    rows,
    merged: counter(CursorLayout.merged),
    hardware: counter(CursorLayout.hardware),
    noTime: counter(CursorBytes + 8 * linkConstants.NO_TIME),
    outcome,
  };
  batch.free();
  kernels.free(cursor);
  kernels.free(block);
  return result;
}

const START = 1_700_000_000_123_456_789n;
const udp = (n: number) =>
  p.stack(
    [
      p.ethernet(0x0800),
      p.ipv4({ proto: 17, id: n, src: Uint8Array.of(10, 0, 0, 1), dst: Uint8Array.of(10, 0, 1, 1) }),
      p.udp({ sport: 1000 + n, dport: 53 }),
    ],
    Uint8Array.of(n, 2, 3, 4),
  );
const tagged = (n: number) => {
  const plain = udp(n);
  return p.bytes(plain.subarray(0, 12), p.be16(0x8100), p.be16(0x2123), plain.subarray(12));
};

const plainFrame = fc
  .tuple(anyIp, fc.constantFrom(null, 1, 4095))
  .map(([{ type, data }, tag]) =>
    p.stack(tag === null ? [p.ethernet(type)] : [p.ethernet(0x8100), p.vlan(tag, type, 3)], data),
  );

test("packets of a block are the rows that a capture file of them gives, tags taken off by the card or not", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          frame: plainFrame,
          strip: fc.boolean(),
          kind: fc.constantFrom(0, 1, 2, 3, 4),
          gap: fc.integer({ min: 0, max: 2_000_000_000 }),
        }),
        { minLength: 1, maxLength: 12 },
      ),
      async (made) => {
        let timeNs = START;
        const packets = made.map(({ frame, strip, kind, gap }) => {
          timeNs += BigInt(gap);
          const stripTag = strip && frame.length >= 18 && frame[12] === 0x81 && frame[13] === 0;
          return { timeNs, frame, kind, stripTag };
        });
        const file = join(scratch, "twin.pcap");
        writeFileSync(file, pcapFile(packets, { nano: true }));
        const expected = await readRows(file);
        const { rows } = walk(packets, { rows: 3 });
        const direction = FLAG.inbound | FLAG.outbound;
        expect(rows.map(({ flags, ...row }) => ({ ...row, flags: flags & ~direction }))).toEqual(
          expected.rows,
        );
      },
    ),
    { numRuns: 150, seed: 15 },
  );
});

/** IPv4 with TCP or UDP, with sizes around those at which the fast decoding path begins and ends (kernels/decode/row-plain.ts). */
const usualFrame = fc
  .record({
    tcp: fc.boolean(),
    payload: fc.uint8Array({ maxLength: 120, size: "max" }),
    fragment: fc.constantFrom(0, 0, 0, 0x4000, 0x2000, 0x00b9),
    options: fc.constantFrom(0, 0, 0, 4),
    tos: fc.integer({ min: 0, max: 255 }),
    ttl: fc.integer({ min: 0, max: 255 }),
    id: fc.integer({ min: 0, max: 65_535 }),
    flags: fc.integer({ min: 0, max: 255 }),
    sum: fc.integer({ min: 0, max: 65_535 }),
    dst: fc.constantFrom([10, 1, 2, 3], [224, 0, 0, 5], [224, 0, 1, 5], [255, 255, 255, 255]),
  })
  .map(({ tcp, payload, options, flags, sum, dst, ...ip }) =>
    p.stack(
      [
        p.ethernet(0x0800),
        p.ipv4({
          ...ip,
          proto: tcp ? 6 : 17,
          dst: Uint8Array.from(dst),
          options: new Uint8Array(options).fill(1),
        }),
        tcp
          ? p.tcp({ sport: 80, dport: 1024, seq: flags, flags, sum })
          : p.udp({ sport: 53, dport: 1025, sum }),
      ],
      payload,
    ),
  );

test("the usual packets, decoded the short way, are the rows that a capture file of them gives", async () => {
  let [short, plain] = [0, 0];
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          frame: usualFrame,
          snap: fc.constantFrom(60, 77, 78, 79, 96),
          kind: fc.constantFrom(0, 4),
        }),
        { minLength: 1, maxLength: 12 },
      ),
      async (made) => {
        const packets = made.map(({ frame, snap, kind }, i) => {
          const cut = frame.subarray(0, snap);
          const isPlain =
            cut.length >= 78 && frame[14] === 0x45 && (frame[20]! & 0x3f) === 0 && frame[21] === 0;
          if (isPlain) plain++;
          else short++;
          return { timeNs: START + BigInt(i), frame: cut, wire: frame.length, kind };
        });
        const file = join(scratch, "usual.pcap");
        writeFileSync(file, pcapFile(packets, { nano: true }));
        const expected = await readRows(file, { cover: 64 });
        const { rows } = walk(packets, { rows: 5, cover: 64 });
        const direction = FLAG.inbound | FLAG.outbound;
        expect(rows.map(({ flags, ...row }) => ({ ...row, flags: flags & ~direction }))).toEqual(
          expected.rows,
        );
        expect(rows.map(({ flags }) => flags & direction)).toEqual(
          packets.map(({ kind }) => (kind === 4 ? FLAG.outbound : FLAG.inbound)),
        );
      },
    ),
    { numRuns: 200, seed: 16 },
  );
  // Both paths were taken.
  expect(Math.min(short, plain)).toBeGreaterThan(200);
});

test("many packets of all lengths in one block are the rows that a capture file of them gives", async () => {
  const frames = fc.sample(usualFrame, { numRuns: 900, seed: 17 });
  const packets = frames.map((frame, i) => {
    const snap = i % 7 === 0 ? 60 + (i % 30) : 78;
    return { timeNs: START + BigInt(i), frame: frame.subarray(0, snap), wire: frame.length };
  });
  const file = join(scratch, "many.pcap");
  writeFileSync(file, pcapFile(packets, { nano: true }));
  for (const cover of [40, 64, 100]) {
    const expected = await readRows(file, { cover });
    const { rows } = walk(packets, { rows: 400, cover });
    expect(rows.map(({ flags, ...row }) => ({ ...row, flags: flags & ~FLAG.inbound }))).toEqual(
      expected.rows,
    );
  }
});

test("a tag that the card took off is back in keys and length", () => {
  const { rows } = walk([{ timeNs: START, frame: tagged(1), stripTag: true }]);
  expect(rows).toMatchObject([{ vlan: 0x123, wireLength: tagged(1).length, sport: 1001 }]);
});

test("sent packets are outbound, all others inbound: on a mirror port they are for others", () => {
  const kinds = [0, 1, 2, 3, 4];
  const { rows } = walk(kinds.map((kind, i) => ({ timeNs: START, frame: udp(i), kind })));
  const expected = kinds.map((kind) => (kind === 4 ? FLAG.outbound : FLAG.inbound));
  expect(rows.map(({ flags }) => flags & (FLAG.inbound | FLAG.outbound))).toEqual(expected);
});

test("merged packets are counted: by the kernel's mark, or longer than the link carries", () => {
  const frame = udp(1);
  const { merged } = walk(
    [
      { timeNs: START, frame },
      { timeNs: START, frame, wire: 1537 },
      { timeNs: START, frame, wire: 1536 },
      { timeNs: START, frame, status: 1 << 8 },
    ],
    { longest: 1536 },
  );
  expect(merged).toBe(2);
});

test("where the card's timestamps are required, packets without one are counted and not used", () => {
  const [frame, hardware] = [udp(1), 1 << 31];
  const packets = [
    { timeNs: START, frame, status: hardware },
    { timeNs: START, frame },
  ];
  expect(walk(packets, { hardwareOnly: true })).toMatchObject({ hardware: 1, noTime: 1, rows: [{}] });
  expect(walk(packets).rows).toHaveLength(2);
});

test("a link without Ethernet headers is read from the network header on", () => {
  const { rows } = walk([{ timeNs: START, frame: udp(3) }], { link: walkRingConstants.RING_NETWORK });
  expect(rows).toMatchObject([{ sport: 1003, wireLength: udp(3).length - 14 }]);
});

test("a block that is not whole ends with what is whole of it", () => {
  const packets = [1, 2, 3].map((n) => ({ timeNs: START, frame: udp(n) }));
  const { rows, outcome } = walk(packets, { cut: 40 });
  expect(rows).toHaveLength(2);
  expect(outcome).toBe(cursorConstants.BAD_LENGTH);
});
