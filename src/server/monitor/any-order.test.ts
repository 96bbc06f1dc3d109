/**
 * Incidents and alerts of workers that die and take over, with rows written in any order, must equal those of one process that got the rows in order: byte for
 * byte, as stored in the results. The single process is the oracle for the cluster; its own results are checked against the scene.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { PATH, pathRow, SECOND_NS, SLOW, START_NS } from "../../../tests/support/path-rows.ts";
import { UsageError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { INCIDENT_SETTINGS } from "../../network/incidents/incident.ts";
import { DuckdbStore } from "../../results/duckdb-store.ts";
import type { ResultsStore } from "../../results/results-store.ts";
import type { SegmentRow } from "../../results/rows.ts";
import type { Alert, AlertRule } from "../alerts/alert.ts";
import { Alerts } from "../alerts/alerts.ts";
import { parseCondition } from "../alerts/condition.ts";
import { Events } from "../events.ts";
import type { RowFollower } from "./follower.ts";
import type { IncidentJson } from "./incident-json.ts";
import { NetworkMonitor } from "./network-monitor.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-any-order-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const EPOCHS = 110;
const SEGMENTS = [
  ["A", "B"],
  ["B", "C"],
] as const;
const SETTINGS = {
  paths: [PATH, { name: "part", points: ["B", "C"], estimator: null }],
  incidents: { ...INCIDENT_SETTINGS, settleEpochs: 20 },
};

function rule(name: string, when: string): AlertRule {
  const nothing = { clear: null, segment: null, estimator: null, to: [] };
  return {
    ...nothing,
    name,
    when,
    condition: parseCondition(when),
    forNs: 3n * SECOND_NS,
    clearAfterNs: 4n * SECOND_NS,
  };
}
const RULES = [rule("slow", "mean > 3ms"), rule("blame", "incident")];

interface Worker {
  monitor: NetworkMonitor;
  alerts: Alerts;
}

/** `owns`: returns whether this worker has all partitions; without it, there is one process. */
async function start(results: ResultsStore, owns?: () => boolean): Promise<Worker> {
  const common = { results, events: new Events() };
  const alerts = await Alerts.open({
    ...{ ...common, settings: { rules: RULES, notify: [] }, heard: () => new Map(), nowNs: () => START_NS },
    shared: owns && { owns, ownsPaths: owns, readMs: 0 },
  });
  const monitor = await NetworkMonitor.open({
    ...{ ...common, settings: SETTINGS },
    shared: owns && { isOwner: owns, readMs: 0 },
    onChange: (_, incident) => alerts.incident(incident),
  });
  return { monitor, alerts };
}

async function found(results: ResultsStore) {
  const bodies = async (table: ResultsStore["incidents"]) =>
    (await table.list({ limit: 100 })).map((h) => h.body);
  // The incident in a sent alert may lack flows; answers contain its current state.
  const alerts = (await bodies(results.alerts)).map((body) =>
    JSON.stringify({ ...(JSON.parse(body) as Alert), incident: null }),
  );
  return { incidents: await bodies(results.incidents), alerts };
}

async function feed(followers: readonly RowFollower[], rows: readonly SegmentRow[]): Promise<void> {
  for (const follower of followers) {
    await follower.take(rows);
    await follower.tick();
  }
}

async function ofOneProcess() {
  const results = await DuckdbStore.open(join(root, "one.duckdb"));
  const { monitor, alerts } = await start(results);
  for (let e = 0; e < EPOCHS; e++) {
    const rows = SEGMENTS.map(([from, to]) => pathRow(from, to, e));
    await results.write(rows, []);
    await feed([monitor, alerts], rows);
  }
  await monitor.close();
  await alerts.close();
  const all = await found(results);
  await results.close();
  return all;
}

/** Returns each epoch's rows, some of them up to six epochs late. */
function disordered(random: Random): SegmentRow[][] {
  const steps: SegmentRow[][] = Array.from({ length: EPOCHS + 6 }, () => []);
  for (let e = 0; e < EPOCHS; e++)
    for (const [from, to] of SEGMENTS) {
      // The first rows of each segment are in order: they show where its series begins.
      const late = e > 3 && random.float() < 0.2 ? Math.floor(random.float() * 6) : 0;
      steps[e + late]?.push(pathRow(from, to, e));
    }
  return steps.map((rows) => rows.sort(() => random.float() - 0.5));
}

