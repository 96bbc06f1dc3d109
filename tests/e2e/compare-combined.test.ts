/** Several changes of packets at once: translated and merged, translated and fragmented, merged and mirrored; and their effect on sums over time. */
import { expect, test } from "vitest";
import { compareCaptures } from "../../src/compare/compare.ts";
import type { CompareReport } from "../../src/compare/report.ts";
import * as p from "../support/packets.ts";
import { type Frame, timedFrames } from "../support/timed-frames.ts";

const { capture, compare } = timedFrames();

const data = (at: number, length: number) =>
  Uint8Array.from({ length }, (_, i) => ((at + i) * 2_654_435_761) >>> 24);

/** The sending host's address and port, at either point. */
interface Name {
  src: Uint8Array;
  sport: number;
}
const INSIDE: Name = { src: Uint8Array.of(10, 0, 0, 5), sport: 5000 };
const OUTSIDE: Name = { src: Uint8Array.of(203, 0, 113, 7), sport: 26_000 };

const segment = ({ src, sport }: Name, at: number, length: number, id: number) =>
  p.stack(
    [p.ethernet(0x0800), p.ipv4({ proto: 6, id, src }), p.tcp({ sport, dport: 443, seq: at })],
    data(at, length),
  );

/** Packets of another flow, which show delays and translations. */
function ordinary(before: Frame[], after: Frame[], names: readonly [Name, Name]): void {
  for (let i = 0; i < 300; i++) {
    const frame = ({ src, sport }: Name) =>
      p.stack(
        [p.ethernet(0x0800), p.ipv4({ proto: 17, id: i, src }), p.udp({ sport: sport + 1, dport: 9 })],
        data(i * 7, 80),
      );
    before.push({ us: i * 900, frame: frame(names[0]) });
    after.push({ us: i * 900 + 300, frame: frame(names[1]) });
  }
}

/** Sums over intervals equal those of the segment. */
function expectSums({ intervals, segment }: CompareReport): void {
  const sum = (pick: (i: CompareReport["intervals"][number]) => number) =>
    intervals.reduce((n, i) => n + pick(i), 0);
  expect({ matched: sum((i) => i.matched), lost: sum((i) => i.lost) }).toEqual({
    matched: segment.matched,
    lost: segment.lost,
  });
}

test.each([false, true])(
  "segments that are merged behind a translation are matched, one of ten is lost: flow known by others %s",
  async (known) => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    ordinary(before, after, [INSIDE, OUTSIDE]);
    for (let b = 0; b < 20; b++) {
      const us = 1000 + b * 5000;
      for (let i = 0; i < 10; i++)
        before.push({ us: us + i, frame: segment(INSIDE, (10 * b + i) * 100, 100, 10 * b + i) });
      // The first is lost; the others arrive as one, or as one and eight.
      const from = known ? 2 : 1;
      if (known) after.push({ us: us + 310, frame: segment(OUTSIDE, (10 * b + 1) * 100, 100, 10 * b + 1) });
      after.push({
        us: us + 409,
        frame: segment(OUTSIDE, (10 * b + from) * 100, (10 - from) * 100, 5000 + b),
      });
    }
    const report = await compare(before, after, { nat: true, epochNs: 1e7 });
    expect(report.segment).toMatchObject({ sent: 500, received: 480, matched: 480, lost: 20, appeared: 0 });
    const flow = report.flows.find((f) => f.key.proto === 6);
    expect(flow).toMatchObject({ sent: 200, received: 180, matched: 180, lost: 20, appeared: 0 });
    expect(flow?.latency?.maxNs).toBe(400_000);
    expectSums(report);
  },
);

