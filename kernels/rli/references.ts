// Recognises reference packets in a stream: marked by the simulator's flag (their delay is in the batch), or STAMP test packets (src/delays/stamp.ts draws
// them) on a UDP port. Sequence numbers and sending times reveal lost, duplicated and reordered references; senders.ts decides which senders are trusted. A
// packet of ours that must not be used (probes, truncated or forged references) does not count as a regular packet either.

import { Batch, FLAG_PROBE, FLAG_REFERENCE, FLAG_VERIFIED, META_PORTS } from "../decode/batch";
import { DUPLICATE, OVERTAKEN, senderKey, senderOf, Senders, sendersForget, sendersFree, sendersNew, sourceKey, USED } from "./senders";

const FLAG_OWN: u32 = FLAG_REFERENCE | FLAG_PROBE;
/** Result of referenceDelay for a packet that is not ours. */
export const REGULAR: f64 = Infinity;
/** Unit of error estimates, 2^-32 s, in ns. */
const NS_PER_UNIT: f64 = 1e9 / 4294967296.0;
/** Offsets of time, error estimate and session in a STAMP packet, open and authenticated, and the minimum number of bytes. */
const OPEN_TIME: u32 = 4;
const OPEN_BYTES: u32 = 16;
const AUTHENTICATED_TIME: u32 = 16;
const AUTHENTICATED_BYTES: u32 = 28;

@unmanaged
export class References {
  port: u32;
  session: u32;
  anySession: u32;
  authenticated: u32; // 1: only packets whose code was verified (hmac.ts), in the authenticated layout
  source: u64; //     key of the only source that is believed; 0: any
  senders: Senders;
  pad: u32;
  origin: i64; //     ns since 1970 of time 0
  longest: f64; //    a reference delayed more is not believed
  error: f64; //      ns, of the last one's time, as its sender says (RFC 4656: multiplier 2^scale 2^-32 s); 0 where it does not
  seen: u32;
  lost: u32;
  duplicate: u32;
  reordered: u32;
  forged: u32;
  restarts: u32;
}

// @ts-ignore: decorator
@inline
function portOf(header: usize, captured: u32): u32 {
  const v6 = load<u8>(header) >> 4 == 6;
  if (captured < 28 || load<u8>(header + (v6 ? 6 : 9)) != 17) return 0;
  const at: u32 = v6 ? 40 : (<u32>(load<u8>(header) & 15)) << 2;
  if (captured < at + 4) return 0;
  return <u32>bswap<u16>(load<u16>(header + at, 2));
}

/** Returns the delay of the reference in row i, NaN for a packet of ours without a usable delay, or REGULAR for all others. */
// @ts-ignore: decorator
@inline
export function referenceDelay(r: References, batch: Batch, i: u32, time: f64, meta: u64): f64 {
  const flags = load<u32>(batch.flags + (i << 2));
  if ((flags & FLAG_OWN) != 0) {
    if ((flags & FLAG_REFERENCE) == 0) return NaN;
    r.seen++;
    r.error = 0;
    return load<f64>(batch.delay + (i << 3));
  }
  const at = stampAt(batch, i, r.port, meta);
  if (at == 0) return REGULAR;
  return stampDelay(r, load<u32>(batch.header + (i << 2)), at, load<u32>(batch.captured + (i << 2)), time, flags);
}

/** Returns the address of the payload of the UDP packet in row i if it goes to this port, otherwise 0. */
// @ts-ignore: decorator
@inline
export function stampAt(batch: Batch, i: u32, port: u32, meta: u64): u32 {
  const header = load<u32>(batch.header + (i << 2));
  if (header == 0) return 0;
  // A flow key without ports has masked them; then read the ports from the packet.
  if ((meta & META_PORTS) != 0) {
    if ((meta & 0xff0000ffff) != (((<u64>17) << 32) | <u64>port)) return 0;
  } else if (portOf(header, load<u32>(batch.captured + (i << 2))) != port) return 0;
  return (load<u8>(header) >> 4 == 6 ? 40 : (<u32>(load<u8>(header) & 15)) << 2) + 8;
}

