import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, describe, expect, test } from "vitest";
import { runCli } from "../support/cli.ts";
import * as p from "../support/packets.ts";
import { PcapngWriter, type PcapOptions, pcapFile } from "../support/pcap-writer.ts";
import { pcapngFrames } from "../support/pcapng-comments.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-points-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const START = 1_700_000_000_000_000_000n;
const PACKETS = 400;
/** Lost between the first two points. */
const isLost = (i: number) => i % 100 === 50;
const udp = (i: number) =>
  p.stack(
    [p.ethernet(0x0800), p.ipv4({ proto: 17, id: i }), p.udp({ sport: 1000 + (i % 5), dport: 9 })],
    Uint8Array.from({ length: 60 }, (_, k) => (i * 31 + k * 7) & 0xff),
  );

function save(name: string, bytes: Uint8Array): string {
  const path = join(scratch, name);
  writeFileSync(path, bytes);
  return path;
}

/** pcapng with these interfaces; packets pass all of them, 250 µs from one to the next. `quiet` ones have no packets. */
function pcapng(names: (string | undefined)[], quiet: readonly number[] = []): Buffer {
  const w = new PcapngWriter().section();
  for (const name of names) w.interface({ resolution: 9, ...(name === undefined ? {} : { name }) });
  const busy = names.flatMap((_, k) => (quiet.includes(k) ? [] : [k]));
  for (let i = 0; i < PACKETS; i++)
    for (const [hop, interfaceId] of busy.entries())
      if (hop === 0 || !isLost(i))
        w.enhanced({
          interfaceId,
          ticks: START + BigInt(i) * 1_000_000n + BigInt(hop) * 250_000n,
          frame: udp(i),
        });
  return w.done();
}

/** `tcpdump -i any`: packets forwarded by a router, once per interface; some packets have a VLAN tag after the cooked header. */
function cooked(indexes: readonly number[], link = 276, options: PcapOptions = {}): Buffer {
  return pcapFile(cookedPackets(indexes, link), { link, ...options });
}

function cookedPackets(indexes: readonly number[], link: number): { timeNs: bigint; frame: Uint8Array }[] {
  const packets: { timeNs: bigint; frame: Uint8Array }[] = [];
  for (let i = 0; i < PACKETS; i++)
    for (const [hop, index] of indexes.entries()) {
      if (hop > 0 && isLost(i)) continue;
      const tagged = i % 3 === 0;
      const proto = p.be16(tagged ? 0x8100 : 0x0800);
      const header =
        link === 276
          ? p.bytes(proto, p.be16(0), p.be32(index), p.be16(1), 0, 6, new Uint8Array(8))
          : p.bytes(p.be16(0), p.be16(1), p.be16(6), new Uint8Array(8), proto);
      const tag = tagged ? p.bytes(p.be16(7), p.be16(0x0800)) : new Uint8Array(0);
      packets.push({
        timeNs: START + BigInt(i) * 1_000_000n + BigInt(hop) * 250_000n,
        frame: p.bytes(header, tag, udp(i).subarray(14)),
      });
    }
  return packets;
}

const hoptime = (...args: string[]) => runCli(args);

function segmentOf(...args: string[]) {
  const { status, out, err } = hoptime("compare", ...args, "--json");
  expect(err).toBe("");
  expect(status).toBe(0);
  const { segment, before, after } = JSON.parse(out);
  expect(segment).toMatchObject({ sent: PACKETS, matched: PACKETS - 4, lost: 4, appeared: 0 });
  expect(segment.latency).toMatchObject({ minNs: 250_000, maxNs: 250_000 });
  return [before.file, after.file];
}

