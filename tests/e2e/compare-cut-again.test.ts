/** Packets that neither point has as on the wire: merged at a point and cut, fragmented or merged again on the path; and copies of all of these. */
import { describe, expect, test } from "vitest";
import { compareCaptures } from "../../src/compare/compare.ts";
import { lossDoubt } from "../../src/compare/loss-doubt.ts";
import * as p from "../support/packets.ts";
import { type Frame, timedFrames } from "../support/timed-frames.ts";

const { capture, compare } = timedFrames();

const data = (at: number, length: number) =>
  Uint8Array.from({ length }, (_, i) => ((at + i) * 2_654_435_761) >>> 24);

const MSS = 1400;
const PORTS = { sport: 5000, dport: 443 };

/** A TCP segment with its bytes of the stream. */
const transport = (at: number, length: number) => p.stack([p.tcp({ ...PORTS, seq: at })], data(at, length));
const segment = (at: number, length: number, id: number) =>
  p.stack([p.ethernet(0x0800), p.ipv4({ proto: 6, id })], transport(at, length));

/** The fragments of a packet, of `step` bytes each. */
function cut(body: Uint8Array, proto: number, id: number, step: number): Uint8Array[] {
  const parts: Uint8Array[] = [];
  for (let from = 0; from < body.length; from += step) {
    const more = from + step < body.length ? 0x2000 : 0;
    parts.push(
      p.stack(
        [p.ethernet(0x0800), p.ipv4({ proto, id, fragment: more | (from / 8) })],
        body.subarray(from, from + step),
      ),
    );
  }
  return parts;
}

/** Packets of another flow, which show the delays. */
function ordinary(before: Frame[], after: Frame[]): void {
  for (let i = 0; i < 300; i++) {
    const frame = p.stack(
      [p.ethernet(0x0800), p.ipv4({ proto: 17, id: i }), p.udp({ sport: 6000, dport: 9 })],
      data(i * 7, 80),
    );
    before.push({ us: i * 900, frame });
    after.push({ us: i * 900 + 300, frame });
  }
}

const tcpFlow = async (before: Frame[], after: Frame[]) => {
  const report = await compare(before, after);
  return { report, flow: report.flows.find((f) => f.key.proto === 6) };
};

test("segments that a card cuts and a router fragments behind it are counted as on the wire, without those that lost a fragment", async () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  ordinary(before, after);
  let lost = 0;
  for (let b = 0; b < 25; b++) {
    const us = 1000 + b * 5000;
    before.push({ us, frame: segment(b * 5 * MSS, 5 * MSS, 100 + 5 * b) });
    for (let i = 0; i < 5; i++) {
      const n = 5 * b + i;
      // All of it, the first fragment, or the second.
      const missing = n % 20 === 7 ? [0, 1] : n % 20 === 11 ? [0] : n % 20 === 16 ? [1] : [];
      if (missing.length > 0) lost++;
      for (const [k, frame] of cut(transport(n * MSS, MSS), 6, 100 + n, 1256).entries())
        if (!missing.includes(k)) after.push({ us: us + 300 + 10 * i + 2 * k, frame });
    }
  }
  const { report, flow } = await tcpFlow(before, after);
  expect(flow).toMatchObject({ sent: 125, received: 125 - lost, matched: 125 - lost, lost, appeared: 0 });
  expect(report.segment).toMatchObject({ sent: 425, received: 425 - lost, lost, appeared: 0 });
  expect(flow?.latency).toMatchObject({ minNs: 342_000, maxNs: 342_000 });
});

