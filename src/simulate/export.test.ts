import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "../capture/batch.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { formatFlowKey } from "../capture/flow/flow-text.ts";
import { CaptureReader } from "../capture/reader.ts";
import { exportSimulation } from "./export.ts";
import { PcapWriter } from "./pcap-writer.ts";
import type { Scenario } from "./scenario.ts";

const kernels = new Kernels();
const directory = mkdtempSync(join(tmpdir(), "hoptime-export-"));
afterAll(() => rmSync(directory, { recursive: true }));
const tshark = spawnSync("tshark", ["--version"]).status === 0;

const scenario: Scenario = {
  seed: 9,
  traffic: { kind: "synthetic", ratePps: 100_000, durationS: 0.2 },
  path: [
    { kind: "queue", utilisation: 0.9, capacityPackets: 200, point: "middle" },
    { kind: "loss", model: "bursts", probability: 0.01, meanBurst: 5 },
    { kind: "reorder", probability: 0.05, extentNs: 50_000 },
  ],
  probes: { ratePps: 1000 },
};

interface Seen {
  at: bigint;
  flow: string;
  length: number;
}

async function read(file: string): Promise<Map<string, Seen>> {
  const key = FlowKeySpec.parse();
  const reader = await CaptureReader.open(kernels, file, { key });
  const seen = new Map<string, Seen>();
  while (await reader.next()) {
    const { batch } = reader;
    const { digest, timeNs, wireLength, meta, addrA, count } = batch;
    for (let i = 0; i < count; i++) {
      const words = [meta[2 * i]!, meta[2 * i + 1]!, addrA[2 * i]!, addrA[2 * i + 1]!, 0, 0, 0, 0, 0, 0];
      seen.set(`${digest[2 * i]},${digest[2 * i + 1]}`, {
        at: reader.originNs! + BigInt(timeNs[i]!),
        flow: formatFlowKey(key.describe(words)),
        length: wireLength[i]!,
      });
    }
  }
  reader.close();
  const readBack = reader.statistics();
  expect(readBack.partial).toBeNull();
  expect(readBack.skipped).toEqual({});
  expect(readBack.packets).toBe(seen.size);
  return seen;
}

describe("a simulation as files", () => {
  it("read back gives exactly the truth, packet by packet and flow by flow", async () => {
    const truth = await exportSimulation(kernels, scenario, directory, { packets: true });
    const sender = await read(join(directory, "sender.pcap"));
    const middle = await read(join(directory, "middle.pcap"));
    const receiver = await read(join(directory, "receiver.pcap"));
    expect(truth.files.map((f) => f.packets)).toEqual([sender.size, middle.size, receiver.size]);
    expect(sender.size).toBe(truth.totals.sent + truth.totals.own.sent);
    expect(sender.size - receiver.size).toBe(truth.totals.lost + truth.totals.own.lost);
    expect(sender.size).toBeGreaterThan(middle.size);
    expect(middle.size).toBeGreaterThan(receiver.size);

    const flows = new Map<string, { sent: number; lost: number; sum: number }>();
    const fates: string[] = [];
    let between = 0;
    for (const [id, { at, flow, length }] of sender) {
      const f = flows.get(flow) ?? { sent: 0, lost: 0, sum: 0 };
      flows.set(flow, f);
      f.sent++;
      const arrived = receiver.get(id);
      if (!arrived) f.lost++;
      else {
        f.sum += Number(arrived.at - at);
        const passed = middle.get(id)!.at;
        if (at < passed && passed <= arrived.at) between++;
      }
      const own = flow.includes("192.0.2.1:") ? "probe" : "";
      fates.push(`${at - 1_704_067_200_000_000_000n},${arrived ? arrived.at - at : ""},${length},${own}`);
    }
    expect(between).toBe(receiver.size);
    expect(readFileSync(join(directory, "packets.csv"), "utf8").trimEnd().split("\n").slice(1)).toEqual(
      fates,
    );
    const probes = [...flows.keys()].filter((f) => f.includes("192.0.2.1:"));
    for (const p of probes) flows.delete(p);
    const readBack = JSON.parse(readFileSync(join(directory, "truth.json"), "utf8")) as typeof truth;
    expect(readBack).toEqual(JSON.parse(JSON.stringify(truth)));
    expect(readBack.flows.length).toBe(flows.size);
    for (const f of readBack.flows) {
      const slow = flows.get(f.flow)!;
      expect([f.sent, f.lost]).toEqual([slow.sent, slow.lost]);
      expect(f.meanNs).toBe(slow.sent > slow.lost ? slow.sum / (slow.sent - slow.lost) : null);
    }
  });

  it("is the same bytes for the same seed", async () => {
    const again = join(directory, "again");
    await exportSimulation(kernels, scenario, directory);
    await exportSimulation(kernels, scenario, again);
    for (const name of ["sender.pcap", "middle.pcap", "receiver.pcap", "truth.json"])
      expect(readFileSync(join(again, name)).equals(readFileSync(join(directory, name)))).toBe(true);
  });

  it("refuses a directory that cannot be made", async () => {
    await expect(exportSimulation(kernels, scenario, join(directory, "truth.json", "below"))).rejects.toThrow(
      /is not a directory/,
    );
  });
});

