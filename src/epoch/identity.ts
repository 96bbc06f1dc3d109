/**
 * The identity of a record: the same wherever it is stored and however it came (a file, a spool, a message). Two records with equal identities are one
 * measurement delivered twice. The head contains it all, so the payload need not be read.
 *
 * It includes `fingerprint` (compatible.ts) and `seed`: two taps at one point that differ in parameters, key or seed are two taps.
 */
import { remembered } from "../base/remembered.ts";
import type { EpochBounds, RecordHead, RecordRole } from "./record.ts";

const encoded = remembered(50_000, encodeURIComponent);

export interface RecordIdentity {
  readonly point: string;
  /** Label of the segment or traffic class; "" if there is none. */
  readonly segment: string;
  readonly role: RecordRole;
  readonly estimator: string;
  readonly epoch: Readonly<Pick<EpochBounds, "mode" | "startNs" | "endNs" | "startId" | "endId">>;
  readonly fingerprint: bigint;
  readonly seed: bigint;
}

export function recordIdentity(head: RecordHead): RecordIdentity {
  const { point, segment, role, estimator, fingerprint, seed } = head;
  const { mode, startNs, endNs, startId, endId } = head.epoch;
  return {
    point,
    segment,
    role,
    estimator,
    epoch: { mode, startNs, endNs, startId, endId },
    fingerprint,
    seed,
  };
}

/** One text per identity: for maps, and for the message ids of a transport. */
export function identityText(identity: RecordIdentity): string {
  const { mode, startNs, endNs, startId, endId } = identity.epoch;
  return `${tapText(identity)}/${mode}/${startNs}/${endNs}/${startId.toString(16)}/${endId.toString(16)}`;
}

/** One text per tap: the part that is the same in all records of a tap. */
export function tapText({
  point,
  segment,
  role,
  estimator,
  fingerprint,
  seed,
}: Omit<RecordIdentity, "epoch">): string {
  // Names may contain anything, including slashes.
  return `${encoded(point)}/${encoded(segment)}/${encoded(role)}/${encoded(estimator)}/${fingerprint.toString(16)}/${seed.toString(16)}`;
}