describe("pcapng", () => {
  test("interfaces by name, by number, and both where there are two", () => {
    const both = save("both.pcapng", pcapng(["eth0", "eth1"]));
    segmentOf(`${both}#eth0`, `${both}#eth1`);
    segmentOf(`${both}#0`, `${both}#eth1`);
    expect(segmentOf(both)).toEqual([`${both}#0`, `${both}#1`]);
    segmentOf(save("both.pcapng.gz", gzipSync(pcapng(["eth0", "eth1"]))));
  });

  test("interfaces that saw no packet do not count", () => {
    const file = save("quiet.pcapng", pcapng(["lo", "eth0", "wlan0", "eth1"], [0, 2]));
    expect(segmentOf(file)).toEqual([`${file}#1`, `${file}#3`]);
  });

  test("interfaces of two sections", () => {
    const [a, b] = [new PcapngWriter().section().interface({ resolution: 9 }), new PcapngWriter()];
    b.section(true).interface({ resolution: 9 });
    for (let i = 0; i < PACKETS; i++) {
      const ticks = START + BigInt(i) * 1_000_000n;
      a.enhanced({ ticks, frame: udp(i) });
      if (!isLost(i)) b.enhanced({ ticks: ticks + 250_000n, frame: udp(i) });
    }
    segmentOf(save("sections.pcapng", Buffer.concat([a.done(), b.done()])));
  });

  test("the second point is found however late its packets begin", () => {
    const w = new PcapngWriter().section().interface({ resolution: 9 }).interface({ resolution: 9 });
    const late = 110_000;
    for (let i = 0; i < late; i++) w.enhanced({ ticks: START + BigInt(i) * 1000n, frame: udp(i & 0xffff) });
    const ticks = START + BigInt(late) * 1000n;
    for (let i = 0; i < 50; i++) {
      w.enhanced({ ticks: ticks + BigInt(i) * 1_000_000n, frame: udp(i) });
      w.enhanced({ interfaceId: 1, ticks: ticks + BigInt(i) * 1_000_000n + 250_000n, frame: udp(i) });
    }
    const { status, out } = hoptime("compare", save("late.pcapng", w.done()), "--json", "--window", "1ms");
    expect(status).toBe(0);
    expect(JSON.parse(out).segment.received).toBe(50);
  });

  test("more or fewer than two are refused, with the list and what to type", () => {
    const three = save("three.pcapng", pcapng(["eth0", undefined, "wan"]));
    const { status, err } = hoptime("compare", three);
    expect(status).toBe(2);
    expect(err).toContain(
      `${three} holds 3 points, not two: 0 (eth0), 1, 2 (wan); choose two: hoptime compare ${three}#0 ${three}#1`,
    );
    segmentOf(`${three}#eth0`, `${three}#1`);
    const one = hoptime("compare", save("one.pcapng", pcapng(["eth0"])));
    expect(one.status).toBe(2);
    expect(one.err).toMatch(/one\.pcapng holds one point, not two; hoptime compare BEFORE AFTER/);
    const many = hoptime(
      "compare",
      save("many.pcapng", pcapng(Array.from({ length: 30 }, (_, i) => `if${i}`))),
    );
    expect(many.err).toMatch(/holds 30 points, not two: 0 \(if0\), .*19 \(if19\) and 10 more;/);
  });

  test("names with a #, a space, a backslash or an escape code", () => {
    const [evil, odd] = ["\x1b[31meth0\x07\u202e", "\\Device\\NPF_{1 2}#x"];
    const file = save("odd#name.pcapng", pcapng([evil, odd]));
    segmentOf(`${file}#${evil}`, `${file}#${odd}`);
    const { status, err } = hoptime("compare", `${file}#0`, `${file}#eth9`);
    expect(status).toBe(2);
    expect(err).toMatch(/has no interface 'eth9'.*it has 0 \(\\x1b\[31meth0\\x07.*\), 1 \(\\Device/);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what must not be there
    expect(err).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
    const three = hoptime("compare", save("three-odd.pcapng", pcapng([evil, odd, "c"])));
    expect(three.err).toMatch(/3 points, not two: 0 \(\\x1b\[31m/);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what must not be there
    expect(three.err).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
  });

  test("two interfaces of one name are chosen by number", () => {
    const file = save("twins.pcapng", pcapng(["eth0", "eth0"]));
    const { status, err } = hoptime("compare", `${file}#eth0`, `${file}#1`);
    expect(status).toBe(2);
    expect(err).toContain(
      `more than one interface is called 'eth0'; give its number: ${file}#0 or ${file}#1`,
    );
    segmentOf(file);
  });
});

describe("captures of all interfaces (Linux cooked)", () => {
  test("by number, and both where there are two; with VLAN tags, either byte order", () => {
    const file = save("any.pcap", cooked([2, 300]));
    segmentOf(`${file}#2`, `${file}#300`);
    expect(segmentOf(file)).toEqual([`${file}#2`, `${file}#300`]);
    segmentOf(save("any-big.pcap", cooked([2, 300], 276, { bigEndian: true, nano: true })));
  });

  test("in pcapng, too, where one interface stands for all", () => {
    const packets = cookedPackets([2, 300], 276);
    const w = new PcapngWriter().section().interface({ resolution: 9, name: "any", link: 276 });
    for (const { timeNs, frame } of packets) w.enhanced({ interfaceId: 0, ticks: timeNs, frame });
    const file = save("any.pcapng", w.done());
    segmentOf(`${file}#2`, `${file}#300`);
    expect(segmentOf(file)).toEqual([`${file}#2`, `${file}#300`]);
    const { points } = JSON.parse(hoptime("inspect", file, "--json").out);
    expect(points.map((q: { index: number; packets: number }) => [q.index, q.packets])).toEqual([
      [2, PACKETS],
      [300, PACKETS - 4],
    ]);
    // The whole file under its own name.
    const whole = JSON.parse(hoptime("compare", `${file}#any`, `${file}#300`, "--json").out);
    expect(whole.before.packets).toBe(2 * PACKETS - 4);
    const { status, err } = hoptime("compare", `${file}#eth77`, `${file}#2`);
    expect(status).toBe(2);
    expect(err).toMatch(/has no interface 'eth77'; it has 2, 300; write the number behind the #/);
  });

  test("a name is that of this host; one that it does not have is refused with what to type", () => {
    const file = save("names.pcap", cooked([1, 7]));
    // Number 1 is the loopback interface of every Linux host.
    if (networkInterfaces()["lo"]) segmentOf(`${file}#lo`, `${file}#7`);
    const { status, err } = hoptime("compare", `${file}#eth77`, `${file}#7`);
    expect(status).toBe(2);
    expect(err).toMatch(
      /has no interface 'eth77'; it has 1, 7; write the number behind the # \('ip link' on the capturing host/,
    );
  });

  test("inspect lists the interfaces that can be typed", () => {
    const file = save("list.pcap", cooked([2, 300]));
    const { points } = JSON.parse(hoptime("inspect", file, "--json").out);
    expect(points.map((q: { index: number; packets: number }) => [q.index, q.packets])).toEqual([
      [2, PACKETS],
      [300, PACKETS - 4],
    ]);
    expect(hoptime("inspect", file).out).toContain(`hoptime compare ${file}#2 ${file}#300`);
  });

  test("the first cooked format does not record the interface", () => {
    const file = save("v1.pcap", cooked([2], 113));
    const { status, err } = hoptime("compare", `${file}#eth0`, `${file}#3`);
    expect(status).toBe(2);
    expect(err).toMatch(/has no interface 'eth0'.*Linux cooked v1 does not record the interface.*LINUX_SLL2/);
  });

  test("frame numbers and comments are those of the whole file", () => {
    const file = save("frames.pcap", cooked([2, 300]));
    const target = join(scratch, "frames.pcapng");
    const { out } = hoptime("compare", file, "--worst", "3", "--json", "--annotate", target);
    const { worst } = JSON.parse(out);
    for (const w of worst.slowest) expect(w.afterFrame).toBe(w.beforeFrame + 1);
    const frames = pcapngFrames(target);
    expect(frames.filter((f) => f.comments.join() === "lost").length).toBe(4);
    expect(frames.every((f) => /^lost$|^delay 0\.250000 ms, frame \d+$/.test(f.comments.join()))).toBe(true);
    expect(readFileSync(file).length).toBeGreaterThan(0);
  });
});
