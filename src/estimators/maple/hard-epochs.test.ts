/** Epochs that violate MAPLE's assumptions: more packets than the capacity, clocks far apart, wrong timestamps, stores that lose packets. */
import { beforeAll, describe, expect, test } from "vitest";
import { type HostileRow, sealRows } from "../../../tests/support/hostile-rows.ts";
import { Kernels } from "../../base/kernels.ts";
import { Random } from "../../base/random.ts";
import { hashFlowKey } from "../../capture/flow/flow-words.ts";
import { DEFAULT_SEED } from "../../capture/reader.ts";
import { type Interval, isNoAnswer, type KnownFlows, type SealedEpoch } from "../estimator.ts";
import { NO_MATCH } from "../packet-answers.ts";
import { parseParameters } from "../parameters.ts";
import { MaplePayload } from "./lookup.ts";
import { maple } from "./maple.ts";

let kernels: Kernels;
beforeAll(() => {
  kernels = new Kernels();
});

/** Packets of `flows` flows; delays rise over the epoch, and each flow has its own level. */
function risingRows(seed: string, count: number, flows: number): HostileRow[] {
  const random = new Random(seed);
  const levels = Array.from({ length: flows }, () => 50_000 * Math.exp(random.normal()));
  return Array.from({ length: count }, (_, i) => {
    // A few large flows, many small ones.
    const flow = Math.floor(flows * random.float() ** 3);
    const level = levels[flow] ?? 0;
    return {
      timeNs: i * 1000,
      digest: [random.uint32(), random.uint32()],
      meta: [flow, 6 | (1 << 28)],
      address: [flow, 1, 0, 0, 0, 0, 0, 0],
      wireLength: 100,
      delayNs: Math.round(level * (0.5 + i / count) * Math.exp(0.3 * random.normal())),
    };
  });
}

function seal(text: string, rows: readonly HostileRow[]): SealedEpoch {
  const parameters = parseParameters(maple, text);
  const tap = maple.createTap({ kernels, role: "receiver", seed: DEFAULT_SEED }, parameters);
  tap.begin(0);
  return sealRows(kernels, tap, rows, 700);
}

/** The flows of the rows, as a question lists them. */
function flowsOf(rows: readonly HostileRow[]): KnownFlows {
  const words = [
    ...new Map(rows.map((r) => [r.address[0], Uint32Array.of(...r.meta, ...r.address)])).values(),
  ];
  return {
    count: words.length,
    hash: Uint32Array.from(words.flatMap((w) => [...hashFlowKey(kernels, w, DEFAULT_SEED)])),
    packets: new Float64Array(words.length).fill(Number.NaN),
    bytes: new Float64Array(words.length).fill(Number.NaN),
    keyWords: Uint32Array.from(words.flatMap((w) => [...w])),
    complete: true,
  };
}

function ask(text: string, receiver: SealedEpoch, flows: KnownFlows | null = null) {
  const parameters = parseParameters(maple, text);
  const rest = { seed: DEFAULT_SEED, sender: null, confidence: 0.95, epochNs: 1e9 };
  return maple.estimate({ ...rest, parameters, receiver, flows });
}

const digestsOf = (rows: readonly HostileRow[]) =>
  BigUint64Array.from(rows, ({ digest }) => (BigInt(digest[1]) << 32n) | BigInt(digest[0]));
const holds = ({ lowNs, highNs }: Interval, truth: number) => lowNs <= truth && truth <= highNs;
const meanOf = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;