describe("incidents and alerts", () => {
  const oneProcess = ofOneProcess();

  it("are those of one process, whichever worker dies when, and in whatever order rows are written", async () => {
    const expected = await oneProcess;
    const [incident] = expected.incidents.map((body) => JSON.parse(body) as IncidentJson);
    expect(expected.incidents).toHaveLength(1);
    expect(incident).toMatchObject({
      segment: { from: "B", to: "C" },
      paths: ["north", "part"],
      state: "closed",
    });
    expect(incident?.startNs).toBe(`${START_NS + BigInt(SLOW.first) * SECOND_NS}`);
    expect(expected.alerts).toHaveLength(2);
    for (const seed of [1, 2]) {
      const random = new Random(seed);
      const results = await DuckdbStore.open(join(root, `seed-${seed}.duckdb`));
      let owner = 0;
      let started = 0;
      const begin = async () => {
        const own = started++;
        return await start(results, () => own === owner);
      };
      let [first, second] = [await begin(), await begin()];
      for (const rows of disordered(random)) {
        await results.write(rows, []);
        if (random.float() < 0.1) {
          // The worker stops without any clean-up; the other one gets its partitions, and a new one joins.
          [first, second] = [second, await begin()];
          owner = started - 2;
        }
        for (const { monitor, alerts } of random.float() < 0.5 ? [first, second] : [second, first]) {
          await monitor.tick();
          await alerts.tick();
        }
      }
      await first.monitor.close();
      await first.alerts.close();
      expect(await found(results), `seed ${seed}`).toEqual(expected);
      await results.close();
    }
  }, 60_000);

  it("are those of rows in order where one process gets them out of order", async () => {
    const results = await DuckdbStore.open(join(root, "late.duckdb"));
    const { monitor, alerts } = await start(results);
    for (const rows of disordered(new Random(7))) {
      await results.write(rows, []);
      await feed([monitor, alerts], rows);
    }
    await monitor.close();
    await alerts.close();
    expect(await found(results)).toEqual(await oneProcess);
    await results.close();
  });

  it("are written when the results can be written again", async () => {
    const results = await DuckdbStore.open(join(root, "away.duckdb"));
    const { monitor, alerts } = await start(results);
    let isAway = false;
    for (const table of [results.incidents, results.alerts]) {
      const write = table.write.bind(table);
      table.write = async (happening) => {
        if (isAway) throw new UsageError("store-away", "away");
        await write(happening);
      };
    }
    for (let e = 0; e < EPOCHS; e++) {
      isAway = e >= SLOW.first && e < EPOCHS - 1;
      const rows = SEGMENTS.map(([from, to]) => pathRow(from, to, e));
      await results.write(rows, []);
      for (const follower of [monitor, alerts]) {
        await follower.take(rows).catch(() => undefined);
        await follower.tick().catch(() => undefined);
      }
    }
    await monitor.close();
    await alerts.close();
    const { incidents, alerts: sent } = await found(results);
    expect(incidents.map((body) => (JSON.parse(body) as IncidentJson).state)).toEqual(["closed"]);
    expect(sent.map((body) => (JSON.parse(body) as Alert).state)).toEqual(["ended", "ended"]);
    await results.close();
  });

  it("end together, also where a process died between the two", async () => {
    const results = await DuckdbStore.open(join(root, "between.duckdb"));
    const { incidents } = await oneProcess;
    const incident = JSON.parse(incidents[0] ?? "") as IncidentJson;
    const { id, startNs, endNs, closedNs } = incident;
    await results.incidents.write({
      ...{ id, startNs: BigInt(startNs), closedNs: BigInt(closedNs ?? 0) },
      body: JSON.stringify(incident),
    });
    const alert: Alert = {
      ...{ format: "hoptime.alert/1", name: "blame", when: "incident", state: "active", endedNs: null },
      ...{
        id: `blame/${id}`,
        target: id,
        sinceNs: startNs,
        beganNs: endNs,
        worst: null,
        summary: "",
        incident,
      },
    };
    await results.alerts.write({
      id: alert.id,
      startNs: BigInt(startNs),
      closedNs: null,
      body: JSON.stringify(alert),
    });
    const { monitor, alerts } = await start(results);
    const [stored] = await results.alerts.list({ limit: 10 });
    expect(stored?.closedNs).toBe(BigInt(closedNs ?? 0));
    expect(alerts.active).toEqual([]);
    await monitor.close();
    await alerts.close();
    await results.close();
  });
});
