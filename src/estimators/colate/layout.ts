/**
 * The position of a packet's counter. Vectors follow each other in one array of n cells. Every flow has m cells in each vector, placed by hash (section 3.1;
 * for loss, section 1.4: a packet is in one vector, chosen by its digest with probability q_v).
 *
 * Unlike in the paper, the digest decides which of its flow's m counters a packet goes to; it is not drawn anew at each point. The same counter then holds the
 * same packets at both ends, and the difference of the two sums holds delays only. The times themselves, a million times larger, cancel instead of being noise.
 */
import { ByteWriter, crc32c } from "../../base/bytes.ts";
import { mix64 } from "../../base/hash.ts";
import { Kernels } from "../../base/kernels.ts";
import type { ColateParameters } from "./parameters.ts";

/** A counter is a count and a sum of times, laid out as in kernels/sketches/colate.ts. */
export const CELL_BYTES = 16;

export interface Layout {
  n: number;
  m: number;
  /** First cell of each vector, and the end of the last. */
  starts: Uint32Array;
  /** Probability of each vector. */
  q: readonly number[];
}

export function layoutOf({ n, m, vectors, shares }: ColateParameters): Layout {
  const starts = new Uint32Array(vectors.length + 1);
  let sum = 0;
  for (const [v, share] of shares.entries()) {
    sum += share;
    starts[v + 1] = v + 1 === shares.length ? n : Math.round(n * sum);
  }
  return { n, m, starts, q: vectors };
}

/** Vector of each cell. */
export function vectorsOfCells({ n, starts }: Layout): Uint8Array {
  const out = new Uint8Array(n);
  for (let v = 0; v + 1 < starts.length; v++) out.fill(v, starts[v]!, starts[v + 1]!);
  return out;
}

/** Allocates empty counters in kernel memory. `literal`: counters are drawn anew at each point (../lab/colate-literal/). */
export function createCounters(
  kernels: Kernels,
  parameters: ColateParameters,
  seed: bigint,
  literal: bigint | null = null,
  cells = parameters.n,
): number {
  const { call } = kernels;
  const { m, q } = layoutOf(parameters);
  const { multiplier, edges } = slotsOf(parameters, seed);
  const draw = literal ?? multiplier;
  kernels.ensure(CELL_BYTES * cells, CELL_BYTES * q.length * m);
  const address = call.colateNew(cells, m, q.length, draw, 1 / parameters.unit, literal !== null) >>> 0;
  for (const [v, edge] of edges.entries()) call.colateEdge(address, v, edge);
  placeCounters(kernels, address, parameters, seed);
  return address;
}

/** Assigns counters to flows by the seed. Which of its flow's counters a packet goes to does not change. */
export function placeCounters(
  kernels: Kernels,
  address: number,
  parameters: ColateParameters,
  seed: bigint,
): void {
  for (const [i, slot] of slotsOf(parameters, seed).slots.entries())
    kernels.call.colateSlot(address, i, slot.seed, slot.first, slot.cells);
}

/** The inputs of the update loop: the multiplier for digests, the ends of the vectors in 2^32, and a seed and a cell range per counter of a flow. */
export function slotsOf(
  parameters: ColateParameters,
  seed: bigint,
): { multiplier: bigint; edges: bigint[]; slots: { seed: bigint; first: number; cells: number }[] } {
  const { m, starts, q } = layoutOf(parameters);
  const edges: bigint[] = [];
  let sum = 0;
  for (const [v, share] of q.entries()) {
    sum += share;
    edges.push(v + 1 === q.length ? 1n << 32n : BigInt(Math.round(sum * 2 ** 32)));
  }
  const slots = Array.from({ length: m * q.length }, (_, i) => {
    const v = Math.floor(i / m);
    return { seed: seedOf(seed, i + 1), first: starts[v]!, cells: starts[v + 1]! - starts[v]! };
  });
  return { multiplier: seedOf(seed, 0) | 1n, edges, slots };
}

/** Cells of flows (hashes as [low, high]): vectors x m per flow, vector-major. */
export function placesOf(parameters: ColateParameters, seed: bigint, hash: Uint32Array): Uint32Array {
  // A question has no kernels of its own; this instance is discarded afterwards.
  const kernels = new Kernels();
  // Only positions are needed and no cell is touched, so one cell is enough.
  const counters = createCounters(kernels, parameters, seed, null, 1);
  const flows = hash.length / 2;
  const perFlow = parameters.vectors.length * parameters.m;
  const out = new Uint32Array(flows * perFlow);
  const step = Math.max(1, Math.floor(1_000_000 / perFlow));
  const from = kernels.alloc(8 * Math.min(step, Math.max(1, flows)));
  const to = kernels.alloc(4 * perFlow * Math.min(step, Math.max(1, flows)));
  for (let f = 0; f < flows; f += step) {
    const count = Math.min(step, flows - f);
    kernels.u32.set(hash.subarray(2 * f, 2 * (f + count)), from >>> 2);
    kernels.call.colatePlaces(counters, from, count, to);
    out.set(kernels.u32.subarray(to >>> 2, (to >>> 2) + count * perFlow), f * perFlow);
  }
  kernels.free(from);
  kernels.free(to);
  kernels.call.colateFree(counters);
  return out;
}

/** Checksum over the mapping of packets to cells: two payloads must agree on it. */
export function fingerprintOf(parameters: ColateParameters, seed: bigint): number {
  const { m, starts, q } = layoutOf(parameters);
  const out = new ByteWriter();
  out.u64(BigInt.asUintN(64, seed));
  out.u32(m);
  for (const start of starts) out.u32(start);
  for (const share of q) out.f64(share);
  return crc32c(out.view());
}

function seedOf(seed: bigint, slot: number): bigint {
  const s = BigInt.asUintN(64, seed + BigInt(slot) * 0x9e37_79b9_7f4a_7c15n);
  const [hi, lo] = mix64(Number(s >> 32n), Number(s & 0xffff_ffffn));
  return (BigInt(hi) << 32n) | BigInt(lo);
}
