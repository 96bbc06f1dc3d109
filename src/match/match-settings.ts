/** The settings of the exact matcher, in the form that its kernel reads. */
import { MatchLayout } from "../base/kernel-layout.ts";
import type { Kernels } from "../base/kernels.ts";
import type { CorrectionPieces, ExpectedDifferences, MatcherOptions } from "./match-types.ts";

/**
 * The common part of all delays, if the clocks differ by more than the window (more than any delay). Buckets count delays relative to it, because their width
 * grows with the value: for a day's offset they would be minutes wide.
 */
export function bucketBase({ correction, windowNs }: MatcherOptions): number {
  return Math.abs(correction.offsetNs) > windowNs ? -correction.offsetNs : 0;
}

/** Writes the settings of a newly created match. */
export function configure(kernels: Kernels, match: number, options: MatcherOptions): void {
  const { offsetNs, slope, pivotNs, reverseNs = 0 } = options.correction;
  if (options.nat) kernels.writeU32(match + MatchLayout.nat, 1);
  const settings = {
    window: options.windowNs,
    epoch: options.epochNs,
    epochStart: options.epochStartNs,
    threshold: options.thresholdNs,
    offset: offsetNs,
    back: reverseNs,
    slope,
    pivot: pivotNs,
    slack: options.slackNs,
    now: options.startNs,
    ...(options.expected
      ? {
          expectUntil: options.expected.untilNs,
          expectLow: options.expected.lowNs,
          expectHigh: options.expected.highNs,
          gapLow: options.expected.gap?.lowNs ?? 0,
          gapHigh: options.expected.gap?.highNs ?? 0,
          ...byWay(options.expected.ways),
        }
      : {}),
  };
  writePieces(kernels, match, options.pieces ?? null);
  for (const [name, value] of Object.entries(settings))
    kernels.writeF64(match + MatchLayout[name as keyof typeof settings], value);
}

function byWay(ways: ExpectedDifferences["ways"]) {
  if (ways === null) return {};
  const { forward, reverse } = ways;
  return {
    thereLow: forward.lowNs,
    thereHigh: forward.highNs,
    backLow: reverse.lowNs,
    backHigh: reverse.highNs,
  };
}

function writePieces(kernels: Kernels, match: number, pieces: CorrectionPieces | null): void {
  if (!pieces || pieces.list.length === 0) return;
  const at = kernels.call.matchPieces(match, pieces.list.length) >>> 0;
  for (const [i, { fromNs, offsetNs }] of pieces.list.entries()) {
    kernels.writeF64(at + 16 * i, fromNs);
    kernels.writeF64(at + 16 * i + 8, offsetNs);
  }
  kernels.writeF64(match + MatchLayout.pieceGuard, pieces.guardNs);
  kernels.writeF64(match + MatchLayout.usual, pieces.usualNs.forward);
  kernels.writeF64(match + MatchLayout.backUsual, pieces.usualNs.reverse);
}
