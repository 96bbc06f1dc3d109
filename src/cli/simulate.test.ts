import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import { Kernels } from "../base/kernels.ts";
import { CaptureReader } from "../capture/reader.ts";
import type { EstimateReport } from "../compare/estimate-report.ts";
import { compareWithEstimates } from "../compare/estimates.ts";
import { probes } from "../estimators/lab/probes/probes.ts";
import { parseParameters } from "../estimators/parameters.ts";
import { decodeRli } from "../estimators/rli/payload.ts";
import { rli } from "../estimators/rli/rli.ts";
import type { TruthFile } from "../simulate/export.ts";
import { simulateCommand } from "./simulate.ts";
import { whenSent } from "./simulate-network.ts";

const directory = mkdtempSync(join(tmpdir(), "hoptime-simulate-"));
afterAll(() => rmSync(directory, { recursive: true }));

async function run(...args: string[]): Promise<string> {
  let text = "";
  const write = vi.spyOn(process.stdout, "write").mockImplementation((chunk) => {
    text += String(chunk);
    return true;
  });
  try {
    await simulateCommand().exitOverride().parseAsync(args, { from: "user" });
  } finally {
    write.mockRestore();
  }
  return text;
}

describe("hoptime simulate", () => {
  it("writes the captures and the truth, and says what they hold", async () => {
    const out = join(directory, "plain");
    const text = await run("--out", out, "--rate", "20k", "--duration", "200ms", "--loss", "1%", "--packets");
    const truth = JSON.parse(readFileSync(join(out, "truth.json"), "utf8"));
    expect(truth.format).toBe("hoptime.truth/1");
    expect(text).toContain(`${truth.totals.sent.toLocaleString("en-US")} packets`);
    expect(text).toContain("receiver.pcap");
    expect(readFileSync(join(out, "packets.csv"), "utf8").trimEnd().split("\n").length).toBe(
      truth.totals.sent + 1,
    );
    expect(readFileSync(join(out, "sender.pcap")).readUInt32LE(0)).toBe(0xa1b23c4d);
  });

  it("writes references that rli reads: its delays are those of the truth", async () => {
    const out = join(directory, "references");
    const flags = ["--rate", "100k", "--duration", "300ms", "--utilisation", "95%", "--queue", "droptail"];
    // The sender's clock is 2 ms ahead; the timestamps in its references contain this offset.
    const clock = ["--clock", "sender:offset=2ms", "--link", "ethernet"];
    await run("--out", out, ...flags, "--inputs", "1", "--references", "1-in-20", ...clock);
    const truth = JSON.parse(readFileSync(join(out, "truth.json"), "utf8")) as TruthFile;
    expect(truth.totals.own.sent).toBeGreaterThan(1000);
    const kernels = new Kernels();
    const parameters = parseParameters(rli, `drain=${truth.hops[0]!.rateBps}`);
    const tap = rli.createTap({ kernels, role: "receiver", seed: 1n }, parameters);
    const reader = await CaptureReader.open(kernels, join(out, "receiver.pcap"), {});
    while (await reader.next()) {
      tap.begin(0, reader.originNs!);
      tap.update(reader.batch, 0, reader.batch.count);
    }
    reader.close();
    reader.free();
    const { counters, total } = decodeRli(tap.seal(), parameters, 1n);
    tap.free();
    expect(counters).toMatchObject({ seen: truth.totals.own.sent, lost: 0, forged: 0, duplicate: 0 });
    expect(counters.packets).toBe(truth.totals.sent);
    const meanNs = Number(total.sum) / counters.answered + 2e6;
    expect(Math.abs(meanNs / truth.totals.meanNs! - 1)).toBeLessThan(0.05);
  });

  it("writes probes that the estimator of probes reads, beside references of another session", async () => {
    const out = join(directory, "probes");
    const flags = ["--rate", "50k", "--duration", "300ms", "--probes", "2k", "--packets"];
    await run("--out", out, ...flags, "--references", "1-in-100");
    const delays = readFileSync(join(out, "packets.csv"), "utf8")
      .split("\n")
      .filter((line) => line.endsWith(",probe"))
      .map((line) => Number(line.split(",")[1]));
    expect(delays.length).toBeGreaterThan(400);
    const meanNs = delays.reduce((sum, d) => sum + d, 0) / delays.length;
    const captures = { before: join(out, "sender.pcap"), after: join(out, "receiver.pcap") };
    const plan = { estimator: probes, parameters: parseParameters(probes, "session=2") };
    const report = await compareWithEstimates(captures, { plans: [plan] });
    const estimate = report.estimates!["probes"] as EstimateReport;
    expect(Math.abs(estimate.meanNs! - meanNs)).toBeLessThan(10);
  });

  it("refuses references without a pace", async () => {
    const out = join(directory, "none");
    await expect(run("--out", out, "--references", "often")).rejects.toThrow(
      /invalid value .often. .expected adaptive/,
    );
    await expect(
      run("--out", out, "--queue", "none", "--delay", "constant:1ms", "--references", "adaptive"),
    ).rejects.toThrow(/needs a queue/);
  });

  it("prints the totals as JSON, and takes a scenario from a file with another seed", async () => {
    const file = join(directory, "scenario.json");
    writeFileSync(
      file,
      JSON.stringify({
        seed: 5,
        traffic: { kind: "population", ratePps: 10_000, packets: 1000 },
        path: [{ kind: "delay", model: { kind: "constant", ns: 777 }, point: "middle" }],
      }),
    );
    const out = join(directory, "scenario");
    const printed = JSON.parse(await run("--out", out, "--scenario", file, "--json"));
    expect(printed).toMatchObject({ seed: 5, totals: { sent: 1000, lost: 0, minNs: 777, maxNs: 777 } });
    expect(printed.files.map((f: { point: string }) => f.point)).toEqual(["sender", "middle", "receiver"]);
    expect(printed.flows).toBeUndefined();
    expect(JSON.parse(await run("--out", out, "--scenario", file, "--seed", "6", "--json")).seed).toBe(6);
  });

  it("replays what it wrote, through parallel queues, with a clock that is off", async () => {
    const out = join(directory, "again");
    const capture = join(directory, "plain", "sender.pcap");
    const printed = JSON.parse(
      await run(
        "--out",
        out,
        "--replay",
        capture,
        "--paths",
        "4",
        "--clock",
        "receiver:offset=1ms",
        "--json",
      ),
    );
    expect(printed.totals.sent).toBe(
      JSON.parse(readFileSync(join(directory, "plain", "truth.json"), "utf8")).totals.sent,
    );
    expect(printed.scenario.clocks).toEqual({ receiver: { offsetNs: 1e6 } });
  });

  it("refuses options that contradict each other", async () => {
    await expect(run("--out", directory, "--queue", "none", "--cross", "1k")).rejects.toThrow(/--cross/);
    await expect(run("--out", directory, "--rate", "fast")).rejects.toThrow(/rate: invalid value/);
  });

  it("shows examples in its help", () => {
    let help = "";
    const command = simulateCommand().configureOutput({ writeOut: (text) => (help += text) });
    command.outputHelp();
    expect(help).toContain("hoptime simulate --out sim --replay");
  });
});

