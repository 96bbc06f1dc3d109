/**
 * Decides which records may be combined. Two payloads are comparable only if seed, geometry, payload version, flow key, digest cover and epoch are equal: a
 * mismatch is refused, with the difference.
 */
import { UsageError } from "../base/errors.ts";
import { hashBytes64 } from "../base/hash.ts";
import { formatTime } from "../base/time.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import type { EpochBounds, EpochRecord, RecordHead } from "./record.ts";

export type Geometry = Pick<
  RecordHead,
  "estimator" | "payloadVersion" | "parameters" | "key" | "cover" | "inner"
>;

const FINGERPRINT_SEED = 0x686f7072; // "hopr"

/** Hashes everything but the seed that shapes a sketch, to 64 bits. Keys count by their meaning, not by their spelling. */
export function geometryFingerprint(geometry: Geometry): bigint {
  const text = JSON.stringify([
    geometry.estimator,
    geometry.payloadVersion,
    geometry.parameters,
    keyMeaning(geometry.key),
    geometry.cover,
    geometry.inner,
  ]);
  const [hi, lo] = hashBytes64(new TextEncoder().encode(text), FINGERPRINT_SEED, 1);
  return (BigInt(hi) << 32n) | BigInt(lo);
}

/** Checks that the two may be ends of a segment, or parts of one point, in the same epoch; throws a UsageError "mismatch" with the reason if not. */
export function checkCompatible(a: RecordHead, b: RecordHead): void {
  const found = geometryMismatch(a, b) ?? epochMismatch(a.epoch, b.epoch);
  if (found) throw mismatch(a, b, found);
}

/** Like checkCompatible, for records of different epochs (adjacent ones to be merged). */
export function checkGeometry(a: RecordHead, b: RecordHead): void {
  const found = geometryMismatch(a, b);
  if (found) throw mismatch(a, b, found);
}

interface Mismatch {
  what: string;
  a: string;
  b: string;
  hint: string;
}

function mismatch(a: RecordHead, b: RecordHead, found: Mismatch): UsageError {
  const name = (r: RecordHead) => `${r.point} (${r.estimator}, ${formatTime(r.epoch.startNs)})`;
  const message = `${name(a)} and ${name(b)} differ in ${found.what}: ${found.a} and ${found.b}`;
  return new UsageError("mismatch", message, found.hint);
}

function geometryMismatch(a: RecordHead, b: RecordHead): Mismatch | null {
  const again = (parameter: string) => `observe both points with the same ‘${parameter}’`;
  const checks: [string, unknown, unknown, string][] = [
    ["estimator", a.estimator, b.estimator, again("estimators")],
    ["version", a.payloadVersion, b.payloadVersion, "observe both points with the same version of hoptime"],
    [
      "geometry",
      a.parameters,
      b.parameters,
      `observe both points with the same parameters of ${a.estimator}`,
    ],
    ["seed", a.seed, b.seed, again("seed")],
    ["key", keyMeaning(a.key), keyMeaning(b.key), again("key")],
    ["cover", a.cover, b.cover, again("cover")],
    ["inner", a.inner, b.inner, again("inner")],
    // Reached only if the texts agree and the fingerprint was computed from others.
    ["fingerprint", a.fingerprint, b.fingerprint, "one of the records was written wrong: observe again"],
  ];
  for (const [what, x, y, hint] of checks) {
    if (x === y) continue;
    if (what === "geometry") return { what, ...differing(a.parameters, b.parameters), hint };
    if (what === "key") return { what, a: `'${a.key}'`, b: `'${b.key}'`, hint };
    return { what, a: `${x}`, b: `${y}`, hint };
  }
  return null;
}

/** Returns the parameters that are not in both lists: the common ones would hide them. */
function differing(a: string, b: string): { a: string; b: string } {
  const without = (text: string, other: string) => {
    const known = new Set(other.split(","));
    return (
      text
        .split(",")
        .filter((part) => !known.has(part))
        .join(",") || "the default"
    );
  };
  return { a: without(a, b), b: without(b, a) };
}

function epochMismatch(a: EpochBounds, b: EpochBounds): Mismatch | null {
  const found = (x: string, y: string) => ({
    what: "epoch",
    a: x,
    b: y,
    hint: "observe both points with the same ‘epoch’ and ‘cut’",
  });
  if (a.mode !== b.mode) return found(a.mode, b.mode);
  const span = (e: EpochBounds) => `${formatTime(e.startNs)} to ${formatTime(e.endNs)}`;
  if (a.mode === "aligned") {
    if (a.startNs !== b.startNs || a.endNs !== b.endNs) return found(span(a), span(b));
  } else if (a.startId !== b.startId || a.endId !== b.endId) {
    const ids = (e: EpochBounds) => `${e.startId.toString(16)}..${e.endId.toString(16)}`;
    return found(ids(a), ids(b));
  }
  if (a.referenceNs !== b.referenceNs) {
    const counts = (e: EpochBounds) => `times from ${formatTime(e.referenceNs)}`;
    return found(counts(a), counts(b));
  }
  return null;
}

/** Two spellings of one key are one key. A record may contain an invalid key: that is equal to itself only. */
function keyMeaning(text: string): string {
  try {
    const masks = FlowKeySpec.parse(text).maskWords();
    return masks.map((w) => w.toString(16)).join(",");
  } catch (error) {
    if (error instanceof UsageError) return `'${text}'`;
    throw error;
  }
}

/**
 * Returns null if two records state the same measurement, else the first difference. Fields that only describe the writing do not count (program, and counters
 * of frames, skips and drops, which come batch by batch).
 */
export function measurementDifference(a: EpochRecord, b: EpochRecord): string | null {
  for (const field of ["point", "segment", "role"] as const) if (a[field] !== b[field]) return field;
  const geometry = geometryMismatch(a, b);
  if (geometry) return geometry.what;
  if (a.filter !== b.filter) return "filter";
  const epoch = (e: EpochBounds) => [e.mode, e.startNs, e.endNs, e.referenceNs, e.startId, e.endId].join();
  if (epoch(a.epoch) !== epoch(b.epoch) || a.void !== b.void) return "epoch";
  if (a.counters.packets !== b.counters.packets) return "packets";
  return Buffer.compare(a.payload, b.payload) === 0 ? null : "payload";
}
