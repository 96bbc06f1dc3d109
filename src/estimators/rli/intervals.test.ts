/** The parts of RLI's interval other than the line's errors. src/evaluate/rli-intervals.test.ts counts how often the truth lies inside. */
import { describe, expect, test } from "vitest";
import { makeBatch, type Row } from "../../../tests/support/small-batch.ts";
import { Kernels } from "../../base/kernels.ts";
import { Random } from "../../base/random.ts";
import { isNoAnswer } from "../estimator.ts";
import { parseParameters } from "../parameters.ts";
import { decodeRli, knownFlows } from "./payload.ts";
import { rli } from "./rli.ts";

const kernels = new Kernels();
const SEED = 7n;
const REFERENCE = 1 << 22;
type Packet = Row & { delayNs?: number };

const reference = (timeNs: number, delayNs: number, wireLength = 100): Packet => ({
  ...{ timeNs, delayNs, wireLength, flags: REFERENCE },
});
const regular = (timeNs: number, wireLength: number, flow = 1): Packet => ({ timeNs, wireLength, flow });

function ask(rows: readonly Packet[], text: string) {
  const parameters = parseParameters(rli, text);
  const tap = rli.createTap({ kernels, role: "receiver", seed: SEED }, parameters);
  tap.begin(0);
  const batch = makeBatch(kernels, rows);
  rows.forEach((row, i) => {
    batch.delayNs[i] = row.delayNs ?? Number.NaN;
  });
  tap.update(batch, 0, batch.count);
  batch.free();
  const receiver = tap.seal();
  tap.free();
  const sketch = decodeRli(receiver, parameters, SEED);
  const flows = knownFlows(sketch);
  const answer = rli.estimate({
    ...{ parameters, seed: SEED, sender: null, receiver, flows },
    ...{ confidence: 0.95, epochNs: 1e9 },
  });
  const mean = answer.flows[0]!.mean;
  if (isNoAnswer(mean)) throw new Error(mean.text);
  return { mean, sketch, notes: answer.segment!.notes.join("\n") };
}

/** A FIFO queue that drains a byte in 1 us (8 Mbit/s), in ns; `credit` bytes of tokens let packets through at once. */
function queue(
  sent: { atNs: number; bytes: number; own: boolean }[],
  credit = 0,
): { rows: Packet[]; meanNs: number } {
  const NS = 1000;
  let freeNs = Number.NEGATIVE_INFINITY;
  const rows: Packet[] = [];
  let [sum, packets] = [0, 0];
  for (const { atNs, bytes, own } of sent) {
    // The time at which the tokens for this packet are available; at most `credit` bytes are saved up.
    freeNs = Math.max(freeNs, atNs - credit * NS) + bytes * NS;
    const leaves = Math.max(atNs, freeNs);
    if (own) rows.push(reference(leaves, leaves - atNs, bytes));
    else {
      rows.push(regular(leaves, bytes));
      sum += leaves - atNs;
      packets++;
    }
  }
  return { rows, meanNs: sum / packets };
}

/** 1,000-byte packets every 5 ms, in the second half every 0.9 ms; a 100-byte reference every 3 ms; each at a random time within its interval. */
function sendings() {
  const sent: { atNs: number; bytes: number; own: boolean }[] = [];
  const random = new Random(3);
  const within = (ns: number) => Math.floor(ns * random.float());
  for (let t = 1e6, step = 5e6; t < 2e9; t += step) {
    step = t < 1e9 ? 5e6 : 0.9e6;
    sent.push({ atNs: t + within(step), bytes: 1000, own: false });
  }
  for (let t = 0; t < 2.3e9; t += 3e6) sent.push({ atNs: t + within(3e6), bytes: 100, own: true });
  return sent.sort((a, b) => a.atNs - b.atNs);
}

describe("the drain rate", () => {
  const { rows, meanNs } = queue(sendings());

  test("where it is right, the truth lies inside and there is no note", () => {
    const { mean, notes, sketch } = ask(rows, "drain=8e6");
    expect(mean.lowNs).toBeLessThan(meanNs);
    expect(mean.highNs).toBeGreaterThan(meanNs);
    expect(sketch.counters.hurried).toBe(0);
    expect(notes).not.toMatch(/drain|closer together/);
  });

  test("is measured in gaps that the link was busy for", () => {
    const { sketch } = ask(rows, "drain=8e6");
    expect(sketch.counters.busy).toBeGreaterThan(100);
    expect((8e9 * sketch.total.busyBytes) / sketch.total.busyNs / 8e6).toBeCloseTo(1, 3);
  });

  test.each(["drain=16e6", "drain=5e6", "drain=0"])(
    "%s is noticed, and the interval is wide enough",
    (text) => {
      const { mean, notes } = ask(rows, text);
      expect(notes).toMatch(/while the link was busy, 8 Mbit\/s passed/);
      expect(mean.lowNs).toBeLessThan(meanNs);
      expect(mean.highNs).toBeGreaterThan(meanNs);
    },
  );
});

