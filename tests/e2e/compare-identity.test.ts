/** Changes of packets on the path: merged, cut, fragmented, rewritten. The expected result follows from how the captures were written. */
import { describe, expect, test } from "vitest";
import { Kernels } from "../../src/base/kernels.ts";
import { Random } from "../../src/base/random.ts";
import { pointsOf } from "../../src/capture/points.ts";
import { compareCaptures } from "../../src/compare/compare.ts";
import { lossDoubt } from "../../src/compare/loss-doubt.ts";
import { inspectCapture } from "../../src/inspect/inspect.ts";
import { formatCompare } from "../../src/present/text/compare-text.ts";
import * as p from "../support/packets.ts";
import { type Frame, timedFrames } from "../support/timed-frames.ts";

const { capture, compare } = timedFrames();

const same = (text: string) => text;
const PLAIN = { bold: same, dim: same, red: same, yellow: same, green: same };

const MSS = 1448;
/** `length` bytes of a stream, starting at `at`; the bytes differ by position. */
const data = (at: number, length: number) =>
  Uint8Array.from({ length }, (_, i) => ((at + i) * 2_654_435_761) >>> 24);
const tcpData = (flow: number, at: number, length: number, id: number) =>
  p.stack(
    [p.ethernet(0x0800), p.ipv4({ proto: 6, id }), p.tcp({ sport: 1000 + flow, seq: at })],
    data(at, length),
  );
const udpData = (flow: number, at: number, length: number, id: number) =>
  p.stack(
    [p.ethernet(0x0800), p.ipv4({ proto: 17, id }), p.udp({ sport: 1000 + flow, dport: 9 })],
    data(at, length),
  );

/** Additional ordinary packets, which show the delays. */
function ordinary(before: Frame[], after: Frame[], n = 500): void {
  for (let i = 0; i < n; i++) {
    const frame = udpData(500 + (i % 5), i * 7, 100 + (i % 50), i);
    before.push({ us: i * 2000, frame });
    after.push({ us: i * 2000 + 300, frame });
  }
}

