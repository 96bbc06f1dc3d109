/**
 * Pairs the records of two points: those of one epoch at the two ends of a segment.
 *
 * aligned:   equal cuts. If one end cut an epoch short (its sketch was full) and the other did not, its parts are to be merged.
 * control:   equal sequence numbers; void ones are paired, too, so that the reason is reported.
 * delimited: between two delimiters that both ends saw. If an end lost one, it has one epoch where the other has several: those are to be merged, so nothing
 *            is lost. Delimiters that overtook each other are left out (the longest common order counts).
 *
 * Only identities are used; records are read when their pair is estimated.
 */
import { formatTime } from "../base/time.ts";
import type { RecordIdentity } from "../epoch/identity.ts";

/** The fields used for pairing. */
export type Pairable = Pick<RecordIdentity, "role" | "epoch">;

/** Records of one epoch; several at an end are adjacent ones to be merged. */
export interface RecordPair<T extends Pairable> {
  senders: T[];
  receivers: T[];
}

/** A record without its partner. */
export interface Unpaired<T extends Pairable> {
  entry: T;
  /** The end that has no record for this epoch. */
  missing: "sender" | "receiver";
  reason: string;
}

export interface Pairing<T extends Pairable> {
  pairs: RecordPair<T>[];
  unpaired: Unpaired<T>[];
}

/** Takes records of one estimator and segment that may be the sender's and the receiver's, in time order. */
export function pairRecords<T extends Pairable>(senders: readonly T[], receivers: readonly T[]): Pairing<T> {
  const out: Pairing<T> = { pairs: [], unpaired: [] };
  const from = explicitFirst(
    senders.filter((e) => e.role !== "receiver"),
    "sender",
  );
  const to = explicitFirst(
    receivers.filter((e) => e.role !== "sender"),
    "receiver",
  );
  for (const mode of ["aligned", "control", "delimited"] as const) {
    const of = (list: T[]) => list.filter((e) => e.epoch.mode === mode);
    if (mode === "delimited") pairDelimited(of(from), of(to), out);
    else if (mode === "aligned") pairAligned(of(from), of(to), out);
    else pairEqual(of(from), of(to), out);
  }
  out.pairs.sort((a, b) => compare(a.receivers[0], b.receivers[0]));
  out.unpaired.sort((a, b) => compare(a.entry, b.entry));
  return out;
}

/** Estimators that know delays at the receiver keep nothing at the sender: every record is a pair. */
export function receiverOnly<T extends Pairable>(receivers: readonly T[]): Pairing<T> {
  const own = receivers.filter((e) => e.role !== "sender").sort(compare);
  return { pairs: own.map((entry) => ({ senders: [], receivers: [entry] })), unpaired: [] };
}

/** If there are taps of the exact role and of no role, uses the former. */
export function explicitFirst<T extends Pairable>(entries: T[], role: Pairable["role"]): T[] {
  const chosen = new Map<string, T>();
  for (const entry of entries) {
    const { mode, startNs, endNs, startId } = entry.epoch;
    const name = `${mode}:${startNs}:${endNs}:${startId}`;
    if (!chosen.has(name) || entry.role === role) chosen.set(name, entry);
  }
  return [...chosen.values()].sort(compare);
}

/** Records in time order; runs of adjacent records that cover the same time at both ends belong together. */
function pairAligned<T extends Pairable>(senders: T[], receivers: T[], out: Pairing<T>): void {
  const aloneSenders: T[] = [];
  const aloneReceivers: T[] = [];
  let i = 0;
  let j = 0;
  while (i < senders.length || j < receivers.length) {
    const [sender, receiver] = [senders[i], receivers[j]];
    const order = compare(sender, receiver);
    if (sender && order < 0) {
      aloneSenders.push(sender);
      i++;
    } else if (receiver && order > 0) {
      aloneReceivers.push(receiver);
      j++;
    } else {
      const [a, b] = commonRun(senders, i, receivers, j);
      if (a === 0) {
        aloneSenders.push(...senders.slice(i, ++i));
        aloneReceivers.push(...receivers.slice(j, ++j));
        continue;
      }
      out.pairs.push({ senders: senders.slice(i, i + a), receivers: receivers.slice(j, j + b) });
      i += a;
      j += b;
    }
  }
  for (const entry of aloneSenders) {
    out.unpaired.push({ entry, missing: "receiver", reason: whyAlone(entry, aloneReceivers) });
  }
  for (const entry of aloneReceivers) {
    out.unpaired.push({ entry, missing: "sender", reason: whyAlone(entry, aloneSenders) });
  }
}

