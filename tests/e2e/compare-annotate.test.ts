/**
 * `compare --annotate` and `--annotate-after`, and the rows of `--packets`, on captures whose packets were merged, fragmented, repeated, went both ways or
 * never arrived. The expected result follows from how the captures were written; the annotated file is read by an independent reader, and by tshark if it is
 * installed.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { runCli } from "../support/cli.ts";
import * as p from "../support/packets.ts";
import { PcapngWriter, pcapFile } from "../support/pcap-writer.ts";
import { type NgFrame, pcapngFrames } from "../support/pcapng-comments.ts";
import { tsharkVersion } from "../support/tshark.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-annotate-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

interface Frame {
  us: number;
  frame: Uint8Array;
  /** The expected comment. */
  comment: RegExp;
}
const START = 1_700_000_000_000_000_000n;
let files = 0;
const fresh = (ending: string) => join(scratch, `${files++}.${ending}`);

function capture(frames: Frame[]): string {
  const path = fresh("pcap");
  frames.sort((a, b) => a.us - b.us);
  const packets = frames.map(({ us, frame }) => ({ timeNs: START + BigInt(us) * 1000n, frame }));
  writeFileSync(path, pcapFile(packets));
  return path;
}

function hoptime(...args: string[]): string {
  const { status, out, err } = runCli(args);
  expect(err).toBe("");
  expect(status).toBe(0);
  return out;
}