describe("segments that were merged at one point", () => {
  /** `bursts` of ten full segments each; the given ones are lost on the path. */
  function stream(
    bursts: number,
    mergedAt: "before" | "after",
    lost: ReadonlySet<number>,
    beside: (before: Frame[], after: Frame[]) => void = ordinary,
  ) {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    beside(before, after);
    for (let b = 0; b < bursts; b++) {
      const at = b * 10 * MSS;
      const us = 1000 + b * 5000;
      const pieces = Array.from({ length: 10 }, (_, i) => ({ i, at: at + i * MSS }));
      if (mergedAt === "before") {
        before.push({ us, frame: tcpData(1, at, 10 * MSS, b) });
        for (const { i, at: from } of pieces)
          if (!lost.has(b * 10 + i))
            after.push({ us: us + 400 + 10 * i, frame: tcpData(1, from, MSS, b * 10 + i) });
      } else {
        for (const { i, at: from } of pieces)
          before.push({ us: us + 10 * i, frame: tcpData(1, from, MSS, b * 10 + i) });
        // Segments between two lost ones are merged.
        let run: number[] = [];
        const flush = () => {
          const [first] = run;
          if (first === undefined) return;
          const frame = tcpData(1, at + first * MSS, run.length * MSS, b * 100 + first);
          after.push({ us: us + 90 + 400, frame });
          run = [];
        };
        for (const { i } of pieces) {
          if (lost.has(b * 10 + i)) flush();
          else run.push(i);
        }
        flush();
      }
    }
    return { before, after };
  }

  test.each(["before", "after"] as const)("are matched by their bytes: merged at %s", async (mergedAt) => {
    const { before, after } = stream(20, mergedAt, new Set());
    const { segment, flows, notes } = await compare(before, after);
    const flow = flows.find((f) => f.key.proto === 6);
    expect(flow).toMatchObject({ sent: 200, received: 200, matched: 200, lost: 0, appeared: 0 });
    expect(segment).toMatchObject({ matched: 700, lost: 0, appeared: 0 });
    // The last byte of a burst: sent at once at the sending host, and 90 µs after the first if it was cut there.
    const last = mergedAt === "before" ? 490_000 : 400_000;
    expect(flow?.latency).toMatchObject({ minNs: last, maxNs: last });
    expect(notes.join("\n")).toMatch(/segments were merged.*200 packets of 1 flow \(289,600 bytes\)/);
  });

  test.each(["before", "after"] as const)(
    "the lost ones among them are counted as on the wire: %s",
    async (mergedAt) => {
      const lost = new Set([33, 34, 107]);
      const { before, after } = stream(20, mergedAt, lost);
      const { flows } = await compare(before, after);
      expect(flows.find((f) => f.key.proto === 6)).toMatchObject({
        sent: 200,
        received: 197,
        matched: 197,
        lost: 3,
        appeared: 0,
      });
    },
  );

  test.each(["before", "after"] as const)(
    "also the first and the last ones of the captures: merged at %s",
    async (mergedAt) => {
      // The captures begin and end with merged segments; by their times, pieces of them are outside the other capture.
      const { before, after } = stream(20, mergedAt, new Set(), () => {});
      const { segment } = await compare(before, after);
      expect(segment).toMatchObject({ sent: 200, received: 200, matched: 200, lost: 0, appeared: 0 });
      expect(segment).toMatchObject({ head: 0, tail: 0, undecided: 0 });
    },
  );

  test("datagrams of UDP that were sent in pieces are, too", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    ordinary(before, after);
    for (let b = 0; b < 30; b++) {
      const us = 1000 + b * 5000;
      before.push({ us, frame: udpData(1, b * 6000, 5 * 1200 - 100, b) });
      for (let i = 0; i < 5; i++)
        after.push({
          us: us + 500 + 10 * i,
          frame: udpData(1, b * 6000 + i * 1200, i === 4 ? 1100 : 1200, b * 5 + i),
        });
    }
    const { flows } = await compare(before, after);
    const flow = flows.find((f) => f.key.sport === 1001);
    expect(flow).toMatchObject({ sent: 150, received: 150, matched: 150, lost: 0, appeared: 0 });
    expect(flow?.latency).toMatchObject({ minNs: 540_000, maxNs: 540_000 });
  });

  test("pieces of datagrams that are missing are lost, where Linux numbers them", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    ordinary(before, after);
    let lost = 0;
    for (let b = 0; b < 60; b++) {
      const us = 1000 + b * 5000;
      // Consecutive ones have consecutive identifications, and their pieces continue from there.
      before.push({ us, frame: udpData(1, b * 6000, 5 * 1200 - 100, b) });
      for (let i = 0; i < 5; i++) {
        const gone = b % 10 === 3 || (b % 7 === 2 && i === b % 5);
        if (gone) lost++;
        else
          after.push({
            us: us + 500 + 10 * i,
            frame: udpData(1, b * 6000 + i * 1200, i === 4 ? 1100 : 1200, b + i),
          });
      }
    }
    const { flows } = await compare(before, after);
    expect(flows.find((f) => f.key.sport === 1001)).toMatchObject({
      sent: 300,
      received: 300 - lost,
      matched: 300 - lost,
      lost,
      appeared: 0,
    });
  });

  describe.each([
    ["at the sender", true],
    ["at the receiver", false],
  ])("long datagrams %s and nothing beside", (_name, atSender) => {
    test.each([
      ["over IPv4, all pieces there", 0, false, 65_535],
      ["over IPv4, pieces lost", 0.05, false, 65_535],
      ["over IPv6, pieces lost", 0.05, true, 65_535],
      ["over IPv6, the captures cut after 128 bytes", 0, true, 128],
    ])("%s", async (_case, loss, v6, snapLength) => {
      const random = new Random("datagrams in pieces");
      const [before, after]: [Frame[], Frame[]] = [[], []];
      const truth = { sent: 0, lost: 0 };
      const network = (id: number) =>
        v6 ? [p.ethernet(0x86dd), p.ipv6({ next: 17 })] : [p.ethernet(0x0800), p.ipv4({ proto: 17, id })];
      let id = 0;
      for (let b = 0; b < 120; b++) {
        const us = b * 1500;
        const count = 2 + random.below(12);
        const port = { sport: 1001 + (b % 3), dport: 9 };
        const frame = (from: number, to: number, number: number) =>
          p.stack([...network(number & 0xffff), p.udp(port)], data(b * 20_000 + from, to - from));
        // Including pieces that are not longer than an ordinary frame.
        const end = count * 1200 - (b % 3) * 500;
        const pieces = Array.from({ length: count }, (_, i) => ({ i, there: !random.bernoulli(loss) }));
        const there = pieces.filter((piece) => piece.there);
        const to = (i: number) => Math.min(end, (i + 1) * 1200);
        truth.sent += count;
        truth.lost += count - there.length;
        if (atSender) {
          before.push({ us, frame: frame(0, end, id) });
          for (const { i } of there)
            after.push({ us: us + 500 + 10 * i, frame: frame(i * 1200, to(i), id + i) });
        } else {
          for (const { i } of pieces) before.push({ us: us + 10 * i, frame: frame(i * 1200, to(i), id + i) });
          // Runs without a gap arrive as one.
          for (let k = 0; k < there.length; ) {
            let last = k;
            while (there[last + 1]?.i === (there[last]?.i ?? 0) + 1) last++;
            const [from, until] = [there[k]?.i ?? 0, there[last]?.i ?? 0];
            after.push({ us: us + 500 + 10 * until, frame: frame(from * 1200, to(until), id + from) });
            k = last + 1;
          }
        }
        id += count;
      }
      const report = await compareCaptures({
        before: capture(before, { snapLength }),
        after: capture(after, { snapLength }),
      });
      const arrived = truth.sent - truth.lost;
      expect(report.segment).toMatchObject({
        sent: truth.sent,
        received: arrived,
        matched: arrived,
        lost: truth.lost,
        appeared: 0,
        head: 0,
        tail: 0,
      });
      expect(report.segment.latency?.minNs).toBeGreaterThanOrEqual(500_000);
      expect(report.segment.latency?.maxNs).toBeLessThanOrEqual(640_000);
      expect(report.clock.trust).toBe("usable");
    });
  });

  test("are not suspected where frames of 1,450 bytes are lost and others appear", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    ordinary(before, after);
    for (let i = 0; i < 200; i++) {
      const us = 700 + i * 4000;
      if (i % 10 !== 3) before.push({ us, frame: tcpData(1, i * 1384, 1384, i) });
      if (i % 10 !== 7) after.push({ us: us + 400, frame: tcpData(1, i * 1384, 1384, i) });
    }
    const { flows, notes } = await compare(before, after);
    expect(flows.find((f) => f.key.proto === 6)).toMatchObject({
      sent: 180,
      received: 180,
      lost: 20,
      appeared: 20,
    });
    expect(notes.join("\n")).not.toMatch(/merged/);
  });
});

