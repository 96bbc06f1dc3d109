/** Binary form of a combination's state: its numbers as f64, little-endian, in the order below (NaN: null), followed by the reasons as JSON. */
import { endianness } from "node:os";
import type { CombinationState } from "../collect/combine.ts";
import type { NoAnswer } from "../estimators/estimator.ts";

/** The order is the format. New numbers go to the end, with a new version. */
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
  // Since version 2.
  ...(["meansWeight", "meansNs", "meansM2", "meansCurve"] as const),
  // Since version 3.
  "lostKnown",
  // Since version 4.
  "spreadBound",
] as const;
const VERSION = 4;
/** Number of fields in each version. */
const COUNTS = new Map([
  [1, 26],
  [2, 30],
  [3, 31],
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

/**
 * Decodes a state. An hour of epochs has thousands of these, so the numbers are copied at once and all objects have one shape. Field order as in
 * NUMBERS.
 */
export function decodeState(bytes: Uint8Array): CombinationState {
  const count = COUNTS.get(bytes[0] ?? 0);
  if (count === undefined || bytes.length < headBytes(count))
    throw new Error("a row's state of another version");
  // Numbers that an older version lacks are 0.
  const n = new Float64Array(NUMBERS.length);
  const raw = new Uint8Array(n.buffer);
  raw.set(bytes.subarray(1, headBytes(count)));
  if (endianness() === "BE") Buffer.from(n.buffer).swap64();
  const [why, whyStdev] =
    bytes.length === headBytes(count) ? NO_REASONS : reasonsOf(bytes.subarray(headBytes(count)));
  // Before version 3 a known loss was complete.
  if (count < 31) n[30] = orNull(n[16]!) ?? 0;
  return {
    weight: n[0]!,
    meanNs: n[1]!,
    errorLow: n[2]!,
    errorHigh: n[3]!,
    commonLow: n[4]!,
    commonHigh: n[5]!,
    repeatingLow: n[6]!,
    repeatingHigh: n[7]!,
    spreadWeight: n[8]!,
    spreadMeanNs: n[9]!,
    spreadM2: n[10]!,
    spreadErrorLow: n[11]!,
    spreadErrorHigh: n[12]!,
    packets: orNull(n[13]!),
    arrived: orNull(n[14]!),
    answeredPackets: n[15]!,
    lost: orNull(n[16]!),
    used: n[17]!,
    answers: n[18]!,
    unansweredWeight: n[19]!,
    unansweredLow: n[20]!,
    unansweredHigh: n[21]!,
    unansweredValue: n[22]!,
    unansweredGuessed: n[23]!,
    unbounded: n[24]!,
    whyCount: n[25]!,
    meansWeight: n[26]!,
    meansNs: n[27]!,
    meansM2: n[28]!,
    meansCurve: n[29]!,
    lostKnown: n[30]!,
    spreadBound: n[31]!,
    why,
    whyStdev,
  };
}

function orNull(value: number): number | null {
  return Number.isNaN(value) ? null : value;
}

type Reasons = readonly [NoAnswer | null, NoAnswer | null];

const NO_REASONS: Reasons = [null, null];
/** Cache: the rows of a segment have few different reasons. */
const known = new Map<string, Reasons>();
const MAX_KNOWN = 64;

function reasonsOf(bytes: Uint8Array): Reasons {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
  let reasons = known.get(text);
  if (!reasons) {
    reasons = JSON.parse(text) as Reasons;
    if (known.size >= MAX_KNOWN) known.clear();
    known.set(text, reasons);
  }
  return reasons;
}
