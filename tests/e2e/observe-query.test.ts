/** Two points observed separately and queried together: from capture files to answers, through records on disk. */
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeEach, describe, expect, it, vi } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import { UsageError } from "../../src/base/errors.ts";
import { compareCommand } from "../../src/cli/compare.ts";
import { observeCommand } from "../../src/cli/observe.ts";
import { queryCommand } from "../../src/cli/query.ts";
import type { CompareReport } from "../../src/compare/report.ts";
import { controlStream, encodeControl } from "../../src/epoch/control.ts";
import type { Estimator } from "../../src/estimators/estimator.ts";
import { ESTIMATORS } from "../../src/estimators/table.ts";
import { type ObservePointOptions, observePoint } from "../../src/observe/observe-point.ts";
import type { Answer } from "../../src/query/segment/answer.ts";
import { askArchive } from "../../src/query/segment/ask.ts";
import type { Question } from "../../src/query/segment/question.ts";
import { countingEstimator } from "../support/counting-estimator.ts";
import { type SmallPacket, writePcap } from "../support/small-pcap.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-observe-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let directory = "";
let number = 0;
beforeEach(() => {
  directory = join(root, `records-${number++}`);
});

const START = 1_700_000_000_000_000_000n;
const TABLE: readonly Estimator[] = [countingEstimator];

interface Sent extends SmallPacket {
  delayNs: bigint;
  lost: boolean;
}

/** 12 s of four flows; flow i is delayed by (i + 1) ms + its packet's second in us; `lose` removes packets. */
function traffic(lose: (n: number) => boolean = () => false): Sent[] {
  return Array.from({ length: 1200 }, (_, n) => {
    const flow = n % 4;
    const timeNs = START + 300_000_000n + BigInt(n) * 10_000_000n;
    return {
      timeNs,
      src: `10.0.${flow % 2}.${flow + 1}`,
      dst: "10.2.0.9",
      sport: 1000 + flow,
      dport: 53,
      ipid: n,
      delayNs: BigInt(flow + 1) * 1_000_000n + ((timeNs - START) / 1_000_000_000n) * 1000n,
      lost: lose(n),
    };
  });
}

function captures(name: string, packets: readonly Sent[]): { before: string; after: string } {
  const [before, after] = [join(root, `${name}-a.pcap`), join(root, `${name}-b.pcap`)];
  writePcap(before, packets);
  const arriving = packets.filter((p) => !p.lost).map((p) => ({ ...p, timeNs: p.timeNs + p.delayNs }));
  writePcap(
    after,
    arriving.sort((x, y) => (x.timeNs < y.timeNs ? -1 : 1)),
  );
  return { before, after };
}

const observe = (point: string, file: string, change: Partial<ObservePointOptions> = {}) =>
  observePoint({
    files: [file],
    point,
    directory,
    estimators: ["counting"],
    cut: { mode: "aligned", lengthNs: 1_000_000_000n },
    table: TABLE,
    ...change,
  });

const ask = (question: Partial<Question> = {}, table = TABLE): Answer =>
  askArchive(RecordArchive.open(directory), { between: ["A", "B"], ...question }, { table });

function hintOf(run: () => unknown): string | undefined {
  try {
    run();
  } catch (error) {
    return (error as UsageError).hint;
  }
  return undefined;
}

const mean = (packets: readonly Sent[]) =>
  Number(packets.reduce((s, p) => s + p.delayNs, 0n)) / packets.length;