/** Returns how many records from i and from j on, without a gap, end at the same time; 0 and 0 if none do. */
function commonRun(
  senders: readonly Pairable[],
  i: number,
  receivers: readonly Pairable[],
  j: number,
): [number, number] {
  let [a, b] = [1, 1];
  for (;;) {
    const left = senders[i + a - 1]?.epoch.endNs;
    const right = receivers[j + b - 1]?.epoch.endNs;
    if (left === undefined || right === undefined) return [0, 0];
    if (left === right) return [a, b];
    const [behind, next] = left < right ? [left, senders[i + a]] : [right, receivers[j + b]];
    if (next?.epoch.startNs !== behind) return [0, 0];
    if (left < right) a++;
    else b++;
  }
}

function pairEqual<T extends Pairable>(senders: T[], receivers: T[], out: Pairing<T>): void {
  const name = ({ epoch }: T) => `${epoch.startId}:${epoch.startNs}`;
  const waiting = new Map(receivers.map((e) => [name(e), e]));
  const alone: T[] = [];
  for (const sender of senders) {
    const receiver = waiting.get(name(sender));
    if (receiver) out.pairs.push({ senders: [sender], receivers: [receiver] });
    else alone.push(sender);
    waiting.delete(name(sender));
  }
  // A void epoch may lack its Start, and thereby the time that both ends agree on: match by its number.
  const left = [...waiting.values()];
  for (const sender of alone) {
    const at = left.findIndex((e) => e.epoch.startId === sender.epoch.startId);
    if (at >= 0) out.pairs.push({ senders: [sender], receivers: left.splice(at, 1) });
    else out.unpaired.push({ entry: sender, missing: "receiver", reason: whyAlone(sender, left) });
  }
  for (const receiver of left) {
    out.unpaired.push({ entry: receiver, missing: "sender", reason: whyAlone(receiver, alone) });
  }
}

function whyAlone(entry: Pairable, others: readonly Pairable[]): string {
  const { startNs, endNs } = entry.epoch;
  // In time order: only the first one that ends later can begin earlier.
  let low = 0;
  for (let high = others.length; low < high; ) {
    const middle = (low + high) >>> 1;
    if ((others[middle]?.epoch.endNs ?? 0n) <= startNs) low = middle + 1;
    else high = middle;
  }
  const over = others[low];
  if (!over || over.epoch.startNs >= endNs) return "no record";
  const span = `${formatTime(over.epoch.startNs)} to ${formatTime(over.epoch.endNs)}`;
  return `its epochs are cut elsewhere (${span}): observe both points with the same ‘epoch’`;
}

/** A delimiter as seen by one end: between which of its records, in which unbroken run. */
interface Boundary {
  id: bigint;
  /** Index of the record that begins here. */
  next: number;
  run: number;
}

function pairDelimited<T extends Pairable>(senders: T[], receivers: T[], out: Pairing<T>): void {
  const common = commonBoundaries(boundaries(senders), boundaries(receivers));
  const used = new Set<T>();
  for (let k = 0; k + 1 < common.length; k++) {
    const [a, b] = [common[k], common[k + 1]];
    if (!a || !b) break;
    // A record is missing in between: the rest does not contain the same packets at both ends.
    if (a[0].run !== b[0].run || a[1].run !== b[1].run) continue;
    const pair = {
      senders: senders.slice(a[0].next, b[0].next),
      receivers: receivers.slice(a[1].next, b[1].next),
    };
    if (pair.senders.length === 0 || pair.receivers.length === 0) continue;
    out.pairs.push(pair);
    for (const entry of [...pair.senders, ...pair.receivers]) used.add(entry);
  }
  for (const pair of openEnds(senders, receivers, common)) {
    out.pairs.push(pair);
    for (const entry of [...pair.senders, ...pair.receivers]) used.add(entry);
  }
  const rest = (entries: T[], missing: Unpaired<T>["missing"]) => {
    for (const entry of entries) {
      if (used.has(entry)) continue;
      const open = entry.epoch.startId === 0n || entry.epoch.endId === 0n;
      const reason = open
        ? "observation began or ended within the epoch"
        : "no record between the same delimiters";
      out.unpaired.push({ entry, missing, reason });
    }
  };
  rest(senders, "receiver");
  rest(receivers, "sender");
}

/**
 * Pairs the records before the first common delimiter and after the last: as good as the first and the last aligned epoch, and like them marked as cut by the
 * capture. If an end has several records there, delimiters were lost at the other, and they are merged; but only if both ends were observed during that time,
 * as the common delimiter shows: its times at the two ends differ by the delay, and so do the times at which the captures began or ended, to within the
 * outermost record. If every delimiter was lost, the captures are one epoch if their outermost records overlap.
 */
