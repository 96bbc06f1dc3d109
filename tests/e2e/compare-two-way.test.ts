/** Packets in both directions with a clock offset below and above the window: directions, counts and delays compared with the true ones. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { Random } from "../../src/base/random.ts";
import { compareCaptures } from "../../src/compare/compare.ts";
import { be32, ethernet, ipv4, stack, udp } from "../support/packets.ts";
import { type PlainPacket, pcapFile } from "../support/pcap-writer.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-two-way-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const START_NS = 1_700_000_000_000_000_000n;
const PACKETS = 3000;
const WAYS = {
  forward: { leastNs: 20_000_000, meanNs: 3_000_000 },
  reverse: { leastNs: 8_000_000, meanNs: 2_000_000 },
};

interface Scene {
  /** AFTER's clock minus BEFORE's. */
  offsetNs: bigint;
  /** Flows of the two directions are each other's answers; otherwise they have nothing in common. */
  answering: boolean;
  /** All packets go from BEFORE to AFTER, whichever host sends them. */
  oneWay?: boolean;
  hops?: number;
  /** The servers of the two directions differ too: no host belongs to both. */
  apart?: boolean;
}

interface Truth {
  before: string;
  after: string;
  delaysNs: Record<"forward" | "reverse", number[]>;
  lost: Record<"forward" | "reverse", number>;
}

function make({ offsetNs, answering, oneWay = false, hops = 1, apart = false }: Scene): Truth {
  const random = new Random(5);
  const sides: PlainPacket[][] = [[], []];
  const delaysNs: Truth["delaysNs"] = { forward: [], reverse: [] };
  const lost = { forward: 0, reverse: 0 };
  for (let n = 0; n < PACKETS; n++) {
    const asked = n % 2 === 0;
    const way = asked || oneWay ? "forward" : "reverse";
    const flow = answering ? Math.floor(n / 2) % 40 : n % 40;
    const client = { address: Uint8Array.of(10, 0, answering || asked ? 0 : 9, flow), port: 2000 + flow };
    const server = { address: Uint8Array.of(192, 168, apart && !asked ? 9 : 1, flow % 7), port: 443 };
    const [from, to] = asked ? [client, server] : [server, client];
    const frame = (ttl: number) =>
      stack(
        [
          ethernet(0x0800),
          ipv4({ proto: 17, id: n & 0xffff, ttl, src: from.address, dst: to.address }),
          udp({ sport: from.port, dport: to.port }),
        ],
        be32(n),
      );
    const { leastNs, meanNs } = WAYS[way];
    const delayNs = leastNs + Math.round(-Math.log(1 - random.float()) * meanNs);
    const sentNs = START_NS + BigInt(n * 1_000_000 + Math.floor(random.float() * 900_000));
    const [near, far] = way === "forward" ? [0, 1] : [1, 0];
    const clock = (side: number) => (side === 1 ? offsetNs : 0n);
    sides[near]!.push({ timeNs: sentNs + clock(near), frame: frame(64) });
    if (random.float() < 0.01) {
      lost[way]++;
      continue;
    }
    delaysNs[way].push(delayNs);
    sides[far]!.push({ timeNs: sentNs + BigInt(delayNs) + clock(far), frame: frame(64 - hops) });
  }
  const [before, after] = sides.map((packets, i) => {
    const path = join(scratch, `${i}.pcap`);
    packets.sort((a, b) => (a.timeNs < b.timeNs ? -1 : 1));
    writeFileSync(path, pcapFile(packets, { nano: true }));
    return path;
  }) as [string, string];
  return { before, after, delaysNs, lost };
}

const mean = (values: number[]) => values.reduce((a, b) => a + b, 0) / values.length;
const minimum = (values: number[]) => values.reduce((a, b) => Math.min(a, b));

const OFFSETS: [string, bigint][] = [
  ["no offset", 0n],
  ["50 ms, more than any delay", 50_000_000n],
  ["-5 s, within the window", -5_000_000_000n],
  ["37 s of TAI", 37_000_000_000n],
  ["one hour", 3_600_000_000_000n],
  ["a number that has no name", 12_345_678_901_234n],
  ["three days back", -259_200_000_000_123n],
];

