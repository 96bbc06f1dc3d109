/** From records to rows to answers: the same numbers as from the archive, with records late, repeated, or after a crash. */
import { appendFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import {
  message,
  type ObservedRecords,
  observedRecords,
  POINTS,
} from "../../tests/support/collector-records.ts";
import { RecordArchive } from "../archive/archive.ts";
import { earlier } from "../base/time.ts";
import type { EpochRecord } from "../epoch/record.ts";
import { askArchive } from "../query/segment/ask.ts";
import { groupFlows } from "../query/segment/row-groups.ts";
import { DuckdbStore } from "../results/duckdb-store.ts";
import type { RowSelection } from "../results/row-selection.ts";
import type { SegmentRow } from "../results/rows.ts";
import { flowSeries, latencySeries, oneFlow, topFlows } from "../results/series.ts";
import { CollectorService } from "./service.ts";
import type { ServiceOptions } from "./service-options.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-results-"));
const open: CollectorService[] = [];
afterEach(async () => {
  for (const service of open.splice(0)) await service.close();
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

const SEGMENT = { ...POINTS, label: "" };
const ESTIMATOR_NAMES = ["lda", "lds:rows=2,columns=512", "flows"];
let observed: ObservedRecords;
let firstNs = 0n;
beforeAll(async () => {
  observed = await observedRecords(ESTIMATOR_NAMES, { seconds: 70, ratePps: 150 });
  firstNs = observed.records.map((r) => r.epoch.startNs).reduce(earlier);
});

let number = 0;
async function start(
  change: Partial<ServiceOptions> = {},
): Promise<{ service: CollectorService; data: string }> {
  const data = change.data ?? join(root, `data-${number++}`);
  const service = await CollectorService.open({ data, segments: [SEGMENT], tickMs: 1e9, ...change });
  open.push(service);
  return { service, data };
}

async function send(service: CollectorService, records: readonly EpochRecord[]): Promise<void> {
  for (let at = 0; at < records.length; at += 100) {
    const { results } = await service.ingest(message(records.slice(at, at + 100)), null, null);
    expect(results.filter((r) => r.outcome === "refused")).toEqual([]);
  }
}

const selection = (estimator: string, seconds = 1000): RowSelection => ({
  ...SEGMENT,
  estimator,
  fromNs: firstNs,
  toNs: firstNs + BigInt(seconds) * 1_000_000_000n,
});

/** Collects everything the rows answer, in all steps. */
async function everything({ results }: CollectorService) {
  // Rolled up first: minutes and epochs differ in the packets in flight at a minute's cut, estimated by the mean rate or by that of the seconds
  // next to it.
  await results.rollUp(1n << 62n);
  const out: unknown[] = [];
  for (const estimator of ["lda", "lds"])
    for (const stepNs of [0n, 10_000_000_000n, 60_000_000_000n, 3_600_000_000_000n])
      out.push(await latencySeries(results, selection(estimator), stepNs, 1000));
  out.push(await topFlows(results, selection("lds"), 10));
  return JSON.parse(JSON.stringify(out)) as unknown[];
}

/** Equal up to the order of floating-point sums. */
function expectClose(a: unknown, b: unknown, path = ""): void {
  if (typeof a === "number" && typeof b === "number") {
    if (Math.abs(a - b) > 1e-9 * (1 + Math.abs(a))) throw new Error(`${path}: ${a} and ${b}`);
  } else if (a !== null && typeof a === "object" && b !== null && typeof b === "object") {
    expect(Object.keys(b), path).toEqual(Object.keys(a));
    for (const [name, value] of Object.entries(a))
      expectClose(value, (b as Record<string, unknown>)[name], `${path}.${name}`);
  } else expect(b, path).toBe(a);
}

describe("rows", () => {
  it("say of every epoch what the archive says, and sums of loss agree", async () => {
    const { service, data } = await start();
    await send(service, observed.records);
    await service.settle();
    const archive = RecordArchive.open(join(data, "records"));
    const answer = askArchive(archive, { between: [POINTS.from, POINTS.to], estimators: ["lda", "lds"] });
    for (const name of ["lda", "lds"]) {
      const own = answer.estimates[name];
      const { points } = await latencySeries(service.results, selection(name), 0n, 10_000);
      const answered = points.filter((p) => p.missing === 0);
      expect(answered).toHaveLength(own?.series.length ?? -1);
      for (const [i, row] of (own?.series ?? []).entries()) {
        const point = answered[i];
        expect(point?.startNs).toBe(row.startNs);
        expect([point?.sent, point?.received, point?.lost]).toEqual([row.sent, row.received, row.lost]);
        expect([point?.lostLow, point?.lostHigh]).toEqual([row.lostLow, row.lostHigh]);
        if (row.latency)
          expect(point?.latency).toMatchObject({
            meanNs: row.latency.meanNs,
            lowNs: row.latency.lowNs,
            highNs: row.latency.highNs,
          });
      }
      const { points: whole } = await latencySeries(service.results, selection(name), 3_600_000_000_000n, 10);
      expect(whole).toHaveLength(1);
      expect(whole[0]?.sent).toBe(own?.sent);
      const mean = own?.answered.latency?.meanNs ?? Number.NaN;
      expect(whole[0]?.latency?.lowNs).toBeLessThanOrEqual(mean);
      expect(whole[0]?.latency?.highNs).toBeGreaterThanOrEqual(mean);
    }
  });

  it("of minutes and hours say what their epochs say together", async () => {
    const { service } = await start();
    await send(service, observed.records);
    await service.settle();
    expect(service.counts.rolledUp).toBeGreaterThan(3);
    const rows = {
      raw: await service.results.segmentRows(selection("lda"), 0),
      rolled: await service.results.segmentRows({ ...selection("lda"), fromNs: 0n }, 60),
    };
    expect(rows.rolled.length).toBeGreaterThanOrEqual(2);
    const before = await latencySeries(service.results, selection("lda"), 60_000_000_000n, 100);
    expect(before.points).toHaveLength(rows.rolled.length);
    // Changed again: until the roll-up is repeated, minutes are combined from their epochs.
    await service.results.write(rows.raw, []);
    const open = await latencySeries(service.results, selection("lda"), 60_000_000_000n, 100);
    expectClose(before, open);
    expect(await service.results.rollUp(1n << 62n)).toBeGreaterThan(2);
    expectClose(before, await latencySeries(service.results, selection("lda"), 60_000_000_000n, 100));
    const [hour] = await service.results.segmentRows({ ...selection("lda"), fromNs: 0n }, 3600);
    expect(hour?.epochs).toBe(before.points.reduce((n, p) => n + p.epochs, 0));
    // A minute begins before its first epoch; a page of shorter steps does not.
    const page = await latencySeries(service.results, { ...selection("lda"), fromNs: 0n }, 2_000_000_000n, 2);
    expect(page.points).toHaveLength(2);
    // Nothing is left to roll up.
    expect(await service.results.rollUp(1n << 62n)).toBe(0);
  });

  it("answer about flows: the largest, one, over time", async () => {
    const { service } = await start();
    await send(service, observed.records);
    await service.settle();
    const top = await topFlows(service.results, selection("lds"), 3);
    expect(top).toHaveLength(3);
    expect(top[0]?.packets ?? 0).toBeGreaterThanOrEqual(top[1]?.packets ?? Number.POSITIVE_INFINITY);
    const { flow = "" } = top[0] ?? {};
    expect(await oneFlow(service.results, selection("lds"), flow)).toEqual(top[0]);
    const { points } = await flowSeries(service.results, selection("lds"), flow, {
      ...{ stepNs: 60_000_000_000n, limit: 10 },
    });
    expect(points.reduce((n, p) => n + (p.packets ?? 0), 0)).toBe(top[0]?.packets);
    expect(await oneFlow(service.results, selection("lds"), "tcp 1.2.3.4:5 > 6.7.8.9:10")).toBeNull();
  });

  it("come in pages that say what one answer says", async () => {
    const { service } = await start();
    await send(service, observed.records);
    await service.settle();
    const { results } = service;
    for (const stepNs of [0n, 3_000_000_000n, 60_000_000_000n])
      for (const limit of [1, 7]) {
        const { points: all } = await latencySeries(results, selection("lda"), stepNs, 1000);
        const paged: typeof all = [];
        for (let cursor: string | null = `${firstNs}`; cursor !== null; ) {
          const page = await latencySeries(results, selection("lda"), stepNs, limit, BigInt(cursor));
          expect(page.points.length).toBeLessThanOrEqual(limit);
          paged.push(...page.points);
          cursor = page.next;
        }
        // Loss depends on the epochs around, also where those are on another page.
        expect(paged).toEqual(all);
      }
    const [top] = await topFlows(results, selection("lds"), 1);
    const flow = top?.flow ?? "";
    const { points: all, next } = await flowSeries(results, selection("lds"), flow, {
      stepNs: 0n,
      limit: 1000,
    });
    expect(next).toBeNull();
    const paged: typeof all = [];
    for (let cursorNs: bigint | null = firstNs; cursorNs !== null; ) {
      const page = await flowSeries(results, selection("lds"), flow, { stepNs: 0n, limit: 9, cursorNs });
      paged.push(...page.points);
      cursorNs = page.next === null ? null : BigInt(page.next);
    }
    expect(paged).toEqual(all);
  });

  it("are read page by page where there are many, whatever the step", async () => {
    const store = await DuckdbStore.open(join(root, "many.duckdb"));
    const { service } = await start();
    await send(service, observed.records.slice(0, 20));
    await service.settle();
    const [row] = await service.results.segmentRows(selection("lda"), 0);
    if (!row) throw new Error("no row");
    const secondNs = 1_000_000_000n;
    const at = (i: number): SegmentRow => {
      const startNs = firstNs + BigInt(i) * secondNs;
      return { ...row, startNs, endNs: startNs + secondNs };
    };
    const count = 25_000;
    for (let from = 0; from < count; from += 5000)
      await store.write(
        Array.from({ length: 5000 }, (_, i) => at(from + i)),
        [],
      );
    const asked = selection("lda", count);
    const stepNs = 7n * secondNs;
    const first = await latencySeries(store, asked, stepNs, 10_000);
    expect(first.points.length).toBeLessThan(20_000 / 7 + 1);
    const rest = await latencySeries(store, asked, stepNs, 10_000, BigInt(first.next ?? 0));
    expect(rest.next).toBeNull();
    const epochs = [...first.points, ...rest.points].map((p) => p.epochs);
    expect(epochs.reduce((sum, n) => sum + n)).toBe(count);
    // No step is cut at the end of a page: all but the first and the last have seven epochs.
    expect(new Set(epochs.slice(1, -1))).toEqual(new Set([7]));
    // All epochs in one step, which cannot be combined from minutes.
    await expect(latencySeries(store, asked, firstNs, 10)).rejects.toThrow("epochs in a step");
    await store.close();
  });

  it("answer about any time, however long", async () => {
    const { service } = await start();
    await send(service, observed.records);
    await service.settle();
    const own = selection("lds");
    const top = await topFlows(service.results, own, 3);
    const farNs = 10n ** 23n;
    for (const [fromNs, toNs] of [
      [0n, farNs],
      [-farNs, farNs],
    ] as const) {
      const ever = { ...own, fromNs, toNs };
      expect((await topFlows(service.results, ever, 3)).map((f) => f.packets)).toEqual(
        top.map((f) => f.packets),
      );
      const { points } = await latencySeries(service.results, ever, 0n, 1000);
      expect(points).toHaveLength((await latencySeries(service.results, own, 0n, 1000)).points.length);
    }
  });

  it("answer about groups of flows as the records do, in epochs and in minutes", async () => {
    const { service, data } = await start();
    await send(service, observed.records);
    await service.settle();
    const archive = RecordArchive.open(join(data, "records"));
    const all = selection("lds");
    const [first] = await service.results.segments();
    const fine = { ...all, fromNs: first?.firstNs ?? 0n, toNs: first?.lastNs ?? 0n };
    for (const group of ["hosts", "dst/8", "dport"]) {
      const question = { between: [POINTS.from, POINTS.to] as [string, string], estimators: ["lds"], group };
      const exact = askArchive(archive, question).groups;
      const told = await groupFlows(service.results, fine, group, 1000);
      expect(told.groups).toHaveLength(exact.length);
      expect(told.kept).toBeGreaterThan(0.98);
      for (const one of told.groups) {
        const same = exact.find((g) => g.text === one.group);
        expect(one.packets).toBe(same?.packets);
        expect(one.flows).toBe(same?.flows);
        if (!same?.latency || !one.latency) {
          expect(one.latency).toBe(same?.latency ?? null);
          continue;
        }
        expect(one.latency.meanNs).toBeCloseTo(same.latency.meanNs, 3);
        const half = same.latency.highNs - same.latency.meanNs;
        expect((one.latency.highNs - one.latency.meanNs) / half).toBeCloseTo(1, 3);
      }
      // From minutes: the same means, and intervals at most a tenth narrower.
      await service.results.rollUp(1n << 62n);
      const rolled = await groupFlows(service.results, all, group, 1000);
      for (const one of rolled.groups) {
        const before = told.groups.find((g) => g.group === one.group);
        expect(one.packets).toBe(before?.packets);
        if (!before?.latency) continue;
        expect(one.latency?.meanNs).toBeCloseTo(before.latency.meanNs, 3);
        const [wide = 0, fineWide] = [
          one.latency && one.latency.highNs - one.latency.lowNs,
          before.latency.highNs - before.latency.lowNs,
        ];
        expect((wide ?? 0) / fineWide).toBeGreaterThan(0.9);
        expect((wide ?? 0) / fineWide).toBeLessThan(1.6);
      }
    }
    // The result does not depend on how many rows are read at a time, as long as an epoch fits.
    const whole = await groupFlows(service.results, fine, "hosts", 1000);
    const flows = whole.groups.reduce((sum, { flows }) => sum + flows, 0);
    expect(await groupFlows(service.results, fine, "hosts", 1000, { atOnce: flows, rows: 1e6 })).toEqual(
      whole,
    );
    const refused = groupFlows(service.results, fine, "hosts", 1000, { atOnce: flows, rows: flows });
    await expect(refused).rejects.toThrow("too many flows");
    await expect(groupFlows(service.results, fine, "vlan", 10)).rejects.toThrow(/does not contain vlan/);
  });

  it("have bounds that do not average out, over flows, epochs and minutes: those of the archive, with the truth inside", async () => {
    const bounded = await observedRecords(["maple"], { seconds: 70, ratePps: 150, seed: 6 });
    const { service, data } = await start();
    await send(service, bounded.records);
    await service.settle();
    const fromNs = bounded.records.map((r) => r.epoch.startNs).reduce(earlier);
    const all = { ...selection("maple"), fromNs, toNs: fromNs + 1000n * 1_000_000_000n };
    const archive = RecordArchive.open(join(data, "records"));
    const question = { between: [POINTS.from, POINTS.to] as [string, string], estimators: ["maple"] };
    for (const group of ["dst/8", "hosts"]) {
      const exact = new Map(askArchive(archive, { ...question, group }).groups.map((g) => [g.text, g]));
      const fine = { ...all, toNs: fromNs + 71n * 1_000_000_000n };
      const byEpochs = await groupFlows(service.results, fine, group, 1000);
      await service.results.rollUp(1n << 62n);
      for (const told of [byEpochs, await groupFlows(service.results, all, group, 1000)]) {
        expect(told.groups).toHaveLength(exact.size);
        for (const { group: name, latency } of told.groups) {
          const same = exact.get(name)?.latency;
          if (!same || !latency) throw new Error(`no answer for ${name}`);
          for (const end of ["meanNs", "lowNs", "highNs", "stdevNs"] as const)
            expect(latency[end], `${name}: ${end}`).toBeCloseTo(same[end] ?? Number.NaN, 3);
          const truth = bounded.meansOf(group).get(name) ?? Number.NaN;
          expect(latency.lowNs).toBeLessThanOrEqual(truth);
          expect(latency.highNs).toBeGreaterThanOrEqual(truth);
        }
      }
    }
  });

  it("come in pages that together are the whole", async () => {
    const { service } = await start();
    await send(service, observed.records);
    await service.settle();
    for (const stepNs of [0n, 7_000_000_000n]) {
      const all = await latencySeries(service.results, selection("lda"), stepNs, 10_000);
      const parts = [];
      let fromNs = firstNs;
      for (;;) {
        const { points, next } = await latencySeries(
          service.results,
          { ...selection("lda"), fromNs },
          stepNs,
          13,
        );
        parts.push(...points);
        if (next === null) break;
        fromNs = BigInt(next);
      }
      expect(parts).toEqual(all.points);
    }
  });
});

describe("what comes late", () => {
  it("improves its epoch: one end after the other gives what both together give", async () => {
    const [{ service: straight }, { service: late }] = [await start(), await start()];
    await send(straight, observed.records);
    await straight.settle();
    await send(late, observed.of(POINTS.from));
    await late.settle();
    const missing = await latencySeries(late.results, selection("lda"), 0n, 10_000);
    expect(missing.points.length).toBeGreaterThan(20);
    expect(missing.points.every((p) => p.latency === null)).toBe(true);
    expect(missing.points[0]?.reason ?? "").toContain("no-packets");
    await send(late, observed.of(POINTS.to));
    await late.settle();
    await late.settle();
    expect(late.pairing.counts.late).toBeGreaterThan(10);
    // The last epochs of both have nothing left to wait for.
    expectClose(await everything(straight), await everything(late));
  });

  it("in any order, several times, is the same", async () => {
    const [{ service: straight }, { service: mixed }] = [await start(), await start()];
    await send(
      straight,
      observed.records.filter((r) => r.epoch.startNs < firstNs + 20_000_000_000n),
    );
    await straight.settle();
    let random = 7;
    const below = (n: number) => {
      random = (Math.imul(random, 1103515245) + 12345) >>> 0;
      return (random >>> 8) % n;
    };
    const some = observed.records.filter((r) => r.epoch.startNs < firstNs + 20_000_000_000n);
    const records = some.flatMap((r) => (below(10) === 0 ? [r, r] : [r]));
    for (let i = records.length - 1; i > 0; i--) {
      const j = below(i + 1);
      const [a, b] = [records[i], records[j]];
      if (a && b) [records[i], records[j]] = [b, a];
    }
    for (let at = 0; at < records.length; at += 40) {
      await send(mixed, records.slice(at, at + 40));
      await mixed.settle();
    }
    await mixed.settle();
    expectClose(await everything(straight), await everything(mixed));
  });
});

it("epochs that packets cut are counted once, whichever end comes first, and whenever", async () => {
  const cut = { mode: "delimited", every: 150 } as const;
  const delimited = await observedRecords(["lda"], { seconds: 70, ratePps: 150, cut });
  const [{ service: straight }, { service: late }] = [await start(), await start()];
  await send(straight, delimited.records);
  await straight.settle();
  await send(late, delimited.of(POINTS.to));
  await late.settle();
  expect((await latencySeries(late.results, selection("lda"), 0n, 1000)).points.length).toBeGreaterThan(20);
  await send(late, delimited.of(POINTS.from));
  await late.settle();
  await late.settle();
  const rows = async ({ results }: CollectorService) =>
    (await results.segmentRows({ ...selection("lda"), fromNs: 0n }, 0)).map((r) => [
      ...[r.startNs, r.missing, r.sent, r.received],
    ]);
  const expected = await rows(straight);
  expect(expected.filter(([, missing]) => missing === 0).length).toBeGreaterThan(20);
  expect(await rows(late)).toEqual(expected);
});

describe("after a crash", () => {
  it("what the journal names is estimated again, and nothing counts twice", async () => {
    const { service: straight } = await start();
    await send(straight, observed.records);
    await straight.settle();
    const { service, data } = await start();
    await send(service, observed.records.slice(0, 150));
    await service.settle();
    await send(service, observed.records.slice(150));
    // As kill -9 leaves it: acknowledged and journalled, but not estimated.
    await crash(service);
    const { service: again } = await start({ data });
    await again.settle();
    await again.settle();
    expectClose(await everything(straight), await everything(again));
  });

  it("an end that comes after it finds the one that came before", async () => {
    const { service: straight } = await start();
    await send(straight, observed.records);
    await straight.settle();
    let { service, data } = await start();
    for (let second = 0; second < 70; second += 5) {
      const [fromNs, toNs] = [second, second + 5].map((s) => firstNs + BigInt(s) * 1_000_000_000n);
      const now = observed.records.filter(
        ({ epoch: { startNs } }) => startNs >= (fromNs ?? 0n) && startNs < (toNs ?? 0n),
      );
      const ends = [POINTS.from, POINTS.to].map((point) => now.filter((r) => r.point === point));
      const [before, after] = second % 2 === 0 ? ends : ends.reverse();
      await send(service, before ?? []);
      // Killed now and then, before or after it has processed what came; the other endpoint's record arrives at once, or after the recovery.
      if (second % 3 === 0) await service.settle();
      if (second === 5 || second === 20) {
        await crash(service);
        ({ service } = await start({ data }));
      }
      if (second % 4 === 0) await service.settle();
      await send(service, after ?? []);
    }
    await service.settle();
    await service.settle();
    expectClose(await everything(straight), await everything(service));
  });

  it("results that are gone or damaged are made again from the records", async () => {
    const { service, data } = await start();
    await send(service, observed.records);
    await service.settle();
    const before = await everything(service);
    await service.close();
    open.length = 0;
    writeFileSync(
      join(data, "results.duckdb"),
      "this is no database at all, but long enough to be looked at".repeat(100),
    );
    rmSync(join(data, "results.duckdb.wal"), { force: true });
    const logged: string[] = [];
    const { service: again } = await start({ data, onLog: (text) => logged.push(text) });
    await again.settle();
    expectClose(before, await everything(again));
    expect(logged.join()).toContain("set aside");
    expect(readdirSync(data).some((n) => n.startsWith("results.duckdb.damaged"))).toBe(true);
  });

  it("while results are made again, neither the health nor a second crash takes a part of them for all", async () => {
    const { service, data } = await start();
    const rows: SegmentRow[] = [];
    const nothing = async () => {};
    service.follow({ take: async (r) => void rows.push(...r), tick: nothing, close: nothing });
    await send(service, observed.records);
    await service.settle();
    const before = await everything(service);
    await service.close();
    open.length = 0;
    const file = join(data, "results.duckdb");
    const remove = () => {
      for (const name of [file, `${file}.wal`]) rmSync(name, { force: true });
    };
    remove();
    // Records copied into the archive: no journal names their times.
    rmSync(join(data, "pending.jsonl"));
    const { service: interrupted } = await start({ data });
    expect(interrupted.health()).toMatchObject({ pairing: { behind: 1 } });
    await crash(interrupted);
    // As kill -9 leaves it: only some rows are written.
    remove();
    const part = await DuckdbStore.open(file);
    await part.write(rows.slice(0, 20), []);
    await part.close();
    const { service: again } = await start({ data });
    await again.settle();
    expectClose(before, await everything(again));
    expect(again.health()).toMatchObject({ pairing: { behind: 0, unwritten: 0 } });
  });

  it("records that cannot be read are set aside and named; the others count", async () => {
    const { service, data } = await start();
    await send(service, observed.records.slice(0, 60));
    const archive = RecordArchive.open(join(data, "records"));
    const [entry] = archive.list().entries;
    await crash(service);
    appendFileSync(entry?.file ?? "", "more");
    const { service: again } = await start({ data });
    await again.settle();
    expect(readdirSync(join(data, "damaged"))).toHaveLength(1);
    expect(JSON.stringify(again.health()["problems"])).toContain("set aside");
    expect(archive.list().entries).toHaveLength(59);
  });

  /** Simulates a crash: nothing more is written, and the lock is released. */
  async function crash(service: CollectorService): Promise<void> {
    open.splice(open.indexOf(service), 1);
    await service.abandon();
  }
});

it("what is too old or too much goes, step by step", async () => {
  const { service } = await start({
    retention: { rowsNs: { 0: 30_000_000_000n }, recordsNs: 60_000_000_000n },
  });
  await send(service, observed.records);
  await service.settle();
  await service.results.rollUp(1n << 62n);
  const before = (await service.results.segmentRows(selection("lda"), 60)).length;
  await service.retain();
  const raw = await service.results.segmentRows(selection("lda"), 0);
  expect(raw.length).toBeGreaterThan(20);
  expect(raw.length).toBeLessThan(35);
  expect((await service.results.segmentRows(selection("lda"), 60)).length).toBe(before);
});

it("rows of a step that are too many bytes go, the oldest first, of segments and of flows", async () => {
  const { service } = await start();
  await send(service, observed.records);
  await service.settle();
  const { results } = service;
  await results.rollUp(1n << 62n);
  const counts = async () => {
    const rows = await results.segmentRows(selection("lda"), 0);
    const minutes = await results.segmentRows({ ...selection("lda"), fromNs: 0n }, 60);
    const flows = await results.flows.allRows(selection("lds"), 0);
    const starts = new Set(flows.map((f) => f.startNs));
    return {
      rows: rows.length,
      flowEpochs: starts.size,
      minutes: minutes.length,
      first: rows[0]?.startNs ?? 0n,
    };
  };
  const before = await counts();
  const retain = (maxBytes: number) => results.retain(0, { nowNs: 1n << 62n, keepNs: null, maxBytes });
  await retain(1e9);
  expect(await counts()).toEqual(before);
  // Per epoch: two segment rows of about 350 B, and for each of its twelve flows one row of about 350 B.
  await retain(35 * 14 * 350);
  const half = await counts();
  expect(half.rows).toBeGreaterThan(20);
  expect(half.rows).toBeLessThan(55);
  expect(Math.abs(half.flowEpochs - half.rows)).toBeLessThan(5);
  expect(half.first).toBeGreaterThan(before.first);
  expect(half.minutes).toBe(before.minutes);
  // What is within the limit stays, however often retention runs.
  await retain(35 * 14 * 350);
  expect(await counts()).toEqual(half);
});

it("rows are written as they are read, and replaced by their key", async () => {
  const store = await DuckdbStore.open(join(root, "plain.duckdb"));
  const { service } = await start();
  await send(service, observed.records.slice(0, 200));
  await service.settle();
  const rows = await service.results.segmentRows(selection("lda"), 0);
  await store.write(rows, []);
  await store.write(rows, []);
  expect(await store.segmentRows(selection("lda"), 0)).toEqual(rows);
  await store.close();
});
