/**
 * The mean over a segment's packets: sum Delta / sum N over usable cells. Nothing lost, it is exact. Cells are chosen by where losses fell; flows stay
 * together in their cells, so errors go by cell: r = Delta - mean N, variance sum r^2 / (sum N)^2, less what a sample of a finite whole saves.
 * Large flows lose a packet sooner than small ones and are missing more often: what is left is not quite a random sample.
 */
import { studentQuantile } from "../../base/special.ts";
import type { Interval, NoAnswer } from "../estimator.ts";
import { backgroundVariance } from "./blup.ts";
import type { Difference } from "./difference.ts";
import { fitVariance } from "./variance.ts";

export function segmentMean(
  { packets, delayNs, used, usedCells }: Difference,
  received: number,
  confidence: number,
): Interval | NoAnswer {
  let sum = 0;
  for (let c = 0; c < packets.length; c++) sum += delayNs[c]!;
  const valueNs = sum / used;
  const left = Math.max(0, 1 - used / Math.max(used, received));
  if (left === 0) return { valueNs, lowNs: valueNs, highNs: valueNs };
  if (usedCells < 2) {
    const text = `only one counter of ${used} packets holds the same ones at both ends: its mean has no error bar`;
    return { reason: "no-usable-cells", text };
  }
  let squares = 0;
  for (let c = 0; c < packets.length; c++) squares += (delayNs[c]! - valueNs * packets[c]!) ** 2;
  const error = Math.sqrt((squares * usedCells) / (usedCells - 1)) / used;
  const half = studentQuantile(0.5 + confidence / 2, usedCells - 1) * error * Math.sqrt(left);
  return { valueNs, lowNs: valueNs - half, highNs: valueNs + half };
}

/** Deviations from what its packets let expect, beyond which a cell is taken to hold different packets at its ends. */
const BEYOND = 30;
const FEWEST = 20;

/**
 * Without enough digest bits, a cell that lost one packet and got another passes for whole, and is off by up to an epoch. Where packets were lost
 * and others appeared, cells that are beyond all likelihood are taken out.
 */
export function withoutOutliers(difference: Difference): Difference {
  const { packets, delayNs, missing, appeared } = difference;
  if (missing === 0 || appeared === 0 || difference.usedCells < FEWEST) return difference;
  const fit = fitVariance(packets, delayNs, (c) => packets[c]! * packets[c]!);
  const background = { alpha: fit.second, beta: fit.first };
  for (let c = 0; c < packets.length; c++) {
    const n = packets[c]!;
    if (n === 0) continue;
    const y = delayNs[c]! - fit.meanNs * n;
    if (y * y <= BEYOND * BEYOND * (backgroundVariance(background, n) + 1)) continue;
    difference.usable[c] = 0;
    difference.packets[c] = 0;
    difference.delayNs[c] = 0;
    difference.used -= n;
    difference.vectors[difference.vector[c]!]!.used -= n;
    difference.usedCells--;
    difference.swapped++;
  }
  return difference;
}
