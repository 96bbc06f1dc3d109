/** Compares one interface of a capture, read by point, with the rows selected from the whole capture. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { readRows } from "../../../tests/support/capture-rows.ts";
import { ethernet, ipv4, stack, udp } from "../../../tests/support/packets.ts";
import { erfFile, PcapngWriter, pcapFile } from "../../../tests/support/pcap-writer.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-point-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

let files = 0;
function save(bytes: Uint8Array, name = `${files++}.pcapng`): string {
  const path = join(scratch, name);
  writeFileSync(path, bytes);
  return path;
}

const frame = (n: number, size = 20) =>
  stack([ethernet(0x0800), ipv4({ proto: 17, id: n & 0xffff }), udp()], new Uint8Array(size).fill(n));

/** Sections of either byte order with interfaces, all kinds of packet blocks and other blocks, in any order. */
const block = fc.record({
  kind: fc.constantFrom("enhanced", "old", "simple", "statistics", "other", "interface"),
  iface: fc.nat(3),
  size: fc.nat(600),
});
const section = fc.record({
  big: fc.boolean(),
  interfaces: fc.integer({ min: 1, max: 3 }),
  blocks: fc.array(block, { maxLength: 40 }),
});

function build(sections: readonly (typeof section extends fc.Arbitrary<infer S> ? S : never)[]): {
  bytes: Buffer;
  interfaces: number;
} {
  const w = new PcapngWriter();
  let ticks = 1_700_000_000_000_000n;
  let total = 0;
  for (const { big, interfaces, blocks } of sections) {
    w.section(big);
    let here = 0;
    const describeOne = () => {
      // Sections use the same names; within a section they differ.
      w.interface({ name: `eth${here++}` });
      total++;
    };
    for (let i = 0; i < interfaces; i++) describeOne();
    for (const { kind, iface, size } of blocks) {
      ticks += 10n;
      if (kind === "interface") describeOne();
      else if (kind === "simple") w.simple(frame(Number(ticks % 65_536n), size));
      else if (kind === "statistics") w.statistics(iface, BigInt(size));
      else if (kind === "other") w.block(0x0bad, new Uint8Array(size));
      else w[kind]({ interfaceId: iface, ticks, frame: frame(Number(ticks % 65_536n), size) });
    }
  }
  return { bytes: w.done(), interfaces: total };
}

