/**
 * Selects one set of epochs from records that may overlap. A directory may contain the same packets twice: cut by two lengths, by time and by packets, with two
 * seeds. Using both would count packets twice.
 *
 * Records of one tap are split into tracks that do not overlap in time; tracks of equal settings are paired with each other; of overlapping pairs, those of the
 * track with the most packets count. Pairs of other settings that cover other time are used as well: every epoch is independent, so combining over epochs does
 * not require equal settings. Unused records are returned, to be reported.
 */
import type { RecordIdentity } from "../epoch/identity.ts";
import {
  explicitFirst,
  type Pairable,
  type Pairing,
  pairRecords,
  type RecordPair,
  receiverOnly,
} from "./pair.ts";

export type Tracked = Pairable & Pick<RecordIdentity, "fingerprint" | "seed"> & { readonly packets: number };

export interface ChosenPairs<T extends Tracked> extends Pairing<T> {
  /** Pairs of another cut or other settings that cover time already answered. */
  overlapping: RecordPair<T>[];
}

export interface Span {
  startNs: bigint;
  endNs: bigint;
}

/** Maximum number of simultaneous cuts of one tap that are kept separate; records of further ones are set aside. */
const MAX_TRACKS = 8;

/** Returns pairs that overlap neither each other nor `answered`, in time order. `ends`: both, or the receiver alone knows the delays. */
export function choosePairs<T extends Tracked>(
  senders: readonly T[],
  receivers: readonly T[],
  ends: "both" | "receiver",
  answered: readonly Span[] = [],
): ChosenPairs<T> {
  const { sets, unpaired } = ends === "both" ? pairBoth(senders, receivers) : pairReceivers(receivers);
  const ranked = sets
    .map((pairs) => ({ pairs, packets: pairs.reduce((n, p) => n + packetsOf(p), 0) }))
    .sort((a, b) => b.packets - a.packets || b.pairs.length - a.pairs.length);
  const taken = [...answered].sort(byStart);
  const out: ChosenPairs<T> = { pairs: [], unpaired: [], overlapping: [] };
  for (const { pairs } of ranked) {
    const fresh: Span[] = [];
    for (const pair of pairs) {
      const span = spanOf(pair);
      const free = !overlaps(taken, span);
      (free ? out.pairs : out.overlapping).push(pair);
      if (free) fresh.push(span);
    }
    taken.push(...fresh);
    taken.sort(byStart);
  }
  out.pairs.sort((a, b) => byStart(spanOf(a), spanOf(b)));
  // A record of a cut that only one end has is not missing if the time is answered by another cut.
  const used = { sender: spansOf(out.pairs, "senders"), receiver: spansOf(out.pairs, "receivers") };
  for (const one of unpaired) {
    const own = one.missing === "receiver" ? "sender" : "receiver";
    if (overlaps(used[own], one.entry.epoch))
      out.overlapping.push(
        own === "sender" ? { senders: [one.entry], receivers: [] } : { senders: [], receivers: [one.entry] },
      );
    else out.unpaired.push(one);
  }
  // The remaining unused records: a tap of no role next to one of the exact role, or more simultaneous settings than are kept separate.
  const listed = new Set([...out.pairs, ...out.overlapping].flatMap((p) => [...p.senders, ...p.receivers]));
  for (const { entry } of out.unpaired) listed.add(entry);
  for (const record of receivers)
    if (!listed.has(record)) out.overlapping.push({ senders: [], receivers: [record] });
  if (ends === "both")
    for (const record of senders)
      if (!listed.has(record)) out.overlapping.push({ senders: [record], receivers: [] });
  return out;
}

/** The time of a pair: that of the receiver's epochs, if there are any. */
export function spanOf({ senders, receivers }: RecordPair<Pairable>): Span {
  const own = receivers.length > 0 ? receivers : senders;
  const [first, last] = [own[0], own.at(-1)];
  if (!first || !last) throw new Error("a pair without records");
  return { startNs: first.epoch.startNs, endNs: last.epoch.endNs };
}

export interface DelayLimits {
  lowNs: number;
  highNs: number;
}

/**
 * Bounds of the delays of an epoch, by the points' clocks: its packets were sent within [s0, s1] and received within [r0, r1], so every delay is within [r0 -
 * s1, r1 - s0]. Aligned epochs: plus and minus the length, even if one end has no record. Valid for the packets that both ends count in the epoch.
 */
export function limitsOf({ senders, receivers }: RecordPair<Pairable>): DelayLimits | null {
  const aligned = [...senders, ...receivers].every((r) => r.epoch.mode === "aligned");
  const [from, to] = [
    senders.length > 0 ? senders : aligned ? receivers : [],
    receivers.length > 0 ? receivers : aligned ? senders : [],
  ];
  const [s0, s1, r0, r1] = [from[0], from.at(-1), to[0], to.at(-1)];
  if (!s0 || !s1 || !r0 || !r1) return null;
  return {
    lowNs: Number(r0.epoch.startNs - s1.epoch.endNs),
    highNs: Number(r1.epoch.endNs - s0.epoch.startNs),
  };
}

/** The same if the ends' own bounds are unreliable (a void epoch has lost one): everything happened in the time that the two cover together. */
export function looseLimits({ senders, receivers }: RecordPair<Pairable>): DelayLimits | null {
  const [first, ...rest] = [...senders, ...receivers].map((r) => r.epoch);
  if (!first) return null;
  let { startNs, endNs } = first;
  for (const epoch of rest) {
    if (epoch.startNs < startNs) startNs = epoch.startNs;
    if (epoch.endNs > endNs) endNs = epoch.endNs;
  }
  const lengthNs = Number(endNs - startNs);
  return { lowNs: -lengthNs, highNs: lengthNs };
}

