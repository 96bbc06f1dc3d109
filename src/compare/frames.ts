/**
 * Frame numbers, as Wireshark counts them, of packets of a comparison: reads the capture once more. A packet is found by its time and its flow; of several with
 * the same time and flow, the first in the file is the first that was matched.
 */
import { Kernels } from "../base/kernels.ts";
import { compileFilter } from "../capture/filter/filter.ts";

import type { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { keyHash, rowHash } from "../capture/flow/row-hash.ts";
import { type CaptureOptions, CaptureReader } from "../capture/reader.ts";
import { parseCapturePath } from "../capture/source/capture-path.ts";

export interface FrameQuestion {
  path: string;
  filter: string | undefined;
  capture: Pick<CaptureOptions, "inner" | "cover" | "seed">;
  key: FlowKeySpec;
  /** Time 0 of `timeNs`, ns since 1970. */
  originNs: bigint;
  /** Number of packets to find; their times in whole nanoseconds, and the words of their flow keys. */
  count: number;
  timeNs: (i: number) => number;
  words: (i: number) => { words: ArrayLike<number>; at: number };
  /** Packets of one flow and time with the same number are in the same frame; null: in a frame of its own. */
  sharedFrame: (i: number) => number | null;
}

/** Returns for each packet its frame number, from 1 on, or 0 if it was not found. */
export async function findFrames(question: FrameQuestion): Promise<Uint32Array> {
  const { count, timeNs, words } = question;
  // Packets without a time were not seen in this capture.
  const asked = Uint32Array.from({ length: count }, (_, i) => i).filter((i) => !Number.isNaN(timeNs(i)));
  const times = Float64Array.from({ length: count }, (_, i) => timeNs(i));
  asked.sort((a, b) => times[a]! - times[b]!);
  const wanted = Float64Array.from(asked, (i) => times[i]!);
  const rows = await readRows(question, wanted);
  const frames = new Uint32Array(count);
  const nameOf = (i: number) => {
    const key = words(i);
    return keyHash(key.words, key.at);
  };
  for (let [a, r] = [0, 0]; a < asked.length && r < rows.length; ) {
    const ns = wanted[a]!;
    let [aEnd, rEnd] = [a, r];
    while (aEnd < asked.length && wanted[aEnd] === ns) aEnd++;
    while (rEnd < rows.length && (rows.times[rows.order[rEnd]!] ?? 0) < ns) rEnd++;
    r = rEnd;
    while (rEnd < rows.length && rows.times[rows.order[rEnd]!] === ns) rEnd++;
    assign([...asked.subarray(a, aEnd)], [...rows.order.subarray(r, rEnd)], nameOf, question, rows, frames);
    [a, r] = [aEnd, rEnd];
  }
  return frames;
}

/**
 * Assigns the rows of one instant to packets: by flow first, in order; packets that were rewritten on the way have another flow here and get the remaining
 * rows.
 */
function assign(
  packets: number[],
  rows: number[],
  nameOf: (i: number) => number,
  { sharedFrame }: FrameQuestion,
  { names, frames }: Rows,
  out: Uint32Array,
): void {
  const rest: number[] = [];
  const shared = new Map<string, number>();
  packets.sort((a, b) => (sharedFrame(a) ?? -1) - (sharedFrame(b) ?? -1));
  for (const i of packets) {
    const name = nameOf(i);
    const number = sharedFrame(i);
    const known = number === null ? undefined : shared.get(`${name},${number}`);
    const at = known === undefined ? rows.findIndex((row) => names[row] === name) : -1;
    if (known !== undefined) out[i] = known;
    else if (at < 0) rest.push(i);
    else {
      const frame = frames[rows.splice(at, 1)[0]!] ?? 0;
      out[i] = frame;
      if (number !== null) shared.set(`${name},${number}`, frame);
    }
  }
  for (const i of rest) {
    const row = rows.shift();
    if (row !== undefined) out[i] = frames[row] ?? 0;
  }
}

/** Rows of the capture at the wanted times, and their order by time. */
interface Rows {
  length: number;
  times: Float64Array;
  frames: Uint32Array;
  names: Uint32Array;
  order: Uint32Array;
}

async function readRows(
  { path, filter, capture, key, originNs }: FrameQuestion,
  wanted: Float64Array,
): Promise<Rows> {
  const kernels = new Kernels();
  const { file, point } = parseCapturePath(path);
  const compiled = filter === undefined ? undefined : compileFilter(filter, kernels);
  // Read all interfaces, so that frames are numbered as in the file.
  const reader = await CaptureReader.open(kernels, file, { ...capture, key, filter: compiled, frames: true });
  const [times, frames, names] = [new Growing(), new Growing(), new Growing()];
  try {
    while (await reader.next()) {
      const { batch } = reader;
      // The origin of one interface differs from that of the whole file: compare times as whole ns since the same instant.
      const shiftNs = Number((reader.originNs ?? 0n) - originNs);
      const { timeNs, frame, iface, count } = batch;
      for (let i = 0; i < count; i++) {
        const ns = timeNs[i]! + shiftNs;
        if (!isAmong(wanted, ns) || (point !== null && !reader.isInterface(iface[i]!, point))) continue;
        times.push(ns);
        frames.push(frame[i]!);
        names.push(rowHash(batch, i));
      }
    }
  } finally {
    reader.close();
    reader.free();
    compiled?.free();
  }
  const length = times.length;
  const at = times.values();
  const order = Uint32Array.from({ length }, (_, i) => i).sort((a, b) => at[a]! - at[b]!);
  return {
    length,
    times: at,
    frames: Uint32Array.from(frames.values()),
    names: Uint32Array.from(names.values()),
    order,
  };
}

class Growing {
  #values = new Float64Array(4096);
  length = 0;

  push(value: number): void {
    if (this.length === this.#values.length) {
      const grown = new Float64Array(2 * this.length);
      grown.set(this.#values);
      this.#values = grown;
    }
    this.#values[this.length++] = value;
  }

  values(): Float64Array {
    return this.#values.subarray(0, this.length);
  }
}

function isAmong(sorted: Float64Array, value: number): boolean {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return sorted[low] === value;
}
