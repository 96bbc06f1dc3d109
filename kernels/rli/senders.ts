// Decides whose references are trusted: anybody can send a packet to the references' port with any address and session in it. A real sender's packets are
// consistent: source and session stay the same, later numbers have later times, and no delay is below the recent minimum by more than the clocks' error
// (nothing arrives before it could). Consistent packets form a line of references; a forged packet that does not fit begins another line. The line with most
// recent packets leads, and only its packets are used. So a few forged packets change nothing, and a sender that was really restarted with its clock set back,
// or replaced, leads as soon as it has sent more than the old one.
//
// Without a key (RFC 8762, authenticated mode: hmac.ts) an attacker who sees the references can forge packets that fit. The delays they can claim are then
// bounded by the line's own order of times.

import { avalanche, mixWord } from "../decode/digest";

/** Number of lines tracked at once. */
const LINES: u32 = 6;
/** Maximum number of votes (recent packets) of a line. */
const MOST_VOTES: u32 = 32;
/** Extra votes that a line with negative delays needs against one without: synchronised clocks give none. */
const NEGATIVE_VOTES: i32 = 3;
/** A line that has been silent for this many of its gaps loses a vote with each packet of another line. */
const SILENT_GAPS: f64 = 10;
/** ns: clock error allowed in addition to what the sender states. */
const CLOCK_SLACK: f64 = 100000;
/** ns: the minimum delay is taken over the last one to two such periods. */
const FLOOR_TIME: f64 = 10e9;
/** A sender whose numbers jump further than this was restarted: lost packets are unknown then. */
const FAR: u32 = 1 << 20;

/** ns: a packet delayed by more than this is not reordered; the clock was set back. */
const MOST_LATE: i64 = 1000000000;

/** Outcome of a packet. */
export const USED: u32 = 0;
export const DUPLICATE: u32 = 1;
export const OVERTAKEN: u32 = 2;
export const NOT_BELIEVED: u32 = 3;

@unmanaged
class Sender {
  key: u64; //         of source and session
  votes: u32; //       0: the place is free
  sequence: u32; //    of the last packet, when it was sent, and when it came
  sent: i64;
  last: f64;
  gap: f64; //         usual time between packets
  floor: f64; //       smallest delay since `turn`, and in the time before
  floorBefore: f64;
  turn: f64;
}

/** The leading line; LINES senders follow in memory. */
@unmanaged
export class Senders {
  lead: i32; //        -1: none
  restarts: u32; //    the lead's sender began anew, or another took it
  lost: u32; //        packets of the lead that were numbered and not seen
  turned: u32; //      another has taken the lead: what was known of delays was the former one's
}

const HEAD: u32 = offsetof<Senders>();

export function sendersNew(): Senders {
  const p = heap.alloc(HEAD + LINES * offsetof<Sender>());
  sendersForget(changetype<Senders>(p));
  changetype<Senders>(p).restarts = 0;
  changetype<Senders>(p).lost = 0;
  return changetype<Senders>(p);
}

/** Resets the state: the stream does not continue from where it was. */
export function sendersForget(s: Senders): void {
  s.lead = -1;
  s.turned = 0;
  memory.fill(changetype<usize>(s) + HEAD, 0, LINES * offsetof<Sender>());
}

// @ts-ignore: decorator
@inline
function senderAt(s: Senders, i: u32): Sender {
  return changetype<Sender>(changetype<usize>(s) + HEAD + i * offsetof<Sender>());
}

/** Returns a key for the source address of an IP header. */
export function sourceKey(header: usize): u64 {
  if (load<u8>(header) >> 4 == 6) return avalanche(mixWord(load<u64>(header, 8), load<u64>(header, 16)));
  return avalanche(<u64>load<u32>(header, 12) | (<u64>4 << 32));
}

export function senderKey(source: u64, session: u32): u64 {
  return avalanche(mixWord(source, <u64>session | (<u64>1 << 32)));
}

// @ts-ignore: decorator
@inline
function floorOf(s: Sender): f64 {
  return min<f64>(s.floor, s.floorBefore);
}

