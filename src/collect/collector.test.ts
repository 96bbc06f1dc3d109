import { describe, expect, it } from "vitest";
import { type CountedEpoch, countedRecord } from "../../tests/support/counted-records.ts";
import { countingEstimator } from "../../tests/support/counting-estimator.ts";
import { isNoAnswer } from "../estimators/estimator.ts";
import { collect } from "./collect.ts";
import { type Collected, Collector } from "./collector.ts";
import { type RecordHandle, receivedRecord } from "./record-handle.ts";

const SECOND = 1_000_000_000n;
const START = 1_700_000_000_000_000_000n;
const SEGMENTS = [{ from: "A", to: "B", label: "" }];
const options = { segments: SEGMENTS, table: [countingEstimator] };

function record(point: string, n: number, change: Partial<CountedEpoch> = {}): RecordHandle {
  const delayNs = point === "B" ? 1000 * n : 0;
  const at = { point, startNs: START + BigInt(n) * SECOND, lengthNs: SECOND, packets: 10, delayNs };
  return receivedRecord(countedRecord({ ...at, ...change }));
}

/** Epoch n, between delimiters n and n + 1; 0: the start or end of the capture. */
const delimited = (point: string, n: number, ids: readonly bigint[]): RecordHandle =>
  record(point, n, {
    epoch: { mode: "delimited", referenceNs: START, startId: ids[n] ?? 0n, endId: ids[n + 1] ?? 0n },
  });

const means = (events: readonly Collected[]) =>
  events.flatMap((e) => {
    const mean = e.kind === "estimate" ? e.estimate.answer.segment?.mean : undefined;
    return mean && !isNoAnswer(mean) ? [mean.valueNs] : [];
  });

describe("a collector", () => {
  it("estimates a pair as soon as both ends are there, and once", () => {
    const collector = new Collector(options);
    expect(collector.offer(record("A", 1))).toBe("taken");
    expect([...collector.advance(START)]).toEqual([]);
    expect(collector.offer(record("B", 1))).toBe("taken");
    expect(means([...collector.advance(START)])).toEqual([1000]);
    expect(collector.offer(record("B", 1))).toBe("repeated");
    expect(collector.offer(record("A", 1))).toBe("repeated");
    expect([...collector.finish()]).toEqual([]);
  });

  it("says that what appears may have been in flight, but not where the sender's capture began within the epoch", () => {
    const asked: unknown[] = [];
    const listening: typeof countingEstimator = {
      ...countingEstimator,
      estimate: (input) => {
        asked.push(input.cutInFlight);
        return countingEstimator.estimate(input);
      },
    };
    const collector = new Collector({ segments: SEGMENTS, table: [listening] });
    const begins = { epoch: { cutHead: true } };
    for (const [n, sender, receiver] of [
      [1, record("A", 1, begins), record("B", 1)],
      [2, record("A", 2), record("B", 2)],
      [3, record("A", 3), record("B", 3, begins)],
    ] as const) {
      collector.offer(sender);
      collector.offer(receiver);
      expect([...collector.advance(START)], `${n}`).toHaveLength(1);
    }
    expect(asked).toEqual([false, true, true]);
  });

  it("takes estimators in turn, and those that answer about the segment alone first where that is asked", () => {
    const quick = { ...countingEstimator, name: "quick", answers: ["segment"] as const };
    const collector = new Collector({ segments: SEGMENTS, table: [countingEstimator, quick] });
    const order = (events: Iterable<Collected>) => [...events].map((e) => e.estimator);
    const offer = (n: number) => {
      for (const point of ["A", "B"])
        for (const estimator of ["counting", "quick"]) {
          const { read, ...head } = record(point, n);
          collector.offer({ ...head, estimator, read: () => ({ ...read(), estimator }) });
        }
    };
    for (const n of [1, 2]) offer(n);
    const all = collector.advance(START);
    expect(all.next().value).toMatchObject({ estimator: "counting" });
    // What comes while the others are being processed does not wait for them.
    offer(3);
    expect(order(collector.advanceSegments(START))).toEqual(["quick", "quick", "quick"]);
    expect(order(all)).toEqual(["counting"]);
    expect(order(collector.advance(START))).toEqual(["counting"]);
  });

  it("gives up an end whose partner has not come when the watermark passes, and calls it late afterwards", () => {
    const collector = new Collector(options);
    collector.offer(record("A", 1));
    const [given] = [...collector.advance(START + 2n * SECOND)];
    expect(given).toMatchObject({ kind: "unpaired", unpaired: { missing: "receiver", reason: "no record" } });
    expect(collector.offer(record("B", 1))).toBe("late");
    expect(collector.offer(record("C", 1))).toBe("not-watched");
    expect(collector.waiting).toBe(0);
  });

  it("keeps delimited epochs until their neighbours are past, so that a merge is not missed", () => {
    const collector = new Collector(options);
    for (const point of ["A", "B"])
      for (const n of [0, 1, 2]) collector.offer(delimited(point, n, [0n, 5n, 6n, 7n]));
    expect([...collector.advance(START)]).toEqual([]);
    expect(means([...collector.advance(START + 3n * SECOND)])).toEqual([0, 1000, 2000]);
  });

  it("does not wait for neighbours of delimited epochs where both captures have ended, but for a record that is missing", () => {
    const ids = [0n, 5n, 6n, 7n, 0n];
    const collector = new Collector(options);
    for (const n of [3, 0, 1, 2]) collector.offer(delimited("A", n, ids));
    for (const n of [3, 1, 0]) collector.offer(delimited("B", n, ids));
    expect([...collector.advance(START)]).toEqual([]);
    collector.offer(delimited("B", 2, ids));
    expect(means([...collector.advance(START)])).toEqual([0, 1000, 2000, 3000]);
    expect(collector.waiting).toBe(0);
  });

  it("refuses what does not fit by name, and answers the rest", () => {
    const collector = new Collector(options);
    for (const n of [1, 2, 3]) {
      collector.offer(record("A", n));
      collector.offer(record("B", n, n === 2 ? { seed: 9n } : n === 3 ? { key: "colour" } : {}));
    }
    const events = [...collector.finish()];
    expect(means(events)).toEqual([1000]);
    const reasons = events.flatMap((e) => (e.kind === "refused" ? [e.refusal.reason] : []));
    expect(reasons).toHaveLength(2);
    expect(reasons.join()).toMatch(/differ in seed: 1 and 9/);
    expect(reasons.join()).toMatch(/colour/);
  });

  it("does not answer for time twice when a second cut comes later", () => {
    const collector = new Collector(options);
    for (const n of [0, 1, 2]) for (const point of ["A", "B"]) collector.offer(record(point, n));
    expect(means([...collector.advance(START)])).toHaveLength(3);
    for (const point of ["A", "B"]) collector.offer(record(point, 0, { lengthNs: 3n * SECOND, packets: 30 }));
    expect([...collector.finish()].map((e) => e.kind)).toEqual(["overlapping"]);
  });
});