test("segments in fragments that a router puts together and a card merges behind it are counted as on the wire", async () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  ordinary(before, after);
  for (let b = 0; b < 25; b++) {
    const us = 1000 + b * 5000;
    for (let i = 0; i < 4; i++)
      for (const [k, frame] of cut(transport((4 * b + i) * MSS, MSS), 6, 4 * b + i, 1256).entries())
        before.push({ us: us + 10 * i + 2 * k, frame });
    // The first of every third burst is lost.
    const from = b % 3 === 0 ? 1 : 0;
    after.push({
      us: us + 350,
      frame: segment((4 * b + from) * MSS, (4 - from) * MSS, 4 * b + from),
    });
  }
  const { flow } = await tcpFlow(before, after);
  expect(flow).toMatchObject({ sent: 100, received: 91, matched: 91, lost: 9, appeared: 0 });
});

test("merged segments that both points have alike count as many as those of which a part is lost", async () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  ordinary(before, after);
  for (let b = 0; b < 40; b++) {
    const us = 1000 + b * 5000;
    before.push({ us, frame: segment(b * 6 * MSS, 6 * MSS, 6 * b) });
    if (b % 4 !== 1) after.push({ us: us + 400, frame: segment(b * 6 * MSS, 6 * MSS, 6 * b) });
    // The third of six is lost; the packets before and after it are merged.
    else
      for (const [from, to] of [
        [0, 2],
        [3, 6],
      ] as const)
        after.push({
          us: us + 400,
          frame: segment((6 * b + from) * MSS, (to - from) * MSS, 6 * b + from),
        });
  }
  // Shows the length of packets on the wire.
  before.push({ us: 250_000, frame: segment(240 * MSS, 2 * MSS, 240) });
  for (let i = 0; i < 2; i++) after.push({ us: 250_400 + i, frame: segment((240 + i) * MSS, MSS, 240 + i) });
  const { report, flow } = await tcpFlow(before, after);
  expect(flow).toMatchObject({ sent: 242, received: 232, matched: 232, lost: 10, appeared: 0 });
  const sum = (pick: (i: (typeof report.intervals)[number]) => number) =>
    report.intervals.reduce((n, i) => n + pick(i), 0);
  expect(sum((i) => i.matched)).toBe(report.segment.matched);
});

test("a short packet at the end of a merged segment is lost as one packet", async () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  ordinary(before, after);
  for (let b = 0; b < 40; b++) {
    const us = 1000 + b * 5000;
    before.push({ us, frame: segment(b * 3000, 2 * MSS + 100, 3 * b) });
    for (let i = 0; i < 3; i++) {
      if (i === 2 && b % 4 === 0) continue;
      const frame = segment(b * 3000 + i * MSS, i === 2 ? 100 : MSS, 3 * b + i);
      after.push({ us: us + 300 + i, frame });
    }
  }
  const { flow } = await tcpFlow(before, after);
  expect(flow).toMatchObject({ sent: 120, received: 110, matched: 110, lost: 10, appeared: 0 });
});

describe("packets that are fragmented on the way", () => {
  const datagram = (i: number) => p.bytes(p.stack([p.udp({ sport: 1001, dport: 9 })], data(i * 1400, 1300)));
  const whole = (i: number) =>
    p.stack([p.ethernet(0x0800), p.ipv4({ proto: 17, id: 9000 + i })], datagram(i));

  test.each(["before", "after"] as const)("a capture has everything twice: %s", async (twice) => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    ordinary(before, after);
    let lost = 0;
    for (let i = 0; i < 120; i++) {
      const us = 500 + i * 2000;
      // Some are lost completely, and some lose a fragment.
      const missing = i % 20 === 5 ? [0, 1] : i % 20 === 12 ? [0] : i % 20 === 15 ? [1] : [];
      if (missing.length > 0) lost++;
      const add = (frames: Frame[], at: number, frame: Uint8Array, copied: boolean) => {
        frames.push({ us: at, frame });
        if (copied && i % 2 === 1) frames.push({ us: at + 3, frame });
      };
      add(before, us, whole(i), twice === "before");
      for (const [k, frame] of cut(datagram(i), 17, 9000 + i, 800).entries())
        if (!missing.includes(k)) add(after, us + 350 + 10 * k, frame, twice === "after");
    }
    const { segment } = await compare(before, after);
    expect(segment).toMatchObject({ matched: 420 - lost, lost, appeared: 0 });
    expect(segment.sent - segment.mirrored).toBe(420);
    expect(segment.received - segment.duplicates).toBe(420 - lost);
    expect(segment.latency?.maxNs).toBe(360_000);
  });

  test("one that the first point has in fragments and that is lost is one packet", async () => {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    ordinary(before, after);
    for (let i = 0; i < 100; i++) {
      const us = 500 + i * 2000;
      for (const [k, frame] of cut(datagram(i), 17, 9000 + i, 800).entries())
        before.push({ us: us + 10 * k, frame });
      if (i % 10 !== 3) after.push({ us: us + 350, frame: whole(i) });
    }
    const { segment } = await compare(before, after);
    expect(segment).toMatchObject({ sent: 400, received: 390, matched: 390, lost: 10, appeared: 0 });
  });
});