/** Returns whether a packet is consistent with the line. */
function fits(s: Sender, sequence: u32, sent: i64, delay: f64, error: f64): bool {
  if (sent < s.sent && (<i32>(sequence - s.sequence) > 0 || s.sent - sent > MOST_LATE)) return false;
  const slack = error + CLOCK_SLACK;
  return delay >= -slack || delay >= floorOf(s) - slack;
}

function goOn(s: Sender, sequence: u32, sent: i64, time: f64, delay: f64): void {
  if (s.votes > 0) s.gap = s.gap == 0 ? time - s.last : s.gap + 0.125 * (time - s.last - s.gap);
  if (s.votes < MOST_VOTES) s.votes++;
  s.sequence = sequence;
  s.sent = sent;
  s.last = time;
  if (time >= s.turn) {
    s.floorBefore = s.floor;
    s.floor = Infinity;
    s.turn = time + FLOOR_TIME;
  }
  s.floor = min<f64>(s.floor, delay);
}

function begin(s: Sender, key: u64, sequence: u32, sent: i64, time: f64, delay: f64): void {
  memory.fill(changetype<usize>(s), 0, offsetof<Sender>());
  s.key = key;
  s.floor = Infinity;
  s.floorBefore = Infinity;
  s.turn = -Infinity;
  goOn(s, sequence, sent, time, delay);
}

/** Returns the weight of a line when compared with another. */
function weightOf(s: Sender, error: f64): i32 {
  return <i32>s.votes - (floorOf(s) < -(error + CLOCK_SLACK) ? NEGATIVE_VOTES : 0);
}

/**
 * Returns whether a line that has just sent takes the lead. Without a leader the first line leads, because nothing contradicts it yet: a sender whose clock is
 * ahead is not a forger.
 */
function takesLead(all: Senders, i: u32, time: f64, error: f64): bool {
  const s = senderAt(all, i);
  if (all.lead < 0) return true;
  const lead = senderAt(all, <u32>all.lead);
  if (time - lead.last > SILENT_GAPS * max<f64>(lead.gap, s.gap) && lead.votes > 0) lead.votes--;
  return weightOf(s, error) > weightOf(lead, error);
}

/** Handles a packet of the leading line: whether it is used, and what its number shows. */
function ofLead(all: Senders, s: Sender, sequence: u32, sent: i64, time: f64, delay: f64): u32 {
  const step = <i32>(sequence - s.sequence);
  if (step <= 0 && sent <= s.sent) {
    if (step == 0 && sent == s.sent) return DUPLICATE;
    // It was counted as lost when a later packet came.
    if (all.lost > 0) all.lost--;
    return OVERTAKEN;
  }
  if (step <= 0 || <u32>step > FAR) all.restarts++;
  else all.lost += <u32>step - 1;
  goOn(s, sequence, sent, time, delay);
  return USED;
}

/** Returns the outcome of a packet with a number and times. */
export function senderOf(all: Senders, key: u64, sequence: u32, sent: i64, time: f64, delay: f64, error: f64): u32 {
  if (all.lead >= 0) {
    const lead = senderAt(all, <u32>all.lead);
    if (lead.key == key && fits(lead, sequence, sent, delay, error)) return ofLead(all, lead, sequence, sent, time, delay);
  }
  let place: u32 = LINES;
  let fewest: u32 = 0;
  let votes: u32 = 0xffffffff;
  for (let i: u32 = 0; i < LINES; i++) {
    if (<i32>i == all.lead) continue;
    const s = senderAt(all, i);
    if (s.votes > 0 && s.key == key && fits(s, sequence, sent, delay, error)) {
      place = i;
      break;
    }
    if (s.votes < votes) {
      votes = s.votes;
      fewest = i;
    }
  }
  if (place == LINES) {
    place = fewest;
    begin(senderAt(all, place), key, sequence, sent, time, delay);
  } else {
    const s = senderAt(all, place);
    if (<i32>(sequence - s.sequence) <= 0 && sent <= s.sent) return NOT_BELIEVED;
    goOn(s, sequence, sent, time, delay);
  }
  const first = all.lead < 0;
  if (!takesLead(all, place, time, error)) return NOT_BELIEVED;
  all.lead = <i32>place;
  if (!first) {
    all.restarts++;
    all.turned = 1;
  }
  return USED;
}

export function sendersFree(s: Senders): void {
  heap.free(changetype<usize>(s));
}