describe("an epoch of more packets than the capacity", () => {
  const text = "k=64,check=10,capacity=4000";

  test("has the mean of all of them, and a sample of the whole epoch", () => {
    const rows = risingRows("overload", 30_000, 400);
    const sealed = seal(text, rows);
    const { segment } = ask(text, sealed);
    const truth = meanOf(rows.map((r) => r.delayNs));
    if (!segment || isNoAnswer(segment.mean)) throw new Error("no answer");
    expect(segment.mean.valueNs).toBeCloseTo(truth, 3);
    expect(holds(segment.mean, truth)).toBe(true);
    expect(segment.notes.join()).toMatch(/a sample of \d+\.?\d* % is stored/);
    const payload = MaplePayload.of(kernels, sealed.payload);
    const { stored = 0, shed = 0 } = payload.parts[0]?.head.totals ?? {};
    expect(stored + shed).toBe(30_000);
    expect(stored).toBeGreaterThan(1500);
    expect(stored).toBeLessThanOrEqual(4000);
    const { kind } = payload.lookup("digest", digestsOf(rows));
    payload.free();
    const tenths = Array.from({ length: 10 }, (_, t) =>
      kind.subarray(3000 * t, 3000 * (t + 1)).reduce((n, k) => n + (k === NO_MATCH ? 0 : 1), 0),
    );
    // Each tenth of the epoch has a tenth of the sample, within five standard deviations.
    const even = stored / 10;
    for (const n of tenths) expect(Math.abs(n - even)).toBeLessThan(5 * Math.sqrt(even) + 5);
  });

  test("flows are estimated from the sample, with intervals that hold", () => {
    let [inside, asked] = [0, 0];
    for (let seed = 0; seed < 12; seed++) {
      const rows = risingRows(`flows ${seed}`, 20_000, 300);
      const flows = flowsOf(rows);
      const answer = ask(text, seal(text, rows), flows);
      const truth = new Map<number, number[]>();
      for (const { address, delayNs } of rows) {
        const of = truth.get(address[0] ?? -1) ?? [];
        of.push(delayNs);
        truth.set(address[0] ?? -1, of);
      }
      for (const { flow, mean } of answer.flows) {
        if (isNoAnswer(mean)) continue;
        asked++;
        if (holds(mean, meanOf(truth.get(flows.keyWords[10 * flow + 2] ?? -1) ?? []))) inside++;
      }
    }
    expect(asked).toBeGreaterThan(2000);
    // The intervals are for 95 %; the limit is five standard deviations of the share.
    expect(inside / asked).toBeGreaterThan(0.93);
  });
});

describe("packets that all look the same", () => {
  // 20,000 identical keep-alives and 3,000 other packets: more identical ones than a block of the ribbon holds.
  const rows = risingRows("alike", 23_000, 50).map((row, i) =>
    i % 23 < 20 ? { ...row, digest: [7, 9] } : row,
  );

  test.each(["ribbon", "mixed"])(
    "%s stores one of them, counts the rest, and the epoch has the mean of all",
    (store) => {
      const text = `k=64,check=10,capacity=30000,store=${store}`;
      const sealed = seal(text, rows as HostileRow[]);
      const { segment } = ask(text, sealed);
      if (!segment || isNoAnswer(segment.mean)) throw new Error("no answer");
      expect(segment.mean.valueNs).toBeCloseTo(meanOf(rows.map((r) => r.delayNs)), 3);
      const payload = MaplePayload.of(kernels, sealed.payload);
      const { kind } = payload.lookup("digest", digestsOf(rows as HostileRow[]));
      payload.free();
      expect(kind.every((k) => k !== NO_MATCH)).toBe(true);
    },
  );
});

test("packets of a few like delays lie within the bounds of a mixed store, whose groups then are partly empty", () => {
  const rows = risingRows("few delays", 1200, 50).map((row, i) => ({
    ...row,
    delayNs: Math.round(1e6 * 1.5 ** (i % 12) * (1 + 0.002 * ((i * 7919) % 100) * 0.01)),
  }));
  const sealed = seal("k=64,check=10,capacity=2000,store=mixed,fewer=1.2", rows);
  const payload = MaplePayload.of(kernels, sealed.payload);
  const { lowNs, highNs } = payload.lookup("digest", digestsOf(rows));
  payload.free();
  const outside = rows.filter(({ delayNs }, i) => !(lowNs[i]! <= delayNs && delayNs <= highNs[i]!));
  expect(outside).toEqual([]);
});