describe("packets that are cut or rewritten on the way", () => {
  /** A datagram, and its fragments of 800 and 640 bytes. */
  function fragments(n: number, id = n) {
    const whole = p.bytes(p.stack([p.udp({ sport: 1001, dport: 9 })], data(n * 1000, 1400)));
    const part = (from: number, to: number, more: boolean) =>
      p.stack(
        [p.ethernet(0x0800), p.ipv4({ proto: 17, id, fragment: (more ? 0x2000 : 0) | (from / 8) })],
        whole.subarray(from, to),
      );
    return {
      whole: p.stack([p.ethernet(0x0800), p.ipv4({ proto: 17, id })], whole),
      parts: [part(0, 800, true), part(800, whole.length, false)] as const,
    };
  }

  test.each([false, true])(
    "a packet and its fragments are one packet (put together again on the way: %s)",
    async (back) => {
      const [before, after]: [Frame[], Frame[]] = [[], []];
      ordinary(before, after);
      for (let i = 0; i < 100; i++) {
        const us = 500 + i * 3000;
        const { whole, parts } = fragments(i);
        (back ? after : before).push({ us: back ? us + 500 : us, frame: whole });
        for (const [k, frame] of parts.entries())
          (back ? before : after).push({ us: us + (back ? 0 : 350) + 50 * k, frame });
      }
      const { segment, flows, notes } = await compare(before, after);
      expect(segment).toMatchObject({ sent: 600, received: 600, matched: 600, lost: 0, appeared: 0 });
      const flow = flows.find((f) => f.key.sport === 1001);
      expect(flow).toMatchObject({ sent: 100, received: 100, matched: 100 });
      const delay = back ? 450_000 : 400_000;
      expect(flow?.latency).toMatchObject({ minNs: delay, maxNs: delay });
      expect(notes.join("\n")).toMatch(/100 packets were fragmented/);
    },
  );

  test("also where a packet of the flow that has its partner bears the same time", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    ordinary(before, after);
    for (let i = 0; i < 100; i++) {
      const us = 500 + i * 3000;
      const { whole, parts } = fragments(i);
      const beside = udpData(1, i * 31, 60, 5000 + i);
      before.push({ us, frame: whole }, { us: us + 20, frame: beside });
      after.push({ us: us + 350, frame: beside });
      for (const frame of parts) after.push({ us: us + 350, frame });
    }
    const { segment } = await compare(before, after);
    expect(segment).toMatchObject({ sent: 700, received: 700, matched: 700, lost: 0, appeared: 0 });
  });

  test("also where the last fragment is so short that its frame is padded", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    ordinary(before, after);
    for (let i = 0; i < 50; i++) {
      const us = 500 + i * 3000;
      const whole = p.bytes(p.stack([p.udp({ sport: 1001, dport: 9 })], data(i * 1000, 1268)));
      const part = (from: number, to: number, fragment: number) =>
        p.stack([p.ethernet(0x0800), p.ipv4({ proto: 17, id: i, fragment })], whole.subarray(from, to));
      before.push({ us, frame: p.stack([p.ethernet(0x0800), p.ipv4({ proto: 17, id: i })], whole) });
      // 20 bytes after the IP header make a frame of 54, which is sent as 60.
      after.push({ us: us + 300, frame: part(0, 1256, 0x2000) });
      after.push({ us: us + 310, frame: p.bytes(part(1256, whole.length, 157), new Uint8Array(6)) });
    }
    const { segment } = await compare(before, after);
    expect(segment).toMatchObject({ sent: 550, received: 550, matched: 550, lost: 0, appeared: 0 });
  });

  test("a packet whose fragments come twice has a duplicate", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    ordinary(before, after);
    for (let i = 0; i < 100; i++) {
      const us = 500 + i * 3000;
      const { whole, parts } = fragments(i);
      before.push({ us, frame: whole });
      for (let copy = 0; copy < (i % 10 === 3 ? 2 : 1); copy++)
        for (const [k, frame] of parts.entries()) after.push({ us: us + 350 + 50 * k + 700 * copy, frame });
    }
    const { segment, flows } = await compare(before, after);
    expect(segment).toMatchObject({
      sent: 600,
      received: 610,
      matched: 600,
      duplicates: 10,
      lost: 0,
      appeared: 0,
    });
    const flow = flows.find((f) => f.key.sport === 1001);
    expect(flow?.latency).toMatchObject({ minNs: 400_000, maxNs: 400_000 });
  });

  test("also the last ones of a capture", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    ordinary(before, after, 100);
    for (let i = 0; i < 100; i++) {
      const us = 500 + i * 3000;
      const { whole, parts } = fragments(i);
      before.push({ us, frame: whole });
      for (const [k, frame] of parts.entries()) after.push({ us: us + 300 + 50 * k, frame });
    }
    const { segment } = await compare(before, after);
    expect(segment).toMatchObject({ sent: 200, received: 200, matched: 200, lost: 0, appeared: 0 });
    expect(segment).toMatchObject({ head: 0, tail: 0, undecided: 0 });
  });

  test("a packet of which a fragment is lost is lost", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    ordinary(before, after);
    for (let i = 0; i < 100; i++) {
      const us = 500 + i * 3000;
      const { whole, parts } = fragments(i);
      before.push({ us, frame: whole });
      // The first or the second of every tenth.
      const missing = i % 10 === 4 ? (i % 20 === 4 ? 0 : 1) : -1;
      for (const [k, frame] of parts.entries())
        if (k !== missing) after.push({ us: us + 350 + 50 * k, frame });
    }
    const { segment } = await compare(before, after);
    expect(segment).toMatchObject({ sent: 600, matched: 590, lost: 10, appeared: 0 });
  });

  test("fragments belong to the packet that they left with, though its identification comes again within the window", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    let lost = 0;
    for (let i = 0; i < 400; i++) {
      const us = i * 2000;
      const { whole, parts } = fragments(i, i % 8);
      before.push({ us, frame: whole });
      // Some are lost completely, and some lose the first fragment or the second.
      const missing = i % 25 === 3 ? [0, 1] : i % 25 === 13 ? [0] : i % 25 === 20 ? [1] : [];
      if (missing.length > 0) lost++;
      for (const [k, frame] of parts.entries())
        if (!missing.includes(k)) after.push({ us: us + 4350 + (i % 7) * 100 + 50 * k, frame });
    }
    const { segment } = await compare(before, after);
    expect(segment).toMatchObject({ sent: 400, received: 400 - lost, lost, appeared: 0 });
    expect(segment.latency).toMatchObject({ minNs: 4_400_000, maxNs: 5_000_000 });
  });

  test.each([
    ["each fragment for itself", [0, 976, 1480, 2456, 2960, 3008]],
    ["after the packet was put together", [0, 1376, 2752, 3008]],
  ])("fragments that are cut again on the way are packets, as they were sent: %s", async (_, cuts) => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    for (let i = 0; i < 100; i++) {
      const us = 500 + i * 3000;
      const datagram = p.bytes(p.stack([p.udp({ sport: 1001, dport: 9 })], data(i * 1000, 3000)));
      const pieces = (at: readonly number[]) =>
        at.slice(1).map((to, k) => {
          const from = at[k] ?? 0;
          const fragment = (to < datagram.length ? 0x2000 : 0) | (from / 8);
          return p.stack(
            [p.ethernet(0x0800), p.ipv4({ proto: 17, id: i, fragment })],
            datagram.subarray(from, to),
          );
        });
      for (const frame of pieces([0, 1480, 2960, 3008])) before.push({ us, frame });
      if (i % 10 === 5) continue;
      for (const [k, frame] of pieces(cuts).entries()) after.push({ us: us + 300 + 10 * k, frame });
    }
    const { segment } = await compare(before, after);
    expect(segment).toMatchObject({ sent: 300, received: 270, matched: 270, lost: 30, appeared: 0 });
  });

  /** The same over IPv6: only the fragments have an identification. Two flows between the same hosts, packets of two lengths. */
  function fragments6(n: number) {
    const header = [p.ethernet(0x86dd), p.ipv6({ next: 17 })] as const;
    const size = n % 3 === 0 ? 1400 : 2400;
    const whole = p.bytes(p.stack([p.udp({ sport: 1001 + (n % 2), dport: 9 })], data(n * 1000, size)));
    const part = (from: number, to: number) =>
      p.stack(
        [
          p.ethernet(0x86dd),
          p.ipv6({ next: 44 }),
          p.fragment6(17, from | (to < whole.length ? 1 : 0), 7_000_000 + n),
        ],
        whole.subarray(from, to),
      );
    const cuts = [0, 640, 1280, whole.length];
    return {
      whole: p.stack([...header], whole),
      parts: [0, 1, 2].map((i) => part(cuts[i] ?? 0, cuts[i + 1] ?? 0)),
    };
  }

  test.each([false, true])(
    "so are a packet of IPv6 and its fragments (put together again: %s)",
    async (back) => {
      const [before, after]: [Frame[], Frame[]] = [[], []];
      ordinary(before, after);
      let lost = 0;
      for (let i = 0; i < 100; i++) {
        const us = 500 + i * 3000;
        const { whole, parts } = fragments6(i);
        if (back) {
          for (const [k, frame] of parts.entries()) before.push({ us: us + 50 * k, frame });
          after.push({ us: us + 500, frame: whole });
          continue;
        }
        before.push({ us, frame: whole });
        // One of the fragments of every tenth is missing.
        const missing = i % 10 === 4 ? Math.floor(i / 10) % 3 : -1;
        if (missing >= 0) lost++;
        for (const [k, frame] of parts.entries())
          if (k !== missing) after.push({ us: us + 300 + 50 * k, frame });
      }
      const { segment, flows } = await compare(before, after);
      expect(segment).toMatchObject({
        sent: 600,
        received: 600 - lost,
        matched: 600 - lost,
        lost,
        appeared: 0,
      });
      for (const sport of [1001, 1002]) {
        const flow = flows.find((f) => f.key.sport === sport && f.key.src?.includes(":"));
        expect(flow?.latency).toMatchObject({ minNs: 400_000, maxNs: 400_000 });
      }
    },
  );

  test("a SYN whose segment size was clamped is matched", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    ordinary(before, after);
    const syn = (i: number, mss: number) =>
      p.stack([
        p.ethernet(0x0800),
        p.ipv4({ proto: 6, id: i }),
        p.tcp({ sport: 2000 + i, seq: i * 99, flags: 2, options: p.bytes(2, 4, p.be16(mss)) }),
      ]);
    // The first packet of both captures is one of them.
    for (let i = 0; i < 40; i++) {
      before.push({ us: i * 5000 - 100, frame: syn(i, 1460) });
      if (i % 10 !== 5) after.push({ us: i * 5000 + 300, frame: syn(i, 1360) });
    }
    const { segment, notes } = await compare(before, after);
    expect(segment).toMatchObject({ matched: 536, lost: 4, appeared: 0, undecided: 0 });
    expect(notes.join("\n")).toMatch(/MSS clamping, 1460 to 1360 bytes\): 36 SYN/);
    // One that the path duplicates.
    after.push({ us: 100_900, frame: syn(20, 1360) });
    const doubled = await compare(before, after);
    expect(doubled.segment).toMatchObject({
      matched: 536,
      lost: 4,
      appeared: 0,
      duplicates: 1,
      undecided: 0,
    });
  });
});