function notBelieved(r: References): f64 {
  r.forged++;
  return NaN;
}

function stampDelay(r: References, header: usize, at: u32, captured: u32, time: f64, flags: u32): f64 {
  const authenticated = r.authenticated != 0;
  if (captured < at + (authenticated ? AUTHENTICATED_BYTES : OPEN_BYTES)) return notBelieved(r);
  if (authenticated && (flags & FLAG_VERIFIED) == 0) return notBelieved(r);
  const sequence = bswap<u32>(load<u32>(header + at));
  const p = header + at + (authenticated ? AUTHENTICATED_TIME : OPEN_TIME);
  const seconds = <i64>bswap<u32>(load<u32>(p));
  const fraction = <i64>bswap<u32>(load<u32>(p, 4));
  const quality = bswap<u16>(load<u16>(p, 8));
  const session = <u32>bswap<u16>(load<u16>(p, 10));
  const ptp = (quality & 0x4000) != 0;
  let sent: i64;
  if (ptp) sent = seconds * 1000000000 + fraction;
  else sent = (seconds - 2208988800) * 1000000000 + ((fraction * 1000000000) >> 32);
  const delay = <f64>(r.origin + <i64>time - sent);
  if ((r.anySession == 0 && session != r.session) || !(abs<f64>(delay) <= r.longest) || (ptp && fraction >= 1000000000)) return notBelieved(r);
  const source = sourceKey(header);
  if (r.source != 0 && source != r.source) return notBelieved(r);
  const error = min<f64>(<f64>(quality & 0xff) * 2.0 ** <f64>((quality >> 8) & 0x3f) * NS_PER_UNIT, r.longest);
  const became = senderOf(r.senders, senderKey(source, session), sequence, sent, time, delay, error);
  r.lost = r.senders.lost;
  r.restarts = r.senders.restarts;
  if (became == USED) {
    r.error = error;
    r.seen++;
    return delay;
  }
  if (became == DUPLICATE) r.duplicate++;
  else if (became == OVERTAKEN) r.reordered++;
  else r.forged++;
  return NaN;
}

export function referencesNew(port: u32, session: i32, longest: f64): References {
  const p = heap.alloc(offsetof<References>());
  memory.fill(p, 0, offsetof<References>());
  const r = changetype<References>(p);
  r.port = port;
  r.anySession = session < 0 ? 1 : 0;
  r.session = <u32>session;
  r.longest = longest;
  r.senders = sendersNew();
  return r;
}

/** Restricts the trusted references: to the source of an IP header (0: any source), and to verified ones if `authenticated` is not 0. */
export function referencesTrust(r: References, header: usize, authenticated: u32): void {
  r.source = header == 0 ? 0 : sourceKey(header);
  r.authenticated = authenticated;
}

/** Returns whether the reference found last made another sender the trusted one; reported once. */
export function referencesTurned(r: References): bool {
  const turned = r.senders.turned != 0;
  r.senders.turned = 0;
  return turned;
}

export function referencesForget(r: References): void {
  sendersForget(r.senders);
}

export function referencesClear(r: References): void {
  r.seen = 0;
  r.lost = 0;
  r.duplicate = 0;
  r.reordered = 0;
  r.forged = 0;
  r.restarts = 0;
  r.senders.lost = 0;
  r.senders.restarts = 0;
}

export function referencesFree(r: References): void {
  sendersFree(r.senders);
  heap.free(changetype<usize>(r));
}

/**
 * The line between two consecutive references, for the packets between them (equation 1, applied where it holds).
 *
 * Packets leave one after the other, so a packet's place follows from its arrival and its transmission. On a link without backlog the delay before the
 * transmission is interpolated at the time the transmission began, and the packet's whole transmission is added (share 1). If the link was busy for the whole
 * gap, a packet's departure only shows its order among the others. Then its sending time is interpolated at the middle of its transmission, which is the same
 * line with half the transmission (share 0.5). At the beginning of the transmission, a packet right behind a reference would get the reference's sending time,
 * however much later it was sent. A reference whose delay beyond the recent minimum (`floor`) is longer than the gap behind its predecessor has seen the link
 * busy for the whole gap.
 */