test("behind a growing queue the line read at arrivals is a transmission off, read at transmissions it is not", () => {
  // Twice the drain rate: the queue grows by half the elapsed time.
  const random = new Random(5);
  const sent: { atNs: number; bytes: number; own: boolean }[] = [];
  for (let t = 0; t < 1e9; t += 0.5e6)
    sent.push({ atNs: t + Math.floor(0.5e6 * random.float()), bytes: 1000, own: false });
  for (let t = 0; t < 1.1e9; t += 3e6)
    sent.push({ atNs: t + Math.floor(3e6 * random.float()), bytes: 100, own: true });
  const { rows, meanNs } = queue(sent.sort((a, b) => a.atNs - b.atNs));
  const off = (line: string) => ask(rows, `drain=8e6,line=${line}`).mean.valueNs - meanNs;
  // A packet takes 1 ms, and the slope is one half.
  expect(off("arrival")).toBeGreaterThan(0.4e6);
  expect(Math.abs(off("transmission"))).toBeLessThan(0.1e6);
});

test("a token bucket is noticed: a note names packets that passed at once, and the interval covers both", () => {
  // Occasionally three packets at once: more than a plain link could let through.
  const sent = sendings();
  for (let t = 2.5e6; t < 1e9; t += 100e6)
    for (let i = 0; i < 3; i++) sent.push({ atNs: t, bytes: 1000, own: false });
  const { rows, meanNs } = queue(
    sent.sort((a, b) => a.atNs - b.atNs),
    5000,
  );
  const { mean, notes } = ask(rows, "drain=8e6");
  expect(notes).toMatch(/closer together than the drain rate allows/);
  expect(mean.lowNs).toBeLessThan(meanNs);
  expect(mean.highNs).toBeGreaterThan(meanNs);
  // A sixth of the packets found the queue empty; their transmissions are not part of the value.
  expect(mean.valueNs).toBeLessThan(meanNs + 50e3);
});

test("packets long after the last reference may be as far off as delays ever were", () => {
  const rows: Packet[] = [];
  for (let i = 0; i < 100; i++) rows.push(reference(1e6 * i, i % 50 < 25 ? 1e6 : 9e6));
  const near = ask([...rows, regular(100.5e6, 100)], "").mean;
  const far = ask([...rows, regular(500e6, 100)], "").mean;
  expect(near.valueNs).toBe(far.valueNs);
  expect(near.highNs - near.lowNs).toBeLessThan(10);
  expect(far.lowNs).toBeLessThan(1e6);
});

describe("what packets without a pause between them tell", () => {
  /**
   * Every 40 ms, a burst of ten 1,000-byte packets at twice the drain rate, and a single 100-byte packet 5 ms after the last one has left. 40-byte references
   * at random times, one per 10 ms.
   */
  function bursts() {
    const random = new Random(9);
    const sent: { atNs: number; bytes: number; own: boolean }[] = [];
    for (let t = 0; t < 4e9; t += 40e6) {
      sent.push({ atNs: t + 35e6, bytes: 100, own: false });
      for (let i = 0; i < 10; i++) sent.push({ atNs: t + 20e6 + 0.5e6 * i, bytes: 1000, own: false });
      for (let k = 0; k < 4; k++)
        sent.push({ atNs: t + Math.floor(10e6 * (k + random.float())), bytes: 40, own: true });
    }
    return queue(sent.sort((a, b) => a.atNs - b.atNs));
  }
  const { rows, meanNs } = bursts();
  const alone = rows.map((row) => (row.wireLength === 100 ? { ...row, flow: 2 } : row));
  const lone = (text: string) => {
    const { sketch } = ask(alone, text);
    const at = [...sketch.flows.packets.subarray(0, 2)].indexOf(100);
    return Number(sketch.flows.sum[at]!) / 100;
  };

  test("behind a pause a packet has not waited, whatever the references beside it did", () => {
    // 100 bytes take 100 us. The line spreads the bursts' waiting times over all packets of the gaps.
    expect(Math.abs(lone("drain=8e6,line=backlog") - 100e3)).toBeLessThan(2e3);
    expect(lone("drain=8e6")).toBeGreaterThan(200e3);
  });

  test("bursts that few references met are estimated better, and the interval holds the truth", () => {
    const { mean } = ask(rows, "drain=8e6,line=backlog");
    expect(mean.lowNs).toBeLessThan(meanNs);
    expect(mean.highNs).toBeGreaterThan(meanNs);
    const line = ask(rows, "drain=8e6").mean;
    expect(Math.abs(mean.valueNs - meanNs)).toBeLessThan(Math.abs(line.valueNs - meanNs));
  });

  test("without a drain rate there are none", () => {
    expect(ask(rows, "line=backlog").mean).toEqual(ask(rows, "").mean);
  });
});
