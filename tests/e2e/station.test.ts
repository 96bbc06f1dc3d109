/**
 * The monitoring station from end to end: simulated m-routers over UDP, a real collector with a map, taps that follow its plan, and delays of every segment
 * compared with the true ones.
 */
import { createSocket } from "node:dgram";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { Random } from "../../src/base/random.ts";
import type { Plan } from "../../src/network/plan/plan.ts";
import { encodeMsp, type MspEntry } from "../../src/network/station/msp.ts";
import type { Series } from "../../src/results/series.ts";
import type { TapPlanState } from "../../src/server/tap-plan.ts";
import { type CollectProcess, runHoptime, startCollect } from "../support/collect-process.ts";
import { type SmallPacket, writePcap } from "../support/small-pcap.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-station-"));
const data = join(root, "data");
const map = join(root, "lab.json");
const socket = createSocket("udp4");
let collector: CollectProcess | null = null;
afterAll(async () => {
  socket.close();
  await collector?.stop();
  rmSync(root, { recursive: true, force: true });
});

writeFileSync(
  map,
  JSON.stringify({
    format: "hoptime.topology/1",
    name: "lab",
    routers: ["A", "B", "C", "D"],
    links: [
      { from: "A", to: "B", fromPort: "eth1", toPort: "eth0" },
      { from: "B", to: "C", fromPort: "eth1", toPort: "eth0" },
      { from: "C", to: "D", fromPort: "eth1", toPort: "eth0" },
    ],
    hosts: [
      { name: "10.1.0.0/16", router: "A", port: "eth7" },
      { name: "10.3.0.0/16", router: "C", port: "eth7" },
    ],
  }),
);

/** Points on the path from 10.1 to 10.3, and the mean delay from the previous one in ns. */
const WAY = [
  ["A[eth7]", 0],
  ["A[eth1]", 40_000],
  ["B[eth0]", 1_000_000],
  ["B[eth1]", 250_000],
  ["C[eth0]", 2_000_000],
  ["C[eth7]", 30_000],
] as const;

interface StationPlan {
  routers: string[];
  links: { from: string; to: string }[];
  plan: Plan;
}

interface StationJson {
  counts: Record<string, number>;
  routers: { name: string; mSet: string[]; expiresNs: string; sequence: number }[];
  segments: {
    from: string;
    to: string;
    by: string;
    filter: string;
    heldUntilNs: string | null;
    measured: object | null;
  }[];
  probes: { from: string; to: string; probing: boolean }[];
}

const get = async <T>(path: string): Promise<T> =>
  (await (await fetch(`${collector?.url}${path}`)).json()) as T;

