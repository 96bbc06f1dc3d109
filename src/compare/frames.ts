/**
 * Numbers of frames, as Wireshark counts them, of packets of a comparison: the capture is read once more. A packet is found by its time and its
 * flow; of several that agree in both, the first in the file is the first that was matched.
 */
import { Kernels } from "../base/kernels.ts";
import { META_HIGH, type PacketBatch } from "../capture/batch.ts";
import { compileFilter } from "../capture/filter/filter.ts";
import type { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { type CaptureOptions, CaptureReader } from "../capture/reader.ts";
import { parseCapturePath } from "../capture/source/capture-path.ts";

export interface FrameQuestion {
  path: string;
  filter: string | undefined;
  capture: Pick<CaptureOptions, "inner" | "cover" | "seed">;
  key: FlowKeySpec;
  /** Time 0 of the times below, ns since 1970. */
  originNs: bigint;
  /** Packets looked for: their times in whole nanoseconds, and the words of their flow keys. */
  count: number;
  timeNs: (i: number) => number;
  words: (i: number) => { words: ArrayLike<number>; at: number };
}

/** By packet looked for: its frame number from 1 on, or 0 where it was not found. */
export async function findFrames(question: FrameQuestion): Promise<Uint32Array> {
  const wanted = sortedBy(question.count, question.timeNs);
  const rows = await readRows(question, (ns) => wanted.has(ns));
  const frames = new Uint32Array(question.count);
  const names = (i: number) => {
    const { words, at } = question.words(i);
    return keyName(words, at);
  };
  for (const [timeNs, found] of rows) {
    const asked = wanted.at(timeNs);
    const left = [...found];
    const rest: number[] = [];
    for (const i of asked) {
      const at = left.findIndex((row) => row.name === names(i));
      if (at < 0) rest.push(i);
      else frames[i] = left.splice(at, 1)[0]?.frame ?? 0;
    }
    // Rewritten on the way, its flow has another name here: it is what is left of that time.
    for (const i of rest) frames[i] = left.shift()?.frame ?? 0;
  }
  return frames;
}

interface FoundRow {
  frame: number;
  name: string;
}

async function readRows(
  { path, filter, capture, key, originNs }: FrameQuestion,
  isWanted: (ns: number) => boolean,
): Promise<Map<number, FoundRow[]>> {
  const kernels = new Kernels();
  const { file, point } = parseCapturePath(path);
  const rows = new Map<number, FoundRow[]>();
  const compiled = filter === undefined ? undefined : compileFilter(filter, kernels);
  // All interfaces are read, so that frames are counted as in the file.
  const reader = await CaptureReader.open(kernels, file, { ...capture, key, filter: compiled, frames: true });
  try {
    // The origin of one interface is not that of the whole file: times are compared since 1970.
    while (await reader.next()) {
      const { batch } = reader;
      const shiftNs = Number((reader.originNs ?? 0n) - originNs);
      const { timeNs, frame, iface, count } = batch;
      for (let i = 0; i < count; i++) {
        const ns = (timeNs[i] ?? 0) + shiftNs;
        if (!isWanted(ns) || (point !== null && !reader.isInterface(iface[i] ?? 0, point))) continue;
        const row = { frame: frame[i] ?? 0, name: rowName(batch, i) };
        const same = rows.get(ns);
        if (same) same.push(row);
        else rows.set(ns, [row]);
      }
    }
  } finally {
    reader.close();
    reader.free();
    compiled?.free();
  }
  return rows;
}

/** A key's words as text to compare by; those that IPv4 does not use are left out. */
function keyName(words: ArrayLike<number>, at: number): string {
  const ipv6 = ((words[at + 1] ?? 0) & META_HIGH.ipv6) !== 0;
  let name = "";
  for (let w = 0; w < (ipv6 ? 10 : 4); w++) name += `${words[at + w]} `;
  return name;
}

function rowName({ meta, addrA, addrB, addrC, addrD }: PacketBatch, row: number): string {
  const words: number[] = [];
  for (const column of [meta, addrA, addrB, addrC, addrD])
    words.push(column[2 * row] ?? 0, column[2 * row + 1] ?? 0);
  return keyName(words, 0);
}

/** Numbers by value: which there are, and which have one. */
function sortedBy(count: number, value: (i: number) => number) {
  const all = Uint32Array.from({ length: count }, (_, i) => i);
  // Those without a value were not seen in this capture.
  const order = all.filter((i) => !Number.isNaN(value(i))).sort((a, b) => value(a) - value(b));
  const values = Float64Array.from(order, value);
  const first = (ns: number) => {
    let [low, high] = [0, order.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((values[middle] ?? 0) < ns) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  return {
    has: (ns: number) => values[first(ns)] === ns,
    *at(ns: number): Generator<number> {
      for (let i = first(ns); values[i] === ns; i++) yield order[i] ?? 0;
    },
  };
}
