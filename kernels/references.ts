// Reference packets in a stream: told by the simulator's flag (their delay is in the batch), or as STAMP test packets (src/estimators/rli/stamp.ts draws
// them) on a UDP port. Sequence numbers and sending times tell lost, duplicated, overtaken and foreign ones. A packet of ours that is not to
// be used (probes, cut or forged references) is no regular packet either.

import { Batch, META_PORTS } from "./batch";

export const FLAG_REFERENCE: u32 = 1 << 22;
export const FLAG_PROBE: u32 = 1 << 23;
const FLAG_OWN: u32 = (1 << 22) | (1 << 23);
/** referenceDelay: a packet that is not ours. */
export const REGULAR: f64 = Infinity;
/** A sender that numbers on from far away has begun anew: nothing is known to be lost. */
const FAR: u32 = 1 << 20;

@unmanaged
export class References {
  port: u32;
  session: u32;
  anySession: u32;
  known: u32; //      a reference has been seen
  sequence: u32; //   of the last one
  pad: u32;
  sent: i64; //       when that was sent
  origin: i64; //     ns since 1970 of time 0
  longest: f64; //    a reference delayed more is not believed
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

/** The delay of the reference in row i; NaN for a packet of ours that has none to give, REGULAR for all others. */
// @ts-ignore: decorator
@inline
export function referenceDelay(r: References, batch: Batch, i: u32, time: f64, meta: u64): f64 {
  const flags = load<u32>(batch.flags + (i << 2));
  if ((flags & FLAG_OWN) != 0) {
    if ((flags & FLAG_REFERENCE) == 0) return NaN;
    r.seen++;
    return load<f64>(batch.delay + (i << 3));
  }
  // A flow key without ports has masked them away: then the packet itself tells.
  const header = load<u32>(batch.header + (i << 2));
  if (header == 0) return REGULAR;
  if ((meta & META_PORTS) != 0) {
    if ((meta & 0xff0000ffff) != (((<u64>17) << 32) | <u64>r.port)) return REGULAR;
  } else if (portOf(header, load<u32>(batch.captured + (i << 2))) != r.port) return REGULAR;
  return stampDelay(r, header, load<u32>(batch.captured + (i << 2)), time);
}

function stampDelay(r: References, header: usize, captured: u32, time: f64): f64 {
  const v6 = load<u8>(header) >> 4 == 6;
  const at: u32 = (v6 ? 40 : (<u32>(load<u8>(header) & 15)) << 2) + 8;
  if (captured < at + 16) {
    r.forged++;
    return NaN;
  }
  const p = header + at;
  const sequence = bswap<u32>(load<u32>(p));
  const seconds = <i64>bswap<u32>(load<u32>(p, 4));
  const fraction = <i64>bswap<u32>(load<u32>(p, 8));
  const error = bswap<u16>(load<u16>(p, 12));
  const session = <u32>bswap<u16>(load<u16>(p, 14));
  const ptp = (error & 0x4000) != 0;
  let sent: i64;
  if (ptp) sent = seconds * 1000000000 + fraction;
  else sent = (seconds - 2208988800) * 1000000000 + ((fraction * 1000000000) >> 32);
  const delay = <f64>(r.origin + <i64>time - sent);
  if ((r.anySession == 0 && session != r.session) || !(abs<f64>(delay) <= r.longest) || (ptp && fraction >= 1000000000)) {
    r.forged++;
    return NaN;
  }
  if (r.known != 0) {
    const step = <i32>(sequence - r.sequence);
    if (step <= 0 && sent <= r.sent) {
      if (step == 0 && sent == r.sent) r.duplicate++;
      else {
        // Taken for lost when a later one came.
        r.reordered++;
        if (r.lost > 0) r.lost--;
      }
      return NaN;
    }
    if (step > 0 && sent < r.sent) {
      // Numbered later but sent earlier: not by the sender that we know.
      r.forged++;
      return NaN;
    }
    if (step <= 0 || <u32>step > FAR) r.restarts++;
    else r.lost += <u32>step - 1;
  }
  r.known = 1;
  r.sequence = sequence;
  r.sent = sent;
  r.seen++;
  return delay;
}

export function referencesInit(r: References, port: u32, session: i32, longest: f64): void {
  r.port = port;
  r.anySession = session < 0 ? 1 : 0;
  r.session = <u32>session;
  r.longest = longest;
}

export function referencesClear(r: References): void {
  r.seen = 0;
  r.lost = 0;
  r.duplicate = 0;
  r.reordered = 0;
  r.forged = 0;
  r.restarts = 0;
}
