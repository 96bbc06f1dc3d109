/**
 * Subject of a record in the stream (docs/cluster.md):
 *
 *   hoptime.records.PARTITION.POINT.LABEL      names as below; '-' for no label
 *
 * A segment is processed at the partition of its receiver, so that both of its ends meet there, and all queries about it. A label A:B names the receiver, B:
 * both ends publish to its partition. Other records (no label, a class, a direction) are published to the partition of their own point; the worker there copies
 * them to the partitions of the points that it is a sender to.
 */

import { remembered } from "../../base/remembered.ts";

export const SUBJECT_ROOT = "hoptime.records";
/** Maximum number of cached points and subjects: the same come with every epoch. */
const MAX_REMEMBERED = 50_000;

/** Returns the segment of a label A:B; null if it names none, or the point is neither of the two. */
export function endsOfLabel(label: string, point: string): { from: string; to: string } | null {
  const [from, to, ...more] = label.split(":");
  if (!from || !to || more.length > 0 || (point !== from && point !== to)) return null;
  return { from, to };
}

export function partitionOf(point: string, partitions: number): number {
  return hashOf(point) % partitions;
}

/** FNV-1a of the name's UTF-8, folded: the same in every program that publishes. */
const hashOf = remembered(MAX_REMEMBERED, (point) => {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(point)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b) >>> 0;
  return (hash ^ (hash >>> 13)) >>> 0;
});

/** The partition that a tap publishes to. */
export function homeOf(point: string, label: string, partitions: number): number {
  return partitionOf(endsOfLabel(label, point)?.to ?? point, partitions);
}

export function subjectOf(partition: number, point: string, label: string): string {
  return `${SUBJECT_ROOT}.${partition}.${nameToken(point)}.${nameToken(label)}`;
}

export function partitionFilter(partition: number): string {
  return `${SUBJECT_ROOT}.${partition}.>`;
}

export interface SubjectParts {
  partition: number;
  point: string;
  label: string;
}

/** Null if it is not a subject of records. */
export const parseSubject = remembered(MAX_REMEMBERED, (subject): SubjectParts | null => {
  const [root, records, partition = "", point = "", label = "", ...more] = subject.split(".");
  if (`${root}.${records}` !== SUBJECT_ROOT || more.length > 0) return null;
  if (!/^\d{1,5}$/.test(partition) || point === "" || label === "") return null;
  try {
    return { partition: Number(partition), point: tokenName(point), label: tokenName(label) };
  } catch {
    return null;
  }
});

/** Names may contain anything, including dots. */
function nameToken(name: string): string {
  if (name === "") return "-";
  if (name === "-") return "%2D";
  return encodeURIComponent(name).replace(/[.*]/g, (c) => (c === "." ? "%2E" : "%2A"));
}

function tokenName(token: string): string {
  return token === "-" ? "" : decodeURIComponent(token);
}
