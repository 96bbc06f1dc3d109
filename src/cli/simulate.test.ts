import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import { simulateCommand } from "./simulate.ts";

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
    const told = JSON.parse(await run("--out", out, "--scenario", file, "--json"));
    expect(told).toMatchObject({ seed: 5, totals: { sent: 1000, lost: 0, minNs: 777, maxNs: 777 } });
    expect(told.files.map((f: { point: string }) => f.point)).toEqual(["sender", "middle", "receiver"]);
    expect(told.flows).toBeUndefined();
    expect(JSON.parse(await run("--out", out, "--scenario", file, "--seed", "6", "--json")).seed).toBe(6);
  });

  it("replays what it wrote, through parallel queues, with a clock that is off", async () => {
    const out = join(directory, "again");
    const capture = join(directory, "plain", "sender.pcap");
    const told = JSON.parse(
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
    expect(told.totals.sent).toBe(
      JSON.parse(readFileSync(join(directory, "plain", "truth.json"), "utf8")).totals.sent,
    );
    expect(told.scenario.clocks).toEqual({ receiver: { offsetNs: 1e6 } });
  });

  it("refuses options that contradict each other", async () => {
    await expect(run("--out", directory, "--queue", "none", "--cross", "1k")).rejects.toThrow(/--cross/);
    await expect(run("--out", directory, "--rate", "fast")).rejects.toThrow(/--rate/);
  });

  it("shows examples in its help", () => {
    let help = "";
    const command = simulateCommand().configureOutput({ writeOut: (text) => (help += text) });
    command.outputHelp();
    expect(help).toContain("hoptime simulate --out sim --replay");
  });
});
