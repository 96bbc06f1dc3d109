import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Pairable, pairRecords, receiverOnly } from "./pair.ts";

const SECOND = 1_000_000_000n;

interface Named extends Pairable {
  file: string;
}

function aligned(point: string, n: number, seconds = 1, role: Pairable["role"] = "none"): Named {
  const startNs = BigInt(n) * SECOND;
  const epoch = {
    mode: "aligned",
    startNs,
    endNs: startNs + BigInt(seconds) * SECOND,
    startId: 0n,
    endId: 0n,
  } as const;
  return { file: `${point}${n}${role}`, role, epoch };
}

/** Epochs between delimiters; 0 at the ends marks the start and end of observation. */
function delimited(point: string, ids: readonly number[]): Named[] {
  const bounds = [0, ...ids, 0];
  return bounds.slice(1).map((endId, i) => ({
    file: `${point}${i}`,
    role: "none",
    epoch: {
      mode: "delimited",
      startNs: BigInt(i) * SECOND,
      endNs: BigInt(i + 1) * SECOND,
      startId: BigInt(bounds[i]!),
      endId: BigInt(endId),
    },
  }));
}

const ids = (entries: readonly Named[]) =>
  entries.map((e) => `${e.epoch.startId}-${e.epoch.endId}`).join(" ");

