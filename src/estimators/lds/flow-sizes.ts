/**
 * Flow sizes for dimensioning a sketch: those of a capture, or a Pareto law P(size >= x) = x^-shape truncated at a largest flow (section 3 of the paper fits
 * one; its trace has shape 0.8). Also the paper's probability that a flow survives its collisions.
 */

import { UsageError } from "../../base/errors.ts";
import type { Random } from "../../base/random.ts";

export interface FlowSizes {
  /** Draws one flow's packets. */
  draw(random: Random): number;
  /** Returns P(size > x). */
  tail(x: number): number;
  /** Exponent of the Pareto law, fitted or assumed. */
  shape: number;
  largest: number;
}

export function sizesFromCapture(flowPackets: Float64Array): FlowSizes {
  const sorted = Float64Array.from(flowPackets).sort();
  if (sorted.length === 0) throw new UsageError("bad-parameter", "there are no flows to size by");
  return {
    draw: (random) => sorted[random.below(sorted.length)]!,
    tail: (x) => shareAbove(sorted, x),
    shape: fitPareto(sorted),
    largest: sorted[sorted.length - 1]!,
  };
}

/** Returns the Pareto law with this mean; no flow has more than a fiftieth of all packets. */
export function sizesFromMean(packets: number, flows: number): FlowSizes {
  const mean = Math.max(1, packets / flows);
  const largest = Math.max(1, Math.ceil(Math.max(packets / 50, Math.min(packets, 4 * mean))));
  let low = 0.05;
  let high = 8;
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (paretoMean(middle, largest) > mean) low = middle;
    else high = middle;
  }
  const shape = (low + high) / 2;
  return {
    draw: (random) => Math.min(largest, Math.floor((1 - random.float()) ** (-1 / shape))),
    tail: (x) => (x >= largest ? 0 : Math.max(1, Math.floor(x) + 1) ** -shape),
    shape,
    largest,
  };
}

/** Maximum likelihood estimate of the shape of P(size >= x) = x^-shape for integer x. */
export function fitPareto(sizes: ArrayLike<number>): number {
  const counts = new Map<number, number>();
  for (let i = 0; i < sizes.length; i++) {
    const size = Math.max(1, Math.round(sizes[i]!));
    counts.set(size, (counts.get(size) ?? 0) + 1);
  }
  // The likelihood has one peak; its slope shows on which side of a shape the peak is.
  const rising = (shape: number) => {
    let slope = 0;
    for (const [x, n] of counts) {
      const [here, next] = [x ** -shape, (x + 1) ** -shape];
      slope += (n * (next * Math.log(x + 1) - here * Math.log(x))) / (here - next);
    }
    return slope > 0;
  };
  let low = 0.05;
  let high = 8;
  for (let i = 0; i < 50; i++) {
    const middle = (low + high) / 2;
    if (rising(middle)) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/**
 * Section 3.2: probability that a flow has, in one of its rows x k cells, at most x / k foreign packets: 1 - (flows k P / columns)^(rows k), with P the share
 * of flows larger than x packets. (The paper's C counts all cells there, and columns of a row elsewhere.)
 */
export function survival(
  sizes: FlowSizes,
  flows: number,
  geometry: { rows: number; columns: number; k: number },
  x: number,
): number {
  const load = Math.min(1, (flows * geometry.k * sizes.tail(x)) / geometry.columns);
  return 1 - load ** (geometry.rows * geometry.k);
}

/** Sum of P(size >= x) over x: exact for small x, by the integral for larger x. */
function paretoMean(shape: number, largest: number): number {
  let sum = 0;
  const exact = Math.min(largest, 1000);
  for (let x = 1; x <= exact; x++) sum += x ** -shape;
  if (largest <= exact) return sum;
  const e = 1 - shape;
  const [from, to] = [exact + 0.5, largest + 0.5];
  return sum + (Math.abs(e) < 1e-9 ? Math.log(to / from) : (to ** e - from ** e) / e);
}

function shareAbove(sorted: Float64Array, x: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle]! <= x) low = middle + 1;
    else high = middle;
  }
  return (sorted.length - low) / sorted.length;
}