@unmanaged
export class Line {
  literal: u32; //   1: share 1 always, and read at the arrival, as the paper has it
  level: u32; //     1: no slope (RLI-L)
  have: u32; //      a left reference is known
  wire: u32; //      its bytes
  arrival: f64; //   its arrival, delay as measured, and error as its sender says
  whole: f64;
  error: f64;
  floor: f64; //     minimum delay since `turn`, and in the time before: a clock may drift
  floorBefore: f64;
  turn: f64;
  nsPerByte: f64;
  // The gap's line: delay + slope * (place - time), plus `share` of a packet's transmission.
  time: f64;
  delay: f64;
  slope: f64;
  share: f64;
  busy: u32; //      the link was busy for the whole gap
  idle: u32; //      both references found the queue as empty as ever
}

const FLOOR_TIME: f64 = 10e9;

export function lineInit(l: Line, nsPerByte: f64, literal: u32, level: u32): void {
  l.nsPerByte = nsPerByte;
  l.literal = literal;
  l.level = level;
  lineForget(l);
}
export function lineForget(l: Line): void {
  l.have = 0;
  l.floor = Infinity;
  l.floorBefore = Infinity;
  l.turn = -Infinity;
}

/** Sets a horizontal line through one reference. */
function flat(l: Line, arrival: f64, whole: f64, wire: u32, error: f64): void {
  const own = <f64>wire * l.nsPerByte;
  l.time = l.literal != 0 ? arrival : arrival - own;
  l.delay = whole - own;
  l.slope = 0;
  l.share = 1;
  l.busy = 0;
  l.idle = whole <= min(l.floor, l.floorBefore) + own + error ? 1 : 0;
}

/** Packets whose right reference does not come get their delay from the left one. */
export function lineLeft(l: Line): void {
  flat(l, l.arrival, l.whole, l.wire, l.error);
}

/** Computes the line of the gap that a reference ends. `lineStep` makes the reference the left one. */
export function lineTo(l: Line, arrival: f64, whole: f64, wire: u32, error: f64): void {
  if (arrival >= l.turn) {
    l.floorBefore = l.floor;
    l.floor = Infinity;
    l.turn = arrival + FLOOR_TIME;
  }
  if (whole < l.floor) l.floor = whole;
  if (l.have == 0) {
    flat(l, arrival, whole, wire, error);
    return;
  }
  lineLeft(l);
  const between = arrival - l.arrival;
  const floor = min(l.floor, l.floorBefore);
  const own = <f64>wire * l.nsPerByte;
  l.busy = between > 0 && whole - floor - error >= between ? 1 : 0;
  l.idle = max(whole, l.whole) <= floor + own + error ? 1 : 0;
  if (l.level != 0) return;
  if (l.busy != 0 && l.literal == 0) l.share = 0.5;
  const leftOwn = <f64>l.wire * l.nsPerByte;
  l.delay = l.whole - l.share * leftOwn;
  const rise = whole - l.share * own - l.delay;
  if (l.literal != 0) {
    if (between > 0) l.slope = rise / between;
    return;
  }
  l.time = l.arrival - l.share * leftOwn;
  const apart = arrival - l.share * own - l.time;
  if (apart > 0) l.slope = rise / apart;
}

/** Returns the recent minimum of measured delays. */
export function lineFloor(l: Line): f64 {
  return min(l.floor, l.floorBefore);
}

export function lineStep(l: Line, arrival: f64, whole: f64, wire: u32, error: f64): void {
  l.arrival = arrival;
  l.whole = whole;
  l.wire = wire;
  l.error = error;
  l.have = 1;
}

/** Returns the delay of a packet on the line, in whole ns. The line is not extended to times before the left reference. */
// @ts-ignore: decorator
@inline
export function onLine(arrival: f64, own: f64, literal: bool, time: f64, delay: f64, slope: f64): f64 {
  const at = literal ? arrival - time : max<f64>(0, arrival - own - time);
  return nearest<f64>(delay + slope * at + own);
}
