/** Captures of mirror ports: all or some packets twice, at one point or at both; the expected result follows from how the captures were written. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { Random } from "../../src/base/random.ts";
import { compareCaptures } from "../../src/compare/compare.ts";
import { be32, ethernet, ipv4, stack, udp } from "../support/packets.ts";
import { type PlainPacket, pcapFile } from "../support/pcap-writer.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-mirrors-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const START_NS = 1_700_000_000_000_000_000n;
const MS = 1e6;

interface Mirrors {
  seed?: number;
  at: ("before" | "after")[];
  twoWay?: boolean;
  /** Hosts answer each other, and all packets go from BEFORE to AFTER. */
  answers?: boolean;
  hops?: number;
  offsetNs?: number;
  /** Share of packets that the mirror copied only once. */
  once?: number;
  /** Minimum delay of the packets. */
  delayNs?: number;
  flows?: number;
  /** Share of packets that others overtake. */
  overtaken?: number;
  loss?: number;
}

function make({ seed = 1, at, twoWay = false, answers = false, hops = 0, offsetNs = 0, ...rest }: Mirrors) {
  const { once = 0, delayNs = MS, flows = 20, overtaken = 0, loss = 0.02 } = rest;
  const random = new Random(`mirrors ${seed}`);
  const sides = { before: [] as PlainPacket[], after: [] as PlainPacket[] };
  const truth = { forward: { sent: 0, lost: 0 }, reverse: { sent: 0, lost: 0 } };
  for (let n = 0; n < 3000; n++) {
    const back = (twoWay || answers) && random.bernoulli(0.5);
    const way = back && twoWay ? "reverse" : "forward";
    const flow = random.below(flows);
    const [client, server] = [
      Uint8Array.of(10, 0, (flow >> 7) & 127, 1 + (flow & 127)),
      Uint8Array.of(10, 9, 0, 1 + (flow % 5)),
    ];
    const [src, dst, sport, dport] = back
      ? [server, client, 443, 2000 + (flow % 60_000)]
      : [client, server, 2000 + (flow % 60_000), 443];
    const frame = (ttl: number) =>
      stack([ethernet(0x0800), ipv4({ proto: 17, id: n, ttl, src, dst }), udp({ sport, dport })], be32(n));
    const put = (side: "before" | "after", ns: number, ttl: number) => {
      const timeNs = START_NS + BigInt(Math.round(ns + (side === "after" ? offsetNs : 0)));
      sides[side].push({ timeNs, frame: frame(ttl) });
      const copy = at.includes(side) && !random.bernoulli(once);
      const apart = [1000, 3000, 20_000][random.below(3)] ?? 1000;
      if (copy) sides[side].push({ timeNs: timeNs + BigInt(apart), frame: frame(ttl) });
    };
    const [near, far] = way === "forward" ? (["before", "after"] as const) : (["after", "before"] as const);
    put(near, n * MS, 64);
    truth[way].sent++;
    if (random.bernoulli(loss)) truth[way].lost++;
    else {
      const laterNs = overtaken > 0 && random.bernoulli(overtaken) ? 3 * MS : 0;
      put(far, n * MS + delayNs + laterNs + random.exponential(0.1 * MS), 64 - hops);
    }
  }
  const [before, after] = (["before", "after"] as const).map((side) => {
    const path = join(scratch, `${side}.pcap`);
    sides[side].sort((a, b) => (a.timeNs < b.timeNs ? -1 : 1));
    writeFileSync(path, pcapFile(sides[side], { nano: true }));
    return path;
  }) as [string, string];
  return { truth, before, after };
}

describe.each([
  ["the first point", ["before"]],
  ["the second point", ["after"]],
  ["both", ["before", "after"]],
] as const)("each packet twice at %s", (_name, at) => {
  test.each([
    ["one way", { twoWay: false }],
    ["one way, AFTER 20 ms behind", { twoWay: false, offsetNs: -20 * MS }],
    ["one way over a router", { twoWay: false, hops: 1 }],
    ["both ways", { twoWay: true }],
    ["both ways, AFTER 20 ms ahead", { twoWay: true, offsetNs: 20 * MS }],
    ["both ways, AFTER an hour behind", { twoWay: true, offsetNs: -3600e9 }],
    ["questions and answers by one way", { answers: true }],
    ["questions and answers by one way, AFTER 1 ms behind", { answers: true, offsetNs: -1.05 * MS }],
    ["one in twenty without its copy", { twoWay: true, once: 0.05 }],
    ["seven of ten without their copies", { twoWay: true, once: 0.7 }],
    ["seven of ten without their copies, flows of one packet", { twoWay: true, once: 0.7, flows: 200_000 }],
    ["both ways, longer than captures are read ahead", { twoWay: true, delayNs: 30 * MS }],
  ])("%s", async (_case, mirrors) => {
    const { truth, ...files } = make({ at: [...at], ...mirrors });
    const report = await compareCaptures(files);
    const ways = [
      [truth.forward, report.segment, 1],
      [truth.reverse, report.reverse, -1],
    ] as const;
    for (const [way, found, sign] of ways) {
      if (way.sent === 0) {
        expect(found).toBeNull();
        continue;
      }
      // A copy of a packet is neither lost nor another packet.
      const matched = way.sent - way.lost;
      expect(found?.lost).toBe(way.lost);
      expect(found?.matched).toBeGreaterThanOrEqual(matched);
      // If a packet occurs twice at both points, its copies may be matched.
      expect(found?.matched).toBeLessThanOrEqual(at.length === 2 ? 1.1 * matched : matched);
      const offNs = sign * (("offsetNs" in mirrors ? mirrors.offsetNs : 0) ?? 0);
      const meanNs = ("delayNs" in mirrors ? mirrors.delayNs : MS) + 0.1 * MS;
      expect(Math.abs((found?.latency?.meanNs ?? Number.NaN) - offNs - meanNs)).toBeLessThan(0.03 * MS);
    }
    const { offset } = report.clock as unknown as { offset: { kind: string } };
    expect(offset.kind).not.toBe("unknown");
    if (!("offsetNs" in mirrors)) expect(report.clock.trust).toMatch(/good|usable/);
    expect(report.direction.order).not.toBe("swapped");
    const partly = "once" in mirrors && mirrors.once > 0.5;
    if (!partly) expect(report.notes.join()).toMatch(/contains nearly every packet twice/);
    else expect(report.notes.join()).toMatch(/contains \d+ packets twice/);
  });
});

test.each([6, 12, 16, 17, 20])(
  "a mirror of one packet in ten is recognised where few packets are overtaken: seed %i",
  async (seed) => {
    const made = make({
      seed,
      at: ["before", "after"],
      twoWay: true,
      once: 0.9,
      overtaken: 0.005,
      loss: 0.05,
    });
    const { truth, ...files } = made;
    const { segment, reverse } = await compareCaptures(files);
    const off = (found: typeof segment | null, lost: number) =>
      Math.max(0, Math.abs((found?.lost ?? 0) - lost) - (found?.undecided ?? 0));
    expect([off(segment, truth.forward.lost), off(reverse, truth.reverse.lost)]).toEqual([0, 0]);
  },
);
