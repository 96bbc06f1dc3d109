import { describe, expect, it } from "vitest";
import type { SegmentEstimate } from "../estimators/estimator.ts";
import { LossTotal } from "./loss.ts";

const SECOND = 1_000_000_000n;

function epoch(
  sent: number,
  received: number,
  lost: number | null,
  meanNs: number | null = 20e6,
): SegmentEstimate {
  const none = { reason: "no-usable-cells", text: "" } as const;
  const mean = meanNs === null ? none : { valueNs: meanNs, lowNs: meanNs, highNs: meanNs };
  return { mean, stdev: none, sent, received, lost, packetsUsed: 1, coverage: 1, notes: [] };
}

function total(list: SegmentEstimate[], mode: "aligned" | "delimited" = "aligned", gap = 0n): number | null {
  const loss = new LossTotal();
  let startNs = 0n;
  for (const segment of list) {
    loss.add(segment, { mode, startNs, endNs: startNs + SECOND });
    startNs += SECOND + gap;
  }
  return loss.lost;
}

describe("loss over epochs", () => {
  it("does not count packets in flight at a cut as lost", () => {
    // 1,000 packets per second, 50 of them lost, 20 ms delay: 20 in flight at every cut, lost here and foreign there.
    const sent = 1000;
    const list = [epoch(sent, 930, 70), epoch(sent, 950, 70), epoch(sent, 950, 70), epoch(sent, 970, 50)];
    // In total 4,000 - 3,800; rate x delay = 18.8 cross the first cut, 19 and 19.2 the others.
    expect(total(list)).toBeGreaterThanOrEqual(200);
    expect(total(list)).toBeLessThan(204);
  });

  it("counts an epoch that does not know its loss beside those that do, and is not known where none does", () => {
    // Packets from the end of the middle epoch arrive in the last.
    const of = (own: number | null) => [
      epoch(1000, 1000, own),
      epoch(1000, 980, null),
      epoch(1000, 1020, own),
    ];
    expect(total(of(0))).toBe(0);
    expect(total(of(null))).toBeNull();
  });

  it("nor where the queue is long at one cut and empty at the others", () => {
    // Nothing is lost; 80 packets are in flight at the first cut, four times rate x mean delay, and none later.
    expect(total([epoch(1000, 920, 80), epoch(1000, 1080, 0), epoch(1000, 1000, 0)])).toBe(0);
  });

  it("nor where a queue grows over several cuts, whichever way the clocks are apart", () => {
    // Nothing is lost. A single flow: its cells show only the net change, so each epoch seems to miss packets, and the last has them all.
    const grows = [0, 40, 80, 110].map((before, i, all) => {
      const more = (all[i + 1] ?? 0) - before;
      return epoch(1000, 1000 - more, Math.max(0, more));
    });
    expect(total(grows)).toBe(0);
    expect(total(grows.reverse().map((e) => ({ ...e, mean: { valueNs: -20e6, lowNs: 0, highNs: 0 } })))).toBe(
      0,
    );
    // What is missing beyond the size of the queue was lost, and what appears then is foreign.
    expect(total([epoch(1000, 700, 300), epoch(1000, 1300, 0)])).toBeGreaterThan(100);
  });

  it("nor where a sparse link sends in step with the clock: one packet is in flight at every cut", () => {
    // Ten packets in ten seconds, 50 ms delay: 0.05 in flight on average. The cells of the arriving and of the missing packet are different.
    const list = Array.from({ length: 30 }, (_, i) => epoch(10, i === 0 ? 9 : 10, 1, 50e6));
    const loss = new LossTotal();
    for (const [i, segment] of list.entries()) {
      const startNs = BigInt(i) * 10n * SECOND;
      loss.add(segment, { mode: "aligned", startNs, endNs: startNs + 10n * SECOND });
    }
    expect(loss.lost).toBeLessThanOrEqual(1);
  });

  it("nor what arrives behind the last epoch while as much came into it from the one before", () => {
    const loss = new LossTotal();
    loss.add(epoch(1000, 970, 30), { mode: "aligned", startNs: 0n, endNs: SECOND });
    loss.add(epoch(1000, 1000, 0), { mode: "aligned", startNs: SECOND, endNs: 2n * SECOND });
    loss.addReceiverOnly(2n * SECOND, 30);
    expect(loss.lost).toBe(0);
    // More than may have been in flight: the sender's capture ended before the traffic did.
    loss.addReceiverOnly(2n * SECOND, 900);
    expect(loss.lost).toBe(30);
  });

  it("keeps as lost what foreign packets at the receiver had hidden", () => {
    // 30 foreign packets arrive in each epoch: sent - received is 20, but 50 were lost. Nothing is in flight.
    const list = [1, 2, 3].map(() => epoch(1000, 980, 50, 0));
    expect(total(list)).toBe(150);
  });

  it("is the plain sum where losses are counted, and over gaps", () => {
    expect(total([epoch(10, 8, 2), epoch(10, 12, -2), epoch(10, 10, 0)])).toBe(0);
    const apart = [epoch(1000, 980, 40), epoch(1000, 1000, 20)];
    expect(total(apart, "aligned", 1n)).toBe(60);
    expect(total([epoch(1000, 980, 40, null), epoch(1000, 1000, 20, null)])).toBe(60);
  });

  it("does not count packets that overtook a delimiter as lost", () => {
    // 20 packets are missing in one epoch and appear in the next, 20 the other way; 20 are lost.
    expect(total([epoch(1000, 980, 40), epoch(1000, 1000, 20)], "delimited")).toBe(20);
    expect(total([epoch(1000, 1036, null), epoch(1000, 964, 36)], "delimited")).toBe(0);
    // What appears is missing in no adjacent epoch: it is foreign, and hides losses.
    expect(total([epoch(1000, 1000, 0), epoch(1000, 990, 0), epoch(1000, 980, 20)], "delimited")).toBe(20);
  });

  it("does not count what arrives behind the sender's last epoch as lost", () => {
    const loss = new LossTotal();
    loss.add(epoch(1000, 950, 50), { mode: "aligned", startNs: 0n, endNs: SECOND });
    loss.addReceiverOnly(SECOND, 45);
    expect(loss.lost).toBe(5);
    loss.addReceiverOnly(SECOND, 500);
    expect(loss.lost).toBe(0);
    loss.addReceiverOnly(5n * SECOND, 45);
    loss.add(epoch(1000, 1000, 0), { mode: "aligned", startNs: SECOND, endNs: 2n * SECOND });
    expect(loss.lost).toBe(50);
  });

  it("takes what an epoch received too many from what the one before it lacks", () => {
    // A queue that fills over the first cut and is empty at the second; the estimator reports no negative loss.
    const list = [epoch(1000, 890, 110), epoch(1000, 1080, null), epoch(1000, 990, 10)];
    expect(total(list)).toBe(40);
    expect(total(list, "delimited")).toBe(40);
    expect(total(list, "aligned", 1n)).toBe(120);
    expect(total([epoch(1000, 990, 10), epoch(1000, 1080, null)])).toBeNull();
  });

  it("is unknown where no epoch knows it", () => {
    expect(total([])).toBeNull();
    expect(total([epoch(5, 5, null)])).toBeNull();
  });
});
