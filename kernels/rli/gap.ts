// Estimates the delays of the packets in a gap between two references, for RLI's tap and for the delay column: the line (references.ts), its error (misses.ts),
// and the additional information in packets without a pause between them (backlog.ts). If all packets of the queue are seen, a packet is
//
//   in a run of packets that includes an earlier reference: on the line if the next reference belongs to it too, otherwise it waited as long as that reference;
//   in a run that began behind the left reference: it waited for the share of its backlog that references with a backlog of that octave did, scaled
//   as the next reference's share was if that belongs to the run; behind a pause the wait is 0.
//
// If other packets are in the queue, the line is used, and the part of the backlogs that it misses is added with their share.

import { Backlog, backlogFree, backlogForget, backlogNew, backlogStep, backlogTo, biasIn, errorIn, octaveOf, ratioIn } from "./backlog";
import { Line, lineFloor, lineForget, lineInit, lineLeft, lineStep, lineTo, onLine } from "./references";
import { Misses, missesForget, missesLeft, missesLevel, missesNew, missesStep, missesTo } from "./misses";

/** Modes of placing a packet on the line (src/estimators/rli/tap.ts). */
const LINE_ARRIVAL: u32 = 1;
export const LINE_BACKLOG: u32 = 2;
/** Part of the error of the waited share that is common to all packets of a flow, in all gaps: a sender's bursts arrive at one rate. */
const ALIKE: f64 = 0.35;

/** Variance of a packet's place in a busy gap, in squared transmission times. */
const PLACE: f64 = 0.25;
/** Part of that, in transmission times, that is common to all packets of a flow, which come at the same place of a burst each time. */
const PLACE_ALIKE: f64 = 0.3;

/**
 * References of a busy host come in clusters, and neighbours in a cluster predict each other well, whatever happens between clusters. So a gap is judged by
 * what is certain if it is LONG_GAP times as long as the usual distance of references from the nearer neighbour and LONGER_GAP times as long as the previous
 * gap, with as many times the packets. Its packets were sent between its references, because no packet overtakes another, so their delays are off by less than
 * the time between; with a uniform position, by the root of a sixth of it. (One reference per fixed number of packets also makes long gaps, but with the usual
 * number of packets; an adaptive rate makes them longer step by step.)
 */
const LONG_GAP: f64 = 4;
const LONGER_GAP: f64 = 8;
const ANYWHERE: f64 = 1.0 / 6;
/** Weight of the newest distance in the running average. */
const NEAR_WEIGHT: f64 = 0.03125;

const LEVEL_WEIGHT: f64 = 0.03125;
const LEVEL_SHARED: f64 = 0.5;
const LEVEL_SEEN: f64 = 0.25;

@unmanaged
export class Gap {
  line: Line;
  missed: Misses;
  queue: Backlog;
  trains: u32; //     1: packets' backlogs count
  seen: u32; //       1: by runs, else by their share
  literal: u32;
  nsPerByte: f64;
  nsPerByteShared: f64; // times the share of a transmission that is added
  // The line.
  time: f64;
  delay: f64;
  slope: f64;
  // The backlog implied by the line, from the left reference's arrival on, and the share of the missed backlog that is added.
  began: f64;
  backlog: f64;
  growth: f64;
  share: f64;
  doubt: f64;
  // Runs.
  leftDelay: f64;
  since: f64; //      when the run of the right reference began
  ratio: f64; //      how much of its backlog that waited for, over how much is usual
  // Errors.
  drag: f64; //       a reference's transmission: whoever is next behind it waits for it too, which the line does not show
  minimum: f64; //      of that, per packet
  miss: f64; //       of the line
  missSquared: f64;
  place: f64; //      alike in a flow's packets of busy gaps
  off: f64; //        of the packet asked for last; and what of its error is alike in all
  alike: f64;
  // The gap, from sending time to sending time, and its packets; the same of the previous gap, and the running average of references' distances from the nearer
  // neighbour.
  gaps: u32; //       how many there were: one at least, two at least
  packets: u32;
  apart: f64;
  apartBefore: f64;
  packetsBefore: f64;
  near: f64;
  nearPackets: f64;
}