describe("two points, observed and asked", () => {
  it("give the mean delay between them, over all epochs and in each", async () => {
    const packets = traffic();
    const { before, after } = captures("plain", packets);
    const report = await observe("A", before);
    expect(report).toMatchObject({ epochs: 13, records: { stored: 13, unchanged: 0 }, notes: [] });
    await observe("B", after);
    const answer = ask();
    const counting = answer.estimates["counting"]!;
    expect(counting).toMatchObject({ sent: 1200, received: 1200, lost: 0, epochs: 13 });
    // Packets in flight at a cut are in the next epoch at B: those epochs' flows do not add up, and are excluded.
    expect(counting.coverage).toBeGreaterThan(0.1);
    expect(counting.series).toHaveLength(13);
    expect(answer.epochs).toMatchObject({ used: 13, edges: 2, missing: [], refused: [] });
    expect(answer.points.map((p) => [p.name, p.role, p.packets, p.records])).toEqual([
      ["A", "sender", 1200, 13],
      ["B", "receiver", 1200, 13],
    ]);
    expect(answer.notes).toContainEqual(expect.stringMatching(/2 epochs a capture began or ended/));
  });

  it("give it exactly where no packet is in flight at a cut", async () => {
    // Every second has 100 packets at 0.005 .. 0.995 s, delayed by at most 4.012 ms.
    const packets = traffic().map((p) => ({ ...p, timeNs: p.timeNs + 5_000_000n }));
    const { before, after } = captures("exact", packets);
    await observe("A", before);
    await observe("B", after);
    const { estimates, groups } = ask({ top: 3, parameters: { counting: "width=100" } });
    const { latency, coverage, lossRate } = estimates["counting"]!;
    expect(latency!.meanNs).toBeCloseTo(mean(packets), 3);
    // Half widths of 100 ns over 13 epochs of 70, 100 x 11 and 30 packets.
    const width = (100 * Math.sqrt(70 ** 2 + 11 * 100 ** 2 + 30 ** 2)) / 1200;
    expect(latency!.highNs - latency!.meanNs).toBeCloseTo(width, 3);
    expect({ coverage, lossRate, stdev: latency!.stdevNs }).toEqual({
      coverage: 1,
      lossRate: 0,
      stdev: null,
    });
    expect(groups.map((g) => [g.text, g.packets, g.epochs, g.lost])).toEqual([
      ["udp 10.0.0.1:1000 > 10.2.0.9:53", 300, 13, 0],
      ["udp 10.0.0.3:1002 > 10.2.0.9:53", 300, 13, 0],
      ["udp 10.0.1.2:1001 > 10.2.0.9:53", 300, 13, 0],
    ]);
    for (const [i, flow] of [0, 2, 1].entries()) {
      const own = packets.filter((_, n) => n % 4 === flow);
      expect(groups[i]!.latency!.meanNs).toBeCloseTo(mean(own), 3);
      expect(groups[i]!.communityId).toMatch(/^1:/);
    }
  });

  it("answer for flows by name, for groups, and for a time range", async () => {
    const packets = traffic((n) => n % 4 === 3 && n > 600).map((p) => ({
      ...p,
      timeNs: p.timeNs + 5_000_000n,
    }));
    const { before, after } = captures("groups", packets);
    await observe("A", before);
    await observe("B", after);
    const flow = "udp 10.0.1.2:1001 > 10.2.0.9:53";
    const named = ask({ flows: [flow, "udp 10.9.9.9:1 > 10.2.0.9:53"] });
    expect(named.groups.map((g) => [g.text, g.packets, g.reason])).toEqual([
      [flow, 300, undefined],
      ["udp 10.9.9.9:1 > 10.2.0.9:53", null, "not-in-sketch: the flow was not seen in these epochs"],
    ]);
    expect(named.groups[0]!.latency!.meanNs).toBeCloseTo(mean(packets.filter((_, n) => n % 4 === 1)), 3);
    const bySource = ask({ group: "src/24" }).groups;
    expect(bySource.map((g) => [g.key.src, g.key.dst, g.flows, g.packets, g.lost])).toEqual([
      ["10.0.0.0/24", null, 2, 600, 0],
      ["10.0.1.0/24", null, 2, 600, 150],
    ]);
    // Half of flow 3 was lost and has no delay. The epoch in which the loss began has no answer and is not part of the mean; the coverage reflects this.
    const answeredPackets = packets.filter(
      (p, n) => n % 4 === 1 || (n % 4 === 3 && p.timeNs < START + 6_000_000_000n),
    );
    expect(bySource[1]!.latency!.meanNs).toBeCloseTo(mean(answeredPackets), 3);
    expect(bySource[1]!.coverage).toBeCloseTo(answeredPackets.length / 450, 9);
    expect(ask({ group: "host", top: 2 }).groups).toHaveLength(2);
    const second = START + 4_000_000_000n;
    const part = ask({ fromNs: second, toNs: second + 2_000_000_000n });
    expect(part.epochs).toMatchObject({ used: 2, firstNs: `${second}` });
    expect(part.estimates["counting"]!.sent).toBe(200);
    expect(() => ask({ group: "vlan" })).toThrow(/does not contain/);
    expect(() => ask({ fromNs: 0n, toNs: 1n })).toThrow(/no records of .* between ‘from’ and ‘to’/);
    expect(() => ask({ flows: ["10.0.1.2 > 10.2.0.9"] })).toThrow(/lacks a protocol/);
  });

  it("answer for a named flow without any list of flows", async () => {
    const { flowList: _, ...silent } = countingEstimator;
    const table = [silent as Estimator];
    const packets = traffic().map((p) => ({ ...p, timeNs: p.timeNs + 5_000_000n }));
    const { before, after } = captures("named", packets);
    await observe("A", before, { table });
    await observe("B", after, { table });
    const { groups } = ask({ flows: ["udp 10.0.0.3:1002 > 10.2.0.9:53"] }, table);
    expect(groups[0]).toMatchObject({ packets: 300, epochs: 13 });
    expect(groups[0]!.latency!.meanNs).toBeCloseTo(mean(packets.filter((_, n) => n % 4 === 2)), 3);
    expect(ask({ top: 3 }, table).notes).toContainEqual(expect.stringMatching(/no list of flows was kept/));
  });

  it("lose nothing where delimiters are lost", async () => {
    const packets = traffic((n) => n % 7 === 0);
    const { before, after } = captures("delimited", packets);
    const cut = { mode: "delimited", every: 30 } as const;
    await observe("A", before, { cut });
    await observe("B", after, { cut });
    const { epochs, estimates, points } = ask();
    expect(epochs.merged).toBeGreaterThan(3);
    expect(epochs.refused).toEqual([]);
    // Only the packets before the first and after the last common delimiter have no pair.
    expect(
      epochs.missing.every(
        (m) => BigInt(m.startNs) < START + 2_000_000_000n || BigInt(m.endNs) > START + 10_000_000_000n,
      ),
    ).toBe(true);
    const [a, b] = points;
    expect(a!.packets).toBeGreaterThan(1000);
    // Reordering by 1 to 4 ms around delimiters may move a packet to the next epoch, but the sum stays the same.
    const lost = estimates["counting"]!.lost!;
    expect(Math.abs(lost - a!.packets / 7)).toBeLessThan(4);
    expect(a!.packets - b!.packets).toBe(lost);
  });

  it("are cut by Start and End in band; an epoch that lost one is refused with the reason", async () => {
    const stream = controlStream("A:B");
    const message = (kind: "start" | "end", sequence: number, timeNs: bigint, lost = false): Sent => ({
      timeNs,
      src: "10.0.0.1",
      dst: "10.2.0.9",
      sport: 9,
      dport: 17_477,
      ipid: sequence,
      payload: encodeControl({ kind, sequence: BigInt(sequence), referenceNs: timeNs, stream }),
      delayNs: 500_000n,
      lost,
    });
    const plain = traffic().map((p) => ({ ...p, delayNs: 500_000n }));
    const messages = [1, 2, 3].flatMap((k) => {
      const at = START + BigInt(k) * 3_000_000_000n;
      return [message("start", k, at - 1n), message("end", k, at + 2_000_000_001n, k === 2)];
    });
    const packets = [...plain, ...messages].sort((x, y) => (x.timeNs < y.timeNs ? -1 : 1));
    const { before, after } = captures("control", packets);
    const options = {
      cut: { mode: "control" } as const,
      segments: ["A:B=src net 10.0.0.0/16 and dst port 53"],
    };
    expect(await observe("A", before, options)).toMatchObject({ epochs: 3, voids: [] });
    const atB = await observe("B", after, options);
    expect(atB.voids).toEqual([{ startNs: `${START + 5_999_999_999n}`, reason: "End 2 was not seen" }]);
    const { epochs, estimates } = ask();
    expect(epochs).toMatchObject({ used: 2, missing: [] });
    expect(epochs.refused.map((r) => r.reason)).toEqual(["the epoch is void at B: End 2 was not seen"]);
    expect(estimates["counting"]).toMatchObject({ sent: 402, received: 402, lost: 0, coverage: 1 });
    expect(estimates["counting"]!.latency!.meanNs).toBe(500_000);
  });

  it("see the packets of each segment and class through filters, from one pass", async () => {
    const packets = traffic().map((p) => ({ ...p, timeNs: p.timeNs + 5_000_000n }));
    const { before, after } = captures("lanes", packets);
    const segments = ["A:B=src net 10.0.1.0/24", "A:C=src net 10.0.0.0/24"];
    const report = await observe("A", before, { segments, filter: "udp" });
    expect(report.lanes.map((l) => [l.segment, l.role, l.packets, l.filter])).toEqual([
      ["A:B", "sender", 600, "(udp) and (src net 10.0.1.0/24)"],
      ["A:C", "sender", 600, "(udp) and (src net 10.0.0.0/24)"],
    ]);
    await observe("B", after, { segments: segments.slice(0, 1) });
    const answer = ask();
    expect(answer.question["segment"]).toBe("A:B");
    expect(answer.estimates["counting"]).toMatchObject({ sent: 600, received: 600 });
    expect(answer.estimates["counting"]!.latency!.meanNs).toBeCloseTo(
      mean(packets.filter((_, n) => n % 2 === 1)),
      3,
    );
    expect(answer.points[0]!.skipped).toEqual({ filtered: 600 });
    expect(answer.notes).toContainEqual(expect.stringMatching(/different filters/));
    await observe("A", before, { classes: ["gold=port 1000", "rest=not port 1000"] });
    await observe("B", after, { classes: ["gold=port 1000"] });
    expect(ask({ segment: "gold" }).estimates["counting"]).toMatchObject({ sent: 300 });
    expect(hintOf(() => ask({ segment: "silver" }))).toBe("there are: 'A:B', 'A:C', 'gold', 'rest'");
    await expect(observe("D", before, { segments })).rejects.toThrow(/no segment begins or ends at D/);
    await expect(observe("A", before, { segments: ["A:B"] })).rejects.toThrow(/expected NAME=EXPRESSION/);
    await expect(observe("A", before, { filter: "port (" })).rejects.toThrow(UsageError);
  });

  it("name what is missing, damaged, foreign or does not fit, and answer with the rest", async () => {
    const { before, after } = captures("damage", traffic());
    await observe("A", before);
    await observe("B", after);
    const archive = RecordArchive.open(directory);
    const [gone, damaged] = archive.list({ points: ["B"] }).entries.slice(3);
    rmSync(gone!.file);
    const bytes = readFileSync(damaged!.file);
    bytes[30]! ^= 1;
    writeFileSync(damaged!.file, bytes);
    writeFileSync(join(directory, "A", "README"), "?");
    const { epochs, estimates, notes } = ask();
    expect(estimates["counting"]!.epochs).toBe(11);
    expect(epochs.missing).toEqual([
      {
        estimator: "counting",
        point: "B",
        startNs: `${gone!.epoch.startNs}`,
        endNs: `${gone!.epoch.endNs}`,
        reason: "no record",
      },
    ]);
    expect(epochs.refused).toMatchObject([{ file: damaged!.file, startNs: `${damaged!.epoch.startNs}` }]);
    expect(epochs.refused[0]!.reason).toMatch(/head is damaged/);
    expect(notes).toContainEqual(`${join(directory, "A", "README")} is not a record`);
    expect(() => ask({ between: ["A", "X"] })).toThrow(/no records of point 'X'/);
    expect(() => ask({ between: ["A", "A"] })).toThrow(/two different points/);
    expect(ask({}, [{ ...countingEstimator, name: "other" }]).notes).toContainEqual(
      expect.stringMatching(/unknown estimator 'counting'/),
    );
    expect(ask({}, [{ ...countingEstimator, version: 4 }]).epochs.refused[0]!.reason).toMatch(
      /has version 3; this program reads 4/,
    );
  });

  it.each([
    ["seed", { seed: 5n }],
    ["geometry", { parameters: { counting: "cells=9" } }],
    ["key", { key: "hosts" }],
    ["cover", { cover: 40 }],
  ])("are refused by name where they differ in %s", async (what, change) => {
    const { before, after } = captures(`mismatch-${what}`, traffic().slice(0, 300));
    await observe("A", before);
    await observe("B", after, change);
    const { epochs, estimates } = ask();
    expect(epochs.refused[0]!.reason).toMatch(new RegExp(`differ in ${what}`));
    expect(estimates["counting"]).toMatchObject({
      latency: null,
      epochs: 0,
      reason: expect.stringMatching(/no epoch has a usable record/),
    });
  });

  it("are the same when observed again, in parts or whole, and named when they conflict", async () => {
    const packets = traffic();
    const { before } = captures("again", packets);
    const [first, second] = [join(root, "first.pcap"), join(root, "second.pcap")];
    writePcap(first, packets.slice(0, 555));
    writePcap(second, packets.slice(555));
    // The first part of a growing capture.
    expect((await observe("A", first)).records).toMatchObject({ stored: 6 });
    // Its last epoch was incomplete then, and is complete now.
    expect((await observe("A", before)).records).toMatchObject({ stored: 7, unchanged: 5, replaced: 1 });
    expect((await observe("A", before)).records).toMatchObject({ stored: 0, unchanged: 13, replaced: 0 });
    expect((await observe("A", first, { files: [first, second] })).records).toMatchObject({
      stored: 0,
      unchanged: 13,
    });
    // Its first epoch was cut off at the start, and is part of the stored one.
    expect((await observe("A", second)).records).toMatchObject({ stored: 0, unchanged: 8 });
    await expect(observe("A", before, { key: "hosts" })).rejects.toThrow(/differ in key/);
  });

  it("put the parts of an epoch together that rotated captures share, each once, in any order", async () => {
    const packets = traffic();
    const { before } = captures("rotated", packets);
    // Within epochs, two of them in the same epoch; the last packet before and the first after are adjacent in time.
    const cuts = [0, 155, 420, 455, 465, 900, packets.length];
    const files = cuts.slice(1).map((to, i) => {
      const file = join(root, `rotated-${i}.pcap`);
      writePcap(file, packets.slice(cuts[i], to));
      return file;
    });
    const whole = directory;
    await observe("A", before);
    const stored = (path: string) => {
      const archive = RecordArchive.open(path);
      return archive.list().entries.map((e) => {
        const { spans: _, counters, program: __, ...rest } = archive.readRecord(e);
        return { ...rest, packets: counters.packets };
      });
    };
    for (const order of [files, [...files].reverse(), [2, 0, 5, 1, 4, 3].map((i) => files[i] ?? "")]) {
      directory = join(root, `records-${number++}`);
      const counts = { merged: 0, refused: 0 };
      for (const file of order) {
        const { records } = await observe("A", file);
        counts.merged += records.merged;
        counts.refused += records.refused;
      }
      // 155, 420, 455 and 465 are within an epoch, and so is 900.
      expect(counts).toEqual({ merged: 5, refused: 0 });
      // A repeated run adds nothing.
      for (const file of order)
        expect((await observe("A", file)).records).toMatchObject({ stored: 0, merged: 0, replaced: 0 });
      expect(stored(directory)).toEqual(stored(whole));
    }
  });

  it("keep only what they may", async () => {
    const { before } = captures("keep", traffic());
    const report = await observe("A", before, { keepNs: 3_500_000_000n });
    expect(report.records).toMatchObject({ stored: 13, removed: 9 });
  });
});

