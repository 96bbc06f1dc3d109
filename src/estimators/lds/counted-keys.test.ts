import fc from "fast-check";
import { expect, test } from "vitest";
import { heaviestOf } from "./counted-keys.ts";

interface Counted {
  hash: bigint;
  packets: number;
}

function pieceOf({ hash, packets }: Counted): Uint8Array {
  const view = new DataView(new ArrayBuffer(64));
  view.setBigUint64(0, 6n << 32n, true);
  view.setBigUint64(8, hash * 3n, true);
  view.setBigUint64(40, hash, true);
  view.setBigUint64(48, BigInt(packets), true);
  view.setBigUint64(56, BigInt(100 * packets), true);
  return new Uint8Array(view.buffer);
}

const counted = fc.uniqueArray(
  fc.record({ hash: fc.bigInt(0n, 1n << 40n), packets: fc.integer({ min: 1, max: 60 }) }),
  { selector: ({ hash }) => hash, maxLength: 60 },
);

test("a flow above the floor is listed with its exact packets, and the floor is what the guarantee says", () => {
  fc.assert(
    fc.property(counted, fc.integer({ min: 1, max: 40 }), (flows, max) => {
      const list = heaviestOf({ flows: flows.map(pieceOf), shed: null }, max);
      const all = flows.reduce((n, { packets }) => n + packets, 0);
      expect(list.count).toBeLessThanOrEqual(max);
      expect(list.floor).toBeLessThanOrEqual(all / (max + 1));
      expect([...list.missed].every((n) => n === 0)).toBe(true);
      const wanted = flows.length <= max ? flows : flows.filter(({ packets }) => packets > list.floor);
      const order = wanted.sort((a, b) => (a.hash < b.hash ? -1 : 1));
      expect([...list.packets]).toEqual(order.map(({ packets }) => packets));
      expect([...list.bytes]).toEqual(order.map(({ packets }) => 100 * packets));
    }),
    { seed: 19, numRuns: 300 },
  );
});

test("flows that found no room have at most what was counted of all of them", () => {
  fc.assert(
    fc.property(counted, fc.bigInt(1n, 1n << 40n), fc.integer({ min: 1, max: 40 }), (flows, cut, max) => {
      // Of flows from the cut on, the table only has packets from before it was full; here, half of them.
      const have = flows.map((f) => (f.hash >= cut ? { ...f, packets: f.packets >> 1 } : f));
      const lost = flows.reduce((n, { packets }, i) => n + packets - (have[i]?.packets ?? 0), 0);
      const shed = { cut, packets: BigInt(lost), bytes: 0n };
      const pieces = have.filter(({ packets }) => packets > 0).map(pieceOf);
      const list = heaviestOf({ flows: pieces, shed }, max);
      for (const { hash, packets } of flows) {
        const at = [...list.hash].findIndex(
          (low, i) => i % 2 === 0 && (BigInt(list.hash[i + 1] ?? 0) << 32n) + BigInt(low) === hash,
        );
        if (at < 0) expect(packets).toBeLessThanOrEqual(list.floor);
        else {
          const [low, missed] = [list.packets[at / 2] ?? 0, list.missed[at / 2] ?? 0];
          expect(low).toBeLessThanOrEqual(packets);
          expect(packets).toBeLessThanOrEqual(low + missed);
        }
      }
    }),
    { seed: 19, numRuns: 300 },
  );
});