export function gapNew(nsPerByte: f64, mode: u32, level: u32): Gap {
  const g = changetype<Gap>(heap.alloc(offsetof<Gap>()));
  memory.fill(changetype<usize>(g), 0, offsetof<Gap>());
  g.line = changetype<Line>(heap.alloc(offsetof<Line>()));
  memory.fill(changetype<usize>(g.line), 0, offsetof<Line>());
  g.nsPerByte = nsPerByte;
  // Without a drain rate pauses cannot be detected.
  g.trains = mode == LINE_BACKLOG && level == 0 && nsPerByte > 0 ? 1 : 0;
  g.missed = missesNew();
  g.queue = backlogNew();
  lineInit(g.line, nsPerByte, mode == LINE_ARRIVAL ? 1 : 0, level);
  return g;
}

export function gapFree(g: Gap): void {
  heap.free(changetype<usize>(g.line));
  heap.free(changetype<usize>(g.missed));
  backlogFree(g.queue);
  heap.free(changetype<usize>(g));
}

/** Resets the state: the stream does not continue from where it was. */
export function gapForget(g: Gap): void {
  lineForget(g.line);
  missesForget(g.missed);
  backlogForget(g.queue);
  g.gaps = 0;
}

function set(g: Gap, miss: f64, wire: u32, n: u32, backlog: f64, growth: f64): void {
  const line = g.line;
  const queue = g.queue;
  g.drag = <f64>wire * g.nsPerByte;
  const minimum = (g.drag * g.drag) / <f64>max<u32>(n, 1);
  g.minimum = Math.sqrt(minimum);
  g.missSquared = miss + minimum;
  g.miss = Math.sqrt(g.missSquared);
  g.time = line.time;
  g.delay = line.delay;
  g.slope = line.slope;
  g.literal = line.literal != 0 || line.slope == 0 ? 1 : 0;
  g.nsPerByteShared = line.share * g.nsPerByte;
  g.seen = g.trains != 0 && queue.seen != 0 && line.share == 1 ? 1 : 0;
  // If the link was busy for the whole gap, there are no pauses.
  const shared = g.trains != 0 && g.seen == 0 && line.share == 1;
  g.share = shared ? queue.share : 0;
  g.doubt = shared ? Math.sqrt(queue.doubt) : 0;
  g.began = line.have != 0 ? line.arrival : -Infinity;
  g.backlog = backlog;
  // Before the first reference there is no time from which the backlog could have grown.
  g.growth = growth;
  g.leftDelay = line.have != 0 ? line.whole - <f64>line.wire * g.nsPerByte : line.delay;
}

/** Handles the arrival of a reference behind `n` packets, for the gap that it ends. `gapStep` makes it the left one. */
export function gapTo(g: Gap, arrival: f64, whole: f64, wire: u32, error: f64, backlog: f64, n: u32): void {
  const line = g.line;
  const queue = g.queue;
  const own = <f64>wire * g.nsPerByte;
  const time = arrival - own;
  const delay = whole - own;
  lineTo(line, arrival, whole, wire, error);
  backlogTo(queue, backlog, delay, lineFloor(line) - own);
  const shared = g.trains != 0 && queue.seen == 0;
  // Queues of other traffic that are gone before a reference comes show up in few misses, so the average miss counts in every gap.
  if (g.trains != 0) missesLevel(g.missed, LEVEL_WEIGHT, shared ? LEVEL_SHARED : LEVEL_SEEN);
  let miss = missesTo(g.missed, time, delay, backlog, shared ? queue.share : 0, line.level);
  const between = arrival - line.arrival;
  // On a busy link a packet's place gives its sending time to about one transmission, however close the references are.
  const transmission: f64 = line.share < 1 ? between / <f64>(n + 1) : 0;
  miss += PLACE * transmission * transmission;
  g.place = PLACE_ALIKE * transmission;
  const first = line.have == 0;
  g.apart = first ? 0 : max<f64>(0, arrival - whole - (line.arrival - line.whole));
  g.packets = n;
  const long = g.apart - LONG_GAP * g.near;
  if (g.gaps > 1 && long > 0 && isLong(g)) miss = max<f64>(miss, ANYWHERE * long * long);
  set(g, miss, first ? wire : line.wire, n, first ? backlog : queue.left, first || !(between > 0) ? 0 : (backlog - queue.left) / between);
  g.since = backlog > 0 ? time - backlog - 1 : Infinity;
  g.ratio = backlog > 0 ? min<f64>(1, max<f64>(0, (delay - queue.base) / backlog)) / ratioIn(octaveOf(queue, backlog)) : 0;
}

