/** Queries for packets, from captures to answers: observe with the sender's capture, then every kind of question. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import { Kernels } from "../../src/base/kernels.ts";
import { countOf } from "../../src/base/quantity.ts";
import { Random } from "../../src/base/random.ts";
import { CaptureReader } from "../../src/capture/reader.ts";
import { observeCommand } from "../../src/cli/observe.ts";
import { queryCommand } from "../../src/cli/query.ts";
import { OBSERVE_COVER } from "../../src/observe/observe-captures.ts";
import { observePoint } from "../../src/observe/observe-point.ts";
import type { PacketAnswer } from "../../src/query/packet/answer.ts";
import { askPackets } from "../../src/query/packet/ask.ts";
import type { PacketQuestion } from "../../src/query/packet/question.ts";
import { type SmallPacket, writePcap } from "../support/small-pcap.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-packets-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const START = 1_700_000_000_000_000_000n;
interface Sent extends SmallPacket {
  delayNs: number;
  lost: boolean;
  text: string;
}

const random = new Random("ask packets");
/** 4 s, six flows of 500 packets in turn; IPIDs increase per flow; one packet in 25 is lost. */
const sent: Sent[] = Array.from({ length: 3000 }, (_, n) => {
  const flow = n % 6;
  const src = `10.${flow % 2}.0.${flow + 1}`;
  return {
    timeNs: START + 200_000_000n + BigInt(n) * 1_250_000n,
    src,
    dst: "10.9.0.9",
    sport: 2000 + flow,
    dport: 53,
    ipid: 100 + Math.floor(n / 6),
    payload: Uint8Array.from({ length: 20 }, () => random.below(256)),
    delayNs: Math.round(random.lognormal(12, 0.8)) + flow * 100_000,
    lost: n % 25 === 7,
    text: `udp ${src}:${2000 + flow} > 10.9.0.9:53`,
  };
});
const arrived = sent.filter((p) => !p.lost);
const [before, after, records] = [join(root, "a.pcap"), join(root, "b.pcap"), join(root, "records")];
const average = (packets: readonly Sent[]) => packets.reduce((s, p) => s + p.delayNs, 0) / packets.length;

let digests: string[];

beforeAll(async () => {
  writePcap(before, sent);
  const order = arrived.map((p) => ({ ...p, timeNs: p.timeNs + BigInt(p.delayNs) }));
  writePcap(
    after,
    order.sort((x, y) => (x.timeNs < y.timeNs ? -1 : 1)),
  );
  const report = await observePoint({
    files: [after],
    sender: { files: [before], windowNs: 1e9 },
    point: "B",
    directory: records,
    estimators: ["maple"],
    parameters: { maple: "k=64,check=10,identity=both,index=true" },
    cut: { mode: "aligned", lengthNs: 1_000_000_000n },
  });
  expect(report.notes.join()).toContain(
    `${countOf(arrived.length, "packet")} found at the sender, 0 not found`,
  );
  const kernels = new Kernels();
  const reader = await CaptureReader.open(kernels, before, { cover: OBSERVE_COVER });
  digests = [];
  while (await reader.next()) {
    const at = reader.batch.column("digest") >>> 3;
    for (let i = 0; i < reader.batch.count; i++)
      digests.push(kernels.u64[at + i]!.toString(16).padStart(16, "0"));
  }
  reader.close();
});

async function ask(question: PacketQuestion): Promise<PacketAnswer> {
  const archive = RecordArchive.open(records);
  try {
    return await askPackets(archive, question);
  } finally {
    archive.close();
  }
}

