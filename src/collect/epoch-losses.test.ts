import { describe, expect, it } from "vitest";
import { Random } from "../base/random.ts";
import { type CountedEpoch, epochLosses } from "./epoch-losses.ts";

interface Scene {
  seed: number;
  ratePps: number;
  epochs: number;
  /** Delay of the path without its queue. */
  delayNs: number;
  /** A queue that bursts fill: packets that it drains per second, and its size. */
  queue?: { ratePps: number; packets: number; burst: number };
  /** Probability of loss in an epoch. */
  loss?: (epoch: number) => number;
  offsetNs?: number;
  /** Number of cells over which the packets are distributed: those missing in one hide those that appear in it. */
  cells?: number;
}

const sum = (list: readonly number[]) => list.reduce((a, b) => a + b, 0);

/** Packets one by one; returns the counts of each end, and the loss among those sent in each epoch. */
function scene({ seed, ratePps, epochs, delayNs, queue, loss = () => 0, offsetNs = 0, cells = 1 }: Scene) {
  const random = new Random(seed);
  const cellOf = new Random(seed + 1);
  const counts = Array.from({ length: epochs }, () => ({
    sent: 0,
    received: 0,
    lost: 0,
    appeared: 0,
    delays: [] as number[],
    cells: Array.from({ length: cells }, () => ({ missing: 0, received: 0, unlike: false })),
  }));
  let [nowNs, freeNs] = [0, 0];
  let bursting = false;
  for (;;) {
    // Bursts at twice the rate, a tenth of the time.
    if (random.float() < 0.001) bursting = queue !== undefined && random.float() < 0.3;
    nowNs += (-Math.log(1 - random.float()) * 1e9) / (ratePps * (bursting ? (queue?.burst ?? 1) : 1));
    const epoch = Math.floor(nowNs / 1e9);
    const own = counts[epoch];
    if (!own) break;
    own.sent++;
    const cell = Math.floor(cells * cellOf.float());
    const here = own.cells[cell]!;
    here.missing++;
    const waits = queue ? Math.max(0, freeNs - nowNs) : 0;
    // Senders slow down.
    if (waits > 150e6) bursting = false;
    if (random.float() < loss(epoch) || (queue && waits > (queue.packets * 1e9) / queue.ratePps)) {
      own.lost++;
      here.unlike = true;
      continue;
    }
    if (queue) freeNs = Math.max(freeNs, nowNs) + 1e9 / queue.ratePps;
    const delay = delayNs + waits + offsetNs;
    const there = counts[Math.floor((nowNs + delay) / 1e9)];
    if (!there) continue;
    there.received++;
    const arrived = there.cells[cell]!;
    arrived.missing--;
    arrived.received++;
    if (there !== own) here.unlike = arrived.unlike = true;
    if (there === own) there.delays.push(delay);
    else there.appeared++;
  }
  // The first and the last epoch lack what came before and comes after.
  const rows = counts.slice(1, -1).map(({ sent, received, delays }, i): CountedEpoch => {
    const mean = delays.reduce((a, b) => a + b, 0) / delays.length;
    const variance = delays.reduce((a, b) => a + (b - mean) ** 2, 0) / delays.length;
    return {
      ...{ mode: "aligned", startNs: BigInt(i) * 1_000_000_000n, endNs: BigInt(i + 1) * 1_000_000_000n },
      ...{ sent, received, lost: sent >= received ? sent - received : null },
      ...(delays.length > 0
        ? { meanNs: mean, stdevNs: Math.sqrt(variance) }
        : { meanNs: null, stdevNs: null }),
      edge: false,
    };
  });
  const inner = counts.slice(1, -1);
  const shown = inner.map((c, i): CountedEpoch => {
    const lost = sum(c.cells.map(({ missing }) => Math.max(0, missing)));
    const used = sum(c.cells.map((cell) => (cell.unlike ? 0 : cell.received)));
    return { ...rows[i]!, lost, used, stdevNs: null };
  });
  return { rows, shown, truth: inner.map((c) => c.lost), appeared: inner.map((c) => c.appeared) };
}

const QUEUE = { ratePps: 2200, packets: 200, burst: 1.6 };