/** One comment per frame, as read by our reader and by tshark. */
function comments(path: string): string[] {
  const frames = pcapngFrames(path);
  const found = frames.map((f) => f.comments.join(" | "));
  if (tsharkVersion() !== null) {
    const text = execFileSync("tshark", ["-r", path, "-T", "fields", "-e", "frame.comment"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    expect(text.replace(/\n$/, "").split("\n")).toEqual(found);
  }
  return found;
}

interface Row {
  outcome: string;
  direction: string;
  packets: number;
  delayNs: number | null;
}

/** Compares, annotates both captures and checks each comment; the rows of --packets must add up to the report. */
function check(before: Frame[], after: Frame[], ...more: string[]): { before: string[]; after: string[] } {
  const [a, b] = [capture(before), capture(after)];
  const [outA, outB, rowsFile] = [fresh("pcapng"), fresh("pcapng"), fresh("jsonl")];
  const report = JSON.parse(
    hoptime(
      "compare",
      a,
      b,
      "--annotate",
      outA,
      "--annotate-after",
      outB,
      "--packets",
      rowsFile,
      "--json",
      ...more,
    ),
  );
  const found = { before: comments(outA), after: comments(outB) };
  for (const [frames, texts] of [
    [before, found.before],
    [after, found.after],
  ] as const) {
    expect(texts.length).toBe(frames.length);
    for (const [i, { comment, us }] of frames.entries())
      expect(texts[i], `frame ${i + 1} at ${us} us`).toMatch(comment);
  }
  const rows: Row[] = readFileSync(rowsFile, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  for (const [direction, segment] of [
    ["forward", report.segment],
    ["reverse", report.reverse],
  ] as const) {
    const own = rows.filter((r) => r.direction === direction);
    const sum = (outcome: string) => own.reduce((n, r) => n + (r.outcome === outcome ? r.packets : 0), 0);
    const counts = {
      matched: sum("delivered"),
      lost: sum("lost"),
      appeared: sum("appeared"),
      duplicates: sum("duplicate"),
      mirrored: sum("mirrored"),
      linkLocal: sum("link-local"),
      ends: sum("not-captured"),
    };
    if (segment === null) expect(own).toEqual([]);
    else {
      const { matched, lost, appeared, duplicates, mirrored, linkLocal, head, tail } = segment;
      expect(counts).toEqual({ matched, lost, appeared, duplicates, mirrored, linkLocal, ends: head + tail });
      const delays = own.flatMap((r) => (r.delayNs === null ? [] : [r.delayNs]));
      expect(Math.max(...delays)).toBe(segment.latency.maxNs);
      expect(delays.reduce((sum, d) => sum + d, 0) / delays.length).toBeCloseTo(segment.latency.meanNs, 0);
    }
  }
  return found;
}

const data = (at: number, length: number) =>
  Uint8Array.from({ length }, (_, i) => ((at + i) * 2_654_435_761) >>> 24);
const [HERE, THERE] = [Uint8Array.of(10, 0, 0, 1), Uint8Array.of(10, 9, 0, 2)];
const udp = (flow: number, i: number, back = false) =>
  p.stack(
    [
      p.ethernet(0x0800),
      p.ipv4({ proto: 17, id: i, src: back ? THERE : HERE, dst: back ? HERE : THERE, ttl: 60 }),
      p.udp(back ? { sport: 9, dport: 1000 + flow } : { sport: 1000 + flow, dport: 9 }),
    ],
    data(i * 77, 100),
  );

/** Ordinary packets, 300 µs late. */
function ordinary(before: Frame[], after: Frame[], n = 400): void {
  for (let i = 0; i < n; i++) {
    const frame = udp(500 + (i % 5), i);
    before.push({ us: i * 2000, frame, comment: /^delay 0\.300000 ms, frame \d+ in AFTER$/ });
    after.push({ us: i * 2000 + 300, frame, comment: /^delay 0\.300000 ms, frame \d+ in BEFORE$/ });
  }
}

test("lost packets, such as appear, copies and what never leaves its link", () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  ordinary(before, after);
  for (let i = 0; i < 20; i++) {
    const us = 100_000 + i * 10_000;
    before.push({ us: us + 1, frame: udp(1, 5000 + i), comment: /^lost$/ });
    after.push({ us: us + 2, frame: udp(2, 6000 + i), comment: /^appeared$/ });
    const twice = udp(3, 7000 + i);
    before.push({ us: us + 3, frame: twice, comment: /^delay 0\.400000 ms, frame/ });
    after.push({ us: us + 403, frame: twice, comment: /^delay 0\.400000 ms, frame/ });
    after.push({ us: us + 420, frame: twice, comment: /^duplicate$/ });
    const hello = p.ipv4({ proto: 89, dst: Uint8Array.of(224, 0, 0, 5), id: i });
    before.push({
      us: us + 5,
      frame: p.stack([p.ethernet(0x0800), hello], data(i, 44)),
      comment: /^link-local$/,
    });
  }
  const found = check(before, after);
  // The frame numbers refer to each other.
  for (const [i, text] of found.before.entries()) {
    const n = Number(/frame (\d+) in AFTER/.exec(text)?.[1] ?? 0);
    if (n > 0) expect(found.after[n - 1]).toContain(`frame ${i + 1} in BEFORE`);
  }
});

test("both directions", () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  for (let i = 0; i < 1000; i++) {
    const there = udp(i % 7, i);
    const back = udp(i % 7, i, true);
    const us = i * 1000;
    const lost = i > 100 && i < 900 && i % 50 === 9;
    before.push({ us, frame: there, comment: /^delay 2\.000000 ms, frame \d+ in AFTER$/ });
    after.push({ us: us + 2000, frame: there, comment: /^delay 2\.000000 ms, frame \d+ in BEFORE$/ });
    after.push({
      us: us + 2500,
      frame: back,
      comment: lost ? /^lost \(reverse\)$/ : /^delay 3\.000000 ms \(reverse\), frame \d+ in BEFORE$/,
    });
    if (!lost)
      before.push({
        us: us + 5500,
        frame: back,
        comment: /^delay 3\.000000 ms \(reverse\), frame \d+ in AFTER$/,
      });
  }
  check(before, after);
});

const MSS = 1448;
const tcp = (flow: number, at: number, length: number, id: number) =>
  p.stack(
    [p.ethernet(0x0800), p.ipv4({ proto: 6, id }), p.tcp({ sport: 1000 + flow, seq: at })],
    data(at, length),
  );

test("segments that were merged at the sender: all frames of both files, the lost ones counted as on the wire", () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  ordinary(before, after);
  for (let b = 0; b < 20; b++) {
    const us = 1001 + b * 5000;
    const gap = b === 7 || b === 11;
    before.push({
      us,
      frame: tcp(1, b * 10 * MSS, 10 * MSS, b),
      comment: gap
        ? /^delay 0\.490000 ms of the last byte, frame \d+ in AFTER, segments merged on the way, 2 packets lost$/
        : /^delay 0\.490000 ms of the last byte, frame \d+ in AFTER, segments merged on the way$/,
    });
    for (let i = 0; i < 10; i++) {
      if (gap && (i === 3 || i === 4)) continue;
      after.push({
        us: us + 400 + 10 * i,
        frame: tcp(1, (b * 10 + i) * MSS, MSS, b * 10 + i),
        comment:
          i === 9
            ? /^delay 0\.490000 ms of the last byte, frame \d+ in BEFORE, segments merged on the way$/
            : /^delivered, frame \d+ in BEFORE, segments merged on the way$/,
      });
    }
  }
  check(before, after);
});

test("segments that were merged at the receiver, all pieces of a burst at the same microsecond", () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  ordinary(before, after);
  for (let b = 0; b < 20; b++) {
    const us = 1001 + b * 5000;
    for (let i = 0; i < 4; i++)
      before.push({
        us,
        frame: tcp(1, (b * 4 + i) * MSS, MSS, b * 4 + i),
        comment:
          i === 3 ? /^delay 0\.250000 ms of the last byte/ : /^delivered, frame \d+ in AFTER, segments/,
      });
    after.push({
      us: us + 250,
      frame: tcp(1, b * 4 * MSS, 4 * MSS, b),
      comment: /^delay 0\.250000 ms of the last byte, frame \d+ in BEFORE, segments merged on the way$/,
    });
  }
  const found = check(before, after);
  // Each piece is a separate frame.
  const merged = before.flatMap((f, i) => (f.frame.length > 1000 ? [found.before[i] ?? ""] : []));
  expect(merged.filter((text) => text !== "").length).toBe(80);
});