describe("captures that cannot make records", () => {
  it("are refused before anything is written", async () => {
    const { before } = captures("wrong", traffic());
    const none = join(root, "none.pcap");
    await expect(observe("A", none)).rejects.toThrow("no such file");
    await expect(observe("A", before, { files: [before, none] })).rejects.toThrow("no such file");
    await expect(observe("A", before, { filter: "nonsense" })).rejects.toThrow("filter: ");
    await expect(observe("A", before, { sender: { files: [none], windowNs: 1e9 } })).rejects.toThrow(
      "no such file",
    );
    expect(existsSync(directory)).toBe(false);
  });

  it("are refused where one is given twice, or ahead of an earlier one", async () => {
    const packets = traffic();
    const early = captures("early", packets.slice(0, 600)).before;
    const late = captures("late", packets.slice(600)).before;
    const [files, link] = [[early, late], join(root, "link.pcap")];
    symlinkSync(early, link);
    await expect(observe("A", early, { files: [early, link] })).rejects.toThrow("is given twice");
    await expect(observe("A", early, { files: [late, early] })).rejects.toThrow("begins before");
    expect(existsSync(directory)).toBe(false);
    expect((await observe("A", early, { files })).lanes[0]!.packets).toBe(1200);
  });
});

describe("on the command line", () => {
  const run = async (
    make: () => { exitOverride(): { parseAsync(a: string[], o: { from: "user" }): Promise<unknown> } },
    args: string[],
  ) => {
    const out: string[] = [];
    const spy = vi.spyOn(process.stdout, "write").mockImplementation((text) => {
      out.push(String(text));
      return true;
    });
    try {
      await make().exitOverride().parseAsync(args, { from: "user" });
    } finally {
      spy.mockRestore();
    }
    return out.join("");
  };

  it("observe and query print tables, and JSON with --json", async () => {
    const packets = traffic().map((p) => ({ ...p, timeNs: p.timeNs + 5_000_000n }));
    const { before, after } = captures("cli", packets);
    const observing = (point: string, file: string, ...more: string[]) =>
      run(
        () => observeCommand(TABLE),
        [file, "--point", point, "--estimators", "counting", "--epoch", "1s", "--to", directory, ...more],
      );
    expect(await observing("A", before)).toMatch(
      /13 written to .*\ncost {4}counting [\d.]+ bit\/packet\nepochs {2}13, aligned, 1 s each\n/,
    );
    expect(JSON.parse(await observing("B", after, "--json"))).toMatchObject({
      format: "hoptime.observation/1",
      point: "B",
    });
    const asking = (...more: string[]) =>
      run(() => queryCommand(TABLE), [directory, "--between", "A", "B", ...more]);
    const text = await asking("--top", "2", "--series", "3");
    expect(text).toMatch(/A → B {2}13 epochs, 2023-11-14T22:13:20/);
    expect(text).toMatch(/counting +2\.51 ms/);
    expect(text).toMatch(/udp 10\.0\.0\.1:1000 > 10\.2\.0\.9:53 +300 +18\.6.kB +0 +1\.01 ms/);
    const json = JSON.parse(await asking("--json", "--counting", "width=3")) as Answer;
    expect(json).toMatchObject({ format: "hoptime.answer/1", question: { between: ["A", "B"] } });
    await expect(asking("--counting", "cells=3")).rejects.toThrow(/was fixed when the points were observed/);
    await expect(asking("--top", "2", "--sort", "p99")).rejects.toThrow(
      /sort: the records have no p99 of flows/,
    );
    await expect(asking("--confidence", "2")).rejects.toThrow(/between 0 and 1/);
    await expect(run(() => queryCommand(TABLE), [directory, "--between", "A"])).rejects.toThrow(/two points/);
    await expect(observing("A", before, "--cut", "delimited")).rejects.toThrow(/packets for --cut delimited/);
    // Including the text printed after the options.
    let help = "";
    const command = observeCommand(TABLE).configureOutput({
      writeOut: (text) => {
        help += text;
      },
    });
    command.outputHelp();
    expect(help).toMatch(/hoptime estimators NAME/);
  });

  it("notes on flow records are part of the answer, and an estimator of flows has no segment", async () => {
    const { before, after } = captures("recorded", traffic());
    for (const [point, file] of [
      ["A", before],
      ["B", after],
    ] as const)
      await observe(point, file, { estimators: ["multiflow"], table: ESTIMATORS });
    // NetFlow v5 with a record of one packet, sampled at one in 100.
    const records = join(root, "sampled.nf");
    const head = new DataView(new ArrayBuffer(24 + 48));
    head.setUint16(0, 5);
    head.setUint16(2, 1);
    head.setUint32(24 + 16, 1);
    head.setUint16(22, 0x4064);
    writeFileSync(records, new Uint8Array(head.buffer));
    const args = ["--json", "--estimators", "colate", "--flow-records", records];
    const query = [directory, "--between", "A", "B", "--json", "--flow-records", records];
    const answer = JSON.parse(await run(() => queryCommand(), query)) as Answer;
    expect(answer.notes.join()).toMatch(/sampled\.nf: the exporter sampled one in 100 packets/);
    expect(answer.estimates["multiflow"]!.reason).toMatch(/per-flow estimator, no value for the segment/);
    const compare = await compareCommand(args);
    const report = JSON.parse(await run(() => compare, [before, after, ...args])) as CompareReport;
    expect(report.notes.join()).toMatch(/sampled\.nf: the exporter sampled one in 100 packets/);
    const without = await compareCommand([]);
    await expect(run(() => without, [before, after, "--flow-records", records])).rejects.toThrow(
      "--flow-records needs --estimators",
    );
  });
});

