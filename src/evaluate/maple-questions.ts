/** Fills a packet store with an epoch of a trace and compares its answers with the true delays. */

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

/** Returns a store with all packets of an epoch (a mixed store takes fewer bits per packet). `delaysNs` replaces the delays that are stored. */
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
  /** Share of packets that did not fit into the store. */
  leftOut: number;
  /** Share of the answered packets that are reported in the wrong group. */
  falseRate: number;
  missing: number;
  /** NaN without an answer. */
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
      // A mixed store returns adjacent groups as one.
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

/** Returns the share of keys that get an answer although they were never stored. */
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

/** Returns |estimate - truth| / truth of the means of groups of packets. `keyOf` gives the group; -1 excludes a packet. */
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

/** Groups ten consecutive packets of a flow; incomplete groups are left out. */
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

/** Looks up the epoch's packets in its own store and in others. If several answer, the answer with the larger group counts. */
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