describe("addresses that are translated on the way", () => {
  const INSIDE = Uint8Array.of(10, 0, 0, 5);
  const OUTSIDE = Uint8Array.of(203, 0, 113, 7);
  const SERVER = Uint8Array.of(198, 51, 100, 1);

  /** Connections from inside and their answers; the translator changes address and port. */
  function nat(lost: number) {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    let n = 0;
    for (let i = 0; i < 2000; i++) {
      const flow = i % 10;
      const answer = i % 2 === 1;
      const us = i * 500;
      const packet = (inside: boolean) => {
        const own = inside ? INSIDE : OUTSIDE;
        const port = (inside ? 40_000 : 61_000) + flow;
        const [src, dst] = answer ? [SERVER, own] : [own, SERVER];
        const [sport, dport] = answer ? [443, port] : [port, 443];
        const layers = [
          p.ethernet(0x0800),
          p.ipv4({ proto: 17, id: i, src, dst }),
          p.udp({ sport, dport, sum: inside ? 1 : 2 }),
        ];
        return p.stack(layers, data(i * 31, 60));
      };
      const drop = !answer && lost > 0 && i % lost === 0;
      if (drop) n++;
      if (!answer || !drop) before.push({ us: answer ? us + 700 : us, frame: packet(true) });
      if (answer || !drop) after.push({ us: answer ? us : us + 700, frame: packet(false) });
    }
    return { before, after, lost: n };
  }

  test("are suggested, with the evidence, where packets match without them", async () => {
    const { before, after } = nat(0);
    const report = await compare(before, after);
    expect(report.segment.matched).toBe(0);
    const evidence =
      /translated on the way \(NAT\): 100 % .* 0 % with them, such as .*10\.0\.0\.5.*203\.0\.113\.7.*‘nat’/;
    expect(report.notes.join("\n")).toMatch(evidence);
    expect(lossDoubt(report)).toMatch(evidence);
  });

  test("are translated in what ICMP errors quote, too", async () => {
    const { before, after } = nat(0);
    const router = Uint8Array.of(192, 0, 2, 1);
    for (let i = 0; i < 60; i++) {
      const error = (inside: boolean) => {
        const own = inside ? INSIDE : OUTSIDE;
        const udp = [
          p.ipv4({ proto: 17, id: i, src: own, dst: SERVER }),
          p.udp({ sport: (inside ? 40_000 : 61_000) + (i % 10), dport: 443, sum: inside ? 1 : 2 }),
        ];
        const quoted = p.bytes(p.stack(udp, data(i * 31, 20)));
        const layers = [
          p.ethernet(0x0800),
          p.ipv4({ proto: 1, id: i, src: router, dst: own }),
          p.icmp(3, 1, 0, 0),
        ];
        return p.stack(layers, quoted);
      };
      after.push({ us: 10_000 + i * 5000, frame: error(false) });
      if (i % 20 !== 7) before.push({ us: 10_600 + i * 5000, frame: error(true) });
    }
    const { reverse, reverseFlows } = await compare(before, after, { nat: true });
    expect(reverse).toMatchObject({ sent: 1060, matched: 1057, lost: 3, appeared: 0 });
    const errors = reverseFlows.find((f) => f.key.proto === 1 && f.key.dst === "10.0.0.5");
    expect(errors).toMatchObject({ sent: 57, matched: 57, latency: { minNs: 600_000, maxNs: 600_000 } });
  });

  test("are left out of the identity, flows are named at both points, the mapping is listed", async () => {
    const made = nat(50);
    const { segment, reverse, flows, translations, notes } = await compare(made.before, made.after, {
      nat: true,
    });
    expect(segment).toMatchObject({ sent: 1000, matched: 1000 - made.lost, lost: made.lost, appeared: 0 });
    expect(segment.latency).toMatchObject({ minNs: 700_000, maxNs: 700_000 });
    expect(reverse).toMatchObject({ sent: 1000, matched: 1000, lost: 0 });
    expect(flows).toHaveLength(5);
    for (const { key, keyAfter } of flows) {
      expect(key.src).toBe("10.0.0.5");
      expect(keyAfter).toMatchObject({
        src: "203.0.113.7",
        dst: "198.51.100.1",
        sport: (key.sport ?? 0) + 21_000,
      });
    }
    expect(translations).toContainEqual({
      end: "src",
      before: "10.0.0.5",
      after: "203.0.113.7",
      flows: 5,
      packets: 1000 - made.lost,
    });
    expect(notes.join("\n")).not.toMatch(/use ‘nat’/);
  });

  test("are not suggested where nothing is translated", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    ordinary(before, after);
    for (let i = 0; i < 200; i++) {
      before.push({ us: i * 3000, frame: udpData(1, i * 100, 90, i) });
      after.push({ us: i * 3000, frame: udpData(2, 1e6 + i * 100, 90, i) });
    }
    const { notes } = await compare(before, after);
    expect(notes.join("\n")).not.toMatch(/‘nat’/);
  });
});

