/** Compares the matcher's flows with a map of keys, for rows in any order, with IPv4 and IPv6 keys. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "../capture/batch.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { RunFinder } from "../capture/flow/key-runs.ts";
import { ExactMatcher } from "./matcher.ts";

const SEED = 7n;
const ROWS = 64;
const META_IPV6 = 1 << 27;
const FIVE = FlowKeySpec.parse("5tuple");

/** Flow `n` as a 5-tuple: every third pair is IPv6, and flows 2k and 2k + 1 answer each other. */
function write(batch: PacketBatch, row: number, n: number): void {
  const pair = n >> 1;
  const [source, destination] = n % 2 === 0 ? [pair + 1, pair + 100_000] : [pair + 100_000, pair + 1];
  const [sport, dport] = n % 2 === 0 ? [1000, 2000] : [2000, 1000];
  const wide = pair % 3 === 2;
  batch.meta.set([((sport << 16) | dport) >>> 0, (6 | (1 << 28) | (wide ? META_IPV6 : 0)) >>> 0], 2 * row);
  if (wide) {
    batch.addrA.set([0, source], 2 * row);
    batch.addrB.set([1, 2], 2 * row);
    batch.addrC.set([0, destination], 2 * row);
    batch.addrD.set([1, 2], 2 * row);
  } else batch.addrA.set([destination, source], 2 * row);
}

class Matched {
  readonly kernels = new Kernels();
  readonly batch = new PacketBatch(this.kernels, ROWS);
  readonly finder = new RunFinder(this.kernels, FIVE, SEED, ROWS);
  readonly matcher = new ExactMatcher(this.kernels, {
    windowNs: 1e9,
    epochNs: 1e9,
    epochStartNs: 0,
    thresholdNs: 0,
    correction: { offsetNs: 0, slope: 0, pivotNs: 0 },
    startNs: 0,
    slackNs: 0,
    rows: ROWS,
    seed: SEED,
  });
  #packets = 0;

  /** Takes rows of these flows, each a distinct packet. */
  take(side: 0 | 1, flows: number[]): void {
    const { batch } = this;
    batch.count = flows.length;
    for (const [row, n] of flows.entries()) {
      write(batch, row, n);
      const packet = ++this.#packets;
      batch.timeNs[row] = packet;
      batch.digest.set([Math.imul(packet, 0x9e3779b1) >>> 0, Math.imul(packet, 0x85ebca6b) >>> 0], 2 * row);
      batch.wireLength[row] = 100;
    }
    const runs =
      side === 1 ? this.finder.findRows(batch, 0, flows.length) : this.finder.find(batch, 0, flows.length);
    this.matcher.takeRows(side, batch, runs, 0, 0);
  }

  key(id: number): string {
    const { words, at } = this.matcher.keyWords(id);
    return JSON.stringify(FIVE.describe(words, at));
  }
}

/** Runs of rows of few or many flows, on either side, in pieces. */
const pieces = fc.array(
  fc.record({
    side: fc.constantFrom(0 as const, 1 as const),
    runs: fc.array(
      fc.record({ flow: fc.integer({ min: 0, max: 90 }), rows: fc.integer({ min: 1, max: 5 }) }),
      { maxLength: 12 },
    ),
  }),
  { maxLength: 40 },
);

describe("flows of the matcher", () => {
  test("are numbered by key in order of appearance, with their packets", () => {
    fc.assert(
      fc.property(pieces, (list) => {
        const matched = new Matched();
        const twin = new Map<number, { sent: number; received: number }>();
        for (const { side, runs } of list) {
          const flows = runs.flatMap(({ flow, rows }) => Array<number>(rows).fill(flow)).slice(0, ROWS);
          for (const flow of flows) {
            const counts = twin.get(flow) ?? { sent: 0, received: 0 };
            counts[side === 0 ? "sent" : "received"]++;
            twin.set(flow, counts);
          }
          matched.take(side, flows);
        }
        const { matcher } = matched;
        expect(matcher.flowCount).toBe(twin.size);
        for (const [id, counts] of [...twin.values()].entries())
          expect(matcher.flow(id)).toMatchObject(counts);
      }),
      { numRuns: 150, seed: 3 },
    );
  });

  test("are found again among many, and so are those that answer them", () => {
    const matched = new Matched();
    const sent = Array.from({ length: 40_000 }, (_, i) => ((i * 7919) % 20_011) + 200);
    for (let from = 0; from < sent.length; from += ROWS) matched.take(0, sent.slice(from, from + ROWS));
    const flows = [...new Set(sent)];
    const { matcher } = matched;
    expect(matcher.flowCount).toBe(flows.length);
    const ids = new Map(flows.map((flow, id) => [flow, id]));
    const reference = new PacketBatch(matched.kernels, 1);
    for (const [id, flow] of flows.entries()) {
      if (id % 97 !== 0) continue;
      expect(matcher.flow(id).sent).toBe(sent.filter((f) => f === flow).length);
      expect(matcher.reverseOf(id)).toBe(ids.get(flow ^ 1) ?? -1);
      write(reference, 0, flow);
      const columns = [reference.meta, reference.addrA, reference.addrB, reference.addrC, reference.addrD];
      const words = Uint32Array.from(columns.flatMap((c) => [...c.slice(0, 2)]));
      expect(matched.key(id)).toBe(JSON.stringify(FIVE.describe(words)));
    }
  });
});
