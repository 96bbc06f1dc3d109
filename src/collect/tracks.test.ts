import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { choosePairs, packetsOf, type Span, spanOf, type Tracked } from "./tracks.ts";

const SECOND = 1_000_000_000n;

interface Named extends Tracked {
  name: string;
}

function epoch(
  startS: number,
  lengthS: number,
  change: { packets?: number; seed?: bigint; mode?: "aligned" | "delimited" } = {},
): Named {
  const { packets = 10 * lengthS, seed = 1n, mode = "aligned" } = change;
  const startNs = BigInt(startS) * SECOND;
  const endNs = startNs + BigInt(lengthS) * SECOND;
  const ids = mode === "aligned" ? { startId: 0n, endId: 0n } : { startId: startNs + 1n, endId: endNs + 1n };
  return {
    name: `${mode} ${startS}+${lengthS} seed ${seed}`,
    role: "none",
    epoch: { mode, startNs, endNs, ...ids },
    fingerprint: 5n,
    seed,
    packets,
  };
}

const range = (n: number) => Array.from({ length: n }, (_, i) => i);
const total = (chosen: ReturnType<typeof choosePairs<Named>>) =>
  chosen.pairs.reduce((n, p) => n + packetsOf(p), 0);

describe("choosing one set of epochs", () => {
  it("counts packets once where a point was cut by two lengths", () => {
    const own = () => [...range(20).map((i) => epoch(i, 1)), ...range(2).map((i) => epoch(10 * i, 10))];
    const chosen = choosePairs(own(), own(), "both");
    expect(total(chosen)).toBe(200);
    // Equal in packets: the finer cut is more informative.
    expect(chosen.pairs).toHaveLength(20);
    expect(chosen.overlapping).toHaveLength(2);
    expect(chosen.unpaired).toEqual([]);
  });

  it("counts packets once where it was cut by time and by packets, and does not call the other cut missing", () => {
    const aligned = () => range(10).map((i) => epoch(i, 1));
    const delimited = () => range(3).map((i) => epoch(3 * i, 3, { mode: "delimited" }));
    const both = choosePairs([...aligned(), ...delimited()], [...aligned(), ...delimited()], "both");
    expect(both.pairs.every((p) => p.receivers[0]?.epoch.mode === "aligned")).toBe(true);
    expect(both.overlapping).toHaveLength(3);
    const one = choosePairs([...aligned(), ...delimited()], aligned(), "both");
    expect(one).toMatchObject({ unpaired: [], pairs: { length: 10 }, overlapping: { length: 3 } });
  });

  it("uses epochs of other settings where they cover other time", () => {
    const first = () => range(5).map((i) => epoch(i, 1));
    const second = () => range(5).map((i) => epoch(5 + i, 1, { seed: 2n }));
    const chosen = choosePairs([...first(), ...second()], [...first(), ...second()], "both");
    expect(chosen).toMatchObject({ pairs: { length: 10 }, unpaired: [], overlapping: [] });
  });

  it("puts ends that differ in their seed together, so that the difference can be named", () => {
    const chosen = choosePairs([epoch(0, 1)], [epoch(0, 1, { seed: 2n })], "both");
    expect(chosen.pairs.map((p) => [p.senders[0]?.seed, p.receivers[0]?.seed])).toEqual([[1n, 2n]]);
  });

  it("counts the receiver's records once where it alone keeps any", () => {
    const own = [...range(4).map((i) => epoch(i, 1)), epoch(1, 2, { packets: 5 })];
    const chosen = choosePairs([], own, "receiver");
    expect(total(chosen)).toBe(40);
    expect(chosen.overlapping).toHaveLength(1);
  });

  it("never answers for an instant twice, and gives back every record, whatever there is", () => {
    const record = fc
      .record({
        start: fc.nat(30),
        length: fc.integer({ min: 1, max: 8 }),
        seed: fc.bigInt(1n, 2n),
        packets: fc.nat(50),
      })
      .map(({ start, length, seed, packets }) => epoch(start, length, { seed, packets }));
    const list = fc.uniqueArray(record, { selector: (r) => r.name, maxLength: 20 });
    fc.assert(
      fc.property(list, list, (senders, receivers) => {
        const chosen = choosePairs(senders, receivers, "both");
        const spans: Span[] = chosen.pairs.map(spanOf);
        for (const [i, a] of spans.entries())
          for (const b of spans.slice(i + 1)) expect(a.endNs <= b.startNs || b.endNs <= a.startNs).toBe(true);
        const back = [
          ...[...chosen.pairs, ...chosen.overlapping].flatMap((p) => [...p.senders, ...p.receivers]),
          ...chosen.unpaired.map((u) => u.entry),
        ];
        expect(new Set(back).size).toBe(senders.length + receivers.length);
        expect(back.length).toBe(senders.length + receivers.length);
      }),
      { numRuns: 300, seed: 7 },
    );
  });
});