describe.each([true, false])("packets that go both ways, answering flows: %s", (answering) => {
  test.each(OFFSETS)("clocks apart by %s", async (_name, offsetNs) => {
    const { before, after, delaysNs, lost } = make({ offsetNs, answering });
    const timestamped = await compareCaptures({ before, after });
    expect(timestamped.direction.order).toBe("as-given");
    for (const [way, report, sign] of [
      ["forward", timestamped.segment, 1],
      ["reverse", timestamped.reverse!, -1],
    ] as const) {
      expect(report).toMatchObject({ matched: delaysNs[way].length, lost: lost[way], head: 0, tail: 0 });
      const off = sign * Number(offsetNs);
      expect(report.latency!.meanNs).toBeCloseTo(mean(delaysNs[way]) + off, -2);
      expect(report.latency!.minNs).toBe(minimum(delaysNs[way]) + off);
    }
    const beyond = Math.abs(Number(offsetNs)) > 10e9;
    expect(
      timestamped.notes.some((n) => /clocks differ by .*‘clock deskew’ or ‘clock relative’/.test(n)),
    ).toBe(beyond);

    const relative = await compareCaptures({ before, after, clock: "relative" });
    for (const [way, report] of [
      ["forward", relative.segment],
      ["reverse", relative.reverse!],
    ] as const) {
      expect(report).toMatchObject({ matched: delaysNs[way].length, lost: lost[way] });
      const queueing = mean(delaysNs[way]) - minimum(delaysNs[way]);
      expect(Math.abs(report.latency!.meanNs - queueing)).toBeLessThan(20_000);
      expect(Math.abs(report.latency!.minNs)).toBeLessThan(20_000);
    }

    const deskewed = await compareCaptures({ before, after, clock: "deskew" });
    // The offset is known only within the bounds of the two directions, but the sum of the delays is certain.
    const both = deskewed.segment.latency!.meanNs + deskewed.reverse!.latency!.meanNs;
    expect(both).toBeCloseTo(mean(delaysNs.forward) + mean(delaysNs.reverse), -3);
    expect(deskewed.segment.latency!.minNs).toBeGreaterThan(0);
    expect(deskewed.reverse!.latency!.minNs).toBeGreaterThan(0);
  });
});

describe("packets that all go one way", () => {
  test.each(OFFSETS)(
    "are not taken for two directions because flows answer each other; clocks apart by %s",
    async (_name, offsetNs) => {
      const { before, after, delaysNs, lost } = make({ offsetNs, answering: true, oneWay: true });
      const report = await compareCaptures({ before, after });
      expect(report.reverse).toBeNull();
      expect(report.segment).toMatchObject({ matched: delaysNs.forward.length, lost: lost.forward });
      expect(report.direction.order).not.toBe("swapped");
    },
  );

  test("answers that are slower than questions are no evidence against the time to live", async () => {
    const random = new Random("slow answers");
    const host = Uint8Array.of(10, 0, 2, 15);
    const sides: [PlainPacket[], PlainPacket[]] = [[], []];
    let [sent, lost] = [0, 0];
    const send = (ns: number, from: Uint8Array, to: Uint8Array, ports: [number, number], oneHop = false) => {
      const id = sent++ & 0xffff;
      const frame = (ttl: number) =>
        stack(
          [
            ethernet(0x0800),
            ipv4({ proto: 17, id, ttl, src: from, dst: to }),
            udp({ sport: ports[0], dport: ports[1] }),
          ],
          be32(sent),
        );
      sides[0].push({ timeNs: START_NS + BigInt(Math.round(ns)), frame: frame(oneHop ? 1 : 64) });
      const arrivedNs = ns + (from === host ? 2e6 : 3e6) + random.exponential(6e5);
      if (random.bernoulli(0.01)) lost++;
      else sides[1].push({ timeNs: START_NS + BigInt(Math.round(arrivedNs)), frame: frame(oneHop ? 1 : 63) });
    };
    for (let n = 0; n < 3000; n++) {
      // Some peers get one question only.
      const peer = Uint8Array.of(100, n % 5 === 0 ? n >> 8 : 0, n % 5 === 0 ? n & 255 : n % 50, 1);
      const at = n * 1e7 + random.float() * 1e6;
      const ports: [number, number] = [28_681, 4000 + (n % 50)];
      send(at, host, peer, ports);
      send(at + 5e7 + random.exponential(1e8), peer, host, [ports[1], ports[0]]);
      // Announcements that keep their TTL.
      if (n % 25 === 0) send(at + 3e6, host, Uint8Array.of(239, 255, 255, 250), [1900, 1900], true);
    }
    const [before, after] = sides.map((packets, i) => {
      const path = join(scratch, `slow-${i}.pcap`);
      packets.sort((p, q) => (p.timeNs < q.timeNs ? -1 : 1));
      writeFileSync(path, pcapFile(packets, { nano: true }));
      return path;
    }) as [string, string];
    const report = await compareCaptures({ before, after });
    expect(report.reverse).toBeNull();
    expect(report.segment).toMatchObject({ sent, matched: sent - lost, lost, appeared: 0 });
  });

  test("without routers between, where neither hosts nor time to live tell, all are taken to go forward", async () => {
    const scene = { offsetNs: 37_000_000_000n, answering: false, hops: 0, apart: true };
    const { before, after, delaysNs } = make(scene);
    const report = await compareCaptures({ before, after });
    expect(report.reverse).toBeNull();
    expect(report.segment.matched).toBe(delaysNs.forward.length + delaysNs.reverse.length);
  });
});