test.each([false, true])(
  "packets that are fragmented behind a translation are matched, also where a card fills in their checksums: back %s",
  async (back) => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    ordinary(before, after, [INSIDE, OUTSIDE]);
    for (let i = 0; i < 50; i++) {
      const us = 500 + i * 3000;
      // To the translated host in the reverse direction.
      const server = Uint8Array.of(198, 51, 100, 1);
      const packet = (name: Name, sum: number) => {
        const [src, dst] = back ? [server, name.src] : [name.src, server];
        const ports = back ? { sport: 443, dport: name.sport } : { sport: name.sport, dport: 443 };
        return { src, dst, body: p.stack([p.tcp({ ...ports, sum, seq: i * 1000 })], data(i * 1000, 1000)) };
      };
      const [near, far] = back ? [after, before] : [before, after];
      const whole = packet(back ? OUTSIDE : INSIDE, 1);
      const cut = packet(back ? INSIDE : OUTSIDE, 2);
      const ip = { proto: 6, id: 40_000 + i };
      near.push({
        us,
        frame: p.stack([p.ethernet(0x0800), p.ipv4({ ...ip, src: whole.src, dst: whole.dst })], whole.body),
      });
      for (const [from, to, fragment] of [
        [0, 560, 0x2000],
        [560, cut.body.length, 70],
      ] as const)
        far.push({
          us: us + 300 + from / 56,
          frame: p.stack(
            [p.ethernet(0x0800), p.ipv4({ ...ip, fragment, src: cut.src, dst: cut.dst })],
            cut.body.subarray(from, to),
          ),
        });
    }
    const { segment: there, reverse, notes } = await compare(before, after, { nat: true });
    const counts = { sent: 50, received: 50, matched: 50, lost: 0, appeared: 0 };
    if (back) expect(reverse).toMatchObject(counts);
    else expect(there).toMatchObject({ sent: 350, received: 350, matched: 350, lost: 0, appeared: 0 });
    expect(notes.join("\n")).toMatch(/50 packets were fragmented/);
  },
);

test.each(["before", "after"] as const)(
  "merged segments that %s contains twice are counted once",
  async (twice) => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    ordinary(before, after, [INSIDE, INSIDE]);
    const merged = twice === "before" ? before : after;
    const pieces = twice === "before" ? after : before;
    for (let b = 0; b < 20; b++) {
      const us = 1000 + b * 5000;
      const atMerged = us + (twice === "before" ? 0 : 400);
      const long = segment(INSIDE, b * 1000, 1000, 5000 + b);
      merged.push({ us: atMerged, frame: long }, { us: atMerged + 20, frame: long });
      for (let i = 0; i < 10; i++)
        pieces.push({
          us: us + i + (twice === "before" ? 300 : 0),
          frame: segment(INSIDE, b * 1000 + i * 100, 100, 10 * b + i),
        });
    }
    const { segment: counts } = await compare(before, after);
    expect(counts).toMatchObject({ matched: 500, lost: 0, appeared: 0 });
    expect(counts).toMatchObject(
      twice === "before" ? { mirrored: 200, duplicates: 0 } : { mirrored: 0, duplicates: 200 },
    );
  },
);

test("segments shorter than a frame carries are counted as on the wire where a card cuts them", async () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  ordinary(before, after, [INSIDE, INSIDE]);
  for (let b = 0; b < 20; b++) {
    const us = 1000 + b * 5000;
    before.push({ us, frame: segment(INSIDE, b * 800, 800, 5000 + b) });
    for (let i = 0; i < 8; i++)
      after.push({ us: us + 300 + i, frame: segment(INSIDE, b * 800 + i * 100, 100, 10 * b + i) });
  }
  const report = await compare(before, after);
  expect(report.segment).toMatchObject({ sent: 460, received: 460, matched: 460, lost: 0, appeared: 0 });
  expectSums(report);
});

test("packets that all look alike are matched without delays, and the intervals hold them", async () => {
  const frame = p.stack([p.ethernet(0x0800), p.ipv4({ proto: 17, id: 0 }), p.udp({ sport: 5, dport: 9 })]);
  const [before, after]: [Frame[], Frame[]] = [[], []];
  for (let i = 0; i < 400; i++) {
    before.push({ us: 2_000_000 + i * 10_000, frame });
    // AFTER's clock is behind; packets that arrive first arrive later than they were sent.
    if (i > 3) after.push({ us: 1_900_000 + i * 10_000, frame });
  }
  const report = await compare(before, after);
  expect(report.segment.latency).toBeNull();
  expect(report.segment.reason).toMatch(/look alike/);
  expect(report.segment.matched).toBeGreaterThan(380);
  expect(report.direction.order).toBe("unclear");
  expectSums(report);
});