describe("what loss does not explain is named", () => {
  test("delays beyond the window", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    for (let i = 0; i < 5000; i++) {
      const frame = udpData(i % 20, i * 11, 80, i);
      before.push({ us: i * 1000, frame });
      after.push({ us: i * 1000 + (i % 12 === 5 ? 300_000 : 5000), frame });
    }
    const { notes } = await compare(before, after, { windowNs: 100e6 });
    expect(notes.join("\n")).toMatch(
      /8\.\d % of the packets .* beyond the window of 100 ms \(up to 300 ms\).*‘window’ of 600 ms/,
    );
    expect(notes.join("\n")).not.toMatch(/a clock was set/);
    const wide = await compare(before, after, { windowNs: 600e6 });
    expect(wide.segment).toMatchObject({ matched: 5000, lost: 0 });
    expect(wide.notes.join("\n")).not.toMatch(/further apart/);
  });

  test("delays beyond the window of more than half the packets", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    for (let i = 0; i < 5000; i++) {
      const frame = udpData(i % 20, i * 11, 80, i);
      before.push({ us: i * 1000, frame });
      after.push({ us: i * 1000 + (i % 5 < 3 ? 300_000 : 5000), frame });
    }
    const { notes, clock, lossCause } = await compare(before, after, { windowNs: 100e6 });
    expect(lossCause).toMatch(/60\.\d % of the packets .* beyond the window/);
    expect([...notes, ...clock.lines].join("\n")).not.toMatch(/clock was set/);
  });

  test.each([
    ["start", 0.02, 15e6],
    ["end", 0.97, 15e6],
    ["end", 0.99, -900e6],
  ])("a clock that was set by more than the window near the %s", async (_end, at, stepUs) => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    for (let i = 0; i < 4000; i++) {
      const frame = udpData(i % 20, i * 11, 80, i);
      before.push({ us: i * 20_000, frame });
      after.push({ us: i * 20_000 + 5000 + (i > at * 4000 ? stepUs : 0), frame });
    }
    const { clock, lossCause } = await compare(before, after);
    expect(clock.trust).toMatch(/doubtful|unusable/);
    expect(lossCause).toMatch(/a clock was set during the capture/);
  });

  test("flows that take another path", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    for (let i = 0; i < 4000; i++) {
      const frame = udpData(i % 40, i * 11, 80, i);
      before.push({ us: i * 1000, frame });
      if (i % 40 >= 20) after.push({ us: i * 1000 + 500, frame });
    }
    const { notes } = await compare(before, after);
    expect(notes.join("\n")).toMatch(
      /20 flows \((1,9\d\d|2,000) packets\) are missing at the second point while the other 20 are present/,
    );
  });

  test("flows that take another path, both ways: each is named where it is missing, and is lost on its way", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    const host = (side: number, n: number) => Uint8Array.of(10, side, 0, 1 + n);
    for (let i = 0; i < 8000; i++) {
      const flow = i % 40;
      const back = (i / 40) % 2 >= 1;
      const [src, dst, sport, dport] = back
        ? [host(2, flow % 7), host(1, flow), 443, 2000 + flow]
        : [host(1, flow), host(2, flow % 7), 2000 + flow, 443];
      const frame = p.stack(
        [p.ethernet(0x0800), p.ipv4({ proto: 17, id: i, src, dst }), p.udp({ sport, dport })],
        data(i * 11, 80),
      );
      // Ten of 40 take another path in the forward direction, ten others in the reverse direction, and two in both.
      const elsewhere = back ? flow >= 8 && flow < 20 : flow < 10;
      (back ? after : before).push({ us: i * 1000, frame });
      if (!elsewhere) (back ? before : after).push({ us: i * 1000 + 500, frame });
    }
    const { notes, segment, reverse } = await compare(before, after);
    expect(notes.join("\n")).toMatch(/22 flows \(2,\d\d\d packets\) are missing at the other point/);
    expect(segment).toMatchObject({ sent: 4000, received: 3000, matched: 3000, appeared: 0 });
    expect(reverse).toMatchObject({ sent: 4000, received: 2800, matched: 2800, appeared: 0 });
    // The first of those on another path may also have passed before the other capture began.
    expect(segment.lost + segment.head + segment.tail).toBe(1000);
    expect(segment.lost).toBeGreaterThan(980);
    expect((reverse?.lost ?? 0) + (reverse?.head ?? 0) + (reverse?.tail ?? 0)).toBe(1200);
    expect(reverse?.lost).toBeGreaterThan(1180);
  });

  test("flows that came by another path", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    for (let i = 0; i < 4000; i++) {
      const frame = udpData(i % 40, i * 11, 80, i);
      if (i % 40 >= 20) before.push({ us: i * 1000, frame });
      after.push({ us: i * 1000 + 500, frame });
    }
    const { notes, segment } = await compare(before, after);
    expect(segment.lost).toBe(0);
    expect(notes.join("\n")).toMatch(
      /20 flows \((1,9\d\d|2,000) packets\) are missing at the first point while the other 20 are present/,
    );
  });

  test("a sampled capture", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    for (let i = 0; i < 8000; i++) {
      const frame = udpData(i % 7, i * 11, 80, i);
      before.push({ us: i * 1000, frame });
      if (i % 10 === 0) after.push({ us: i * 1000 + 500, frame });
    }
    const { notes } = await compare(before, after);
    expect(notes.join("\n")).toMatch(/contains about 1 in 10 packets of every flow/);
  });

  test("packets that never leave their link are counted apart", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    ordinary(before, after);
    for (let i = 0; i < 50; i++) {
      const dst = Uint8Array.of(224, 0, 0, 5);
      before.push({
        us: i * 9000,
        frame: p.stack([p.ethernet(0x0800), p.ipv4({ proto: 89, dst, id: i })], data(i, 44)),
      });
    }
    const report = await compare(before, after);
    expect(report.segment).toMatchObject({ sent: 550, matched: 500, lost: 0, linkLocal: 50 });
    expect(formatCompare(report, { top: 1, sort: "packets", colours: PLAIN })).toMatch(
      /500 matched, 0 lost \(0\.00 %\), 50 link-local\n/,
    );
  });

  test("intervals show losses where nothing was matched", async () => {
    const before = Array.from({ length: 30 }, (_, i) => ({ us: i * 1000, frame: udpData(1, i, 50, i) }));
    const after = Array.from({ length: 30 }, (_, i) => ({ us: i * 1000, frame: udpData(2, 900 + i, 50, i) }));
    const { segment, intervals } = await compare(before, after);
    expect(segment.lost).toBe(30);
    expect(intervals.reduce((n, i) => n + i.lost, 0)).toBe(30);
  });

  test("intervals show no loss of packets that turn out to go back, however late", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    const [here, there] = [Uint8Array.of(10, 1, 0, 1), Uint8Array.of(10, 2, 0, 1)];
    const packet = (src: Uint8Array, dst: Uint8Array, sport: number, dport: number, id: number) =>
      p.stack(
        [p.ethernet(0x0800), p.ipv4({ proto: 17, id, src, dst }), p.udp({ sport, dport })],
        data(id * 9, 60),
      );
    for (let i = 0; i < 600; i++) {
      const [us, port] = [i * 100_000, 2000 + (i % 5)];
      const question = packet(here, there, port, 53, i);
      before.push({ us, frame: question });
      after.push({ us: us + 300, frame: question });
      // Their point saw one answer of 30, the first after more than the window.
      const answer = packet(there, here, 53, port, 10_000 + i);
      if (Math.floor(i / 5) % 30 === 29) after.push({ us: us + 700, frame: answer });
      before.push({ us: us + 1000, frame: answer });
    }
    const { segment, reverse, intervals } = await compare(before, after);
    expect(segment).toMatchObject({ sent: 600, matched: 600, lost: 0 });
    expect(reverse).toMatchObject({ received: 600, matched: 20, lost: 0 });
    expect(intervals.reduce((n, i) => n + i.lost, 0)).toBe(0);
  });

  test("three packets that were matched do not show which way they go, where other flows go both ways", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    const packet = (from: number, to: number, n: number) =>
      p.stack(
        [
          p.ethernet(0x0800),
          p.ipv4({ proto: 17, id: n, src: Uint8Array.of(10, from, 0, 1), dst: Uint8Array.of(10, to, 0, 1) }),
          p.udp({ sport: 1000 + from, dport: 1000 + to }),
        ],
        data(n * 9, 60),
      );
    for (let n = 0; n < 20; n++) {
      const frame = packet(1, 2, n);
      before.push({ us: n * 10_000, frame });
      if (n % 7 === 3) after.push({ us: n * 10_000 + 300, frame });
      after.push({ us: n * 10_000 + 500, frame: packet(2, 1, 100 + n) });
    }
    const { segment, direction, clock } = await compare(before, after);
    expect(segment.matched).toBe(3);
    expect(direction.order).toBe("unclear");
    expect(clock.trust).toMatch(/doubtful|unusable/);
  });

  test("a filter on the identification reads it", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    ordinary(before, after);
    const { segment } = await compare(before, after, { filter: "ip[4:2] = 7" });
    expect(segment).toMatchObject({ sent: 1, matched: 1 });
  });
});