describe("questions about packets", () => {
  it("finds packets of the sender's capture that arrive whole epochs later, as late as records say", async () => {
    const directory = join(root, "late");
    const few = arrived.slice(0, 600);
    // A queue that grows to 0.6 s, in epochs of 0.25 s.
    const late = few.map((p, n) => ({ ...p, queuedNs: 1_000_000 + n * 1_000_000 }));
    const [queued, behind] = [join(root, "queued.pcap"), join(root, "behind.pcap")];
    writePcap(queued, late);
    writePcap(
      behind,
      late.map((p) => ({ ...p, timeNs: p.timeNs + BigInt(p.queuedNs) })),
    );
    const observe = (point: string, windowNs: number) =>
      observePoint({
        ...{ files: [behind], sender: { files: [queued], windowNs }, point, directory },
        ...{ estimators: ["maple"], parameters: { maple: "k=16,check=12" } },
        cut: { mode: "aligned", lengthNs: 250_000_000n },
      });
    expect((await observe("B", 1e9)).notes.join()).not.toMatch(/longer .window/);
    // The queue is longer than the search window, so the slow packets have no delay.
    const short = await observe("short", 0.5e9);
    expect(short.notes.join()).toMatch(
      /delays reach 500 ms, and none beyond 500 ms is found.* use a longer .window/,
    );
    const archive = RecordArchive.open(directory);
    for (const file of [queued, behind]) {
      const answer = await askPackets(archive, {
        packets: { by: "capture", file },
        group: "all",
        point: "B",
      });
      expect(answer).toMatchObject({ packets: 600, missing: 0, epochs: { offsetNs: 0 } });
    }
    archive.close();
  });

  it("all packets as one: quantiles without a list of flows, and the part that has no delay is counted", async () => {
    const plain = join(root, "plain");
    // The capacity is too small, so the rest of an epoch is sampled.
    for (const [point, parameters] of [
      ["B", ""],
      ["small", "capacity=256"],
    ] as const)
      await observePoint({
        ...{ files: [after], sender: { files: [before], windowNs: 1e9 }, point, directory: plain },
        ...{ estimators: ["maple"], parameters: { maple: parameters } },
        cut: { mode: "aligned", lengthNs: 1_000_000_000n },
      });
    const archive = RecordArchive.open(plain);
    const all = { packets: { by: "listed" }, group: "all" } as const;
    const answers = {
      plain: await askPackets(archive, { ...all, point: "B" }),
      listed: await ask(all),
      without: await ask({ ...all, worst: 0 }),
      small: await askPackets(archive, { ...all, point: "small" }),
    };
    await expect(askPackets(archive, { ...all, point: "B", group: "flow" })).rejects.toThrow("must be named");
    archive.close();
    const sorted = arrived.map((p) => p.delayNs).sort((a, b) => a - b);
    for (const { groups, missing } of [answers.plain, answers.without, answers.listed]) {
      const [group] = groups;
      expect(group).toMatchObject({ text: "all packets", packets: arrived.length, coverage: 1 });
      expect(missing).toBe(0);
      expect(group!.latency!.meanNs).toBeCloseTo(average(arrived), -2);
      for (const [share, name] of [
        [0.5, "p50Ns"],
        [0.9, "p90Ns"],
        [0.99, "p99Ns"],
      ] as const) {
        const ratio = group!.latency![name] / sorted[Math.floor(share * sorted.length)]!;
        // 64 groups of delays, each a few percent wide.
        expect(Math.abs(ratio - 1)).toBeLessThan(0.08);
      }
    }
    const listed = answers.listed.groups[0]!.latency!;
    for (const [name, value] of Object.entries(answers.without.groups[0]!.latency!))
      expect(value).toBeCloseTo(listed[name as keyof typeof listed], 3);
    expect(answers.plain.groups[0]!.worst).toEqual([]);
    expect(answers.listed.groups[0]!.worst).toHaveLength(5);
    expect(answers.small.groups[0]!.packets).toBe(arrived.length);
    expect(answers.small.missing).toBeGreaterThan(1000);
  });

  it("by digest: each that arrived is answered within its bounds, lost ones are not", async () => {
    const chosen = Array.from({ length: 100 }, (_, i) => 29 * i);
    const answer = await ask({ packets: { by: "digest", digests: chosen.map((n) => digests[n]!) } });
    expect(answer.packets).toBe(100);
    const lost = chosen.filter((n) => sent[n]!.lost).length;
    expect(lost).toBeGreaterThan(0);
    // Five epochs; each accepts a foreign packet with probability 2^-10.
    expect(answer.missing).toBeGreaterThanOrEqual(lost - 1);
    expect(answer.matched + answer.multi).toBeGreaterThanOrEqual(100 - lost);
    const byDigest = new Map(answer.groups.map((g) => [g.text, g]));
    for (const n of chosen) {
      const { latency, multi } = byDigest.get(digests[n]!)!;
      if (sent[n]!.lost || multi > 0) continue;
      expect(latency!.lowNs).toBeLessThanOrEqual(sent[n]!.delayNs);
      expect(latency!.highNs).toBeGreaterThanOrEqual(sent[n]!.delayNs);
    }
    expect(answer.bytes.question).toBe(4 + 2 + 16 + 1 + 800);
  });

  it.each([-7_300_000_000n, -420_000_000n, 420_000_000n, 86_400_000_000_000n])(
    "by a capture whose clock is %s ns off: the offset is found, and the answers are the same",
    async (offsetNs) => {
      const file = join(root, `off-${offsetNs}.pcap`);
      writePcap(
        file,
        sent.map((p) => ({ ...p, timeNs: p.timeNs + offsetNs })),
      );
      const [right, moved] = [
        await ask({ packets: { by: "capture", file: before } }),
        await ask({ packets: { by: "capture", file } }),
      ];
      expect(right.epochs.offsetNs).toBe(0);
      expect(right.notes.join()).not.toMatch(/clock/);
      expect(moved.notes.join()).toMatch(
        offsetNs < 0n ? /clock is about .* behind/ : /clock is about .* ahead of/,
      );
      // Somewhere within the epoch; it only matters which epochs are asked.
      expect(Math.abs(moved.epochs.offsetNs + Number(offsetNs))).toBeLessThan(1e8);
      expect(right.matched + right.multi).toBeGreaterThanOrEqual(arrived.length);
      expect(moved.matched + moved.multi).toBeGreaterThanOrEqual(arrived.length);
      expect(moved.missing).toBeGreaterThan(sent.length - arrived.length - 10);
      for (const group of right.groups) {
        const same = moved.groups.find((g) => g.text === group.text);
        expect(same?.latency?.meanNs).toBeCloseTo(group.latency?.meanNs ?? 0, -4);
      }
    },
  );

  it("by a capture that never came by: no offset is made up", async () => {
    const file = join(root, "foreign.pcap");
    writePcap(
      file,
      sent.map((p) => ({ ...p, src: "10.77.0.1" })),
    );
    const answer = await ask({ packets: { by: "capture", file } });
    expect(answer.epochs.offsetNs).toBe(0);
    expect(answer.matched + answer.multi).toBeLessThan(30);
  });

  it("by flow: all its packets, from the list that the records keep", async () => {
    const { text } = sent[2]!;
    const mine = arrived.filter((p) => p.text === text);
    const answer = await ask({ packets: { by: "flow", flows: [text], ipids: null } });
    expect([answer.matched, answer.multi, answer.missing]).toEqual([mine.length, 0, 0]);
    const [group] = answer.groups;
    expect(group).toMatchObject({
      text,
      packets: mine.length,
      coverage: 1,
      guesses: 0,
      key: { src: "10.0.0.3", sport: 2002 },
    });
    expect(group!.lowNs!).toBeLessThanOrEqual(average(mine));
    expect(group!.highNs!).toBeGreaterThanOrEqual(average(mine));
    expect(group!.latency!.meanNs / average(mine)).toBeCloseTo(1, 1);
    const slowest = [...mine].sort((a, b) => b.delayNs - a.delayNs)[0]!;
    expect(group!.worst[0]!.lowNs).toBeLessThanOrEqual(slowest.delayNs);
    expect(group!.worst[0]!.highNs).toBeGreaterThanOrEqual(slowest.delayNs);
    // Lost packets split the IPID ranges; still far fewer bytes than digests.
    expect(answer.bytes.question).toBeLessThan((8 * mine.length) / 15);
  });

  it("by flow and IPIDs: the packets of a range", async () => {
    const { text } = sent[3]!;
    const ipids = [{ first: 150, last: 199 }];
    const mine = arrived.filter((p) => p.text === text && p.ipid >= 150 && p.ipid <= 199);
    const answer = await ask({ packets: { by: "flow", flows: [text], ipids }, group: "packet" });
    expect(answer.packets).toBe(mine.length);
    expect(answer.groups.map((g) => g.text)).toContain(`${text} ipid ${mine[0]!.ipid}`);
    for (const { latency, text: name } of answer.groups) {
      const { delayNs } = mine.find((p) => name.endsWith(` ipid ${p.ipid}`))!;
      expect(latency!.lowNs <= delayNs && delayNs <= latency!.highNs).toBe(true);
    }
  });

  it("by a capture of the sender with a filter, by flow, sub-flow, host and prefix", async () => {
    const packets = { by: "capture", file: before, filter: "src net 10.1.0.0/16" } as const;
    const mine = sent.filter((p) => p.src.startsWith("10.1."));
    const got = mine.filter((p) => !p.lost);
    for (const [group, groups] of [
      ["flow", 3],
      ["subflow/10", 150],
      ["host", 3],
      ["prefix/16", 1],
      ["all", 1],
    ] as const) {
      const answer = await ask({ packets, group });
      expect(answer.packets).toBe(mine.length);
      // Foreign packets: the lost ones, and those near an edge in the wrong epoch.
      expect(answer.matched + answer.multi - got.length).toBeGreaterThanOrEqual(0);
      expect(answer.matched + answer.multi - got.length).toBeLessThan(4);
      expect(answer.multi).toBeLessThan(4);
      expect(answer.groups.length).toBe(groups);
      expect(answer.groups.reduce((n, g) => n + g.packets, 0)).toBe(mine.length);
    }
    const [prefix] = (await ask({ packets, group: "prefix/16" })).groups;
    expect(prefix!.text).toBe("10.1.0.0/16 > 10.9.0.0/16");
    expect(prefix!.latency!.meanNs / average(got)).toBeGreaterThan(0.99);
    expect(prefix!.latency!.meanNs / average(got)).toBeLessThan(1.01);
    const stdev = Math.sqrt(got.reduce((s, p) => s + (p.delayNs - average(got)) ** 2, 0) / got.length);
    expect(prefix!.latency!.stdevNs / stdev).toBeGreaterThan(0.98);
    expect(prefix!.latency!.stdevNs / stdev).toBeLessThan(1.02);
    const p90 = got.map((p) => p.delayNs).sort((a, b) => a - b)[Math.floor(0.9 * got.length)]!;
    expect(prefix!.latency!.p90Ns / p90).toBeGreaterThan(0.95);
    expect(prefix!.latency!.p90Ns / p90).toBeLessThan(1.05);
    // Times of the slowest packets come from the capture.
    const [worst] = (await ask({ packets, group: "all" })).groups[0]!.worst;
    expect(mine.some((p) => p.timeNs.toString() === worst!.timeNs)).toBe(true);
  });

  it("of all listed flows", async () => {
    const answer = await ask({ packets: { by: "listed" }, group: "prefix/16", top: 1 });
    expect(answer.matched).toBe(arrived.length);
    expect(answer.groups.length).toBe(1);
  });

  it("within a time: only epochs that reach into it are asked, and little is read", async () => {
    const n = 1500;
    const { timeNs } = sent[n]!;
    const answer = await ask({
      packets: { by: "digest", digests: [digests[n]!] },
      fromNs: timeNs,
      toNs: timeNs + 1_000_000n,
    });
    expect(answer.epochs.asked).toBeLessThanOrEqual(2);
    expect(answer.matched).toBe(1);
    expect(answer.bytes.read).toBeLessThan(5000);
  });

  it("refuses a record with a bit that is not as it was written, wherever that bit is", async () => {
    const archive = RecordArchive.open(records);
    const [entry, ...others] = archive.list().entries;
    archive.close();
    const whole = readFileSync(entry!.file);
    const flips = new Random("flips");
    try {
      for (let i = 0; i < 20; i++) {
        const damaged = Uint8Array.from(whole);
        damaged[flips.below(whole.length)]! ^= 1 << flips.below(8);
        writeFileSync(entry!.file, damaged);
        const answer = await ask({ packets: { by: "capture", file: before } });
        expect(answer.epochs.refused.map((r) => r.file)).toEqual([entry!.file]);
        expect(answer.epochs.asked).toBe(others.length);
      }
    } finally {
      writeFileSync(entry!.file, whole);
    }
    expect((await ask({ packets: { by: "capture", file: before } })).epochs.refused).toEqual([]);
  });

  it("says what is wrong with a question", async () => {
    await expect(ask({ packets: { by: "digest", digests: ["xyz"] } })).rejects.toThrow(/hexadecimal/);
    await expect(ask({ packets: { by: "listed" }, point: "C" })).rejects.toThrow(/no record answers/);
    await expect(ask({ packets: { by: "listed" }, fromNs: START + 100_000_000_000n })).rejects.toThrow(
      /no record/,
    );
    await expect(ask({ packets: { by: "flow", flows: ["tcp 1.2.3.4"], ipids: null } })).rejects.toThrow(
      /not understood/,
    );
    const unknown = await ask({
      packets: { by: "flow", flows: ["udp 1.2.3.4:5 > 6.7.8.9:10"], ipids: null },
    });
    expect(unknown.groups[0]).toMatchObject({ packets: 0, latency: null, lowNs: null });
    expect(unknown.groups[0]!.reason).toMatch(/no-packets/);
  });

  it("of a whole flow with what is kept by default: every packet's delay, no IPIDs, and no flow that is not named", async () => {
    const directory = join(root, "default");
    const report = await observePoint({
      files: [after],
      sender: { files: [before], windowNs: 1e9 },
      point: "B",
      directory,
      estimators: ["maple"],
      cut: { mode: "aligned", lengthNs: 1_000_000_000n },
    });
    expect(report.notes.join()).toMatch(/maple: \d+\.\d bit per packet: /);
    const archive = RecordArchive.open(directory);
    const { text } = sent[2]!;
    const mine = arrived.filter((p) => p.text === text);
    const flow = { by: "flow", flows: [text, "udp 1.2.3.4:5 > 6.7.8.9:10"], ipids: null } as const;
    const answer = await askPackets(archive, { packets: flow });
    expect([answer.matched, answer.multi, answer.missing]).toEqual([mine.length, 0, 0]);
    expect(answer.groups[0]!.latency!.meanNs / average(mine)).toBeCloseTo(1, 1);
    expect(answer.groups[1]).toMatchObject({ packets: 0, latency: null });
    const slowest = Math.max(...mine.map((p) => p.delayNs));
    expect(answer.groups[0]!.worst[0]!.lowNs).toBeLessThanOrEqual(slowest);
    expect(answer.groups[0]!.worst[0]!.highNs).toBeGreaterThanOrEqual(slowest);
    await expect(askPackets(archive, { packets: flow, group: "subflow/10" })).rejects.toThrow(/order/);
    const ranged = { ...flow, ipids: [{ first: 1, last: 9 }] };
    await expect(askPackets(archive, { packets: ranged })).rejects.toThrow(/not by IPID/);
    await expect(askPackets(archive, { packets: { by: "listed" } })).rejects.toThrow(/must be named/);
    archive.close();
  });

  it("refuses by name what a store cannot answer", async () => {
    const directory = join(root, "digests");
    await observePoint({
      files: [after],
      sender: { files: [before], windowNs: 1e9 },
      point: "B",
      directory,
      estimators: ["maple"],
      parameters: { maple: "identity=digest,index=false" },
      cut: { mode: "aligned", lengthNs: 1_000_000_000n },
    });
    const archive = RecordArchive.open(directory);
    const packets = { by: "flow", flows: [sent[0]!.text], ipids: null } as const;
    await expect(askPackets(archive, { packets })).rejects.toThrow(/by digest/);
    archive.close();
  });
});