describe("one interface of a capture", () => {
  test("gives the rows that the whole capture has of it, by number and by name", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(section, { minLength: 1, maxLength: 3 }), async (sections) => {
        const { bytes, interfaces } = build(sections);
        const path = save(bytes, "any.pcapng");
        const whole = await readRows(path);
        for (let i = 0; i < interfaces; i++) {
          const one = await readRows(`${path}#${i}`);
          expect(one.rows).toEqual(whole.rows.filter((r) => r.iface === i));
          expect(one.statistics).toMatchObject({ partial: null, file: `${path}#${i}` });
          expect(one.statistics.interfaces.map((p) => p.index)).toEqual([i]);
          const dropped = whole.statistics.interfaces[i]!.dropped;
          expect(one.statistics.interfaces[0]!.dropped).toBe(dropped);
        }
        const named = whole.statistics.interfaces.filter((p) => p.name === "eth1").map((p) => p.index);
        if (named.length === 0) return;
        const byName = await readRows(`${path}#eth1`);
        expect(byName.rows).toEqual(whole.rows.filter((r) => named.includes(r.iface)));
      }),
      { seed: 11, numRuns: 60 },
    );
  });

  test("counts packets, bytes and what is not used for that interface alone", async () => {
    const arp = stack([ethernet(0x0806)], new Uint8Array(46));
    const w = new PcapngWriter().section().interface().interface();
    for (let i = 0; i < 10; i++) w.enhanced({ interfaceId: i % 2, ticks: BigInt(i), frame: frame(i) });
    w.enhanced({ interfaceId: 1, ticks: 99n, frame: arp });
    const { statistics } = await readRows(`${save(w.done())}#0`);
    expect(statistics).toMatchObject({ packets: 5, ipPackets: 5, skipped: {}, lastNs: 8000n });
  });

  test("damage is found where it is in the file", async () => {
    const w = new PcapngWriter().section().interface().interface();
    for (let i = 0; i < 100; i++) w.enhanced({ interfaceId: i % 2, ticks: BigInt(i), frame: frame(i) });
    const sound = w.done();
    const files = [
      w.block(6, new Uint8Array(40), 7).done(),
      sound.subarray(0, sound.length - 10),
      Buffer.concat([sound, new PcapngWriter().block(6, new Uint8Array(40), 52, 56).done()]),
    ];
    for (const bytes of files) {
      const path = save(bytes);
      const whole = await readRows(path);
      const place = /at byte \d+: .*/.exec(whole.statistics.partial!)![0];
      for (const point of [0, 1]) {
        const one = await readRows(`${path}#${point}`);
        expect(one.statistics.partial).toBe(`${path}#${point}: ${place}`);
        expect(one.rows).toEqual(whole.rows.filter((r) => r.iface === point));
      }
    }
  });

  test("a block of an unknown kind with two lengths is passed over, as in the whole capture", async () => {
    const w = new PcapngWriter().section().interface().interface();
    w.block(0x0bad, new Uint8Array(8), 20, 24);
    for (let i = 0; i < 4; i++) w.enhanced({ interfaceId: i % 2, ticks: BigInt(i), frame: frame(i) });
    const path = save(w.done());
    expect((await readRows(path)).rows).toHaveLength(4);
    expect((await readRows(`${path}#1`)).rows.map((r) => r.ipid)).toEqual([1, 3]);
  });

  test("ERF records are separated by their interface number", async () => {
    const records = [0, 1, 1, 0, 3].map((iface, i) => ({
      timeNs: 1_700_000_000_000_000_000n + BigInt(i) * 1_000_000n,
      frame: frame(i),
      iface,
    }));
    const path = save(erfFile([...records, ...records]), "x.erf");
    expect((await readRows(`${path}#1`)).rows.map((r) => r.ipid)).toEqual([1, 2, 1, 2]);
    await expect(readRows(`${path}#2`)).rejects.toThrow(/has no interface '2'/);
  });

  test("an interface that is not there is refused with those that are", async () => {
    const w = new PcapngWriter().section().interface({ name: "eth0" }).interface();
    const path = save(w.enhanced({ ticks: 1n, frame: frame(1) }).done());
    for (const point of ["2", "eth1", ""]) {
      await expect(readRows(`${path}#${point}`)).rejects.toMatchObject({
        name: "UsageError",
        hint: "it has 0 (eth0), 1; write the number or the name behind the #",
      });
    }
    const plain = save(pcapFile([{ timeNs: 1n, frame: frame(1) }]), "plain.pcap");
    expect((await readRows(`${plain}#0`)).rows).toHaveLength(1);
    await expect(readRows(`${plain}#eth0`)).rejects.toMatchObject({ hint: /^it has 0;/ });
  });

  test("a name that two interfaces share is refused with their numbers", async () => {
    const path = save(new PcapngWriter().section().interface({ name: "a" }).interface({ name: "a" }).done());
    await expect(readRows(`${path}#a`)).rejects.toMatchObject({
      hint: `give its number: ${path}#0 or ${path}#1`,
    });
  });

  test("a file whose own name has a # is that file", async () => {
    const path = save(pcapFile([1, 2].map((n) => ({ timeNs: BigInt(n), frame: frame(n) }))), "take#1");
    expect((await readRows(path)).rows).toHaveLength(2);
    expect((await readRows(`${path}#0`)).rows).toHaveLength(2);
    await expect(readRows(join(scratch, "none#1"))).rejects.toThrow(/none#1: no such file/);
  });
});