export function packetsOf({ senders, receivers }: RecordPair<Tracked>): number {
  return (receivers.length > 0 ? receivers : senders).reduce((n, r) => n + r.packets, 0);
}

interface Sets<T extends Tracked> {
  sets: RecordPair<T>[][];
  unpaired: Pairing<T>["unpaired"];
}

function pairReceivers<T extends Tracked>(receivers: readonly T[]): Sets<T> {
  const tracks = [...tracksOf(receivers, "receiver").values()].flat();
  return { sets: tracks.map((track) => receiverOnly(track).pairs), unpaired: [] };
}

function pairBoth<T extends Tracked>(senders: readonly T[], receivers: readonly T[]): Sets<T> {
  const from = tracksOf(senders, "sender");
  const to = tracksOf(receivers, "receiver");
  const sets: RecordPair<T>[][] = [];
  const alone: { senders: T[]; receivers: T[] } = { senders: [], receivers: [] };
  for (const settings of new Set([...from.keys(), ...to.keys()])) {
    for (const pairing of matchTracks(from.get(settings) ?? [], to.get(settings) ?? [])) {
      sets.push(pairing.pairs);
      for (const { entry, missing } of pairing.unpaired)
        (missing === "receiver" ? alone.senders : alone.receivers).push(entry);
    }
  }
  // Ends with different settings: when read together they are refused, with the difference as reason.
  const misfits = pairRecords(alone.senders.sort(byEpoch), alone.receivers.sort(byEpoch));
  if (misfits.pairs.length > 0) sets.push(misfits.pairs);
  return { sets, unpaired: misfits.unpaired };
}

/** Pairs the tracks of either end with the best matching partner; the rest has none. */
function matchTracks<T extends Tracked>(from: T[][], to: T[][]): Pairing<T>[] {
  const tried = from.flatMap((senders, i) =>
    to.map((receivers, j) => ({ i, j, pairing: pairRecords(senders, receivers) })),
  );
  tried.sort((a, b) => b.pairing.pairs.length - a.pairing.pairs.length);
  const out: Pairing<T>[] = [];
  const done = { from: new Set<number>(), to: new Set<number>() };
  for (const { i, j, pairing } of tried) {
    if (done.from.has(i) || done.to.has(j)) continue;
    done.from.add(i);
    done.to.add(j);
    out.push(pairing);
  }
  for (const [i, senders] of from.entries()) if (!done.from.has(i)) out.push(pairRecords(senders, []));
  for (const [j, receivers] of to.entries()) if (!done.to.has(j)) out.push(pairRecords([], receivers));
  return out;
}

/** Groups consecutive records by mode and settings, of those that may be this end. */
function tracksOf<T extends Tracked>(records: readonly T[], end: "sender" | "receiver"): Map<string, T[][]> {
  const bySettings = new Map<string, T[]>();
  for (const record of records) {
    if (record.role !== "none" && record.role !== end) continue;
    const settings = `${record.epoch.mode}/${record.fingerprint}/${record.seed}`;
    const own = bySettings.get(settings);
    if (own) own.push(record);
    else bySettings.set(settings, [record]);
  }
  return new Map([...bySettings].map(([name, own]) => [name, splitTracks(explicitFirst(own, end))]));
}

function splitTracks<T extends Tracked>(records: T[]): T[][] {
  const tracks: T[][] = [];
  for (const record of records.sort(byEpoch)) {
    const track = bestTrack(tracks, record) ?? (tracks.length < MAX_TRACKS ? null : tracks.at(-1));
    if (track) track.push(record);
    else tracks.push([record]);
  }
  return tracks;
}

/** Returns the track that the record continues: adjacent to its last one, and of the same length. */
function bestTrack<T extends Tracked>(tracks: readonly T[][], { epoch }: T): T[] | null {
  let best: T[] | null = null;
  let most = -1;
  for (const track of tracks) {
    const last = track.at(-1)?.epoch;
    if (!last || last.endNs > epoch.startNs) continue;
    const follows = last.endNs === epoch.startNs && last.endId === epoch.startId;
    const alike = last.endNs - last.startNs === epoch.endNs - epoch.startNs;
    const score = (follows ? 2 : 0) + (alike ? 1 : 0);
    if (score > most) {
      most = score;
      best = track;
    }
  }
  return best;
}

function spansOf(pairs: readonly RecordPair<Pairable>[], end: "senders" | "receivers"): Span[] {
  return pairs.flatMap((p) => p[end].map((r) => r.epoch)).sort(byStart);
}

/** `spans` must be sorted by start, and not overlap each other. */
function overlaps(spans: readonly Span[], { startNs, endNs }: Span): boolean {
  let low = 0;
  for (let high = spans.length; low < high; ) {
    const middle = (low + high) >>> 1;
    if ((spans[middle]?.endNs ?? 0n) <= startNs) low = middle + 1;
    else high = middle;
  }
  const at = spans[low];
  return at !== undefined && at.startNs < endNs;
}

function byEpoch(a: Pairable, b: Pairable): number {
  return (
    byStart(a.epoch, b.epoch) || (a.epoch.endNs < b.epoch.endNs ? -1 : a.epoch.endNs > b.epoch.endNs ? 1 : 0)
  );
}

function byStart(a: Span, b: Span): number {
  return a.startNs < b.startNs ? -1 : a.startNs > b.startNs ? 1 : 0;
}