test("pieces of datagrams that overtake each other belong to the datagram whose numbers they have", async () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  ordinary(before, after);
  const frame = (at: number, length: number, id: number) =>
    p.stack(
      [p.ethernet(0x0800), p.ipv4({ proto: 17, id }), p.udp({ sport: 1001, dport: 9 })],
      data(at, length),
    );
  let lost = 0;
  for (let b = 0; b < 60; b++) {
    const us = 1000 + b * 4000;
    before.push({ us, frame: frame(b * 9000, 5 * 1200 - 100, 5 * b) });
    for (let i = 0; i < 5; i++) {
      if ((5 * b + i) % 17 === 4) {
        lost++;
        continue;
      }
      // For every other datagram the second piece comes last, for some after the pieces of the next one.
      const later = i === 1 ? (b % 10 === 3 ? 4100 : b % 2 === 0 ? 100 : 0) : 0;
      after.push({
        us: us + 500 + 10 * i + later,
        frame: frame(b * 9000 + i * 1200, i === 4 ? 1100 : 1200, 5 * b + i),
      });
    }
  }
  const [a, b] = [before, after].map((frames) => capture(frames, { snapLength: 96 })) as [string, string];
  const report = await compareCaptures({ before: a, after: b });
  const flow = report.flows.find((f) => f.key.sport === 1001);
  expect(flow).toMatchObject({ sent: 300, received: 300 - lost, matched: 300 - lost, lost, appeared: 0 });
});

test("where both points merge, segments that begin inside others show how long packets are on the wire", async () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  ordinary(before, after);
  const burst = 6 * MSS + 300;
  for (let b = 0; b < 40; b++) {
    const us = 1000 + b * 5000;
    before.push({ us, frame: segment(b * burst, burst, 7 * b) });
    // Two and four of them merged, or three and three, and the short one alone; for some, the first ones are lost.
    const half = 2 + (b % 2);
    if (b % 8 !== 3) after.push({ us: us + 400, frame: segment(b * burst, half * MSS, 7 * b) });
    after.push({ us: us + 401, frame: segment(b * burst + half * MSS, (6 - half) * MSS, 7 * b + half) });
    after.push({ us: us + 402, frame: segment(b * burst + 6 * MSS, 300, 7 * b + 6) });
  }
  const { flow } = await tcpFlow(before, after);
  expect(flow).toMatchObject({ sent: 280, received: 265, matched: 265, lost: 15, appeared: 0 });
});

