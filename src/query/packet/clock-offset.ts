/**
 * Estimates how far the capture's clock is from the clock of the point whose records are asked. A record shows only whether it holds a packet, so
 * each hit bounds the offset to an interval as long as the epoch. True hits agree on one offset, chance hits do not: the estimate is where most
 * intervals overlap.
 */
import { later } from "../../base/time.ts";
import type { PacketIdentity } from "../../estimators/estimator.ts";
import type { CapturedPackets } from "./captured.ts";
import type { PacketEpochs } from "./epochs.ts";

export interface ClockOffset {
  /** The point's clock minus the capture's, including the delay between them, lies in this interval. */
  lowNs: bigint;
  highNs: bigint;
  /** Packets tried; how many of them this offset explains, and how many the capture's own times explain. */
  agree: number;
  tried: number;
  asCaptured: number;
}

/** The packets tried are a sample of this many of the capture's first packets. */
export const OFFSET_ROWS = 20_000;
const PACKETS = 96;
/** Most epochs searched, nearest first. */
const MAX_EPOCHS = 400;
/** An offset must explain this many standard deviations more packets than chance, and MORE times as many as no offset. */
const CLEAR = 5;
const MORE = 1.1;

interface Span {
  lowNs: bigint;
  highNs: bigint;
}

/** Returns null if the capture's own times explain as many packets, or if no offset stands out. */
export function findClockOffset(
  packets: CapturedPackets,
  epochs: PacketEpochs,
  identity: PacketIdentity,
  slackNs: bigint,
): ClockOffset | null {
  const rows = spread(Math.min(packets.count, OFFSET_ROWS), PACKETS);
  const times = rows.map((i) => packets.originNs + BigInt(packets.timeNs[i] ?? 0));
  const keys = BigUint64Array.from(rows, (i) => packets.keys[i] ?? 0n);
  const sizes = Uint32Array.from(rows, (i) => packets.wireBytes[i] ?? 0);
  const middle = times[times.length >> 1];
  if (middle === undefined) return null;
  const spans: Span[] = [];
  const asCaptured = new Set<number>();
  let chance = 0;
  for (const index of nearest(epochs, middle)) {
    const epoch = epochs.peek(index);
    if (!epoch?.lookup.has(identity)) continue;
    const { startNs, endNs } = epoch.head.epoch;
    const { lookup } = epoch;
    const { kind } = lookup.lookup(identity, keys, sizes);
    chance = Math.max(chance, lookup.absentAccepted);
    // The same range in which they are asked without an offset; see CapturedLookup.
    const { beforeNs, behindNs } = slackNs > 0n ? epochs.reach(index) : { beforeNs: 0, behindNs: 0 };
    const [earlyNs, lateNs] = [later(slackNs, whole(beforeNs)), later(slackNs, whole(behindNs))];
    for (const [i, timeNs] of times.entries()) {
      if (kind[i] === 0) continue;
      spans.push({ lowNs: startNs - timeNs, highNs: endNs - timeNs });
      if (timeNs + earlyNs >= startNs && timeNs - lateNs < endNs) asCaptured.add(i);
    }
  }
  const found = mostShared(spans);
  const tried = rows.length;
  // Where intervals meet, either of two epochs may hold a packet by chance.
  const expected = 2 * chance * tried;
  if (!found || found.agree < expected + CLEAR * Math.sqrt(expected + 1)) return null;
  if (found.agree <= MORE * asCaptured.size + 1) return null;
  return { lowNs: found.lowNs, highNs: found.highNs, agree: found.agree, tried, asCaptured: asCaptured.size };
}

const whole = (ns: number) => BigInt(Math.ceil(ns));

/** Picks `count` of the first n rows, evenly spaced. */
function spread(n: number, count: number): number[] {
  const every = Math.max(1, Math.ceil(n / count));
  return Array.from({ length: Math.ceil(n / every) }, (_, i) => i * every);
}

function nearest(epochs: PacketEpochs, timeNs: bigint): number[] {
  const distance = (i: number) => {
    const { startNs = 0n, endNs = 0n } = epochs.entries[i]?.epoch ?? {};
    return timeNs < startNs ? startNs - timeNs : timeNs > endNs ? timeNs - endNs : 0n;
  };
  const all = epochs.entries.map((_, i) => ({ i, apart: distance(i) }));
  all.sort((a, b) => (a.apart < b.apart ? -1 : a.apart > b.apart ? 1 : 0));
  return all.slice(0, MAX_EPOCHS).map(({ i }) => i);
}

/** Returns where most spans overlap; on a tie, the place nearest to 0. */
function mostShared(spans: readonly Span[]): (Span & { agree: number }) | null {
  const edges = spans.flatMap(({ lowNs, highNs }) => [
    { at: lowNs, step: 1 },
    { at: highNs, step: -1 },
  ]);
  edges.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : a.step - b.step));
  const size = ({ lowNs, highNs }: Span) => (lowNs > 0n ? lowNs : highNs < 0n ? -highNs : 0n);
  let best: (Span & { agree: number }) | null = null;
  let agree = 0;
  for (const [i, { at, step }] of edges.entries()) {
    agree += step;
    const next = edges[i + 1];
    if (!next || step < 0) continue;
    const here = { lowNs: at, highNs: next.at, agree };
    if (!best || agree > best.agree || (agree === best.agree && size(here) < size(best))) best = here;
  }
  return best;
}