describe("a simulated network", () => {
  it("ends when what waits was taken, and not while something is; gives up where nothing is", async () => {
    const counts = { sent: 0, unchanged: 0, refused: 0, dropped: 0, waiting: 3, waitingBytes: 0 };
    const timer = setInterval(() => counts.waiting > 0 && counts.waiting--, 60);
    const { signal } = new AbortController();
    await whenSent({ counts }, signal);
    clearInterval(timer);
    expect(counts.waiting).toBe(0);
    await whenSent({ counts: { ...counts, waiting: 1 } }, signal, 100);
    await whenSent({ counts: { ...counts, waiting: 1 } }, AbortSignal.abort());
  });

  it("names a file for the truth that cannot be written, before anything is simulated", async () => {
    const map = join(directory, "truth-map.csv");
    writeFileSync(map, "A,B,1,1\n");
    const to = ["--to", join(directory, "truth-records")];
    for (const [path, why] of [
      [directory, "illegal operation on a directory"],
      [join(directory, "none", "truth"), "no such file or directory"],
    ] as const)
      await expect(run("--network", map, ...to, "--truth", path)).rejects.toThrow(
        `${path}: cannot be written: ${why}`,
      );
  });

  it("names records that a collector did not take", async () => {
    const collector = createServer((request, response) => {
      request.resume().on("end", () => {
        const refused = Array.from({ length: 100 }, () => ({ outcome: "refused", reason: "not mine" }));
        response.end(JSON.stringify({ results: refused }));
      });
    });
    await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
    const { port } = collector.address() as AddressInfo;
    const map = join(directory, "map.csv");
    writeFileSync(map, "A,B,1,1\n");
    try {
      await expect(
        run("--network", map, "--rate", "20", "--duration", "2s", "--to", `http://127.0.0.1:${port}`),
      ).rejects.toThrow(/0 records were not sent in time, \d+ refused, 0 dropped/);
    } finally {
      collector.close();
    }
  });
});