async function until<T>(look: () => Promise<T>, done: (value: T) => boolean): Promise<T> {
  for (let n = 0; ; n++) {
    const value = await look();
    if (done(value) || n > 1200) return value;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const sequences = new Map<string, number>();
async function announce(router: string, entries: MspEntry[] = []): Promise<void> {
  const sequence = (sequences.get(router) ?? 0) + 1;
  sequences.set(router, sequence);
  const nowNs = BigInt(Date.now()) * 1_000_000n;
  const bytes = encodeMsp({
    ...{ reporter: router, reporterKind: "m-router", sequence, entries },
    ...{ epochStartNs: nowNs - 1_000_000_000n, epochEndNs: nowNs },
  });
  const port = Number(/udp \S+:(\d+)/.exec(collector?.log() ?? "")?.[1]);
  await new Promise((resolve) => socket.send(bytes, port, "127.0.0.1", resolve));
}

/** Captures of all points; exact means by segment. */
function captures(): Map<string, number> {
  const random = new Random("station");
  const START = 1_700_000_000_000_000_000n;
  const at = new Map<string, SmallPacket[]>(WAY.map(([point]) => [point, []]));
  const sums = new Map<string, number>();
  const count = 6000;
  for (let n = 0; n < count; n++) {
    let timeNs = START + 500_000_000n + BigInt(n) * 1_000_000n;
    const packet = {
      ...{
        src: `10.1.0.${1 + (n % 9)}`,
        dst: "10.3.0.7",
        sport: 1000 + (n % 9),
        dport: 80,
        ipid: n & 0xffff,
      },
      payload: Uint8Array.from({ length: 16 }, () => random.below(256)),
    };
    for (const [i, [point, meanNs]] of WAY.entries()) {
      const delayNs = i === 0 ? 0 : Math.round(meanNs * (0.8 + 0.4 * random.float()));
      timeNs += BigInt(delayNs);
      if (i > 0)
        sums.set(`${WAY[i - 1]?.[0]} ${point}`, (sums.get(`${WAY[i - 1]?.[0]} ${point}`) ?? 0) + delayNs);
      at.get(point)?.push({ ...packet, timeNs });
    }
    // Other traffic passes B as well, and must not count.
    for (const point of ["B[eth0]", "C[eth7]"])
      at.get(point)?.push({ ...packet, src: "10.9.9.9", dst: "10.8.8.8", timeNs: timeNs + 7n });
  }
  for (const [point, packets] of at)
    writePcap(
      join(root, `${point}.pcap`),
      packets.sort((a, b) => (a.timeNs < b.timeNs ? -1 : 1)),
    );
  return new Map([...sums].map(([key, sum]) => [key, sum / count]));
}

it("routers announce themselves, taps follow, segments are estimated; a crash forgets nothing, silence does", async () => {
  const args = [
    "--topology",
    map,
    "--station",
    "127.0.0.1:0",
    "--station-hold",
    "12s",
    "--probe",
    "D:C[eth1]=127.0.0.1:18862",
  ];
  collector = await startCollect(data, args);
  expect((await get<TapPlanState>("/v1/plan")).plan).toBeNull();
  const measured: MspEntry = {
    kind: "router",
    from: "B[eth0]",
    to: "B[eth1]",
    packets: 9,
    lost: 0,
    delay: { meanNs: 3, lowNs: 2, highNs: 4 },
  };
  for (const router of ["A", "B", "C"]) await announce(router, router === "B" ? [measured] : []);
  await new Promise((resolve) =>
    socket.send(
      "HMSP nonsense",
      Number(/udp \S+:(\d+)/.exec(collector?.log() ?? "")?.[1]),
      "127.0.0.1",
      resolve,
    ),
  );
  const { plan } = await until(
    () => get<TapPlanState>("/v1/plan"),
    (p) => (p.plan?.segments ?? []).length > 0,
  );
  expect(plan?.segments).toContainEqual({
    ...{ from: "B[eth0]", to: "B[eth1]", filter: "src net 10.1.0.0/16 and dst net 10.3.0.0/16" },
  });
  expect(plan?.segments).toHaveLength(10);
  const station = await until(
    () => get<StationJson>("/v1/station"),
    (s) => s.probes.some((p) => p.probing),
  );
  expect(station.routers.map((r) => r.name)).toEqual(["A", "B", "C"]);
  expect(station.routers[2]?.mSet).toEqual(["B", "D"]);
  expect(station.counts).toMatchObject({ received: 4, accepted: 3, malformed: 1 });
  expect(station.segments.find((s) => s.from === "B[eth0]" && s.to === "B[eth1]")?.measured).toMatchObject({
    packets: 9,
  });
  expect(station.probes.filter((p) => p.probing)).toMatchObject([{ from: "D", to: "C[eth1]" }]);

  const upgrades = await get<StationPlan>("/v1/station/plan");
  expect(upgrades.routers).toEqual(["A", "B", "C", "D"]);
  expect(upgrades.plan.already).toEqual(["A", "B", "C"]);
  expect(upgrades.links).toContainEqual({ from: "C", to: "D" });
  expect(upgrades.plan.steps[0]?.segments.meanHops).toBe(1);

  // They keep announcing themselves, however long the rest takes.
  const announcing = setInterval(() => {
    for (const router of ["A", "B", "C"]) void announce(router);
  }, 1000);
  // Taps that only know their point and the collector.
  const exact = captures();
  const url = collector.url;
  for (const [point] of WAY)
    await runHoptime([
      ...["observe", join(root, `${point}.pcap`), "--point", point, "--to", url],
      ...["--spool", join(root, "spool", point)],
    ]);
  let inside = 0;
  for (const [i, [to]] of WAY.entries()) {
    const from = WAY[i - 1]?.[0];
    if (from === undefined) continue;
    // The captures have old times; the routers' reports are of today.
    const query = new URLSearchParams({ from, to, step: "1h", until: "2023-11-14T23:00:00Z" });
    const { points } = await until(
      () => get<Series>(`/v1/latency?${query}`),
      (s) => (s.points?.[0]?.epochs ?? 0) >= 7 && (s.points?.[0]?.missing ?? 1) === 0,
    );
    const truth = exact.get(`${from} ${to}`) ?? 0;
    const [all] = points;
    expect(all?.sent, `${from} > ${to}`).toBe(6000);
    expect(all?.lost).toBe(0);
    const { lowNs = 0, highNs = 0, meanNs = 0 } = all?.latency ?? {};
    if (lowNs <= truth && truth <= highNs) inside++;
    expect(Math.abs(meanNs - truth), `${from} > ${to}`).toBeLessThan(0.001 * truth);
  }
  // 95 % each: more than one of five outside has a probability of 1/44; the seed is fixed.
  expect(inside).toBeGreaterThanOrEqual(4);

  // Received again, and on disk: a crash loses only the last few seconds.
  for (const router of ["A", "B", "C"]) await announce(router);
  await new Promise((resolve) => setTimeout(resolve, 4000));
  clearInterval(announcing);
  await collector.stop("kill");
  collector = await startCollect(data, args);
  const after = await get<StationJson>("/v1/station");
  expect(after.routers.map((r) => r.name)).toEqual(["A", "B", "C"]);
  expect((await get<TapPlanState>("/v1/plan")).plan).toEqual(plan);
  await announce("A");
  // B and C stay silent.
  const silent = await until(
    async () => {
      await announce("A");
      return get<StationJson>("/v1/station");
    },
    (s) => s.routers.length === 1,
  );
  expect(silent.routers.map((r) => r.name)).toEqual(["A"]);
  const held = silent.segments.filter((s) => s.from === "B[eth0]" && s.to === "B[eth1]");
  expect(held[0]?.heldUntilNs).not.toBeNull();
});

it("a station that others can reach needs a key", async () => {
  await expect(
    startCollect(join(root, "open"), ["--topology", map, "--station", "0.0.0.0:0"]),
  ).rejects.toThrow(/anybody could send reports/);
  await expect(startCollect(join(root, "open"), ["--probe", "A:B=127.0.0.1"])).rejects.toThrow(/--station/);
});