function openEnds<T extends Pairable>(
  senders: readonly T[],
  receivers: readonly T[],
  common: readonly [Boundary, Boundary][],
): RecordPair<T>[] {
  const [a, b] = [senders[0], receivers[0]];
  const [y, z] = [senders.at(-1), receivers.at(-1)];
  if (!a || !b || !y || !z) return [];
  const begins = a.epoch.startId === 0n && b.epoch.startId === 0n;
  const stops = y.epoch.endId === 0n && z.epoch.endId === 0n;
  const [first, last] = [common[0], common.at(-1)];
  if (!first || !last) {
    const single = senders.length === 1 && receivers.length === 1;
    const same = single || (unbroken(senders) && unbroken(receivers) && overlap(a, b) && overlap(y, z));
    return same && begins && stops ? [{ senders: [...senders], receivers: [...receivers] }] : [];
  }
  const pairs: RecordPair<T>[] = [];
  const before = { senders: senders.slice(0, first[0].next), receivers: receivers.slice(0, first[1].next) };
  if (begins && isOpenPair(before, "before")) pairs.push(before);
  const behind = { senders: senders.slice(last[0].next), receivers: receivers.slice(last[1].next) };
  if (stops && isOpenPair(behind, "behind")) pairs.push(behind);
  return pairs;
}

/** Returns whether the records on one side of a common delimiter, up to the start or end of the captures, cover the same time at both ends. */
function isOpenPair({ senders, receivers }: RecordPair<Pairable>, side: "before" | "behind"): boolean {
  const [own, other] = [ends(senders), ends(receivers)];
  if (!own || !other) return false;
  if (senders.length === 1 && receivers.length === 1) return true;
  if (!unbroken(senders) || !unbroken(receivers)) return false;
  /** Distances from the common delimiter to the near and the far end of the outermost record. */
  const reach = ([from, to]: [Pairable, Pairable]): [bigint, bigint] =>
    side === "behind"
      ? [to.epoch.startNs - from.epoch.startNs, to.epoch.endNs - from.epoch.startNs]
      : [to.epoch.endNs - from.epoch.endNs, to.epoch.endNs - from.epoch.startNs];
  const [a, b] = [reach(own), reach(other)];
  return a[0] < b[1] && b[0] < a[1];
}

/** Returns the first and the last record. */
function ends(records: readonly Pairable[]): [Pairable, Pairable] | null {
  const [first, last] = [records[0], records.at(-1)];
  return first && last ? [first, last] : null;
}

function overlap(a: Pairable, b: Pairable): boolean {
  return a.epoch.startNs < b.epoch.endNs && b.epoch.startNs < a.epoch.endNs;
}

function unbroken(records: readonly Pairable[]): boolean {
  return records.every((r, i) => i === 0 || records[i - 1]?.epoch.endId === r.epoch.startId);
}

function boundaries(entries: readonly Pairable[]): Boundary[] {
  const list: Boundary[] = [];
  let run = 0;
  let before: bigint | null = null;
  for (const [i, { epoch }] of entries.entries()) {
    if (before !== null && before !== epoch.startId) {
      list.push({ id: before, next: i, run });
      run++;
    }
    list.push({ id: epoch.startId, next: i, run });
    before = epoch.endId;
  }
  if (before !== null) list.push({ id: before, next: entries.length, run });
  // 0 marks the start or end of observation, not a packet.
  return list.filter((b) => b.id !== 0n);
}

/** Returns delimiters seen by both, in the longest order that both agree on (patience sorting). */
function commonBoundaries(a: readonly Boundary[], b: readonly Boundary[]): [Boundary, Boundary][] {
  const places = new Map<bigint, number[]>();
  for (const [j, { id }] of b.entries()) {
    const list = places.get(id);
    if (list) list.push(j);
    else places.set(id, [j]);
  }
  const met: { i: number; j: number; before: number }[] = [];
  const tails: number[] = [];
  for (const [i, { id }] of a.entries()) {
    // Later places first: a delimiter is used once.
    for (const j of (places.get(id) ?? []).toReversed()) {
      let low = 0;
      for (let high = tails.length; low < high; ) {
        const middle = (low + high) >>> 1;
        if ((met[tails[middle] ?? -1]?.j ?? -1) < j) low = middle + 1;
        else high = middle;
      }
      met.push({ i, j, before: tails[low - 1] ?? -1 });
      tails[low] = met.length - 1;
    }
  }
  const out: [Boundary, Boundary][] = [];
  for (let last = met[tails.at(-1) ?? -1]; last; last = met[last.before]) {
    const [from, to] = [a[last.i], b[last.j]];
    if (from && to) out.push([from, to]);
  }
  return out.reverse();
}

/** By start; missing ones come last. */
function compare(a: Pairable | undefined, b: Pairable | undefined): number {
  if (!a || !b) return a ? -1 : b ? 1 : 0;
  const [x, y] = [a.epoch.startNs, b.epoch.startNs];
  return x < y ? -1 : x > y ? 1 : 0;
}
