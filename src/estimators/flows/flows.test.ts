import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type HostileRow, hostileRows, sealRows, toBatches } from "../../../tests/support/hostile-rows.ts";
import { FormatError } from "../../base/errors.ts";
import { Kernels } from "../../base/kernels.ts";
import { FlowKeySpec } from "../../capture/flow/flow-key.ts";
import type { SealedEpoch } from "../estimator.ts";
import { parseParameters } from "../parameters.ts";
import { flowTable } from "./flows.ts";
import { decodeFlows, readKnownFlows } from "./payload.ts";

const kernels = new Kernels();

function seal(rows: readonly HostileRow[], max: number, size = 100): SealedEpoch {
  const tap = flowTable.createTap(
    { kernels, role: "sender", seed: 1n },
    parseParameters(flowTable, `max=${max}`),
  );
  tap.begin(0);
  return sealRows(kernels, tap, rows, size);
}

/** Counts by key in a Map; IPv4 keys have no further address words. */
function slowTwin(rows: readonly HostileRow[]): Map<string, { packets: number; bytes: number }> {
  const flows = new Map<string, { packets: number; bytes: number }>();
  for (const row of rows) {
    const name = [...row.meta, ...row.address].join();
    const flow = flows.get(name) ?? { packets: 0, bytes: 0 };
    flow.packets++;
    flow.bytes += row.wireLength;
    flows.set(name, flow);
  }
  return flows;
}

describe("the flow table", () => {
  it("counts packets and bytes of every flow as its slow twin does", () => {
    const rows = hostileRows("flows", 2000);
    const twin = slowTwin(rows);
    const list = decodeFlows(seal(rows, 100_000).payload);
    expect(list.count).toBe(twin.size);
    for (let i = 0; i < list.count; i++) {
      const name = [...list.keyWords.subarray(10 * i, 10 * i + 10)].join();
      expect({ packets: list.packets[i], bytes: list.bytes[i] }).toEqual(twin.get(name));
    }
  });

  it("keeps the flows with the smallest hashes when it is full, counted in full, and counts the rest together", () => {
    const rows = hostileRows("full table", 3000);
    const whole = decodeFlows(seal(rows, 100_000).payload);
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: whole.count + 5 }),
        fc.integer({ min: 1, max: 3000 }),
        (max, size) => {
          const list = decodeFlows(seal(rows, max, size).payload);
          const kept = Math.min(max, whole.count);
          expect(list.count).toBe(kept);
          expect(list.packets).toEqual(whole.packets.slice(0, kept));
          expect(list.bytes).toEqual(whole.bytes.slice(0, kept));
          expect(list.cut === null).toBe(max >= whole.count);
          const sum = (a: Float64Array) => a.reduce((s, x) => s + x, 0);
          expect(list.shedPackets + sum(list.packets)).toBe(rows.length);
          expect(list.shedBytes + sum(list.bytes)).toBe(sum(whole.bytes));
        },
      ),
      { numRuns: 40, seed: 3 },
    );
  });

  it("sheds while the epoch is under way, so that its memory stays bounded", () => {
    const rows = Array.from(
      { length: 30_000 },
      (_, i): HostileRow => ({
        ...hostileRows("one", 1)[0]!,
        meta: [i, 6 | (1 << 28)],
      }),
    );
    const tap = flowTable.createTap(
      { kernels, role: "sender", seed: 1n },
      parseParameters(flowTable, "max=1000"),
    );
    tap.begin(0);
    for (const batch of toBatches(kernels, rows, 500)) {
      tap.update(batch, 0, batch.count);
      batch.free();
      expect(tap.memoryBytes).toBeLessThan(1000 * 64 * 3 + 100_000);
    }
    const sealed = tap.seal();
    tap.free();
    const list = decodeFlows(sealed.payload);
    expect(list.count).toBe(1000);
    expect(list.shedPackets).toBe(29_000);
    expect(sealed.packets).toBe(30_000);
  });

  it("lists flows that per-flow decoders can use and people can read", () => {
    const rows = hostileRows("known", 500);
    const sealed = seal(rows, 1000);
    const known = readKnownFlows(sealed);
    expect(known.complete).toBe(true);
    expect(known.count).toBe(slowTwin(rows).size);
    expect(known.packets.reduce((s, n) => s + n, 0)).toBe(500);
    const key = FlowKeySpec.parse();
    for (let i = 0; i < known.count; i++) {
      const { src, proto, sport } = key.describe(known.keyWords, 10 * i);
      expect(proto).toBe(6);
      expect(sport).not.toBeNull();
      expect(src).toMatch(/^[0-9a-f.:]+$/);
    }
    expect(readKnownFlows(seal(rows, 5)).complete).toBe(false);
  });

  it("answers packets and loss of given flows, unless they may have been shed", () => {
    const rows = hostileRows("asked", 800);
    const flows = readKnownFlows(seal(rows, 1000));
    const ask = (max: number) =>
      flowTable.estimate({
        parameters: parseParameters(flowTable, `max=${max}`),
        seed: 1n,
        sender: seal(rows, max),
        receiver: seal(rows.slice(100), max),
        flows,
        confidence: 0.95,
        epochNs: 1e9,
      });
    const all = ask(1000);
    expect(all.segment).toMatchObject({ sent: 800, received: 700, lost: 100 });
    expect(all.flows.reduce((s, f) => s + f.lost!, 0)).toBe(100);
    const some = ask(10);
    expect(some.flows.filter((f) => f.packets === null).length).toBe(flows.count - 10);
    expect(some.notes.join()).toMatch(/full/);
  });

  it("refuses flows out of order and beyond the cut", () => {
    const sealed = seal(hostileRows("order", 300), 20);
    const swap = sealed.payload.slice();
    // The highest byte of the last flow's hash: it becomes larger than every other hash, and than the cut.
    const list = decodeFlows(sealed.payload);
    const view = new DataView(swap.buffer);
    let at = -1;
    for (let i = 0; i + 8 <= swap.length; i++) {
      if (
        view.getUint32(i, true) === list.hash[2 * 19] &&
        view.getUint32(i + 4, true) === list.hash[2 * 19 + 1]
      )
        at = i;
    }
    swap[at + 7] = 0xff;
    expect(() => decodeFlows(swap)).toThrow(/beyond the cut/);
    swap[at + 7] = 0;
    expect(() => decodeFlows(swap)).toThrow(/out of order/);
    expect(() => decodeFlows(Uint8Array.of(2, ...sealed.payload.slice(1)))).toThrow(FormatError);
  });
});
