/** Runs a store over an epoch of a trace and holds its answers against the truth. */

import type { Kernels } from "../base/kernels.ts";
import { entryAt } from "../base/lists.ts";
import { answerOf, CellTable, joinCells } from "../estimators/maple/cell-table.ts";
import type { Centres } from "../estimators/maple/centres/centres.ts";
import { createStore } from "../estimators/maple/stores/open.ts";
import type { PacketStore, StoreGeometry } from "../estimators/maple/stores/packet-store.ts";
import { MATCH, MULTI_MATCH } from "../estimators/packet-answers.ts";
import type { TraceEpoch } from "./reference-trace.ts";

export interface FilledStore {
  store: PacketStore;
  cells: CellTable;
  codes: Uint16Array;
  keys: number;
  free(): void;
}

/** A store of all packets of an epoch (mixed: so many bits per packet fewer); `delaysNs` where something else than the delay is stored. */
export function fill(
  kernels: Kernels,
  epoch: TraceEpoch,
  centres: Centres,
  geometry: Omit<StoreGeometry, "groups" | "seed">,
  bitsPerPacket: number,
  delaysNs: Float64Array = epoch.delayNs,
): FilledStore {
  const n = epoch.count;
  const cells = new CellTable(kernels, centres);
  const [keys, delays, codes] = [kernels.alloc(8 * n), kernels.alloc(8 * n), kernels.alloc(2 * n)];
  kernels.u64.set(epoch.digest, keys >>> 3);
  kernels.f64.set(delaysNs, delays >>> 3);
  cells.assign(delays, codes, n);
  const full = { ...geometry, groups: cells.groups, seed: 0x1234_5678_9abcn };
  const bits = geometry.kind === "mixed" ? bitsPerPacket : bitsPerPacket * n;
  const store = createStore(kernels, full, bits, centres.shares, n);
  store.insert(keys, codes, n);
  store.close(cells.sums().map((s) => s.count));
  const kept = new Uint16Array(kernels.u8.slice(codes, codes + 2 * n).buffer);
  kernels.free(delays);
  kernels.free(codes);
  return {
    store,
    cells,
    codes: kept,
    keys,
    free: () => {
      store.free();
      cells.free();
      kernels.free(keys);
    },
  };
}

export interface Outcome {
  /** Share of packets with more than one candidate. */
  failure: number;
  /** Share of packets that the store had no room for. */
  leftOut: number;
  /** Share of packets whose reported group is not theirs, of those with an answer. */
  falseRate: number;
  missing: number;
  /** NaN where there was no answer. */
  estimateNs: Float64Array;
}

export function ask(kernels: Kernels, filled: FilledStore, refined = true): Outcome {
  const n = filled.codes.length;
  const out = kernels.alloc(8 * n);
  filled.store.lookup(filled.keys, n, out);
  const answers = kernels.u32.slice(out >>> 2, (out >>> 2) + 2 * n);
  kernels.free(out);
  const cells = filled.cells.sums().map(answerOf);
  const perGroup = filled.cells.sums().map((s) => (refined ? answerOf(s).meanNs : s.baseNs));
  const unions = new Map<number, number>();
  const estimateNs = new Float64Array(n);
  let [multi, missing, wrong] = [0, 0, 0];
  for (let i = 0; i < n; i++) {
    const word = answers[2 * i]!;
    const kind = word >>> 16;
    if (kind === MULTI_MATCH) multi++;
    if (kind !== MATCH && kind !== MULTI_MATCH) {
      missing++;
      estimateNs[i] = Number.NaN;
      continue;
    }
    const code = word & 0xffff;
    const range = answers[2 * i + 1]!;
    const [low, high] = [range & 0xffff, range >>> 16];
    if (kind === MATCH && low !== high) {
      // A mixed store returns neighbouring groups as one.
      if (filled.codes[i]! < low || filled.codes[i]! > high) wrong++;
      const mean = unions.get(range) ?? cells.slice(low, high + 1).reduce(joinCells).meanNs;
      unions.set(range, mean);
      estimateNs[i] = mean;
      continue;
    }
    if (code !== filled.codes[i]) wrong++;
    estimateNs[i] = perGroup[code]!;
  }
  return {
    failure: multi / n,
    leftOut: filled.store.leftOut / n,
    falseRate: wrong / (n - missing),
    missing: missing / n,
    estimateNs,
  };
}

