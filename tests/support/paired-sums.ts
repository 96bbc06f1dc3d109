/**
 * A small estimator that hoptime does not have: sums of times and counts in cells that flows share, one cell per flow. If both ends count the same packets in a
 * cell, the difference of their sums divided by that count is the mean delay of the flows in it. For tests of adding an estimator to table.ts.
 *
 *   f64 x columns: sum of times after the epoch's start, ns
 *   f64 x columns: packets
 */
import type { PacketBatch } from "../../src/capture/batch.ts";
import type {
  Estimator,
  Interval,
  NoAnswer,
  SealedEpoch,
  Tap,
  TapContext,
} from "../../src/estimators/estimator.ts";

type Parameters = { columns: number };

const UNUSABLE: NoAnswer = { reason: "no-usable-cells", text: "counts differ between the ends" };

class PairedSumsTap implements Tap {
  readonly #columns: number;
  #cells: Float64Array;
  #packets = 0;
  #startNs = 0;

  constructor(_: TapContext, { columns }: Parameters) {
    this.#columns = columns;
    this.#cells = new Float64Array(2 * columns);
  }

  get memoryBytes(): number {
    return this.#cells.byteLength;
  }

  begin(epochStartNs: number): void {
    this.#startNs = epochStartNs;
  }

  update({ timeNs, flowHash }: PacketBatch, from: number, to: number): void {
    for (let i = from; i < to; i++) {
      const column = flowHash[2 * i]! % this.#columns;
      this.#cells[column]! += timeNs[i]! - this.#startNs;
      this.#cells[this.#columns + column]!++;
    }
    this.#packets += to - from;
  }

  seal(): SealedEpoch {
    const sealed = { payload: new Uint8Array(this.#cells.buffer), packets: this.#packets };
    this.#cells = new Float64Array(2 * this.#columns);
    this.#packets = 0;
    return sealed;
  }

  free(): void {
    // Uses no kernel memory.
  }
}

function cellsOf({ payload }: SealedEpoch): Float64Array {
  return new Float64Array(payload.slice().buffer);
}

function map(sealed: SealedEpoch, to: (value: number, i: number, all: Float64Array) => number): SealedEpoch {
  return { ...sealed, payload: new Uint8Array(cellsOf(sealed).map(to).buffer) };
}

export const pairedSums: Estimator<Parameters> = {
  name: "paired-sums",
  version: 1,
  title: "sums of times in cells that flows share",
  text: {
    answers: "Mean delay of the segment, and of flows whose cell lost no packet.",
    needs: "Synchronised clocks, a tap at both points, and the names of the flows.",
    cost: "One addition per packet, 16 bytes per cell.",
    example: "hoptime compare a.pcap b.pcap ‘estimators paired-sums’",
  },
  answers: ["segment", "flow"],
  needs: { sender: true, delays: false, flows: "names" },
  parameters: [
    { name: "columns", kind: "integer", default: 1024, min: 1, max: 65_536, help: "cells of a tap" },
  ],
  complete: (values) => ({ columns: Number(values["columns"]) }),
  createTap: (context, parameters) => new PairedSumsTap(context, parameters),
  merge(a, b) {
    const other = cellsOf(b);
    return { ...map(a, (v, i) => v + other[i]!), packets: a.packets + b.packets };
  },
  rebase: (sealed, earlierNs, { columns }) =>
    map(sealed, (v, i, all) => (i < columns ? v + earlierNs * all[columns + i]! : v)),
  estimate({ parameters: { columns }, sender, receiver, flows }) {
    const [before, after] = [sender, receiver].map((end) =>
      end ? cellsOf(end) : new Float64Array(2 * columns),
    ) as [Float64Array, Float64Array];
    const usable = (c: number) => after[columns + c]! > 0 && before[columns + c] === after[columns + c];
    const around = (valueNs: number): Interval => ({ valueNs, lowNs: 0, highNs: 2 * valueNs });
    let [sum, used] = [0, 0];
    for (let c = 0; c < columns; c++) {
      if (!usable(c)) continue;
      sum += after[c]! - before[c]!;
      used += after[columns + c]!;
    }
    const received = receiver?.packets ?? 0;
    const stdev: NoAnswer = { reason: "not-supported", text: "no squares are kept" };
    return {
      segment: {
        ...{ mean: used > 0 ? around(sum / used) : UNUSABLE, stdev },
        ...{ sent: sender?.packets ?? null, received, lost: (sender?.packets ?? received) - received },
        ...{ packetsUsed: used, coverage: received > 0 ? used / received : 0, notes: [] },
      },
      flows: Array.from({ length: flows?.count ?? 0 }, (_, flow) => {
        const c = flows!.hash[2 * flow]! % columns;
        const mean = usable(c) ? around((after[c]! - before[c]!) / after[columns + c]!) : UNUSABLE;
        return { flow, mean, stdev, packets: null, lost: null };
      }),
      notes: [],
    };
  },
};
