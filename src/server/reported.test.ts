/** Measurements reported by m-routers (docs/formats/msp.md): rows like others, over time, in questions, in incidents, and after a restart. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { Random } from "../base/random.ts";
import { encodeMsp, type MspEntry } from "../network/station/msp.ts";
import { parseTopologyConfig } from "../network/topology/topology-config.ts";
import { serverOptions } from "./config/collector-options.ts";
import { parseConfig } from "./config/read-config.ts";
import type { IncidentJson } from "./monitor/incident-json.ts";
import { type RunningServer, startServer } from "./server.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-reported-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const topology = parseTopologyConfig(
  {
    format: "hoptime.topology/1",
    routers: ["A", "B", "C"],
    links: [
      { from: "A", to: "B", fromPort: "eth1", toPort: "eth0" },
      { from: "B", to: "C", fromPort: "eth1", toPort: "eth0" },
    ],
  },
  "lab.json",
);
const SECOND = 1_000_000_000n;
const START = 1_700_000_000n * SECOND;
const SECONDS = 80;
/** Mean delays of the links and of B in ns; the second link is slow from second 40 to 52. */
const SEGMENTS = [
  { kind: "link", from: "A[eth1]", to: "B[eth0]", reporter: "B", meanNs: 1_000_000 },
  { kind: "router", from: "B[eth0]", to: "B[eth1]", reporter: "B", meanNs: 200_000 },
  { kind: "link", from: "B[eth1]", to: "C[eth0]", reporter: "C", meanNs: 2_000_000 },
] as const;
const isSlow = (n: number) => n >= 40 && n < 52;

async function start(): Promise<RunningServer> {
  const config = {
    ...{ data: join(root, "data"), lateness: "2s", incidents: { settle: 20 } },
    paths: [{ name: "A to C", points: ["A[eth1]", ...SEGMENTS.map((s) => s.to)] }],
  };
  return await startServer({
    ...serverOptions(parseConfig(JSON.stringify(config), "hoptime.yaml")),
    ...{ listen: "127.0.0.1:0", tickMs: 1e9, station: { topology, listen: "127.0.0.1:0", tickMs: 1e9 } },
    now: () => START + BigInt(SECONDS) * SECOND,
  });
}

it("what routers report becomes rows; the slow link is blamed; packets that are repeated count once", async () => {
  const random = new Random("reported");
  let server = await start();
  const sums = new Map<string, number>();
  for (let n = 0; n < SECONDS; n++) {
    const [epochStartNs, epochEndNs] = [START + BigInt(n) * SECOND, START + BigInt(n + 1) * SECOND];
    for (const reporter of ["A", "B", "C"]) {
      const entries: MspEntry[] = SEGMENTS.filter((s) => s.reporter === reporter).map((s, i) => {
        const more = reporter === "C" && isSlow(n) ? 5_000_000 : 0;
        const meanNs = s.meanNs + more + 2000 * random.float();
        if (s.meanNs === 2_000_000) sums.set("slow", (sums.get("slow") ?? 0) + meanNs);
        const delay = { meanNs, lowNs: meanNs - 3000, highNs: meanNs + 3000 };
        return { kind: s.kind, from: s.from, to: s.to, packets: 1000, lost: i === 1 ? 2 : 0, delay };
      });
      const packet = encodeMsp({
        ...{ reporter, reporterKind: "m-router", sequence: n + 1, epochStartNs, epochEndNs, entries },
      });
      server.station?.state.take(packet, "127.0.0.1:1");
      server.station?.state.take(packet, "127.0.0.1:1");
    }
    if (n % 10 === 9) await server.service.settle();
  }
  const get = async (path: string) => (await fetch(`${server.url}${path}`)).json() as Promise<never>;
  const check = async () => {
    const { points } = (await get(
      "/v1/latency?from=B[eth1]&to=C[eth0]&step=1h&estimator=reported&since=2023-11-14T00:00:00Z",
    )) as {
      points: {
        epochs: number;
        sent: number;
        lost: number;
        latency: { meanNs: number; lowNs: number; highNs: number };
      }[];
    };
    expect(points.reduce((sum, p) => sum + p.epochs, 0)).toBe(SECONDS);
    expect(points.reduce((sum, p) => sum + p.sent, 0)).toBe(1000 * SECONDS);
    const mean = points.reduce((sum, p) => sum + p.latency.meanNs * p.epochs, 0) / SECONDS;
    expect(mean).toBeCloseTo((sums.get("slow") ?? 0) / SECONDS, 3);
    const { incidents } = (await get("/v1/incidents")) as { incidents: IncidentJson[] };
    expect(incidents).toHaveLength(1);
    expect(JSON.stringify(incidents[0])).toContain("B[eth1]");
    expect(incidents[0]).toMatchObject({ segment: { from: "B[eth1]", to: "C[eth0]" } });
  };
  await check();
  const router = (await get("/v1/latency?from=B[eth0]&to=B[eth1]&step=1h&since=2023-11-14T00:00:00Z")) as {
    points: { lost: number }[];
  };
  expect(router.points.reduce((sum, p) => sum + p.lost, 0)).toBe(2 * SECONDS);
  await server.close();
  server = await start();
  await check();
  await server.close();
});
