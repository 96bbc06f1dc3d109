/**
 * A path whose segments are processed by two workers with a shared results store: it is evaluated as a whole and reported once, whichever worker owns the
 * paths.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { PATH, pathRow, pathRows, SECOND_NS, SLOW, START_NS } from "../../../tests/support/path-rows.ts";
import { later } from "../../base/time.ts";
import { INCIDENT_SETTINGS } from "../../network/incidents/incident.ts";
import { DuckdbStore } from "../../results/duckdb-store.ts";
import type { ResultsStore } from "../../results/results-store.ts";
import { Events } from "../events.ts";
import { NetworkMonitor } from "./network-monitor.ts";
import { SharedRows } from "./shared-rows.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-shared-rows-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const rows = pathRows;

describe("paths of workers that share their results", () => {
  it("are judged by all segments, and an incident is reported once, with the owner dying in the middle", async () => {
    const results = await DuckdbStore.open(join(root, "paths.duckdb"));
    const said: string[] = [];
    let owner = 0;
    const settings = { paths: [PATH], incidents: INCIDENT_SETTINGS };
    const monitors = await Promise.all(
      [0, 1].map((worker) =>
        NetworkMonitor.open({
          ...{ results, settings, events: new Events() },
          shared: { isOwner: () => owner === worker, readMs: 0 },
          onChange: async (change, { segment }) => {
            if (change !== "updated") said.push(`${worker} ${change} ${segment?.from}:${segment?.to}`);
          },
        }),
      ),
    );
    const read = async (worker: number) => {
      for (const monitor of monitors) await monitor.take(rows("A", "B", 0, 1));
      await monitors[worker]?.tick();
    };
    // The worker of the second segment has written nothing at first, and is then 25 epochs behind that of the first.
    await results.write(rows("A", "B", 0, 90), []);
    await read(0);
    await results.write(rows("B", "C", 0, 65), []);
    await read(0);
    expect(said).toEqual(["0 opened B:C"]);
    owner = 1;
    await results.write(rows("B", "C", 65, 90), []);
    await read(1);
    expect(monitors[1]?.open.length).toBeLessThanOrEqual(1);
    await results.write([...rows("A", "B", 90, 130), ...rows("B", "C", 90, 130)], []);
    await read(1);
    expect(said).toEqual(["0 opened B:C", "1 again B:C", "1 closed B:C"]);
    const [incident, ...more] = await results.incidents.list({ limit: 10 });
    expect(more).toEqual([]);
    expect(JSON.parse(incident?.body ?? "")).toMatchObject({ state: "closed", paths: ["north"] });
    for (const monitor of monitors) await monitor.close();
    await results.close();
  });

  it("report an incident whose whole time comes at once as it opened and as it closed", async () => {
    const results = await DuckdbStore.open(join(root, "at-once.duckdb"));
    const said: unknown[] = [];
    const monitor = await NetworkMonitor.open({
      ...{ results, settings: { paths: [PATH], incidents: INCIDENT_SETTINGS }, events: new Events() },
      shared: { isOwner: () => true, readMs: 0 },
      onChange: async (change, { state, endNs }) => {
        said.push([change, state, Number((endNs - START_NS) / SECOND_NS)]);
      },
    });
    await monitor.tick();
    await results.write([...rows("A", "B", 0, 130), ...rows("B", "C", 0, 130)], []);
    await monitor.tick();
    // Opened after three epochs of the rise; closed after the last.
    expect(said).toEqual([
      ["opened", "open", SLOW.first + 3],
      ["closed", "closed", SLOW.last],
    ]);
    await monitor.close();
    await results.close();
  });

  it("wait for an epoch that is left out, and not for ever, nor for those of long ago", async () => {
    const results = await DuckdbStore.open(join(root, "gap.duckdb"));
    let nowMs = 0;
    const segments = [{ from: "A", to: "B" }];
    const settings = {
      results,
      segments,
      isWanted: () => true,
      gapMs: 1000,
      waitMs: 5000,
      nowMs: () => nowMs,
    };
    const shared = new SharedRows(settings);
    const next = async () => (await shared.next()).map((r) => Number((r.startNs - START_NS) / SECOND_NS));
    // Old rows: epoch 3 is missing.
    await results.write([...rows("A", "B", 0, 3), ...rows("A", "B", 4, 70)], []);
    expect((await next()).length).toBe(69);
    // A worker died while epoch 71 was open; the next one continues with 72.
    await results.write([...rows("A", "B", 70, 71), ...rows("A", "B", 72, 75)], []);
    expect(await next()).toEqual([70]);
    nowMs = 900;
    await results.write(rows("A", "B", 75, 76), []);
    expect(await next()).toEqual([]);
    await results.write(rows("A", "B", 71, 72), []);
    expect((await next()).sort()).toEqual([71, 72, 73, 74, 75]);
    // Epoch 77 never comes, and neither does 80, which is not waited for then.
    await results.write([...rows("A", "B", 76, 77), ...rows("A", "B", 78, 80)], []);
    expect(await next()).toEqual([76]);
    nowMs = 1950;
    expect((await next()).sort()).toEqual([78, 79]);
    await results.write(rows("A", "B", 81, 83), []);
    expect((await next()).sort()).toEqual([81, 82]);
    await results.close();
  });

  it("wait for a segment that is behind, and not for ever", async () => {
    const results = await DuckdbStore.open(join(root, "wait.duckdb"));
    let nowMs = 0;
    const segments = [
      { from: "A", to: "B" },
      { from: "B", to: "C" },
    ];
    const settings = { results, segments, isWanted: () => true, waitMs: 1000, nowMs: () => nowMs };
    const shared = new SharedRows(settings);
    await results.write(rows("A", "B", 0, 9), []);
    expect(await shared.next()).toEqual([]);
    await results.write(rows("B", "C", 0, 4), []);
    expect((await shared.next()).map((r) => r.startNs).reduce(later)).toBe(pathRow("A", "B", 3).startNs);
    nowMs = 999;
    expect(await shared.next()).toEqual([]);
    await results.write(rows("B", "C", 4, 6), []);
    expect(await shared.next()).toHaveLength(4);
    nowMs = 2000;
    expect((await shared.next()).map((r) => r.segment.from)).toEqual(["A", "A", "A"]);
    // Not again for each epoch: the segment counts as silent until its rows come.
    await results.write(rows("A", "B", 9, 10), []);
    expect(await shared.next()).toHaveLength(1);
    await results.write([...rows("A", "B", 10, 12), ...rows("B", "C", 6, 11)], []);
    expect(await shared.next()).toHaveLength(6);
    await results.close();
  });

  it("wait for a segment of longer epochs no longer than they take", () => {
    const segments = [
      { from: "A", to: "B" },
      { from: "B", to: "C" },
    ];
    const shared = new SharedRows({ results: {} as ResultsStore, segments, isWanted: () => true });
    const long = (epoch: number) => {
      const row = pathRow("B", "C", epoch);
      return { ...row, endNs: row.startNs + 10n * SECOND_NS };
    };
    const released = () =>
      shared.release().map(({ segment, startNs }) => `${segment.from}${(startNs - START_NS) / SECOND_NS}`);
    shared.hold(rows("A", "B", 0, 12));
    shared.hold([long(0)]);
    expect(released().sort()).toEqual([...Array.from({ length: 10 }, (_, i) => `A${i}`), "B0"].sort());
    shared.hold(rows("A", "B", 12, 20));
    expect(released()).toEqual([]);
    shared.hold([long(10)]);
    expect(released()).toHaveLength(11);
  });
});