/** Compares the gap with the previous one, and its packets with the usual number. */
function isLong(g: Gap): bool {
  const packets = <f64>g.packets;
  return packets > LONG_GAP * g.nearPackets && packets > LONGER_GAP * g.packetsBefore && g.apart > LONGER_GAP * g.apartBefore;
}

/** Updates the usual distance: the current reference lies between two gaps; take its distance from the nearer neighbour. */
function learnNear(g: Gap): void {
  const packets = <f64>g.packets;
  if (g.gaps > 0) {
    const weight = g.gaps == 1 ? 1 : NEAR_WEIGHT;
    g.near += weight * (min<f64>(g.apart, g.apartBefore) - g.near);
    g.nearPackets += weight * (min<f64>(packets, g.packetsBefore) - g.nearPackets);
  }
  g.apartBefore = g.apart;
  g.packetsBefore = packets;
  g.gaps = min<u32>(2, g.gaps + 1);
}

export function gapStep(g: Gap, arrival: f64, whole: f64, wire: u32, error: f64, backlog: f64): void {
  const own = <f64>wire * g.nsPerByte;
  if (g.line.have != 0) learnNear(g);
  lineStep(g.line, arrival, whole, wire, error);
  missesStep(g.missed, arrival - own, whole - own, backlog);
  backlogStep(g.queue, backlog, whole - own);
}

/** No reference came behind `n` packets, the last of which arrived at `last`. */
export function gapLeft(g: Gap, last: f64, n: u32): void {
  const miss = missesLeft(g.missed, last);
  lineLeft(g.line);
  g.place = 0;
  set(g, miss, g.line.wire, n, g.queue.left, 0);
  g.since = Infinity;
}

/** Returns the delay of a packet in the gap, in whole ns; writes its error to `off` and `alike`. */
// @ts-ignore: decorator
@inline
export function gapDelay(g: Gap, at: f64, bytes: u32, backlog: f64): f64 {
  const own = <f64>bytes * g.nsPerByteShared;
  if (g.seen != 0) {
    const since = at - own - backlog;
    if (since > g.began) {
      const octave = octaveOf(g.queue, backlog);
      const usual = ratioIn(octave);
      const ratio = since >= g.since ? min<f64>(1, g.ratio * usual) : usual;
      const rough = errorIn(octave) * backlog;
      g.off = g.minimum + rough;
      g.alike = biasIn(octave) * backlog + ALIKE * rough;
      return nearest<f64>(g.queue.base + own + ratio * backlog);
    }
    if (g.since > g.began) {
      g.off = g.miss;
      g.alike = 0;
      return nearest<f64>(g.leftDelay + own);
    }
  }
  const lineDelay = onLine(at, own, g.literal != 0, g.time, g.delay, g.slope);
  g.off = g.miss;
  if (g.share == 0) {
    g.alike = 0;
    return lineDelay;
  }
  const behind = backlog - g.backlog - (g.growth == 0 ? 0 : g.growth * (at - g.began));
  g.alike = g.doubt * behind;
  return nearest<f64>(lineDelay + g.share * behind);
}