describe("collecting a stream", () => {
  it("pairs whatever order the records come in, names what is missing, late and from the future, and ends with the stream", async () => {
    const stream = [
      record("B", 2),
      record("A", 1),
      record("A", 400_000_000),
      record("B", 1),
      record("A", 2),
      record("A", 3),
      record("A", 200),
      record("B", 4),
    ];
    const seen: string[] = [];
    const now = () => START + 1000n * SECOND;
    for await (const event of collect(stream, { ...options, latenessNs: 10n * SECOND, now }))
      seen.push(event.kind === "dropped" ? event.reason : event.kind);
    expect(seen).toEqual(["from-the-future", "estimate", "estimate", "unpaired", "late", "unpaired"]);
  });

  it("holds no more after days than after minutes", async () => {
    const epochs = 3 * 24 * 60;
    let waiting = 0;
    let estimates = 0;
    const collector = new Collector(options);
    for (let n = 0; n < epochs; n++) {
      collector.offer(record("A", n));
      // Every tenth is lost in transit.
      if (n % 10 !== 0) collector.offer(record("B", n));
      for (const event of collector.advance(START + BigInt(n - 60) * SECOND))
        if (event.kind === "estimate") estimates++;
      waiting = Math.max(waiting, collector.waiting);
    }
    expect(estimates).toBe((epochs * 9) / 10);
    expect(waiting).toBeLessThan(10);
  });

  it("gives up the oldest where one end is silent and the watermark does not move", () => {
    const collector = new Collector({ ...options, maxWaiting: 50 });
    let given = 0;
    for (let n = 0; n < 500; n++) {
      collector.offer(record("A", n));
      given += [...collector.advance(START)].length;
    }
    expect(given).toBe(450);
    expect(collector.waiting).toBe(50);
  });

  it("stops at a signal, and still reports what waits", async () => {
    const control = new AbortController();
    async function* endless() {
      for (let n = 0; ; n++) {
        yield record("A", n);
        if (n === 5) control.abort();
      }
    }
    const kinds: string[] = [];
    for await (const event of collect(endless(), { ...options, signal: control.signal }))
      kinds.push(event.kind);
    expect(kinds).toEqual(new Array(6).fill("unpaired"));
  });

  it("stops at a signal while a record is waited for that never comes", async () => {
    const control = new AbortController();
    async function* silent() {
      yield record("A", 0);
      await new Promise(() => {});
    }
    setTimeout(() => control.abort(), 20);
    const kinds: string[] = [];
    for await (const event of collect(silent(), { ...options, signal: control.signal }))
      kinds.push(event.kind);
    expect(kinds).toEqual(["unpaired"]);
  });
});

describe("what a collector is given", () => {
  it("is refused by name where no record could ever be of it", async () => {
    const cases = [
      ["segments", {}],
      ["segments", { segments: "A:B" }],
      ["segments", { segments: [{ from: "A", to: "B" }] }],
      ["estimators", { segments: SEGMENTS, estimators: "lda" }],
      ["maxWaiting", { segments: SEGMENTS, maxWaiting: 0 }],
      ["maxWaiting", { segments: SEGMENTS, maxWaiting: Number.NaN }],
      ["confidence", { segments: SEGMENTS, confidence: 1 }],
      ["lateness", { segments: SEGMENTS, latenessNs: 5 }],
      ["lateness", { segments: SEGMENTS, latenessNs: -1n }],
      ["maxAhead", { segments: SEGMENTS, maxAheadNs: 1.5 }],
    ] as const;
    for (const [parameter, given] of cases)
      await expect(collect([], given as never).next(), parameter).rejects.toMatchObject({ parameter });
    const unknown = { segments: SEGMENTS, estimators: ["ldaa"] };
    await expect(collect([], unknown).next()).rejects.toThrow(/there is no estimator 'ldaa'/);
  });

  it("is known for as long as it waits, however much else is done meanwhile", () => {
    const collector = new Collector({ ...options, maxWaiting: 20_000 });
    const lone = record("A", 0);
    expect(collector.offer(lone)).toBe("taken");
    // More than the number of remembered names, while the lone one waits.
    for (let n = 1; n <= 5000; n++) {
      for (const point of ["A", "B"]) collector.offer(record(point, n));
      if (n % 500 === 0) for (const _ of collector.advance(START - SECOND));
    }
    expect(collector.offer(lone)).toBe("repeated");
    expect(collector.waiting).toBe(1);
  });
});