test("datagrams that were sent in pieces", () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  ordinary(before, after);
  const piece = (at: number, length: number, id: number) =>
    p.stack(
      [p.ethernet(0x0800), p.ipv4({ proto: 17, id }), p.udp({ sport: 1001, dport: 9 })],
      data(at, length),
    );
  for (let b = 0; b < 30; b++) {
    const us = 1001 + b * 5000;
    before.push({ us, frame: piece(b * 6000, 5900, b), comment: /^delay 0\.540000 ms of the last byte/ });
    for (let i = 0; i < 5; i++)
      after.push({
        us: us + 500 + 10 * i,
        frame: piece(b * 6000 + i * 1200, i === 4 ? 1100 : 1200, b * 5 + i),
        comment: i === 4 ? /^delay 0\.540000 ms of the last byte/ : /^delivered, frame/,
      });
  }
  check(before, after);
});

test("fragments: the last one ends the packet's delay, a packet of which one is missing is lost", () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  ordinary(before, after);
  for (let i = 0; i < 60; i++) {
    const us = 501 + i * 3000;
    const whole = p.bytes(p.stack([p.udp({ sport: 1001, dport: 9 })], data(i * 1000, 1400)));
    const ip = (fragment: number) => p.ipv4({ proto: 17, id: 100 + i, fragment });
    const missing = i % 10 === 4;
    before.push({
      us,
      frame: p.stack([p.ethernet(0x0800), ip(0)], whole),
      comment: missing ? /^lost$/ : /^delay 0\.400000 ms, frame \d+ in AFTER$/,
    });
    after.push({
      us: us + 350,
      frame: p.stack([p.ethernet(0x0800), ip(0x2000)], whole.subarray(0, 800)),
      comment: /^fragment$/,
    });
    if (!missing)
      after.push({
        us: us + 400,
        frame: p.stack([p.ethernet(0x0800), ip(100)], whole.subarray(800)),
        comment: /^delay 0\.400000 ms, frame \d+ in BEFORE$/,
      });
  }
  check(before, after);
});

/** Both points in one file, with all kinds of packet blocks between them, in one section per byte order. */
function bothPoints(): { path: string; frames: { comment: RegExp; block: number }[] } {
  const w = new PcapngWriter();
  const frames: { comment: RegExp; block: number }[] = [];
  for (const big of [false, true]) {
    w.section(big).interface({ name: "eth0", resolution: 9 }).interface({ name: "eth1", resolution: 9 });
    for (let i = big ? 500 : 0; i < (big ? 1000 : 500); i++) {
      const ticks = START + BigInt(i) * 1_000_000n;
      const lost = i % 100 === 50;
      const old = i % 7 === 3;
      const comment = lost ? /^lost \| kept$/ : /^delay 0\.700000 ms, frame \d+ \| kept$/;
      const packet = {
        ticks,
        frame: udp(i % 5, i),
        options: [{ code: 1, value: Buffer.from("kept") }],
      };
      if (old) w.old(packet);
      else w.enhanced(packet);
      frames.push({ comment, block: old ? 2 : 6 });
      if (i % 9 === 0) {
        w.simple(udp(6, 9000 + i));
        frames.push({ comment: /^$/, block: 3 });
      }
      if (lost) continue;
      w.enhanced({ interfaceId: 1, ticks: ticks + 700_000n, frame: udp(i % 5, i) });
      frames.push({ comment: /^delay 0\.700000 ms, frame \d+$/, block: 6 });
    }
  }
  const path = fresh("pcapng");
  writeFileSync(path, w.done());
  return { path, frames };
}

test("two points of one file are annotated in one: old and enhanced packet blocks; simple ones have no time and stay as they are", () => {
  const { path, frames } = bothPoints();
  const target = fresh("pcapng");
  hoptime("compare", `${path}#eth0`, `${path}#eth1`, "--annotate", target);
  const [read, source] = [pcapngFrames(target), pcapngFrames(path)];
  expect(read.length).toBe(frames.length);
  for (const [i, f] of frames.entries()) {
    const got = read[i] as NgFrame;
    expect(got.comments.join(" | "), `frame ${i + 1}`).toMatch(f.comment);
    expect(got.block).toBe(f.block);
    expect(got.data.equals(source[i]?.data ?? Buffer.of())).toBe(true);
    expect([got.ticks, got.interfaceId]).toEqual([source[i]?.ticks, source[i]?.interfaceId]);
  }
});

test("a file is not written twice, and standard input is not annotated", () => {
  const [before, after]: [Frame[], Frame[]] = [[], []];
  ordinary(before, after, 10);
  const [a, b] = [capture(before), capture(after)];
  const run = (...args: string[]) => runCli(["compare", ...args], { input: readFileSync(b) });
  const target = fresh("pcapng");
  expect(run(a, b, "--annotate", target, "--annotate-after", target).err).toMatch(
    /--annotate-after: .* is written by another option too/,
  );
  expect(run(a, "-", "--annotate-after", target).err).toMatch(
    /--annotate-after: standard input cannot be read twice/,
  );
  // The other capture may be standard input.
  expect(run(a, "-", "--annotate", target).status).toBe(0);
  expect(comments(target).every((text) => /^delay 0\.300000 ms$/.test(text))).toBe(true);
});