describe("captures of several points", () => {
  /** Packets forwarded by a router in `tcpdump -i any`: once per interface. */
  function anyCapture() {
    const frames: Frame[] = [];
    const cooked = (index: number, i: number) => {
      const header = p.bytes(p.be16(0x0800), p.be16(0), p.be32(index), p.be16(1), 0, 6, new Uint8Array(8));
      return p.bytes(header, udpData(i % 5, i * 13, 70, i).subarray(14));
    };
    for (let i = 0; i < 400; i++) {
      frames.push({ us: i * 1000, frame: cooked(3, i) });
      if (i % 100 !== 50) frames.push({ us: i * 1000 + 250, frame: cooked(7, i) });
    }
    return capture(frames, { link: 276 });
  }

  test("packets of all interfaces are taken apart by their interface", async () => {
    const file = anyCapture();
    const { segment } = await compareCaptures({ before: `${file}#3`, after: `${file}#7` });
    expect(segment).toMatchObject({ sent: 400, matched: 396, lost: 4 });
    expect(segment.latency).toMatchObject({ minNs: 250_000, maxNs: 250_000 });
    await expect(compareCaptures({ before: `${file}#3`, after: `${file}#9` })).rejects.toThrow(
      /has no interface '9'/,
    );
    expect(await pointsOf(new Kernels(), file)).toEqual([
      { index: 3, name: null },
      { index: 7, name: null },
    ]);
  });

  test("a capture says which tunnels and merged segments it shows", async () => {
    const inner = p.stack([p.ipv4({ proto: 17 }), p.udp()], data(1, 40));
    const frames = Array.from({ length: 20 }, (_, i) => ({
      us: i * 1000,
      frame:
        i < 15
          ? p.stack([p.ethernet(0x0800), p.ipv4({ proto: 4, id: i })], inner)
          : tcpData(1, i * 20_000, 20_000, i),
    }));
    const file = capture(frames);
    const report = await inspectCapture({ file });
    expect(report.tunnels).toEqual([{ name: "IP-in-IP", packets: 15 }]);
    expect(report.offload).toEqual({ packets: 5, longest: 20_054 });
    expect(report.warnings.join("\n")).toMatch(
      /15 packets in IP-in-IP: ‘inner’ looks inside.*\n.*GRO, LRO, TSO/,
    );
    expect((await inspectCapture({ file, inner: true })).warnings.join("\n")).not.toMatch(/inner/);
  });
});