describe("clocks that are far apart", () => {
  const rows = risingRows("apart", 4000, 100);
  const text = "k=64,check=4,capacity=8000";
  const shifted = (offsetNs: number) => rows.map((r) => ({ ...r, delayNs: r.delayNs + offsetNs }));
  const HOUR = 3600e9;

  test.each([["ribbon"], ["svbf"]])("%s tells packets, flows and the mean as finely as without", (store) => {
    const here = `${text},store=${store}${store === "svbf" ? ",centres=log,index=false" : ""}`;
    const truth = meanOf(rows.map((r) => r.delayNs));
    for (const offsetNs of [-50e3, -6e9, HOUR, -37 * HOUR, 56 * 365 * 24 * HOUR]) {
      const far = shifted(offsetNs);
      const sealed = seal(here, far);
      const flows = flowsOf(far);
      const answer = ask(here, sealed, flows);
      const mean = answer.segment?.mean;
      if (!mean || isNoAnswer(mean)) throw new Error("no answer");
      // A number cannot represent a delay of decades to the ns, only in steps of 256 ns.
      const grain = Math.max(1, Math.abs(offsetNs) * 2 ** -51);
      expect(Math.abs(mean.valueNs - offsetNs - truth)).toBeLessThanOrEqual(grain);
      expect(mean.highNs - mean.lowNs).toBeLessThanOrEqual(4 * grain);
      const payload = MaplePayload.of(kernels, sealed.payload);
      const answers = payload.lookup("digest", digestsOf(far));
      payload.free();
      const widths = far
        .map((_, i) => (answers.highNs[i] ?? 0) - (answers.lowNs[i] ?? 0))
        .sort((a, b) => a - b);
      far.forEach(({ delayNs }, i) => {
        expect(answers.lowNs[i]).toBeLessThanOrEqual(delayNs);
        expect(answers.highNs[i]).toBeGreaterThanOrEqual(delayNs);
      });
      if (store === "ribbon") expect(widths[2000]).toBeLessThan(20_000 + 4 * grain);
      if (store === "svbf") continue;
      const shares: number[] = [];
      for (const { flow, mean } of answer.flows) {
        const of = far.filter((r) => r.address[0] === flows.keyWords[10 * flow + 2]);
        const truth = meanOf(of.map((r) => r.delayNs - offsetNs));
        if (isNoAnswer(mean)) throw new Error("no answer");
        expect(mean.lowNs - offsetNs).toBeLessThanOrEqual(truth + grain);
        expect(mean.highNs - offsetNs).toBeGreaterThanOrEqual(truth - grain);
        shares.push((mean.highNs - mean.lowNs - 4 * grain) / truth);
      }
      expect(shares.sort((a, b) => a - b)[flows.count >> 1]).toBeLessThan(0.2);
    }
  });

  test("one wild timestamp takes its own packet away, wherever it comes", () => {
    const truth = meanOf(rows.map((r) => r.delayNs));
    for (const at of [0, 1, 2000, 3999]) {
      for (const wild of [1.7e18, -1.7e18]) {
        const sealed = seal(
          text,
          rows.map((r, i) => (i === at ? { ...r, delayNs: wild } : r)),
        );
        const { segment } = ask(text, sealed);
        if (!segment || isNoAnswer(segment.mean)) throw new Error("no answer");
        expect(segment).toMatchObject({ received: 4000, packetsUsed: 3999, measured: 3999 });
        expect(Math.abs(segment.mean.valueNs / truth - 1)).toBeLessThan(0.01);
        expect(segment.notes).toEqual(["1 of 4,000 packets have no delay and are not in the mean"]);
      }
    }
  });
});

describe("stores that lose packets", () => {
  test.each([
    ["table", 5],
    ["table", 13],
    ["pbf", 13],
    ["ribbon", 13],
    ["svbf", 9],
    ["comb", 9],
    ["mixed", 13],
  ])("%s at %d bits per packet states for how many its bounds hold", (store, bits) => {
    const rows = risingRows(`${store} ${bits}`, 8000, 200);
    const built = store === "ribbon" || store === "mixed";
    const sealed = seal(
      `store=${store},k=50,capacity=8000,bits=${bits}${built ? "" : ",centres=log,index=false"}`,
      rows,
    );
    const payload = MaplePayload.of(kernels, sealed.payload);
    const answers = payload.lookup("digest", digestsOf(rows));
    const { boundsHold } = payload;
    payload.free();
    let [inside, answered] = [0, 0];
    rows.forEach(({ delayNs }, i) => {
      if (answers.kind[i] === NO_MATCH) return;
      answered++;
      if ((answers.lowNs[i] ?? 0) <= delayNs && delayNs <= (answers.highNs[i] ?? 0)) inside++;
    });
    if (store !== "table" && store !== "pbf") {
      expect(boundsHold).toBe(1);
      expect(inside).toBe(answered);
      return;
    }
    // A wrong group may be correct by chance, so the share is at least the stated one, within four standard deviations.
    expect(boundsHold).toBeLessThan(1);
    expect(inside / answered).toBeGreaterThan(boundsHold - 4 * Math.sqrt(0.25 / answered));
    expect(inside / answered).toBeLessThan(boundsHold + 0.1);
  });
});