describe("segments merged at one point that the other has cut", () => {
  const host = (n: number) => Uint8Array.of(0x20, 1, 0x0d, 0xb8, ...new Uint8Array(11), n);
  const frame = (at: number, length: number) =>
    p.stack([p.ethernet(0x86dd), p.ipv6({ next: 6, src: host(1), dst: host(2) })], transport(at, length));
  async function cutAt(snapLength: number) {
    const [before, after]: [Frame[], Frame[]] = [[], []];
    for (let b = 0; b < 60; b++) {
      const us = 1000 + b * 5000;
      before.push({ us, frame: frame(b * 4 * MSS, 4 * MSS) });
      for (let i = 0; i < 4; i++)
        if ((4 * b + i) % 20 !== 7) after.push({ us: us + 300 + i, frame: frame((4 * b + i) * MSS, MSS) });
    }
    return compareCaptures({ before: capture(before), after: capture(after, { snapLength }) });
  }

  test("behind the sequence number: matched by their bytes", async () => {
    // Ethernet, IPv6, and ports and sequence number.
    const { segment: counts } = await cutAt(14 + 40 + 12);
    expect(counts).toMatchObject({ sent: 240, received: 228, matched: 228, lost: 12, appeared: 0 });
  });

  test("before the sequence number: not matched, and the report says that the loss is not real", async () => {
    const report = await cutAt(14 + 40 + 4);
    expect(report.segment.duplicates).toBe(0);
    expect(report.segment.appeared).toBeGreaterThan(100);
    expect(lossDoubt(report)).toMatch(/offload|NAT/);
  });
});

test("merged segments are examined, too, if they could lie outside the other capture: both captures have all packets twice, and a clock is set", async () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  const set = (us: number) => us + (us > 150_000 ? 2_000_000 : 0);
  const twice = (frames: Frame[], us: number, frame: Uint8Array) =>
    frames.push({ us, frame }, { us: us + 1, frame });
  for (let i = 0; i < 300; i++) {
    const frame = p.stack(
      [p.ethernet(0x0800), p.ipv4({ proto: 17, id: i }), p.udp({ sport: 6000, dport: 9 })],
      data(i * 7, 80),
    );
    twice(before, i * 900, frame);
    twice(after, set(i * 900 + 300), frame);
  }
  for (let b = 0; b < 50; b++) {
    const us = 1000 + b * 5000;
    for (let i = 0; i < 4; i++) twice(before, us + 10 * i, segment((4 * b + i) * MSS, MSS, 4 * b + i));
    twice(after, set(us + 400), segment(4 * b * MSS, 4 * MSS, 4 * b));
  }
  const { segment: counts } = await compare(before, after);
  expect(counts).toMatchObject({ matched: 500, lost: 0, appeared: 0, mirrored: 500 });
});

test("pieces of datagrams that cannot be assigned make the loss doubtful", async () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  ordinary(before, after);
  for (let i = 0; i < 1500; i++) {
    const frame = p.stack(
      [p.ethernet(0x0800), p.ipv4({ proto: 17, id: i }), p.udp({ sport: 6001, dport: 9 })],
      data(i * 11, 60),
    );
    before.push({ us: i * 170, frame });
    after.push({ us: i * 170 + 300, frame });
  }
  // No number, and another checksum at each point: only the bytes behind the headers could tell them apart.
  const frame = (at: number, length: number, sum: number) =>
    p.stack(
      [p.ethernet(0x0800), p.ipv4({ proto: 17, id: 0 }), p.udp({ sport: 1001, dport: 9, sum })],
      data(at, length),
    );
  for (let b = 0; b < 20; b++) {
    const us = 1000 + b * 9000;
    before.push({ us, frame: frame(b * 9000, 5 * 1200, b) });
    for (let i = 0; i < 5; i++)
      if (i !== b % 5)
        after.push({ us: us + 500 + 10 * i, frame: frame(b * 9000 + i * 1200, 1200, 99 * b + i) });
  }
  const [a, b] = [before, after].map((frames) => capture(frames, { snapLength: 66 })) as [string, string];
  const report = await compareCaptures({ before: a, after: b });
  expect(report.segment.lost).toBeGreaterThan(50);
  expect(report.segment.lost).toBeLessThan(0.05 * report.segment.matched + 50);
  expect(lossDoubt(report)).toMatch(/UDP GSO.*larger snap length/);
});