const word = fc.integer({ min: 1, max: 0xffff_fffe });
const anyRow = fc.record({
  proto: fc.constantFrom(6, 17, 1, 58, 47, 132),
  six: fc.boolean(),
  words: fc.array(word, { minLength: 8, maxLength: 8 }),
  ports: word,
  dscp: fc.integer({ min: 0, max: 63 }),
  length: fc.integer({ min: 60, max: 1500 }),
  ipid: fc.integer({ min: 0, max: 0xffff }),
  time: fc.integer({ min: 0, max: 1e10 }),
});

describe("the capture writer", () => {
  const file = join(directory, "rows.pcap");
  it.each(["raw", "ethernet"] as const)(
    "(%s) writes what the decoder reads back, checksums included",
    async (link) => {
      const rows = fc.sample(anyRow, { numRuns: 500, seed: 7 });
      const batch = new PacketBatch(kernels);
      batch.count = rows.length;
      const address = [batch.addrA, batch.addrB, batch.addrC, batch.addrD];
      rows.forEach((r, i) => {
        const hasPorts = r.proto === 6 || r.proto === 17 || r.proto === 132;
        batch.timeNs[i] = r.time;
        batch.digest[2 * i] = 3 * i;
        batch.digest[2 * i + 1] = i;
        batch.meta[2 * i] = hasPorts ? r.ports : 0;
        batch.meta[2 * i + 1] = r.proto | (r.dscp << 8) | (r.six ? 1 << 27 : 0) | (hasPorts ? 1 << 28 : 0);
        address.forEach((column, k) => {
          column[2 * i] = k === 0 || r.six ? r.words[2 * k]! : 0;
          column[2 * i + 1] = k === 0 || r.six ? r.words[2 * k + 1]! : 0;
        });
        batch.wireLength[i] = r.length;
        batch.ipid[i] = r.ipid;
        batch.flags[i] = 64;
      });
      const writer = new PcapWriter(kernels, file, 1, { link, snapLength: 2000 });
      writer.write(batch);
      writer.close();
      const reader = await CaptureReader.open(kernels, file);
      const seen = new Set<string>();
      let n = 0;
      while (await reader.next()) {
        const { meta, addrA, addrD, wireLength, ipid, digest, count } = reader.batch;
        for (let i = 0; i < count; i++, n++) {
          const r = rows[n]!;
          expect([meta[2 * i], meta[2 * i + 1]]).toEqual([batch.meta[2 * n], batch.meta[2 * n + 1]]);
          expect([addrA[2 * i], addrA[2 * i + 1]]).toEqual([r.words[0], r.words[1]]);
          if (r.six) expect([addrD[2 * i], addrD[2 * i + 1]]).toEqual([r.words[6], r.words[7]]);
          else expect(ipid[i]).toBe(r.ipid);
          expect(wireLength[i]).toBe(r.length + (link === "ethernet" ? 14 : 0));
          seen.add(`${digest[2 * i]},${digest[2 * i + 1]}`);
        }
      }
      reader.close();
      batch.free();
      expect(n).toBe(rows.length);
      expect(seen.size).toBe(rows.length);
      if (!tshark) return console.warn("tshark is not there: checksums are not verified by another tool");
      const protocols = ["ip", "tcp", "udp"].flatMap((p) => ["-o", `${p}.check_checksum:TRUE`]);
      const fields = [
        "ip.checksum.status",
        "tcp.checksum.status",
        "udp.checksum.status",
        "icmp.checksum.status",
        "icmpv6.checksum.status",
      ];
      const readBack = execFileSync(
        "tshark",
        ["-r", file, ...protocols, "-T", "fields", "-E", "occurrence=f", ...fields.flatMap((f) => ["-e", f])],
        { stdio: ["ignore", "pipe", "ignore"], maxBuffer: 1 << 26 },
      ).toString();
      const lines = readBack.trimEnd().split("\n");
      expect(lines.length).toBe(rows.length);
      const statuses = lines.map((l) => l.split("\t"));
      // 0 is "bad", 1 "good", 2 "unverified".
      expect(statuses.flat().filter((s) => s === "0" || s === "Bad")).toEqual([]);
      const good = statuses.flat().filter((s) => s === "1" || s === "Good").length;
      expect(good).toBeGreaterThan(rows.length);
    },
  );
});