describe("the commands", () => {
  it("observe with --sender, then query by packet, flow and capture", async () => {
    const lines: string[] = [];
    const write = vi.spyOn(process.stdout, "write").mockImplementation((text) => {
      lines.push(String(text));
      return true;
    });
    const directory = join(root, "cli");
    const node = ["node", "hoptime"];
    try {
      const args = [after, "--sender", before, "--point", "B", "--estimators", "maple", "--to", directory];
      await observeCommand().parseAsync([...node, ...args]);
      const query = async (...rest: string[]) => {
        lines.length = 0;
        await queryCommand().parseAsync([...node, directory, ...rest]);
        return lines.join("");
      };
      const flow = JSON.parse(await query("--flow", sent[0]!.text, "--json"));
      expect(flow).toMatchObject({ format: "hoptime.packet-answer/1", multi: 0, missing: 0 });
      expect(await query("--packet", digests[100]!, digests[101]!)).toContain(digests[100]!);
      expect(await query("--capture", before, "--filter", "udp", "--group", "prefix/16")).toContain(
        "10.1.0.0/16 > 10.9.0.0/16",
      );
      const ofFlow = (text: string) => arrived.filter((p) => p.text === text).map((p) => p.delayNs);
      const truth = [...new Set(sent.map((p) => p.text))].map((text) => {
        const delays = ofFlow(text).sort((x, y) => x - y);
        return { text, p99: delays[Math.ceil(0.99 * delays.length) - 1]! };
      });
      truth.sort((x, y) => y.p99 - x.p99);
      const sorted = ["--between", "A", "B", "--top", "6", "--sort", "p99"];
      lines.length = 0;
      await queryCommand().parseAsync([...node, records, ...sorted, "--json"]);
      const { groups, notes } = JSON.parse(lines.join(""));
      const p99s = groups.map((g: { quantiles: { share: number; valueNs: number }[] }) => g.quantiles[2]);
      for (const [i, { text, p99 }] of truth.entries()) {
        const at = groups.findIndex((g: { text: string }) => g.text === text);
        expect(p99s[at].share).toBe(0.99);
        // 64 groups of delays, each a few percent wide.
        expect(Math.abs(p99s[at].valueNs / p99 - 1), `${text}, ${i}`).toBeLessThan(0.25);
      }
      const values = p99s.map((q: { valueNs: number }) => q.valueNs);
      expect(values).toEqual([...values].sort((x, y) => y - x));
      expect(notes.join()).toContain("p99 of flows: from records of packets (maple)");
      await expect(query("--packet", digests[0]!, "--flow", "x")).rejects.toThrow(/exclude each other/);
      await expect(query()).rejects.toThrow(/what to report is missing/);
    } finally {
      write.mockRestore();
    }
  });
});
