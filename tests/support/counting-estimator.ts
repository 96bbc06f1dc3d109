/**
 * A complete estimator for tests of everything around estimators: exact sums per flow, without sampling or hashing. Per flow it stores key, packets, bytes, and
 * the sum and the sum of squares of the timestamps; the mean delay is exact if no packet was lost.
 *
 *   payload: flows u32, then per flow: hash 2 x u32, key 10 x u32, packets u32, bytes u32, time sum i64
 */
import { ByteReader, ByteWriter } from "../../src/base/bytes.ts";
import type { PacketBatch } from "../../src/capture/batch.ts";
import type {
  Estimator,
  EstimatorAnswer,
  FlowEstimate,
  Interval,
  KnownFlows,
  NoAnswer,
  ParameterValues,
  SealedEpoch,
  Tap,
} from "../../src/estimators/estimator.ts";

interface Cell {
  key: number[];
  packets: number;
  bytes: number;
  sum: bigint;
}
type Cells = Map<string, Cell>;

function encode(cells: Cells): SealedEpoch {
  const out = new ByteWriter();
  out.u32(cells.size);
  let packets = 0;
  for (const name of [...cells.keys()].sort()) {
    const cell = cells.get(name)!;
    const [low, high] = name.split(":").map(Number) as [number, number];
    for (const word of [low, high, ...cell.key, cell.packets, cell.bytes]) out.u32(word);
    out.i64(cell.sum);
    packets += cell.packets;
  }
  return { payload: out.finish(), packets };
}

export function decodeCells(sealed: SealedEpoch): Cells {
  const reader = new ByteReader(sealed.payload, { file: "counting" });
  const cells: Cells = new Map();
  for (let left = reader.u32(); left > 0; left--) {
    const name = `${reader.u32()}:${reader.u32()}`;
    const key = Array.from({ length: 10 }, () => reader.u32());
    cells.set(name, { key, packets: reader.u32(), bytes: reader.u32(), sum: reader.i64() });
  }
  reader.expectEnd();
  return cells;
}

class CountingTap implements Tap {
  readonly memoryBytes = 0;
  #startNs = 0;
  #cells: Cells = new Map();

  begin(epochStartNs: number): void {
    this.#startNs = epochStartNs;
  }

  update(batch: PacketBatch, from: number, to: number): void {
    const { timeNs, flowHash, meta, addrA, addrB, addrC, addrD, wireLength } = batch;
    for (let i = from; i < to; i++) {
      const name = `${flowHash[2 * i]}:${flowHash[2 * i + 1]}`;
      let cell = this.#cells.get(name);
      if (!cell) {
        // Without the version bit the key is IPv4; the kernels do not write its other address words.
        const v6 = (meta[2 * i + 1]! & (1 << 27)) !== 0;
        const rest = v6
          ? [addrB, addrC, addrD].flatMap((w) => [w[2 * i]!, w[2 * i + 1]!])
          : [0, 0, 0, 0, 0, 0];
        const key = [meta[2 * i]!, meta[2 * i + 1]!, addrA[2 * i]!, addrA[2 * i + 1]!, ...rest];
        cell = { key, packets: 0, bytes: 0, sum: 0n };
        this.#cells.set(name, cell);
      }
      cell.packets++;
      cell.bytes += wireLength[i]!;
      cell.sum += BigInt(Math.round(timeNs[i]! - this.#startNs));
    }
  }

  seal(): SealedEpoch {
    const sealed = encode(this.#cells);
    this.#cells = new Map();
    return sealed;
  }

  free(): void {}
}

const NONE: NoAnswer = { reason: "not-supported", text: "only sums are kept" };

/** Returns the mean, with an interval of `widthNs` on either side. */
function meanOf(sender: Cell | undefined, receiver: Cell | undefined, widthNs: number): Interval | NoAnswer {
  if (!sender && !receiver) return { reason: "not-in-sketch", text: "no such flow" };
  if (!sender || sender.packets !== receiver?.packets) {
    return { reason: "no-usable-cells", text: "packets were lost" };
  }
  const valueNs = Number(receiver.sum - sender.sum) / sender.packets;
  return { valueNs, lowNs: valueNs - widthNs, highNs: valueNs + widthNs };
}

function readFlows(sealed: SealedEpoch): KnownFlows {
  const cells = [...decodeCells(sealed)];
  return {
    count: cells.length,
    hash: Uint32Array.from(cells.flatMap(([name]) => name.split(":").map(Number))),
    packets: Float64Array.from(cells, ([, c]) => c.packets),
    bytes: Float64Array.from(cells, ([, c]) => c.bytes),
    keyWords: Uint32Array.from(cells.flatMap(([, c]) => c.key)),
    complete: true,
  };
}

export const countingEstimator: Estimator = {
  name: "counting",
  version: 3,
  title: "exact sums",
  text: { answers: "everything", needs: "patience", cost: "a cell per flow", example: "none" },
  answers: ["segment", "flow"],
  needs: { sender: true, delays: false, flows: "none" },
  parameters: [
    { name: "cells", kind: "integer", default: 7, min: 1, help: "changes nothing but the geometry" },
    { name: "width", kind: "number", default: 10, queryOnly: true, help: "half width of intervals, ns" },
  ],
  complete: (values: ParameterValues) => values,
  createTap: () => new CountingTap(),
  merge(a, b) {
    const cells = decodeCells(a);
    for (const [name, cell] of decodeCells(b)) {
      const mine = cells.get(name);
      if (!mine) cells.set(name, cell);
      else {
        mine.packets += cell.packets;
        mine.bytes += cell.bytes;
        mine.sum += cell.sum;
      }
    }
    return encode(cells);
  },
  rebase(sealed, earlierNs) {
    const cells = decodeCells(sealed);
    for (const cell of cells.values()) cell.sum += BigInt(earlierNs) * BigInt(cell.packets);
    return encode(cells);
  },
  flowList: { atSender: true, read: readFlows },
  estimate({ sender, receiver, flows, parameters }): EstimatorAnswer {
    const width = parameters["width"] as number;
    const from = decodeCells(sender!);
    const to = decodeCells(receiver!);
    let used = 0;
    let sum = 0n;
    for (const [name, cell] of from) {
      const other = to.get(name);
      if (other?.packets !== cell.packets) continue;
      used += cell.packets;
      sum += other.sum - cell.sum;
    }
    const valueNs = Number(sum) / used;
    const mean: Interval | NoAnswer =
      used > 0
        ? { valueNs, lowNs: valueNs - width, highNs: valueNs + width }
        : { reason: "no-usable-cells", text: "no flow arrived whole" };
    const answers: FlowEstimate[] = [];
    for (let i = 0; i < (flows?.count ?? 0); i++) {
      const name = `${flows!.hash[2 * i]}:${flows!.hash[2 * i + 1]}`;
      const [a, b] = [from.get(name), to.get(name)];
      answers.push({
        flow: i,
        mean: meanOf(a, b, width),
        stdev: NONE,
        packets: a?.packets ?? null,
        lost: a ? a.packets - (b?.packets ?? 0) : null,
      });
    }
    return {
      segment: {
        mean,
        stdev: NONE,
        sent: sender!.packets,
        received: receiver!.packets,
        lost: sender!.packets - receiver!.packets,
        packetsUsed: used,
        coverage: receiver!.packets > 0 ? used / receiver!.packets : 0,
        notes: [],
      },
      flows: answers,
      notes: [],
    };
  },
};