describe("pairing", () => {
  it("puts aligned epochs of equal cuts together and names the others", () => {
    const { pairs, unpaired } = pairRecords(
      [0, 1, 3].map((n) => aligned("A", n)),
      [1, 2, 3].map((n) => aligned("B", n)),
    );
    expect(pairs.map((p) => [p.senders[0]!.file, p.receivers[0]!.file])).toEqual([
      ["A1none", "B1none"],
      ["A3none", "B3none"],
    ]);
    expect(unpaired.map((u) => [u.entry.file, u.missing, u.reason])).toEqual([
      ["A0none", "receiver", "no record"],
      ["B2none", "sender", "no record"],
    ]);
  });

  it("merges the parts of an aligned epoch that one end has cut short, or both at different instants", () => {
    const piece = (point: string, from: number, to: number): Named => {
      const whole = aligned(point, 0);
      const epoch = { ...whole.epoch, startNs: BigInt(from * 1e9), endNs: BigInt(to * 1e9) };
      return { ...whole, file: `${point}${from}`, epoch };
    };
    const { pairs, unpaired } = pairRecords(
      [piece("A", 0, 0.25), piece("A", 0.25, 1), piece("A", 1, 2), piece("A", 2, 2.5), piece("A", 2.5, 3)],
      [piece("B", 0, 1), piece("B", 1, 1.5), piece("B", 1.5, 2), piece("B", 2, 2.25), piece("B", 2.25, 3)],
    );
    expect(unpaired).toEqual([]);
    const files = (list: readonly Named[]) => list.map((e) => e.file).join(" ");
    expect(pairs.map((p) => [files(p.senders), files(p.receivers)])).toEqual([
      ["A0 A0.25", "B0"],
      ["A1", "B1 B1.5"],
      ["A2 A2.5", "B2 B2.25"],
    ]);
    // A part is missing: the rest does not cover the same time.
    const gap = pairRecords([piece("A", 0, 0.25), piece("A", 0.5, 1)], [piece("B", 0, 1)]);
    expect(gap.pairs).toEqual([]);
    expect(gap.unpaired).toHaveLength(3);
  });

  it("says where two points were cut differently", () => {
    const { pairs, unpaired } = pairRecords([aligned("A", 0)], [aligned("B", 0, 2)]);
    expect(pairs).toEqual([]);
    expect(unpaired).toHaveLength(2);
    expect(unpaired[0]!.reason).toMatch(/cut elsewhere .*same ‘epoch’/);
  });

  it("prefers records of the very role, and uses none of the other role", () => {
    const senders = [aligned("A", 0), aligned("A", 0, 1, "sender"), aligned("A", 1, 1, "receiver")];
    const { pairs, unpaired } = pairRecords(senders, [aligned("B", 0), aligned("B", 1)]);
    expect(pairs.map((p) => p.senders[0]!.file)).toEqual(["A0sender"]);
    expect(unpaired.map((u) => u.entry.file)).toEqual(["B1none"]);
    expect(receiverOnly([aligned("B", 2, 1, "receiver"), aligned("B", 3, 1, "sender")]).pairs).toHaveLength(
      1,
    );
  });

  it("merges neighbours where an end has lost a delimiter", () => {
    const { pairs, unpaired } = pairRecords(delimited("A", [1, 2, 3, 4, 5]), delimited("B", [1, 3, 4, 5]));
    expect(pairs.map((p) => [ids(p.senders), ids(p.receivers)])).toEqual([
      ["0-1", "0-1"],
      ["1-2 2-3", "1-3"],
      ["3-4", "3-4"],
      ["4-5", "4-5"],
      ["5-0", "5-0"],
    ]);
    expect(unpaired).toEqual([]);
  });

  it("does not guess what lies before the first common delimiter where one end has more of it", () => {
    const { pairs, unpaired } = pairRecords(delimited("A", [1, 2, 3]), delimited("B", [2, 3, 4]));
    expect(pairs.map((p) => ids(p.senders))).toEqual(["2-3"]);
    expect(unpaired.map((u) => ids([u.entry])).sort()).toEqual(["0-1", "0-2", "1-2", "3-0", "3-4", "4-0"]);
    expect(unpaired[0]!.reason).toMatch(/began or ended/);
    expect(pairRecords(delimited("A", []), delimited("B", [])).pairs).toHaveLength(1);
    expect(pairRecords(delimited("A", [1]), delimited("B", [])).pairs).toEqual([]);
  });

  it("merges what lies behind the last common delimiter where the captures ended together", () => {
    const lost = delimited("B", [1]).map((r, i) =>
      i === 1 ? { ...r, epoch: { ...r.epoch, endNs: 4n * SECOND } } : r,
    );
    const { pairs, unpaired } = pairRecords(delimited("A", [1, 2, 3]), lost);
    expect(pairs.map((p) => [ids(p.senders), ids(p.receivers)])).toEqual([
      ["0-1", "0-1"],
      ["1-2 2-3 3-0", "1-0"],
    ]);
    expect(unpaired).toEqual([]);
    // The receiver's capture ended before the sender's last record began: loss there is unknown.
    expect(pairRecords(delimited("A", [1, 2, 3]), delimited("B", [1])).pairs).toHaveLength(1);
  });

  it("takes captures that began and ended together as one epoch where every delimiter was lost", () => {
    const whole = (from: number, to: number) =>
      delimited("B", []).map((r) => ({
        ...r,
        epoch: { ...r.epoch, startNs: BigInt(from) * SECOND, endNs: BigInt(to) * SECOND },
      }));
    const sent = delimited("A", [1, 2]);
    const { pairs, unpaired } = pairRecords(sent, whole(0, 3));
    expect(pairs.map((p) => [ids(p.senders), ids(p.receivers)])).toEqual([["0-1 1-2 2-0", "0-0"]]);
    expect(unpaired).toEqual([]);
    // One that began later, ended earlier, or lacks a record in between does not contain the same packets.
    expect(pairRecords(sent, whole(1, 3)).pairs).toEqual([]);
    expect(pairRecords(sent, whole(0, 2)).pairs).toEqual([]);
    expect(pairRecords([sent[0]!, sent[2]!], whole(0, 3)).pairs).toEqual([]);
  });

  it("leaves out delimiters that overtook each other, and bridges no hole", () => {
    const swapped = pairRecords(delimited("A", [1, 2, 3, 4]), delimited("B", [1, 3, 2, 4]));
    const inner = (list: typeof swapped.pairs) => list.filter((p) => !/^0-|-0$/.test(ids(p.senders)));
    expect(inner(swapped.pairs).map((p) => [ids(p.senders), ids(p.receivers)])).toEqual([
      ["1-2 2-3", "1-3"],
      ["3-4", "3-2 2-4"],
    ]);
    const all = delimited("A", [1, 2, 3, 4, 5]);
    const holed = all.filter((e) => e.epoch.startId !== 3n);
    const { pairs, unpaired } = pairRecords(holed, delimited("B", [1, 2, 3, 4, 5]));
    expect(inner(pairs).map((p) => ids(p.senders))).toEqual(["1-2", "2-3", "4-5"]);
    expect(unpaired.filter((u) => u.missing === "sender").map((u) => ids([u.entry]))).toContain("3-4");
    // Both neighbours of the gap are lost for the end that has them in one record.
    const merged = pairRecords(holed, delimited("B", [1, 2, 5]));
    expect(inner(merged.pairs).map((p) => ids(p.senders))).toEqual(["1-2"]);
  });

  it("covers between the first and the last common delimiter everything once, whatever was lost", () => {
    const kept = fc.array(fc.boolean(), { minLength: 30, maxLength: 30 });
    fc.assert(
      fc.property(kept, kept, (atA, atB) => {
        const all = Array.from({ length: 30 }, (_, i) => i + 1);
        const [a, b] = [all.filter((_, i) => atA[i]), all.filter((_, i) => atB[i])];
        const common = a.filter((id) => b.includes(id));
        const { pairs } = pairRecords(delimited("A", a), delimited("B", b));
        // The obvious rule: one pair between each two adjacent delimiters that both have.
        const inner = pairs.filter(
          (p) => p.senders[0]!.epoch.startId !== 0n && p.senders.at(-1)!.epoch.endId !== 0n,
        );
        const spans = inner.map(({ senders, receivers }) => {
          for (const side of [senders, receivers]) {
            for (let i = 1; i < side.length; i++)
              expect(side[i]!.epoch.startId).toBe(side[i - 1]!.epoch.endId);
          }
          expect(senders[0]!.epoch.startId).toBe(receivers[0]!.epoch.startId);
          expect(senders.at(-1)!.epoch.endId).toBe(receivers.at(-1)!.epoch.endId);
          return [Number(senders[0]!.epoch.startId), Number(senders.at(-1)!.epoch.endId)];
        });
        expect(spans).toEqual(common.slice(1).map((id, i) => [common[i], id]));
      }),
      { numRuns: 100, seed: 51 },
    );
  });

  it("pairs a void epoch by its number, so that the reason is found", () => {
    const control = (point: string, id: number, startNs: bigint): Named => ({
      ...aligned(point, 0),
      epoch: { mode: "control", startNs, endNs: startNs + 5n, startId: BigInt(id), endId: BigInt(id) },
    });
    const { pairs, unpaired } = pairRecords(
      [control("A", 1, 10n), control("A", 2, 20n)],
      [control("B", 1, 10n), control("B", 2, 25n)],
    );
    expect(pairs).toHaveLength(2);
    expect(unpaired).toEqual([]);
  });
});
