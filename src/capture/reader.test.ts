import { execFileSync, spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type PlainCapture, readRows } from "../../tests/support/capture-rows.ts";
import {
  file,
  ids,
  packets,
  range,
  START,
  scratch,
  udpFrame,
} from "../../tests/support/numbered-captures.ts";
import { erfFile, type NgOption, PcapngWriter, pcapFile } from "../../tests/support/pcap-writer.ts";
import { FormatError, UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { FlowKeySpec } from "./flow/flow-key.ts";
import { CaptureReader } from "./reader.ts";

describe("chunks and batches", () => {
  test("records that straddle chunk ends, at every size of record", async () => {
    // Bytes are read 128 or 256 KiB at a time: files of a few such pieces, with records that end everywhere around their borders.
    const list = range(3000).map((n) => ({
      timeNs: START + BigInt(n),
      frame: udpFrame(n, 100 + ((n * 7919) % 1400)),
    }));
    const ng = new PcapngWriter().section().interface({ resolution: 9 });
    for (const [n, x] of list.entries()) {
      ng.enhanced({ ticks: x.timeNs, frame: x.frame });
      if (n % 100 === 0) ng.statistics(0, BigInt(n)).block(77, Buffer.alloc(n));
    }
    const erf = list.map((x) => ({ ...x, frame: x.frame }));
    for (const content of [pcapFile(list, { nano: true }), ng.done(), erfFile(erf)]) {
      expect(content.length).toBeGreaterThan(4 * (1 << 18));
      const { rows, statistics } = await readRows(file(content));
      expect(statistics.partial).toBeNull();
      expect(ids(rows)).toEqual(range(3000));
      expect(rows.map((r) => r.wireLength)).toEqual(list.map((x) => x.frame.length));
    }
  });

  test("a record and a block as long as they may be", async () => {
    const frame = udpFrame(1, 262_000);
    const list = [
      { timeNs: START, frame: udpFrame(0) },
      { timeNs: START, frame },
      { timeNs: START, frame: udpFrame(2) },
    ];
    expect(ids((await readRows(file(pcapFile(list, { snapLength: 262_144 })))).rows)).toEqual([0, 1, 2]);
    const comment = { code: 1, value: Buffer.alloc(60_000) };
    const w = new PcapngWriter().section().interface({ resolution: 9 });
    for (const x of list)
      w.enhanced({ ticks: START, frame: x.frame, options: new Array<NgOption>(12).fill(comment) });
    expect(ids((await readRows(file(w.done()))).rows)).toEqual([0, 1, 2]);
  });

  test("the size of a batch changes nothing", async () => {
    const list = range(500).map((n) => ({ timeNs: START + BigInt(n), frame: udpFrame(n) }));
    const ng = new PcapngWriter().section().interface({ resolution: 9 });
    for (const [n, x] of list.entries()) {
      if (n % 7 === 0) ng.block(88, Buffer.alloc(n)).statistics(0, 1n);
      ng.enhanced({ ticks: x.timeNs, frame: x.frame });
    }
    for (const content of [pcapFile(list, { nano: true }), ng.done(), erfFile(list)]) {
      const path = file(content);
      const { rows } = await readRows(path);
      expect(rows.length).toBe(500);
      for (const batchRows of [1, 3, 499, 500, 501])
        expect((await readRows(path, { batchRows })).rows).toEqual(rows);
    }
  });

  test("batches that outlive the bytes they came from have the same rows, and are full but for the last", async () => {
    // Several times the bytes that are read at once.
    const list = range(3000).map((n) => ({ timeNs: START + BigInt(n), frame: udpFrame(n, 400) }));
    const ng = new PcapngWriter().section().interface({ resolution: 9 });
    for (const x of list) ng.enhanced({ ticks: x.timeNs, frame: x.frame });
    for (const content of [pcapFile(list, { nano: true }), ng.done(), erfFile(list)]) {
      const path = file(content);
      const summary = (capture: PlainCapture) =>
        capture.rows.map(({ ipid, captured, iface, ...written }) => written);
      const lean = await readRows(path, { rowsOnly: true, batchRows: 1100 });
      expect(summary(lean)).toEqual(summary(await readRows(path)));
      const reader = await CaptureReader.open(new Kernels(), path, { rowsOnly: true, batchRows: 1100 });
      const counts: number[] = [];
      while (await reader.next()) counts.push(reader.batch.count);
      expect(counts).toEqual([1100, 1100, 800]);
      reader.close();
    }
  });

  test("any cut of any file gives a prefix of its rows, and a message unless it falls between records", async () => {
    const few = packets.slice(0, 3);
    const w = new PcapngWriter().section().interface({ resolution: 9 });
    for (const x of few)
      w.enhanced({ ticks: x.timeNs, frame: x.frame }).statistics(0, 1n).block(99, Buffer.alloc(20));
    for (const [content, erf] of [
      [pcapFile(few, { nano: true }), false],
      [w.done(), false],
      [erfFile(few), true],
    ] as const) {
      const { rows } = await readRows(file(content));
      for (let n = 0; n < content.length; n++) {
        const cut = content.subarray(0, n);
        try {
          const got = await readRows(file(cut, "cut"));
          expect(got.rows).toEqual(rows.slice(0, got.rows.length));
          if (got.statistics.partial)
            expect(got.statistics.partial).toMatch(/cut: at byte \d+: the file ends within/);
          else expect(got.statistics.packets).toBe(got.rows.length);
        } catch (error) {
          expect(error).toBeInstanceOf(FormatError);
          // Only if the header that identifies the format is truncated.
          expect(n).toBeLessThan(erf ? erfFile(packets.slice(0, 1)).length : 24);
        }
      }
    }
  });

  test("random damage is survived, and every frame is a row or a counted reason", async () => {
    const w = new PcapngWriter().section().interface({ resolution: 9 });
    for (const x of packets) w.enhanced({ ticks: x.timeNs, frame: x.frame });
    for (const content of [pcapFile(packets, { nano: true }), w.done(), erfFile(packets)]) {
      const change = fc.array(
        fc.tuple(fc.nat({ max: content.length - 1 }), fc.integer({ min: 0, max: 255 })),
        { minLength: 1, maxLength: 5 },
      );
      await fc.assert(
        fc.asyncProperty(change, async (changes) => {
          const damaged = Buffer.from(content);
          for (const [at, value] of changes) damaged[at] = value;
          try {
            const { statistics, rows } = await readRows(file(damaged, "damaged"));
            expect(statistics.ipPackets).toBe(rows.length);
            expect(rows.length + Object.values(statistics.skipped).reduce((a, b) => a + b, 0)).toBe(
              statistics.packets,
            );
          } catch (error) {
            expect(error).toBeInstanceOf(FormatError);
          }
        }),
        { seed: 6, numRuns: 300 },
      );
    }
  });

  test("memory is given back: a thousand readers leave the kernel memory as it was after a few", async () => {
    const kernels = new Kernels();
    const path = file(pcapFile(packets));
    const key = FlowKeySpec.parse();
    let settled = 0;
    for (let i = 0; i < 1000; i++) {
      const reader = await CaptureReader.open(kernels, path, { key });
      while (await reader.next());
      reader.close();
      reader.free();
      reader.free();
      expect(reader.statistics().packets).toBe(10);
      if (i === 10) settled = kernels.memory.buffer.byteLength;
    }
    expect(kernels.memory.buffer.byteLength).toBe(settled);
  });
});

let pipes = 0;

describe("where the bytes come from", () => {
  test("a file that is no capture is a format error with file, offset and reason", async () => {
    const cases: [Uint8Array, RegExp][] = [
      [Buffer.alloc(0), /at byte 0: the file is empty/],
      [Buffer.from("hello"), /at byte 0: not a pcap, pcapng or ERF capture/],
      [
        Buffer.from("a text of some length that is surely no capture at all, not even a little"),
        /not a pcap, pcapng or ERF/,
      ],
      [pcapFile([]).subarray(0, 20), /a pcap file of only 20 bytes/],
      [Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0, 0]), /zstd-compressed; decompress it first/],
      [Buffer.from("snoop\0\0\0 and so on"), /snoop capture; convert it/],
      [Buffer.alloc(100_000), /not a pcap/],
    ];
    for (const [content, message] of cases) {
      const path = file(content);
      await expect(readRows(path)).rejects.toThrow(message);
      await expect(readRows(path)).rejects.toThrow(path);
      await expect(readRows(path)).rejects.toBeInstanceOf(FormatError);
    }
  });

  test("a path that cannot be read, and options that make no sense, are the caller's fault", async () => {
    const path = file(pcapFile(packets));
    for (const attempt of [
      () => readRows(join(scratch, "missing")),
      () => readRows(scratch),
      () => readRows(path, { cover: 19 }),
      () => readRows(path, { cover: 70_000 }),
      () => readRows(path, { cover: 64.5 }),
      () => readRows(path, { batchRows: 0 }),
    ])
      await expect(attempt()).rejects.toBeInstanceOf(UsageError);
  });

  test("a named pipe is read as a file is, plain or gzip", async () => {
    const content = pcapFile(range(3000).map((n) => ({ timeNs: START, frame: udpFrame(n, 400) })));
    for (const bytes of [content, gzipSync(content)]) {
      const pipe = join(scratch, `pipe-${pipes++}`);
      execFileSync("mkfifo", [pipe]);
      const writer = spawn("sh", ["-c", `cat '${file(bytes)}' > '${pipe}'`]);
      const written = new Promise((resolve) => writer.once("close", resolve));
      const { rows, statistics } = await readRows(pipe);
      expect(ids(rows)).toEqual(range(3000));
      expect(statistics.partial).toBeNull();
      await written;
    }
  });

  test("standard input is read as a file is, also when it comes byte by byte", () => {
    const script = file(
      Buffer.from(`
        import { readRows } from ${JSON.stringify(new URL("../../tests/support/capture-rows.ts", import.meta.url).pathname)};
        const { rows, statistics } = await readRows("-");
        console.log(JSON.stringify([rows.length, statistics.partial, statistics.file]));`),
      "stdin.ts",
    );
    const root = new URL("../../", import.meta.url).pathname;
    // Bundled next to the kernels, as the benchmarks are.
    const out = join(root, "dist", "bench", `stdin-${process.pid}.mjs`);
    execFileSync(join(root, "node_modules", ".bin", "esbuild"), [
      script,
      "--bundle",
      "--platform=node",
      "--format=esm",
      `--outfile=${out}`,
      "--log-level=error",
    ]);
    try {
      const run = (shell: string) => JSON.parse(execFileSync("sh", ["-c", shell], { encoding: "utf8" }));
      const path = file(pcapFile(packets));
      const packed = file(gzipSync(pcapFile(packets)));
      const whole = [10, null, "standard input"];
      expect(run(`node '${out}' < '${path}'`)).toEqual(whole);
      expect(run(`cat '${path}' | node '${out}'`)).toEqual(whole);
      expect(run(`cat '${packed}' | node '${out}'`)).toEqual(whole);
      expect(
        run(
          `(head -c 1 '${path}'; sleep 0.1; tail -c +2 '${path}' | head -c 20; sleep 0.1; tail -c +22 '${path}') | node '${out}'`,
        ),
      ).toEqual(whole);
      expect(run(`head -c 300 '${path}' | node '${out}'`)[1]).toMatch(
        /^standard input: at byte \d+: the file ends within a record/,
      );
    } finally {
      rmSync(out, { force: true });
    }
  });
});
