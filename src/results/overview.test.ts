/** The overview of all segments: its steps compared with a plain sum over rows, from epochs, from minutes and from both; the normal of a segment. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Combination } from "../collect/combine.ts";
import { DuckdbStore } from "./duckdb-store.ts";
import { Normals } from "./normals.ts";
import { overview } from "./overview.ts";
import type { SegmentRow } from "./rows.ts";

const SECOND_NS = 1_000_000_000n;
const BEGIN_NS = 1_700_000_040n * SECOND_NS;
const SECONDS = 300;

function row(label: string, second: number, meanNs: number, change: Partial<SegmentRow> = {}): SegmentRow {
  const combination = new Combination();
  const told = { valueNs: meanNs, lowNs: meanNs - 100, highNs: meanNs + 100 };
  combination.add({
    mean: told,
    stdev: { reason: "no-packets", text: "" },
    packets: 100,
    lost: 0,
    used: 100,
    bounds: null,
  });
  const startNs = BEGIN_NS + BigInt(second) * SECOND_NS;
  return {
    ...{
      segment: { from: "A", to: "B", label },
      estimator: "lda",
      step: 0,
      startNs,
      endNs: startNs + SECOND_NS,
    },
    ...{
      mode: "aligned",
      epochs: 1,
      missing: 0,
      missingFrom: 0,
      missingTo: 0,
      refused: 0,
      edges: 0,
      merged: 0,
    },
    ...{ sent: 100, received: 100, lost: 0, dropped: null, bytes: 10, cutShift: null, reason: null },
    state: combination.state(),
    ...change,
  };
}

const meanAt = (second: number) => (second < 280 ? 2e6 + 1000 * (second % 7) : 18e6);
const root = mkdtempSync(join(tmpdir(), "hoptime-overview-"));
let store: DuckdbStore;
beforeAll(async () => {
  store = await DuckdbStore.open(join(root, "results.duckdb"));
  const rows: SegmentRow[] = [];
  for (let s = 0; s < SECONDS; s++) {
    if (s >= 100 && s < 110) continue;
    rows.push(row("", s, meanAt(s), s >= 200 && s < 210 ? { received: 90, lost: 10 } : {}));
    rows.push(row("gold", s, 1e6));
  }
  await store.write(rows, []);
});
afterAll(async () => {
  await store.close();
  rmSync(root, { recursive: true, force: true });
});

const ask = (steps: number) =>
  overview(store, new Normals(store), {
    ...{ from: null, to: null, steps, preferred: ["lda"] },
    ...{ fromNs: BEGIN_NS, toNs: BEGIN_NS + BigInt(SECONDS) * SECOND_NS },
  });

describe("an overview", () => {
  it("of a time that begins behind all data, or ends before it begins, is refused", async () => {
    const late = BEGIN_NS + 3600n * SECOND_NS;
    for (const [fromNs, toNs] of [
      [late, null],
      [5n, 0n],
      [null, -1n],
    ] as const) {
      const asked = { from: null, to: null, fromNs, toNs, steps: 60, preferred: [], nowNs: late };
      const answer = overview(store, new Normals(store), asked);
      if (fromNs === null) expect((await answer).segments.length).toBeGreaterThan(0);
      else await expect(answer).rejects.toThrow("expected a time before the end of the range");
    }
  });

  it("has for each step the mean of its epochs, a gap where there are none, and loss where packets are missing", async () => {
    const { segments, stepNs } = await ask(30);
    expect(stepNs).toBe(`${10n * SECOND_NS}`);
    const own = segments.find((s) => s.label === "");
    expect(segments).toHaveLength(2);
    for (let step = 0; step < 30; step++) {
      const seconds = Array.from({ length: 10 }, (_, i) => 10 * step + i);
      const mean = seconds.reduce((sum, s) => sum + meanAt(s), 0) / 10;
      if (step === 10) expect(own?.meanNs[step]).toBeNull();
      else expect(own?.meanNs[step]).toBe(Number(mean.toPrecision(4)));
    }
    expect(own?.lossRate.map((r, i) => (r ? i : -1)).filter((i) => i >= 0)).toEqual([20]);
    expect(own?.lossRate[20]).toBeCloseTo(0.1);
    expect([own?.sent, own?.lost, own?.epochs]).toEqual([29_000, 100, 290]);
    expect(own?.latest?.latency?.meanNs).toBe(18e6);
  });

  it("says the same from minutes, from epochs, and where only some minutes are rolled up", async () => {
    // Bounds differ: a minute's are narrower than an epoch's.
    const told = async () =>
      (await ask(5)).segments.map(({ meanNs, lossRate, sent, lost, epochs, latest }) => ({
        ...{ meanNs, lossRate, sent, lost, epochs, latest },
      }));
    const before = await told();
    await store.rollUp(BEGIN_NS + 130n * SECOND_NS);
    expect(await told()).toEqual(before);
    await store.rollUp(BEGIN_NS + 1000n * SECOND_NS);
    expect(await told()).toEqual(before);
  });

  it("knows what is normal though the last epochs are slow", async () => {
    const { segments } = await ask(30);
    const { normal } = segments.find((s) => s.label === "") ?? {};
    expect(normal?.valueNs).toBeGreaterThan(1.9e6);
    expect(normal?.valueNs).toBeLessThan(2.1e6);
    expect(normal?.of).toBe("last minutes");
  });

  it("without steps has the newest answers and what is normal, as with steps, and follows what is written", async () => {
    const told = ({ segments }: Awaited<ReturnType<typeof ask>>) =>
      segments.map(({ label, latest, normal }) => ({ label, latest, normal }));
    const [quick, whole] = [await ask(0), await ask(30)];
    expect(told(quick)).toEqual(told(whole));
    expect([quick.segments[0]?.meanNs, quick.segments[0]?.sent]).toEqual([[], null]);
    const newest = async () =>
      (await store.newestRows(BEGIN_NS, BEGIN_NS + 400n * SECOND_NS)).map((r) => [
        r.segment.label,
        r.startNs,
        r.missing,
      ]);
    const second = (s: number) => BEGIN_NS + BigInt(s) * SECOND_NS;
    await store.write([row("", 310, 5e6)], []);
    // An older row changes nothing, nor does one lacking an endpoint.
    await store.write([row("gold", 120, 1e6), row("", 310, 0, { missing: 1 })], []);
    expect((await newest()).sort()).toEqual([
      ["", second(310), 0],
      ["gold", second(SECONDS - 1), 0],
    ]);
    expect((await store.newestRows(BEGIN_NS, second(50))).map((r) => r.startNs)).toEqual([
      second(49),
      second(49),
    ]);
  });

  it("ends with the newest that may be now: a clock that is a day ahead moves nothing out of sight", async () => {
    await store.write([row("ahead", 86_400, 1e6)], []);
    const nowNs = BEGIN_NS + 320n * SECOND_NS;
    const asked = { from: null, to: null, fromNs: null, toNs: null, steps: 0, preferred: ["lda"], nowNs };
    const { toNs, segments } = await overview(store, new Normals(store), asked);
    expect(BigInt(toNs)).toBe(BEGIN_NS + 311n * SECOND_NS);
    expect(segments.map((s) => [s.label, s.latest !== null])).toEqual([
      ["", true],
      ["ahead", false],
      ["gold", true],
    ]);
    expect(BigInt(segments[1]?.lastNs ?? 0)).toBe(BEGIN_NS + 86_401n * SECOND_NS);
  });

  it("what is missing in an epoch in which a capture began is no loss, and a step with few epochs has their rate", async () => {
    const second = 400;
    const begun = { edges: 1, sent: 100, received: 40, lost: 60 };
    const own = { sent: 2000, received: 1993, lost: 7 };
    await store.write([row("begins", second, 1e6, begun), row("begins", second + 1, 1e6, own)], []);
    const fromNs = BEGIN_NS + BigInt(second - 40) * SECOND_NS;
    const asked = {
      from: null,
      to: null,
      fromNs,
      toNs: fromNs + 60n * SECOND_NS,
      steps: 6,
      preferred: ["lda"],
    };
    const { segments } = await overview(store, new Normals(store), asked);
    const found = segments.find((s) => s.label === "begins");
    // 2 packets are in flight on average, 7 by chance. Against the 2,000 packets of ten seconds, only one would pass as in flight.
    expect(found?.lossRate.filter((l) => l !== null && l > 0)).toEqual([]);
    expect(found).toMatchObject({ sent: 2000, lost: 0 });
  });

  it("packets in flight at the end of a step that has just begun are no loss", async () => {
    await store.write([row("tail", 300, 18e6, { received: 95, lost: null })], []);
    const { segments } = await overview(store, new Normals(store), {
      ...{ from: null, to: null, steps: 30, preferred: ["lda"] },
      ...{ fromNs: BEGIN_NS, toNs: BEGIN_NS + 301n * SECOND_NS },
    });
    expect(segments.find((s) => s.label === "tail")?.lossRate.at(-1)).toBe(0);
  });

  it("of one segment has that one alone", async () => {
    const one = await overview(store, new Normals(store), {
      ...{ from: "A", to: "C", fromNs: null, toNs: null, steps: 1, preferred: [] },
    });
    expect(one.segments).toEqual([]);
  });
});

describe("normal by the hour of the week", () => {
  it("takes the hours next to this one's in each week, where there are three weeks", async () => {
    const path = join(root, "weeks.duckdb");
    const weeks = await DuckdbStore.open(path);
    const HOUR_NS = 3600n * SECOND_NS;
    const rows: SegmentRow[] = [];
    for (let hour = 0; hour < 4 * 168; hour++) {
      const startNs = BigInt(hour) * HOUR_NS + 2000n * 168n * HOUR_NS;
      const busy = [9, 10, 11].includes(hour % 168);
      rows.push(row("", 0, busy ? 9e6 : 1e6, { step: 3600, startNs, endNs: startNs + HOUR_NS }));
    }
    await weeks.write(rows, []);
    const at = (hour: number) => (2000n * 168n + BigInt(3 * 168 + hour)) * HOUR_NS;
    const [busy] = [...(await new Normals(weeks).before(at(10))).values()];
    const [quiet] = [...(await new Normals(weeks).before(at(30))).values()];
    expect([busy?.of, busy?.valueNs]).toEqual(["hour of the week", 9e6]);
    expect([quiet?.of, quiet?.valueNs]).toEqual(["hour of the week", 1e6]);
    await weeks.close();
  });
});