/** Share of keys never stored that get an answer. */
export function askAbsent(kernels: Kernels, filled: FilledStore, keys: BigUint64Array): number {
  const n = keys.length;
  const [at, out] = [kernels.alloc(8 * n), kernels.alloc(8 * n)];
  kernels.u64.set(keys, at >>> 3);
  filled.store.lookup(at, n, out);
  const { u32 } = kernels;
  let answered = 0;
  for (let i = 0; i < n; i++) if (u32[(out >>> 2) + 2 * i]! >>> 16 !== 0) answered++;
  kernels.free(at);
  kernels.free(out);
  return answered / n;
}

/** |estimate - truth| / truth of the means of groups of packets; groups by `keyOf`, -1 leaves a packet out. */
export function groupErrors(
  epoch: TraceEpoch,
  estimateNs: Float64Array,
  keyOf: (i: number) => number | bigint,
): Float64Array {
  const groups = new Map<number | bigint, [count: number, truth: number, estimate: number]>();
  for (let i = 0; i < epoch.count; i++) {
    const estimate = estimateNs[i]!;
    const key = keyOf(i);
    if (Number.isNaN(estimate) || key === -1) continue;
    const group = groups.get(key);
    if (group) {
      group[0]++;
      group[1] += epoch.delayNs[i]!;
      group[2] += estimate;
    } else groups.set(key, [1, epoch.delayNs[i]!, estimate]);
  }
  return Float64Array.from(groups.values(), ([, truth, estimate]) => Math.abs(estimate - truth) / truth);
}

/** Ten consecutive packets of a flow; flows of fewer have none. */
export function subFlows(epoch: TraceEpoch, length = 10): (i: number) => number {
  const seen = new Map<bigint, number>();
  const sizes = new Map<bigint, number>();
  for (const hash of epoch.flowHash) sizes.set(hash, (sizes.get(hash) ?? 0) + 1);
  const ids = new Map<string, number>();
  const key = new Int32Array(epoch.count).fill(-1);
  for (let i = 0; i < epoch.count; i++) {
    const hash = epoch.flowHash[i]!;
    const nth = seen.get(hash) ?? 0;
    seen.set(hash, nth + 1);
    const part = Math.floor(nth / length);
    if ((part + 1) * length > (sizes.get(hash) ?? 0)) continue;
    const name = `${hash}/${part}`;
    let id = ids.get(name);
    if (id === undefined) ids.set(name, (id = ids.size));
    key[i] = id;
  }
  return (i) => key[i]!;
}

/** The epoch's packets asked in its own store and in others: several answers are one, of the larger group. */
export function askAcross(kernels: Kernels, stores: readonly FilledStore[], epoch: TraceEpoch): Float64Array {
  const n = epoch.count;
  const estimateNs = new Float64Array(n).fill(Number.NaN);
  const packets = new Float64Array(n);
  const [keys, out] = [kernels.alloc(8 * n), kernels.alloc(8 * n)];
  kernels.u64.set(epoch.digest, keys >>> 3);
  for (const { store, cells } of stores) {
    store.lookup(keys, n, out);
    const perGroup = cells.sums().map(answerOf);
    const { u32 } = kernels;
    for (let i = 0; i < n; i++) {
      const word = u32[(out >>> 2) + 2 * i]!;
      if (word >>> 16 === 0) continue;
      const { meanNs, count } = entryAt(perGroup, word & 0xffff);
      if (count <= packets[i]!) continue;
      packets[i] = count;
      estimateNs[i] = meanNs;
    }
  }
  kernels.free(keys);
  kernels.free(out);
  return estimateNs;
}