test("servers that some send to and that send to others show two directions, without routers or answers", async () => {
  for (const [, offsetNs] of OFFSETS) {
    const { before, after, delaysNs, lost } = make({ offsetNs, answering: false, hops: 0 });
    const report = await compareCaptures({ before, after });
    expect(report.segment).toMatchObject({ matched: delaysNs.forward.length, lost: lost.forward });
    expect(report.reverse).toMatchObject({ matched: delaysNs.reverse.length, lost: lost.reverse });
  }
});

describe("captures that began or ended at different times, of packets that go both ways", () => {
  const SECOND = 1_000_000_000;
  const DELAYS_NS = [2_000_000, 30_000_000] as const;
  const COUNT = 3000;
  /** Duration of the two captures in seconds. */
  const runs: [string, [number, number], [number, number], bigint][] = [
    ["BEFORE began later", [1, 9], [0, 9], 0n],
    ["AFTER began later", [0, 9], [1, 9], 0n],
    ["BEFORE ended earlier", [0, 2], [0, 9], 0n],
    ["AFTER ended earlier", [0, 9], [0, 2], 0n],
    ["AFTER ran in between, its clock behind", [0, 9], [1, 2], -5_000_000_000n],
  ];

  test.each(runs)(
    "%s: what the other did not capture was neither lost nor appeared",
    async (name, a, b, off) => {
      const sides: PlainPacket[][] = [[], []];
      const expected = [0, 0];
      const running = (ns: number, [from, to]: [number, number]) => ns >= from * SECOND && ns < to * SECOND;
      for (let n = 0; n < 2 * COUNT; n++) {
        const way = n % 2;
        const flow = Uint8Array.of(10, 0, 0, (n >> 1) % 10);
        const server = Uint8Array.of(192, 168, 1, 1);
        const [src, dst] = way === 0 ? [flow, server] : [server, flow];
        const ports = way === 0 ? { sport: 2000, dport: 443 } : { sport: 443, dport: 2000 };
        const ip = (ttl: number) => ipv4({ proto: 17, id: n & 0xffff, ttl, src, dst });
        const frame = (ttl: number) => stack([ethernet(0x0800), ip(ttl), udp(ports)], be32(n));
        const sentNs = n * 500_000;
        const arrivedNs = sentNs + DELAYS_NS[way]!;
        const [near, far] = way === 0 ? [a, b] : [b, a];
        const at = (ns: number, side: number) => START_NS + BigInt(ns) + (side === 1 ? off : 0n);
        if (running(sentNs, near)) sides[way]!.push({ timeNs: at(sentNs, way), frame: frame(64) });
        if (running(arrivedNs, far))
          sides[1 - way]!.push({ timeNs: at(arrivedNs, 1 - way), frame: frame(63) });
        if (running(sentNs, near) && running(arrivedNs, far)) expected[way]!++;
      }
      const [before, after] = sides.map((packets, i) => {
        const path = join(scratch, `${name}-${i}.pcap`);
        writeFileSync(
          path,
          pcapFile(
            packets.sort((p, q) => (p.timeNs < q.timeNs ? -1 : 1)),
            { nano: true },
          ),
        );
        return path;
      }) as [string, string];
      for (const clock of ["asis", "relative"] as const) {
        const { segment, reverse } = await compareCaptures({ before, after, clock });
        expect(segment).toMatchObject({ matched: expected[0], lost: 0, appeared: 0 });
        expect(reverse).toMatchObject({ matched: expected[1], lost: 0, appeared: 0 });
      }
    },
  );
});