test("packets that look alike count for their flow as the first point names it, where addresses are translated", async () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  ordinary(before, after, [INSIDE, OUTSIDE]);
  const beat = ({ src, sport }: Name) =>
    p.stack(
      [p.ethernet(0x0800), p.ipv4({ proto: 17, id: 0, src }), p.udp({ sport, dport: 8125 })],
      data(1, 9),
    );
  for (let i = 0; i < 60; i++) {
    before.push({ us: i * 4000, frame: beat(INSIDE) });
    // One in ten is lost, and one comes twice.
    if (i % 10 === 3) continue;
    after.push({ us: i * 4000 + 300, frame: beat(OUTSIDE) });
    if (i % 10 === 7) after.push({ us: i * 4000 + 350, frame: beat(OUTSIDE) });
  }
  const { flows } = await compare(before, after, { nat: true });
  expect(flows).toHaveLength(2);
  const flow = flows.find((f) => f.key.dport === 8125);
  expect(flow).toMatchObject({ sent: 60, received: 60, matched: 54, lost: 6, appeared: 0, duplicates: 6 });
});

test("a mirror at the far side of a translation doubles what comes from there: that is no loss", async () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  ordinary(before, after, [INSIDE, OUTSIDE]);
  const server = Uint8Array.of(192, 168, 9, 8);
  for (let i = 0; i < 200; i++) {
    const frame = ({ src, sport }: Name) =>
      p.stack(
        [
          p.ethernet(0x0800),
          p.ipv4({ proto: 17, id: 5000 + i, src: server, dst: src }),
          p.udp({ sport: 9, dport: sport + 1 }),
        ],
        data(i * 9, 60),
      );
    const us = 500 + i * 1200;
    after.push({ us, frame: frame(OUTSIDE) }, { us: us + 20, frame: frame(OUTSIDE) });
    if (i % 20 !== 0) before.push({ us: us + 300, frame: frame(INSIDE) });
  }
  const { reverse, reverseFlows } = await compare(before, after, { nat: true });
  expect(reverse).toMatchObject({
    sent: 400,
    received: 190,
    matched: 190,
    lost: 10,
    mirrored: 200,
    duplicates: 0,
  });
  expect(reverseFlows).toHaveLength(1);
});

test("captures of which one is cut before the ports of IPv6 packets count flows without ports at both points", async () => {
  const host = (side: number, n: number) =>
    Uint8Array.of(0x20, 1, 0x0d, 0xb8, 0, side, ...new Uint8Array(9), n);
  const [before, after]: [Frame[], Frame[]] = [[], []];
  for (let i = 0; i < 400; i++) {
    const back = i % 2 === 1;
    const [src, dst] = back ? [host(2, 1 + (i % 5)), host(1, 9)] : [host(1, 9), host(2, 1 + (i % 5))];
    const ports = back ? { sport: 443, dport: 5000 + i } : { sport: 5000 + i, dport: 443 };
    const packet = [p.ipv6({ next: 17, src, dst }), p.udp(ports)];
    // Lengths distinguish packets whose common captured bytes are equal.
    const plain = p.stack([p.ethernet(0x86dd), ...packet], data(i, 20 + (i % 200)));
    // 64 bytes, including 22 of Ethernet and two tags.
    const tagged = p.stack(
      [p.ethernet(0x88a8), p.vlan(5, 0x8100), p.vlan(9, 0x86dd), ...packet],
      data(i, 20 + (i % 200)),
    );
    const [near, far] = back ? [after, before] : [before, after];
    near.push({ us: i * 1000, frame: back ? tagged : plain });
    far.push({ us: i * 1000 + 300, frame: back ? plain : tagged });
  }
  const [a, b] = [capture(before), capture(after, { snapLength: 64 })];
  const { segment: there, reverse, flows } = await compareCaptures({ before: a, after: b });
  expect(there).toMatchObject({ sent: 200, received: 200, matched: 200, lost: 0, appeared: 0 });
  expect(reverse).toMatchObject({ sent: 200, received: 200, matched: 200, lost: 0, appeared: 0 });
  expect(flows.map((f) => [f.key.sport, f.key.dport, f.sent, f.matched])).toEqual(
    Array(5).fill([null, null, 40, 40]),
  );
});