const shared =
  process.env["HOPTIME_SHARED"] ??
  join(dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url))))), "shared");
const router = join(shared, "traces", "twopoint", "linux-router");
const there = existsSync(router);
if (!there) console.warn(`skipped: no captures at ${router} (set HOPTIME_SHARED)`);

describe.skipIf(!there)("a real router with real loss", () => {
  it("has the packets of both captures in its records, and the loss between", async () => {
    const truth = JSON.parse(readFileSync(join(router, "router-busy.truth.json"), "utf8")) as {
      flows: Record<string, { sent: number; lost: number }>;
    };
    await observe("in", join(router, "router-busy-in.pcap.gz"));
    await observe("out", join(router, "router-busy-out.pcap.gz"));
    const answer = ask({ between: ["in", "out"], top: 6 });
    // One packet that never left its link is alone in the first second.
    expect(answer.epochs.refused).toEqual([]);
    expect(answer.epochs.missing.map((m) => m.point)).toEqual(["out"]);
    expect(answer.estimates["counting"]).toMatchObject({ sent: 47_909, received: 45_332, lost: 2577 });
    for (const { key, packets, lost } of answer.groups) {
      const { src, dst, proto, sport, dport } = key;
      const own = truth.flows[[src, dst, proto, sport, dport].join("|")]!;
      expect({ packets, lost }).toEqual({ packets: own.sent, lost: own.lost });
    }
    expect(answer.groups).toHaveLength(6);
  });
});
