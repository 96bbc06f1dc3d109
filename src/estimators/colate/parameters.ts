/** Parameters of COLATE's counter vectors, which both ends must share, and parameters of the decoding. */
import { UsageError } from "../../base/errors.ts";
import type { ParameterSpec, ParameterValues } from "../estimator.ts";

export interface ColateParameters extends ParameterValues {
  n: number;
  m: number;
  b: number;
  unit: number;
  vectors: readonly number[];
  shares: readonly number[];
  check: number;
  delay: number;
  decoder: "auto" | "blup" | "quick";
  iterations: number;
}

const MAX_VECTORS = 16;
/** 512 MiB of memory at each point. Kernels have 4 GiB, and a single allocation is at most 1 GiB. */
export const MAX_COUNTERS = 1 << 25;
/** Four vectors for segments with loss: most packets in the first, one in a hundred in the last. */
export const LOSSY_VECTORS: readonly number[] = [0.75, 0.2, 0.04, 0.01];
export const LOSSY_SHARES: readonly number[] = [0.55, 0.25, 0.12, 0.08];

export const COLATE_PARAMETERS: readonly ParameterSpec[] = [
  {
    name: "n",
    kind: "integer",
    default: 65_536,
    min: 16,
    max: MAX_COUNTERS,
    help: "counters in all vectors together; the same at both ends",
  },
  {
    name: "m",
    kind: "integer",
    default: 8,
    min: 1,
    max: 4096,
    help: "counters of a flow in each vector: more tolerate loss and give the standard deviation, fewer are denoised better",
  },
  {
    name: "b",
    kind: "integer",
    default: 48,
    min: 8,
    max: 52,
    help: "bits of a time sum; enough for the sum of the delays in a counter",
  },
  {
    name: "unit",
    kind: "integer",
    default: 1,
    min: 1,
    max: 1 << 20,
    help: "unit of times in ns, a power of two: coarser ones need fewer bits",
  },
  {
    name: "vectors",
    kind: "list",
    default: LOSSY_VECTORS,
    min: 0,
    max: 1,
    help: "share of the packets in each counter vector (sum 1): small shares survive high loss; 1: no loss expected",
  },
  {
    name: "shares",
    kind: "list",
    default: [],
    min: 0,
    max: 1,
    help: "share of the counters in each vector (sum 1); if omitted: its packets to the power of 0.45",
  },
  {
    name: "check",
    kind: "integer",
    default: 8,
    min: 0,
    max: 32,
    help: "bits of a digest per counter, so that equal counts of different packets are noticed; 0: none",
  },
  {
    name: "delay",
    kind: "number",
    default: 1e9,
    min: 1,
    max: 1e15,
    unit: "ns",
    help: "maximum mean delay of a counter's packets: a vector is full with 2^(b-1) unit / delay packets in a counter",
  },
  {
    name: "decoder",
    kind: "choice",
    choices: ["auto", "blup", "quick"],
    default: "auto",
    queryOnly: true,
    help: "blup decodes all known flows together, quick each by itself; auto: blup where several flows are known",
  },
  {
    name: "iterations",
    kind: "integer",
    default: 60,
    min: 1,
    max: 1000,
    queryOnly: true,
    help: "blup: maximum steps of conjugate gradients; 12 to 35 are usual",
  },
];

export function completeColate(values: ParameterValues): ColateParameters {
  const p = { ...values } as ColateParameters;
  if (p.vectors.length === 0) p.vectors = [1];
  const count = p.vectors.length;
  if (count > MAX_VECTORS) throw wrong(`${count} vectors are too many`, `at most ${MAX_VECTORS}`);
  p.vectors = wholes("vectors", p.vectors);
  p.shares = p.shares.length > 0 ? wholes("shares", p.shares) : usualShares(p.vectors);
  if (p.shares.length !== count) {
    throw wrong(`vectors has ${count} values, shares has ${p.shares.length}`, "give one of each per vector");
  }
  if (2 ** Math.round(Math.log2(p.unit)) !== p.unit) {
    throw wrong(`unit=${p.unit} is not a power of two`, "such as 1, 256 or 1024 ns");
  }
  if (p.m * count < 2) {
    throw wrong(
      "m=1 in a single vector gives a flow one counter: it can never be separated from its neighbours there",
      "m=2 at least",
    );
  }
  const smallest = Math.floor(p.n * Math.min(...p.shares));
  if (smallest < p.m) {
    throw wrong(
      `the smallest vector has ${smallest} counters, fewer than m=${p.m}`,
      "a larger n, or a smaller m",
    );
  }
  if (fullAt(p) < 1) {
    throw wrong(
      `b=${p.b} bits of ${p.unit} ns do not hold one delay of ${p.delay} ns`,
      "more bits, a larger unit, or a smaller delay",
    );
  }
  return p;
}

/** Counters per flow and vector if there are few flows: large flows then keep more usable counters under loss. */
const M_FEW_FLOWS = 64;
/** There are few flows if a vector has more than this many counters per counter of a flow. */
const ROOM = 4;

export function forFewFlows(
  p: ColateParameters,
  given: ReadonlySet<string>,
): { parameters: ColateParameters; maxFlows: number } | null {
  const smallest = Math.floor(p.n * Math.min(...p.shares));
  if (given.has("m") || p.m >= M_FEW_FLOWS || smallest < M_FEW_FLOWS) return null;
  return { parameters: { ...p, m: M_FEW_FLOWS }, maxFlows: Math.floor(p.n / (ROOM * M_FEW_FLOWS)) };
}

/** Threshold T: from this many packets on, the sum of a counter's delays might not fit into b bits. */
export function fullAt({ b, unit, delay }: ColateParameters): number {
  return Math.min(2 ** 32 - 1, Math.floor((2 ** (b - 1) * unit) / delay));
}

function usualShares(vectors: readonly number[]): readonly number[] {
  const same = vectors.length === LOSSY_VECTORS.length && vectors.every((q, v) => q === LOSSY_VECTORS[v]);
  if (same) return LOSSY_SHARES;
  // Fewer packets need fewer counters, but not in proportion: after heavy loss, only the small vectors are left.
  const raw = vectors.map((q) => q ** 0.45);
  const sum = raw.reduce((s, x) => s + x, 0);
  return raw.map((x) => Math.round((1e4 * x) / sum) / 1e4).map((x, v, all) => (v > 0 ? x : roundOff(all)));
}

/** The first share, so that all shares add up to 1. */
function roundOff(all: readonly number[]): number {
  const rest = all.slice(1).reduce((s, x) => s + x, 0);
  return Math.round(1e4 * (1 - rest)) / 1e4;
}

function wholes(name: string, list: readonly number[]): readonly number[] {
  const sum = list.reduce((s, x) => s + x, 0);
  if (list.some((x) => !(x > 0)) || Math.abs(sum - 1) > 1e-6) {
    throw wrong(
      `${name}=${list.join("/")} do not add up to 1`,
      "each above 0, together 1, such as 0.75/0.2/0.04/0.01",
    );
  }
  return list;
}

export function wrong(message: string, hint: string): UsageError {
  return new UsageError("bad-parameter", message, hint, { parameter: "colate" });
}