describe("a run that fails", () => {
  const bad: [string, Scenario][] = [
    ["a shape of 0", delayed({ kind: "weibull", scaleNs: 1000, shape: 0 })],
    ["bounds the wrong way round", delayed({ kind: "uniform", lowNs: 2000, highNs: 1000 })],
    ["a share above 1", delayed({ kind: "bimodal", shareLow: 3 })],
    [
      "a loss that is no probability",
      { ...scenario, path: [{ kind: "loss", model: "uniform", probability: 2 }] },
    ],
    ["a replay of nothing", { ...scenario, traffic: { kind: "replay", file: join(directory, "none.pcap") } }],
    [
      "more packets than the links carry",
      { ...scenario, traffic: { kind: "synthetic", ratePps: 1e12, durationS: 1 } },
    ],
    [
      "a point whose capture would lie elsewhere",
      { ...scenario, path: [{ kind: "queue", utilisation: 0.5, point: "../up" }] },
    ],
  ];

  function delayed(model: Extract<Scenario["path"][number], { kind: "delay" }>["model"]): Scenario {
    return { ...scenario, path: [{ kind: "delay", model }] };
  }

  it.each(bad)("is refused and leaves nothing behind: %s", async (_, wrong) => {
    const out = join(directory, "failed", "deep");
    await expect(exportSimulation(kernels, wrong, out)).rejects.toThrow(UsageError);
    expect(existsSync(join(directory, "failed"))).toBe(false);
    expect(existsSync(join(directory, "up.pcap"))).toBe(false);
  });

  it("leaves the files of an earlier run as they were", async () => {
    const out = join(directory, "kept");
    await exportSimulation(kernels, scenario, out, { packets: true });
    const files = readdirSync(out).sort();
    expect(files).toEqual(["middle.pcap", "packets.csv", "receiver.pcap", "sender.pcap", "truth.json"]);
    const before = files.map((f) => readFileSync(join(out, f)));
    const fails: Scenario = { ...scenario, path: [{ kind: "queue", utilisation: -1, point: "middle" }] };
    await expect(exportSimulation(kernels, fails, out)).rejects.toThrow(
      "path[0].utilisation: invalid value -1",
    );
    expect(readdirSync(out).sort()).toEqual(files);
    for (const [i, f] of files.entries()) expect(readFileSync(join(out, f)).equals(before[i]!)).toBe(true);
  });
});
