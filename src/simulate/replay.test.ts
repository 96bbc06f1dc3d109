import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Kernels } from "../base/kernels.ts";
import { exportSimulation } from "./export.ts";
import type { ReplayTraffic } from "./scenario.ts";
import { simulate } from "./simulate.ts";

const kernels = new Kernels();
const directory = mkdtempSync(join(tmpdir(), "hoptime-replay-"));
const file = join(directory, "sender.pcap");
let packets = 0;
let flows = 0;

beforeAll(async () => {
  const truth = await exportSimulation(
    kernels,
    {
      seed: 4,
      traffic: { kind: "synthetic", ratePps: 50_000, durationS: 0.2 },
      path: [{ kind: "queue", utilisation: 0.7 }],
      // With jitter, the receiver's timestamps go back in time.
      clocks: { receiver: { jitterNs: 20_000 } },
    },
    directory,
  );
  packets = truth.totals.sent;
  flows = truth.totals.flows;
});
afterAll(() => rmSync(directory, { recursive: true }));

interface Row {
  at: number;
  length: number;
  flow: string;
}

async function replay(traffic: Partial<ReplayTraffic> & { file: string }): Promise<Row[]> {
  const rows: Row[] = [];
  for await (const b of simulate(kernels, { traffic: { kind: "replay", ...traffic }, path: [] }).combined()) {
    const { timeNs, wireLength, addrA, meta, count } = b;
    for (let i = 0; i < count; i++)
      rows.push({
        at: timeNs[i]!,
        length: wireLength[i]!,
        flow: `${addrA[2 * i]},${addrA[2 * i + 1]},${meta[2 * i]},${meta[2 * i + 1]! & 0xff}`,
      });
  }
  return rows;
}

describe("replay", () => {
  it("keeps arrival times, lengths and flows", async () => {
    const rows = await replay({ file });
    const original: Row[] = [];
    let first = Number.NaN;
    const sim = simulate(kernels, {
      seed: 4,
      traffic: { kind: "synthetic", ratePps: 50_000, durationS: 0.2 },
      path: [],
    });
    for await (const b of sim.combined()) {
      const { timeNs, wireLength, addrA, meta, count } = b;
      if (Number.isNaN(first)) first = timeNs[0]!;
      for (let i = 0; i < count; i++)
        original.push({
          at: timeNs[i]! - first,
          length: wireLength[i]!,
          flow: `${addrA[2 * i]},${addrA[2 * i + 1]},${meta[2 * i]},${meta[2 * i + 1]! & 0xff}`,
        });
    }
    expect(rows.length).toBe(packets);
    expect(rows).toEqual(original);
  });

  it("in half the time is twice as fast", async () => {
    const [slow, fast] = [await replay({ file }), await replay({ file, timeScale: 0.5 })];
    expect(fast.map((r) => r.at)).toEqual(slow.map((r) => Math.floor(r.at / 2)));
  });

  it("looped goes on at the same rate, and every loop has flows of its own", async () => {
    const once = await replay({ file });
    const span = once.at(-1)!.at;
    const rows = await replay({ file, durationS: (3 * span * 1.001) / 1e9 });
    expect(Math.abs(rows.length / packets - 3)).toBeLessThan(0.02);
    const loops = [0, 1, 2].map(
      (k) => new Set(rows.slice(k * packets, (k + 1) * packets).map((r) => r.flow)),
    );
    expect(loops[0]!.size).toBe(flows);
    expect(loops[1]!.size).toBe(flows);
    for (const flow of loops[1]!) expect(loops[0]!.has(flow)).toBe(false);
    expect(rows.every((r, i) => i === 0 || r.at >= rows[i - 1]!.at)).toBe(true);
  });

  it("never sends backwards, whatever the timestamps of the capture do", async () => {
    const rows = await replay({ file: join(directory, "receiver.pcap") });
    expect(rows.length).toBe(packets);
    expect(rows.every((r, i) => i === 0 || r.at >= rows[i - 1]!.at)).toBe(true);
  });

  it("finds the drain rate from the capture's own bytes", async () => {
    const sim = simulate(kernels, {
      traffic: { kind: "replay", file },
      path: [{ kind: "queue", utilisation: 0.6 }],
    });
    for await (const _ of sim.combined());
    const { durationNs } = await sim.offered();
    expect(sim.statistics[0]!.busyNs / durationNs).toBeCloseTo(0.6, 6);
  });

  const shared = process.env["HOPTIME_SHARED"] ?? new URL("../../../shared", import.meta.url).pathname;
  const mawi = join(shared, "traces/replay/mawi-20060105-10k.pcap.gz");
  it.skipIf(!existsSync(mawi))(
    "takes a recorded backbone capture (skipped: ../shared is not there)",
    async () => {
      const sim = simulate(kernels, {
        traffic: { kind: "replay", file: mawi, durationS: 3, timeScale: 0.9 },
        path: [{ kind: "queue", utilisation: 0.9 }],
      });
      const table = await sim.flows();
      const { packets: offered } = await sim.offered();
      expect(offered).toBeGreaterThan(30_000);
      expect(table.column("sent").reduce((a, b) => a + b, 0)).toBe(offered);
      // 4,323 flows per loop of 0.81 s.
      expect(table.size).toBeGreaterThan(3 * 4000);
      table.free();
    },
  );
});
