/**
 * The memory that the programs of datapath/observe.bpf.c share with this side, byte for byte as in datapath/observe.h. All numbers are in host order,
 * little-endian.
 *
 *   config   constants of the programs: what every packet needs, the u32, u64 of each estimator, the steps of the filter
 *   control  u64: set in use, epochs read, cut by the clock, wall clock - monotonic clock, longest frame, 3 x pad; per set: start, end, base, id, cut of flows, wall clock - monotonic clock, 2 x pad
 *   counts   per CPU and set, 256 bytes of u64
 *   last     the result for the last packet (tests): row of 64 bytes, flow hash, time, reason u32, passed u32
 */
import type { KernelFilter } from "./kernel-filter.ts";
import { type CellPart, flowsOf, type KernelPart } from "./kernel-plan.ts";

export const MAX_SETS = 8;
export const MAX_LDS_ROWS = 16;
export const CELL_BYTES = 16;
export const COUNTS_BYTES = 256;
export const CONTROL = { current: 0, drained: 1, due: 2, offset: 3, longest: 4, windows: 8 } as const;
export const WINDOW = { start: 0, end: 1, base: 2, id: 3, flowCut: 4, offset: 5, words: 8 } as const;
/** Indices of `counts`, in words. */
export const COUNT = {
  bytes: 0,
  packets: 1,
  shorts: 2,
  merged: 3,
  filtered: 4,
  first: 5,
  last: 6,
  skipped: 7,
  fullest: 15,
  shedPackets: 16,
  shedBytes: 17,
  newFlows: 18,
  lost: 19,
  missed: 20,
} as const;
/** The number of a flow's set is in the bits of meta from this one on. */
export const SET_SHIFT = 61n;

const CONFIG_BYTES = 2616;
const WIDE = {
  seed: 0,
  ldaSeed: 8,
  ldaLimit: 16,
  ldaFrom: 120,
  mask: 248,
  ldsThreshold: 304,
  multiplier: 432,
  edge: 440,
} as const;
const WORDS_AT = 24;
const FILTER_AT = 568;
const WORDS = [
  ...["cover", "copy", "network", "direction", "sets", "delimited", "below", "hashes", "cells"],
  ...["ldaAt", "ldaBanks", "ldaRows", "ldsAt", "ldsRows", "ldsColumns", "ldsK"],
  ...["colateAt", "colateM", "colateVectors", "colateShift", "flows", "steps", "keepLast"],
] as const;

export interface ConfigPlan {
  seed: bigint;
  /** Mask of the flow key. */
  mask: readonly bigint[];
  cover: number;
  /** Frames begin with the IP header. */
  network: boolean;
  direction: "in" | "out" | "both";
  sets: number;
  /** A packet begins an epoch if the upper half of its digest is below this. Null: epochs are cut by the clock. */
  below: number | null;
  filter: KernelFilter | null;
  parts: readonly KernelPart[];
  keepLast?: boolean;
}

/** Bytes read for headers around the IP header: tags, labels, IPv6 extensions. A packet with longer headers is read again, up to 2,048 bytes of it. */
const LINK_BYTES = 448;
const DIRECTION = { both: 0, in: 1, out: 2 } as const;

/** Returns the index of each part's first cell in a set, and the number of cells in a set. */
export function cellPlaces(parts: readonly KernelPart[]): { at: Map<KernelPart, number>; cells: number } {
  const at = new Map<KernelPart, number>();
  let cells = 0;
  for (const part of parts) {
    if (part.kind === "flows") continue;
    at.set(part, cells);
    cells += part.cells;
  }
  return { at, cells };
}

export function configBytes(plan: ConfigPlan): Uint8Array {
  const bytes = new Uint8Array(CONFIG_BYTES);
  const view = new DataView(bytes.buffer);
  const wide = (at: number, values: readonly bigint[]) => {
    for (const [i, value] of values.entries()) view.setBigUint64(at + 8 * i, value, true);
  };
  const { at, cells } = cellPlaces(plan.parts);
  const words: Record<string, number> = {
    cover: plan.cover,
    copy: plan.cover + LINK_BYTES,
    network: plan.network ? 1 : 0,
    direction: DIRECTION[plan.direction],
    sets: plan.sets,
    delimited: plan.below === null ? 0 : 1,
    below: plan.below ?? 0,
    hashes: plan.parts.some(({ kind }) => kind !== "lda") ? 1 : 0,
    cells,
    flows: plan.parts.some((part) => flowsOf(part) > 0) ? 1 : 0,
    steps: plan.filter?.count ?? 0,
    keepLast: plan.keepLast ? 1 : 0,
  };
  wide(WIDE.seed, [BigInt.asUintN(64, plan.seed)]);
  wide(WIDE.mask, plan.mask);
  for (const [part, first] of at) if (part.kind !== "flows") writePart(part, first, words, wide);
  for (const [i, name] of WORDS.entries()) view.setUint32(WORDS_AT + 4 * i, words[name] ?? 0, true);
  if (plan.filter) bytes.set(plan.filter.bytes, FILTER_AT);
  return bytes;
}

function writePart(
  part: CellPart,
  first: number,
  words: Record<string, number>,
  wide: (at: number, values: readonly bigint[]) => void,
): void {
  if (part.kind === "lda") {
    Object.assign(words, { ldaAt: first, ldaBanks: part.from.length, ldaRows: part.rows });
    wide(WIDE.ldaSeed, [part.seed]);
    wide(WIDE.ldaLimit, [part.limit]);
    wide(WIDE.ldaFrom, part.from);
  } else if (part.kind === "lds") {
    Object.assign(words, { ldsAt: first, ldsRows: part.rows, ldsColumns: part.columns, ldsK: part.k });
    wide(WIDE.ldsThreshold, part.thresholds);
  } else {
    const { m, edges, shift } = part;
    Object.assign(words, { colateAt: first, colateM: m, colateVectors: edges.length, colateShift: shift });
    wide(WIDE.multiplier, [part.multiplier]);
    wide(WIDE.edge, edges);
  }
}
