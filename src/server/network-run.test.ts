/** A whole simulated network through the real pipeline: the collector's intervals contain the truth as often as stated. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type EpochTruth, runNetwork } from "../evaluate/network-run.ts";
import { readNetwork } from "../network/traffic/network-file.ts";
import { planTaps } from "../observe/plan.ts";
import { latencySeries } from "../results/series.ts";
import { HttpSink } from "../transport/http/http-sink.ts";
import { endsOfLabel } from "../transport/nats/subjects.ts";
import { startServer } from "./server.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-network-run-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const ORIGIN_NS = 1_700_000_000_000_000_000n;
const SECONDS = 40;

function networkFile(): string {
  writeFileSync(join(root, "map.csv"), "A,B,1\nB,A,1\nB,C,1\nC,B,1\nC,D,1\nD,C,1\nA,D,9\nD,A,9\n");
  const file = join(root, "network.json");
  const demands = [
    { from: "A", to: "D", pps: 200 },
    { from: "D", to: "B", pps: 300 },
    { from: "C", to: "A", pps: 100 },
  ];
  const incidents = [
    { from: "B", to: "C", startS: 33, durationS: 4, load: 1.3 },
    { from: "B", to: "C", startS: 15, durationS: 10, load: 1.3 },
  ];
  writeFileSync(file, JSON.stringify({ format: "hoptime.network/1", map: "map.csv", demands, incidents }));
  return file;
}

describe("a simulated network", () => {
  it("is answered by the collector with intervals that hold the truth", async () => {
    const network = readNetwork(networkFile(), 1);
    // A-B-C-D, D-C-B, C-B-A: links that no demand crosses carry no traffic.
    const loads = network.links.map((l) => [`${l.from}${l.to}`, l.ratePps]).sort();
    expect(loads).toEqual([
      ["AB", 200],
      ["BA", 100],
      ["BC", 200],
      ["CB", 400],
      ["CD", 200],
      ["DC", 300],
    ]);
    const server = await startServer({ data: join(root, "data"), listen: "127.0.0.1:0", tickMs: 100 });
    try {
      const sink = await HttpSink.open({ url: server.url, spoolDirectory: join(root, "spool") });
      const truth = new Map<string, readonly EpochTruth[]>();
      const run = await runNetwork({
        ...{ network, taps: planTaps({ estimators: ["lda"], parameters: {} }), epochNs: 1_000_000_000n },
        ...{ durationS: SECONDS, seed: 3, originNs: ORIGIN_NS, sink },
        onEpochs: (link, epochs) => truth.set(`${link.from}:${link.to}`, epochs),
      });
      await sink.close();
      await server.service.settle();
      expect(run.packets).toBeGreaterThan(0.95 * 1400 * SECONDS);
      let [held, asked, lostWrong] = [0, 0, 0];
      for (const [label, epochs] of truth) {
        const [from = "", to = ""] = label.split(":");
        const selection = { from, to, label, estimator: "lda", fromNs: 0n, toNs: ORIGIN_NS * 2n };
        const { points } = await latencySeries(server.service.results, selection, 0n, 1000);
        for (const [i, { sent, withinMeanNs: meanNs }] of epochs.entries()) {
          const point = points.find((p) => p.startNs === `${epochs[i]?.startNs}`);
          if (!point?.latency || meanNs === null) continue;
          asked++;
          expect(point.sent).toBe(sent);
          // Half a nanosecond of tolerance: if every packet was counted, the interval is as narrow as rounding.
          if (point.latency.lowNs - 0.5 <= meanNs && meanNs <= point.latency.highNs + 0.5) held++;
        }
        const total = epochs.reduce((n, e) => n + e.lost, 0);
        const {
          points: [whole],
        } = await latencySeries(server.service.results, selection, 3_600_000_000_000n, 1);
        // Packets in flight at the end may count as lost.
        if (whole && !((whole.lostLow ?? 0) <= total && total <= (whole.lostHigh ?? 0) + 1)) lostWrong++;
      }
      expect(asked).toBeGreaterThan(200);
      // Stated: 95 %. Of 240 epochs, fewer than 213 contain the truth by chance only once in 10,000 runs.
      expect(held / asked).toBeGreaterThan(0.887);
      expect(lostWrong).toBe(0);
      const slow = truth.get("B:C") ?? [];
      const mean = (from: number, to: number) =>
        slow.slice(from, to).reduce((n, e) => n + (e.meanNs ?? 0), 0) / (to - from);
      expect(mean(17, 24)).toBeGreaterThan(3 * mean(2, 12));
      expect(mean(27, 32)).toBeLessThan(2 * mean(2, 12));
      expect(mean(35, 37)).toBeGreaterThan(3 * mean(2, 12));
    } finally {
      await server.close();
    }
  });

  it("names what is wrong with its file in one line", () => {
    const file = join(root, "bad.json");
    const write = (more: object) =>
      writeFileSync(file, JSON.stringify({ format: "hoptime.network/1", map: "map.csv", ...more }));
    write({ demands: [{ from: "A", to: "X", pps: 1 }] });
    expect(() => readNetwork(file, 1)).toThrow("demands: no router 'X' on the map");
    write({ incidents: [{ from: "A", to: "C", startS: 1, durationS: 1, load: 1 }] });
    expect(() => readNetwork(file, 1)).toThrow("incidents: no link from 'A' to 'C' that carries traffic");
    const incident = { from: "A", to: "B", durationS: 5, load: 1 };
    write({ incidents: [8, 4].map((startS) => ({ ...incident, startS })) });
    expect(() => readNetwork(file, 1)).toThrow("incidents: two at once on the link from 'A' to 'B' (at 8 s)");
    for (const more of [{ demand: [] }, { demands: [] }]) {
      write(more);
      expect(() => readNetwork(file, 1)).toThrow(/demand/);
    }
  });

  it("names points so that records can be theirs, whatever the map calls its routers", () => {
    const long = "SURANET, Georgia Institute of Technology, Atlanta";
    writeFileSync(
      join(root, "names.csv"),
      `"2001:db8::1","${long}"\n"${long}","${long} 2"\n`.replaceAll(", ", " "),
    );
    const file = join(root, "names.json");
    const map = join(root, "names.csv");
    const [from, to] = [long, `${long} 2`].map((name) => name.replaceAll(", ", " "));
    const incidents = [{ from, to, startS: 1, durationS: 1, load: 2 }];
    writeFileSync(file, JSON.stringify({ format: "hoptime.network/1", map, incidents }));
    const { points, links } = readNetwork(file, 1);
    expect(points).toEqual(["2001-db8--1", "SURANET Georgia Institute of Te", "SURANET Georgia Institute~2"]);
    for (const { from, to } of links) expect(endsOfLabel(`${from}:${to}`, from)).toEqual({ from, to });
    expect(links.filter((l) => l.incidents.length > 0)).toHaveLength(1);
  });
});