describe("loss of single epochs that are cut by time", () => {
  const lossless: [string, Partial<Scene>][] = [
    ["a short delay", { delayNs: 200_000 }],
    ["a long delay", { delayNs: 60_000_000 }],
    ["a queue that fills and empties", { delayNs: 1_000_000, queue: { ...QUEUE, packets: 1e9 } }],
    ["clocks apart", { delayNs: 1_000_000, offsetNs: -20_000_000 }],
  ];
  for (const [name, some] of lossless)
    it(`is none where nothing is lost: ${name}`, () => {
      const { rows } = scene({ seed: 71, ratePps: 2000, epochs: 400, delayNs: 0, ...some });
      // Apparent loss by S - R alone.
      expect(rows.filter((r) => (r.lost ?? 0) > 0).length).toBeGreaterThan(20);
      const losses = epochLosses(rows);
      expect(losses.filter((l) => (l?.lost ?? 0) > 0)).toEqual([]);
      expect(losses.every((l) => l?.low === 0)).toBe(true);
    });

  const lossy: [string, Partial<Scene>][] = [
    ["half a percent", { delayNs: 2_000_000, loss: () => 0.005 }],
    ["one in a hundred in a few epochs", { delayNs: 500_000, loss: (e) => (e % 40 < 5 ? 0.01 : 0) }],
    ["a queue that overflows", { delayNs: 1_000_000, queue: QUEUE }],
    ["clocks apart", { delayNs: 1_000_000, offsetNs: -20_000_000, loss: () => 0.02 }],
  ];
  for (const [name, some] of lossy)
    it(`is within its bounds, and adds up: ${name}`, () => {
      const { rows, truth } = scene({ seed: 72, ratePps: 2000, epochs: 400, delayNs: 0, ...some });
      const losses = epochLosses(rows);
      const inside = losses.filter((l, i) => l && l.low <= (truth[i] ?? 0) && l.high >= (truth[i] ?? 0));
      expect(inside.length / losses.length).toBeGreaterThan(0.985);
      const [found, lost] = [sum(losses.map((l) => l?.lost ?? 0)), sum(truth)];
      expect(lost).toBeGreaterThan(100);
      expect(Math.abs(found - lost)).toBeLessThan(0.03 * lost + 30);
    });

  it("is none where bursts cross the cuts, whatever the mean delay allows: cells show who was late", () => {
    const { rows, appeared } = scene({
      ...{ seed: 75, ratePps: 1000, epochs: 200, delayNs: 200_000 },
      queue: { ratePps: 1300, packets: 1e9, burst: 4 },
    });
    const cells = rows.map((r, i) => ({
      ...r,
      lost: (r.sent ?? 0) - (r.received ?? 0) + (appeared[i] ?? 0),
      stdevNs: null,
    }));
    expect(Math.max(...appeared)).toBeGreaterThan(40);
    const losses = epochLosses(cells);
    expect(sum(losses.map((l) => l?.lost ?? 0))).toBeLessThanOrEqual(2);
    expect(losses.filter((l) => (l?.low ?? 0) > 0)).toEqual([]);
  });

  it("too small for one cut to show is found by the cuts behind it", () => {
    const { rows, truth } = scene({
      ...{ seed: 76, ratePps: 2000, epochs: 60, delayNs: 20_000_000 },
      loss: (e) => (e === 30 ? 0.02 : 0),
    });
    const found = epochLosses(rows).map((l) => l?.lost ?? 0);
    expect(sum(truth)).toBeGreaterThan(20);
    expect(Math.abs(sum(found) - sum(truth))).toBeLessThan(0.3 * sum(truth));
    expect(sum(found.slice(26, 33))).toBeGreaterThan(0.7 * sum(found));
  });

  it("behind the last whole epoch waits: a capture's end shows nothing of what arrives", () => {
    const { rows } = scene({ seed: 77, ratePps: 2000, epochs: 30, delayNs: 5_000_000 });
    const last = rows.at(-2);
    if (last?.received) last.received -= 9;
    const ended = rows.map((r, i) => ({ ...r, edge: i === rows.length - 1 }));
    expect(
      sum(
        epochLosses(ended)
          .slice(0, -1)
          .map((l) => l?.lost ?? 0),
      ),
    ).toBe(0);
  });

  it("of the newest epoch waits for the next one where it may be in flight", () => {
    const { rows } = scene({
      seed: 73,
      ratePps: 2000,
      epochs: 60,
      delayNs: 10_000_000,
      loss: (e) => (e > 40 ? 0.2 : 0),
    });
    const until = (n: number) => epochLosses(rows.slice(0, n)).at(-1);
    for (let n = 1; n < 38; n++) expect(until(n)).toMatchObject({ lost: 0, low: 0 });
    for (let n = 44; n < 58; n++) expect(until(n)?.low).toBeGreaterThan(200);
  });

  it("is not told from a capture's edge, nor where there are no counts", () => {
    const epoch: CountedEpoch = {
      ...{ mode: "aligned", startNs: 0n, endNs: 1_000_000_000n, sent: 1000, received: 500, lost: 500 },
      ...{ meanNs: 1000, stdevNs: 100, edge: true },
    };
    expect(epochLosses([epoch])).toMatchObject([{ low: 0 }]);
    expect(epochLosses([{ ...epoch, sent: null, lost: null }])).toEqual([null]);
    expect(epochLosses([{ ...epoch, mode: "delimited", lost: 7, edge: false }])).toEqual([
      { lost: 7, low: 7, high: 7 },
    ]);
    // The delay is unknown.
    expect(epochLosses([{ ...epoch, meanNs: null, stdevNs: null, edge: false }])).toMatchObject([{ low: 0 }]);
  });

  it("is known more closely where packets that appeared are counted", () => {
    const some = { seed: 74, ratePps: 9000, epochs: 100, delayNs: 15_000_000, loss: () => 0.01 };
    const { rows, truth, appeared } = scene({
      ...some,
      queue: { ratePps: 12_000, packets: 300, burst: 1.5 },
    });
    const cells = rows.map((r, i) => ({
      ...r,
      lost: (r.sent ?? 0) - (r.received ?? 0) + (appeared[i] ?? 0),
    }));
    const width = (list: readonly CountedEpoch[]) =>
      sum(epochLosses(list).map((l) => (l ? l.high - l.low : 0)));
    expect(width(cells)).toBeLessThan(0.6 * width(rows));
    const losses = epochLosses(cells);
    const inside = losses.filter((l, i) => l && l.low <= (truth[i] ?? 0) && l.high >= (truth[i] ?? 0));
    expect(inside.length).toBeGreaterThan(96);
    expect(Math.abs(sum(losses.map((l) => l?.lost ?? 0)) - sum(truth))).toBeLessThan(0.05 * sum(truth) + 50);
  });

  it("is none of an epoch whose packets overtook a delimiter, and appear beside it", () => {
    const rows = [
      [1000, 993, 7],
      [1000, 1004, 3],
      [1000, 1003, null],
      [1000, 950, 50],
    ].map(
      ([sent = null, received = null, lost = null], i): CountedEpoch => ({
        ...{ mode: "delimited", startNs: BigInt(i), endNs: BigInt(i + 1), sent, received, lost },
        ...{ meanNs: 1000, stdevNs: 100, edge: false },
      }),
    );
    // 7 and 3 of the 10 that appeared are missing in adjacent epochs; of the 50 ten may be.
    expect(epochLosses(rows)).toEqual([
      { lost: 0, low: 0, high: 7 },
      { lost: 0, low: 0, high: 3 },
      null,
      { lost: 50, low: 40, high: 50 },
    ]);
  });

  it("has wider bounds where lost packets hide those that appeared in their cells", () => {
    for (const cells of [8, 40, 4000]) {
      const { shown, truth } = scene({
        ...{ seed: 79, ratePps: 1000, epochs: 400, delayNs: 200_000, cells },
        queue: { ratePps: 1300, packets: 60, burst: 4 },
      });
      expect(sum(truth) / sum(shown.map((r) => r.sent ?? 0))).toBeGreaterThan(0.1);
      const losses = epochLosses(shown);
      const inside = losses.filter((l, i) => l && l.low <= (truth[i] ?? 0) && l.high >= (truth[i] ?? 0));
      expect(inside.length / losses.length, `${cells} cells`).toBeGreaterThan(0.95);
      expect(Math.abs(sum(losses.map((l) => l?.lost ?? 0)) - sum(truth))).toBeLessThan(0.02 * sum(truth));
    }
  });

  it("has closer bounds there where the deviation of delays is known", () => {
    const some = { ratePps: 4000, epochs: 200, delayNs: 15_000_000, cells: 8 };
    const { rows, shown, truth } = scene({
      ...{ ...some, seed: 80 },
      queue: { ratePps: 4300, packets: 120, burst: 3 },
    });
    expect(sum(truth) / sum(shown.map((r) => r.sent ?? 0))).toBeGreaterThan(0.1);
    const known = epochLosses(shown.map((row, i) => ({ ...row, stdevNs: rows[i]!.stdevNs })));
    const width = (losses: typeof known) => sum(losses.map((l) => l!.high - l!.low));
    expect(width(known)).toBeLessThan(0.6 * width(epochLosses(shown)));
    const inside = known.filter((l, i) => l!.low <= truth[i]! && l!.high >= truth[i]!);
    expect(inside.length / known.length).toBeGreaterThan(0.95);
  });

  it("counts packets that came from elsewhere", () => {
    // As many appeared as were lost: the counts are equal.
    const epoch = (i: number): CountedEpoch => ({
      ...{ mode: "aligned", startNs: BigInt(i) * 1_000_000_000n, endNs: BigInt(i + 1) * 1_000_000_000n },
      ...{ sent: 1000, received: 1000, lost: 100, meanNs: 1_000_000, stdevNs: 10_000, edge: false },
    });
    const losses = epochLosses([0, 1, 2, 3, 4, 5].map(epoch));
    expect(sum(losses.map((l) => l?.lost ?? 0))).toBeGreaterThan(500);
  });
});
