/** The state of a combination in few bytes: its numbers as f64, little-endian, in the order below (NaN: null), then the reasons as JSON. */
import type { CombinationState } from "../collect/combine.ts";
import type { NoAnswer } from "../estimators/estimator.ts";

/** The order is the format: new ones are added at the end, with a new version. */
const NUMBERS = [
  ...([
    "weight",
    "meanNs",
    "errorLow",
    "errorHigh",
    "commonLow",
    "commonHigh",
    "repeatingLow",
    "repeatingHigh",
  ] as const),
  ...(["spreadWeight", "spreadMeanNs", "spreadM2", "spreadErrorLow", "spreadErrorHigh"] as const),
  ...(["packets", "arrived", "answeredPackets", "lost", "used", "answers"] as const),
  ...([
    "unansweredWeight",
    "unansweredLow",
    "unansweredHigh",
    "unansweredValue",
    "unansweredGuessed",
    "unbounded",
    "whyCount",
  ] as const),
  // From version 2 on.
  ...(["meansWeight", "meansNs", "meansM2", "meansCurve"] as const),
] as const;
const VERSION = 2;
/** Numbers of each version. */
const COUNTS = new Map([
  [1, NUMBERS.length - 4],
  [VERSION, NUMBERS.length],
]);
const HEAD_BYTES = headBytes(NUMBERS.length);

function headBytes(numbers: number): number {
  return 1 + 8 * numbers;
}

export function encodeState(state: CombinationState): Uint8Array {
  const { why, whyStdev } = state;
  const reasons = why || whyStdev ? Buffer.from(JSON.stringify([why, whyStdev])) : Buffer.alloc(0);
  const out = new Uint8Array(HEAD_BYTES + reasons.length);
  const view = new DataView(out.buffer);
  view.setUint8(0, VERSION);
  for (const [i, name] of NUMBERS.entries()) view.setFloat64(1 + 8 * i, state[name] ?? Number.NaN, true);
  out.set(reasons, HEAD_BYTES);
  return out;
}

export function decodeState(bytes: Uint8Array): CombinationState {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const count = COUNTS.get(view.getUint8(0));
  if (count === undefined || bytes.length < headBytes(count))
    throw new Error("a row's state of another version");
  const numbers = {} as Record<(typeof NUMBERS)[number], number | null>;
  for (const [i, name] of NUMBERS.entries()) {
    // What an older version does not have counts as nothing.
    const value = i < count ? view.getFloat64(1 + 8 * i, true) : 0;
    numbers[name] = Number.isNaN(value) ? null : value;
  }
  const reasons = bytes.subarray(headBytes(count));
  const [why, whyStdev] =
    reasons.length === 0
      ? [null, null]
      : (JSON.parse(Buffer.from(reasons).toString()) as [NoAnswer | null, NoAnswer | null]);
  return { ...(numbers as unknown as CombinationState), why, whyStdev };
}
