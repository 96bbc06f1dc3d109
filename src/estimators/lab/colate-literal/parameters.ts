/**
 * Parameters of colate-literal, and the paper's derivation of them (section 5): n, m, b and T from RAM, reliability and interval by equations (11) to (15) and
 * (22). Kept as written: (2) understates the variance, and (21) and (22) lack a square in the denominator, (n - m)^2, so the promised reliability is not
 * reached; docs/estimators/colate.md measures by how much.
 */
import { UsageError } from "../../../base/errors.ts";
import { erfinv } from "../../../base/math/special.ts";
import type { ColateParameters } from "../../colate/parameters.ts";
import type { ParameterSpec, ParameterValues } from "../../estimator.ts";

export interface LiteralParameters extends ParameterValues {
  n: number;
  m: number;
  b: number;
  unit: number;
  repetitions: number;
}

export const LITERAL_PARAMETERS: readonly ParameterSpec[] = [
  { name: "n", kind: "integer", default: 65_536, min: 16, max: 1 << 26, help: "counters in the vector" },
  { name: "m", kind: "integer", default: 20, min: 2, max: 4096, help: "counters of a flow, an even number" },
  {
    name: "b",
    kind: "integer",
    default: 48,
    min: 8,
    max: 52,
    help: "bits of a counter; it must hold the sum of its times",
  },
  {
    name: "unit",
    kind: "integer",
    default: 1024,
    min: 1,
    max: 1 << 20,
    help: "unit of times in ns, a power of two",
  },
  {
    name: "repetitions",
    kind: "integer",
    default: 1000,
    min: 1,
    max: 1e6,
    queryOnly: true,
    help: "virtual repetitions of the deviation (section 4.2.2)",
  },
];

export function completeLiteral(values: ParameterValues): LiteralParameters {
  const p = { ...values } as LiteralParameters;
  const wrong = (message: string, hint: string) =>
    new UsageError("bad-parameter", message, hint, { parameter: "colate-literal" });
  if (p.m % 2 !== 0) throw wrong(`m=${p.m} is odd`, "deviation vectors pair the counters: m must be even");
  if (p.m >= p.n) throw wrong(`m=${p.m} counters of n=${p.n}`, "m far below n");
  if (2 ** Math.round(Math.log2(p.unit)) !== p.unit)
    throw wrong(`unit=${p.unit} is not a power of two`, "such as 1024 ns");
  return p;
}

/** Returns the same counters as one vector of the working COLATE, without stored counts. */
export function vectorOf({ n, m, b, unit }: LiteralParameters): ColateParameters {
  return { n, m, b, unit, vectors: [1], shares: [1], check: 0, delay: 1, decoder: "quick", iterations: 1 };
}

/** Equation (14) solved the other way: the sum of all counters at which a vector is dumped. */
export function dumpAt({ n, b }: { n: number; b: number }): number {
  return n * 2 ** (b - 1);
}

const MAX_BITS = 52;

export interface LiteralRequest {
  /** M, the paper's memory in bits. */
  memoryBits: number;
  /** alpha and beta: target reliability, and relative interval. */
  reliability: number;
  interval: number;
  /** (t_R - t_S) / (t_R + t_S) as measured on the network, for equation (12). */
  delayShare: number;
  /** Minimum and maximum sum of the timestamps of a flow, in units. */
  minTimeSum: number;
  maxTimeSum: number;
}

export interface LiteralSolution {
  n: number;
  m: number;
  b: number;
  /** T, in units. */
  threshold: number;
}

/** Solves equations (13), (14), (15) and (22) for n by bisection. Throws a UsageError if no n satisfies them. */
export function solveLiteral(request: LiteralRequest): LiteralSolution {
  const { memoryBits, minTimeSum: minimum } = request;
  // (11), (12), and k of (19) and (20)
  const A = (1 + request.reliability) / 2;
  const B = request.interval * request.delayShare;
  const k = Math.SQRT2 * erfinv(A);
  // (22) as right side minus left side: positive if the target is missed.
  const missing = (n: number) => {
    const { m, threshold } = geometry(n, request);
    const variance = (minimum / m) * (1 - 1 / m) + ((threshold - minimum) / n) * (1 - 1 / n);
    return (k * k * n * n * m * variance) / (n - m) - (B * minimum) ** 2;
  };
  // With (13) to (15), (22) is nearly B^2 t_min^2 = k^2 n (t_min + t_max), so it holds up to some n, and the largest such n is wanted. Longer counters are
  // fewer, and a flow fits into fewer of them; a subvector needs at least two.
  let low = bisect(memoryBits / MAX_BITS, memoryBits / 2, (n) => geometry(n, request).m >= 2);
  if (missing(low) > 0) {
    throw new UsageError(
      "bad-parameter",
      `no n satisfies equations (13), (14), (15) and (22) for ${memoryBits} bits and counters of up to ${MAX_BITS}`,
      "a smaller reliability, a larger interval, larger flows, or less memory",
    );
  }
  low = bisect(low, memoryBits / 2, (n) => missing(n) > 0) - 1;
  const solved = geometry(low, request);
  return {
    n: Math.floor(low),
    m: Math.max(2, 2 * Math.round(solved.m / 2)),
    b: Math.max(1, Math.floor(solved.b)),
    threshold: solved.threshold,
  };
}

function geometry(
  n: number,
  { memoryBits, maxTimeSum }: LiteralRequest,
): { m: number; b: number; threshold: number } {
  const b = memoryBits / n; // (13)
  const threshold = dumpAt({ n, b }); // (14)
  const m = maxTimeSum / (2 ** b - 1 - (threshold - maxTimeSum) / n); // (15)
  return { b, threshold, m };
}

/** Returns the smallest n from which on `holds` is true, to within one. */
function bisect(low: number, high: number, holds: (n: number) => boolean): number {
  if (holds(low)) return low;
  while (high - low > 0.5) {
    const n = (low + high) / 2;
    if (holds(n)) high = n;
    else low = n;
  }
  return high;
}
