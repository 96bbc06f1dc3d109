// Estimates from the packets themselves how the queue changed between two references. Packets that leave a link without a pause may have waited for each other;
// a packet behind a pause did not wait. `backlog` is how long the link had been sending without a pause when a packet's transmission began: an upper bound of
// its wait if all packets of the queue are seen. How much of it is wait depends on how bunched packets arrive, and on packets that are not seen. The references
// tell, by regression of the differences between neighbours' delays on those between their backlogs (a control variate: the part of the backlog that the line
// misses, times that share, is added).
//
// With few references, or none with a backlog, the share is given by the prior: a half, with a standard deviation of a quarter.

/** Prior mean and variance of the share of a backlog that is wait. */
const PRIOR: f64 = 0.5;
const PRIOR_VARIANCE: f64 = 0.0625;
/** Decay factor of the sums over references, per reference. */
const KEPT: f64 = 1 - 1.0 / 1024;
/** Decay factor of the longest recent overlap, per packet. */
const SLACK_KEPT: f64 = 1 - 1.0 / 4096;
/** Unseen packets are assumed in the queue if more than this share of the references' waits is not explained by seen packets. */
const UNSEEN: f64 = 0.01;
/** Backlogs are classified by octaves of ns. */
const OCTAVES: u32 = 44;
const OCTAVE_BYTES: u32 = 48;
/** References after which an octave's sums are halved, and the weight of the references of neighbouring octaves. */
const OCTAVE_FULL: f64 = 256;
const NEXT: f64 = 0.25;
/** ns: times are whole numbers. */
const ROUNDING: f64 = 1;

@unmanaged
export class Backlog {
  have: u32; //      a packet has been seen, at `last`
  haveLeft: u32; //  a reference has been seen
  last: f64;
  since: f64; //     when the link began to send without a pause
  slack: f64; //     shorter pauses are the timestamps' doing: packets overlapped by as much of late
  left: f64; //      backlog and delay (without transmission) of the left reference
  leftDelay: f64;
  count: f64; //     differences of neighbouring references: their number; squares, products and squares, fading
  backlogs: f64;
  products: f64;
  delays: f64;
  share: f64; //     of a backlog that is wait
  doubt: f64; //     variance of that
  seen: u32; //      1: no reference waited for longer than packets that were seen explain
  pad: u32;
  base: f64; //      delay, without transmission, of what does not wait: the minimum, and what references without a backlog had beyond
  idles: f64; //     those references: their number, and what they had, fading
  idleWaits: f64;
  waits: f64; //     of all references beyond the base, and what of that no backlog explains, fading
  unseen: f64;
  octaves: u32; //   per octave of backlog: references, sum and sum of squares of wait over backlog; the mean, its error, and that of a packet's
  pad2: u32;
}

export function backlogNew(): Backlog {
  const b = changetype<Backlog>(heap.alloc(offsetof<Backlog>()));
  b.octaves = <u32>heap.alloc(OCTAVES * OCTAVE_BYTES);
  backlogForget(b);
  return b;
}

/** Resets the state: the stream does not continue from where it was. */
export function backlogForget(b: Backlog): void {
  const octaves = b.octaves;
  memory.fill(changetype<usize>(b), 0, offsetof<Backlog>());
  memory.fill(octaves, 0, OCTAVES * OCTAVE_BYTES);
  b.octaves = octaves;
  for (let k: u32 = 1; k < OCTAVES - 1; k++) settle(b, k);
  b.share = PRIOR;
  b.doubt = PRIOR_VARIANCE;
}

/** Returns the backlog of a packet of any kind that has arrived, with transmission time `own`. */
// @ts-ignore: decorator
@inline
export function backlogOf(b: Backlog, time: f64, own: f64): f64 {
  const began = time - own;
  const pause = began - b.last;
  b.slack = b.have != 0 ? max(-pause, b.slack * SLACK_KEPT) : 0;
  if (pause > b.slack + ROUNDING || b.have == 0) b.since = began;
  b.have = 1;
  b.last = time;
  return max<f64>(0, began - b.since);
}

/** Learns the share from a reference that has arrived. It becomes the left one with `backlogStep`. `minimum`: the recent minimum delay of references. */
export function backlogTo(b: Backlog, backlog: f64, delay: f64, minimum: f64): void {
  if (backlog <= b.slack) {
    b.idles = b.idles * KEPT + 1;
    b.idleWaits = b.idleWaits * KEPT + delay - minimum;
  }
  b.base = minimum + (b.idles > 0 ? b.idleWaits / b.idles : 0);
  b.waits = b.waits * KEPT + max<f64>(0, delay - b.base);
  b.unseen = b.unseen * KEPT + max<f64>(0, delay - b.base - backlog - b.slack - ROUNDING);
  b.seen = b.unseen <= UNSEEN * b.waits ? 1 : 0;
  learn(b, backlog, delay - b.base);
  if (b.haveLeft == 0) return;
  const growth = backlog - b.left;
  const rise = delay - b.leftDelay;
  b.count = b.count * KEPT + 1;
  b.backlogs = b.backlogs * KEPT + growth * growth;
  b.products = b.products * KEPT + growth * rise;
  b.delays = b.delays * KEPT + rise * rise;
  const slope = b.backlogs > 0 ? b.products / b.backlogs : PRIOR;
  const rest = max<f64>(0, b.delays - slope * b.products) / b.count;
  // The prior weighs as much as references whose backlogs would determine the slope equally well.
  const prior = rest / PRIOR_VARIANCE;
  const weight = b.backlogs + prior;
  b.share = weight > 0 ? min<f64>(1, max<f64>(0, (b.products + prior * PRIOR) / weight)) : PRIOR;
  b.doubt = weight > 0 ? rest / weight : PRIOR_VARIANCE;
}

export function backlogStep(b: Backlog, backlog: f64, delay: f64): void {
  b.left = backlog;
  b.leftDelay = delay;
  b.haveLeft = 1;
}

export function backlogFree(b: Backlog): void {
  heap.free(b.octaves);
  heap.free(changetype<usize>(b));
}

/** Adds a reference's ratio of wait to backlog to its octave. */
function learn(b: Backlog, backlog: f64, wait: f64): void {
  if (backlog < 1) return;
  const ratio = min<f64>(1, max<f64>(0, wait / backlog));
  const q = octaveOf(b, backlog);
  const fade: f64 = load<f64>(q) >= OCTAVE_FULL ? 0.5 : 1;
  store<f64>(q, load<f64>(q) * fade + 1);
  store<f64>(q, load<f64>(q, 8) * fade + ratio, 8);
  store<f64>(q, load<f64>(q, 16) * fade + ratio * ratio, 16);
  const k = <u32>(q - b.octaves) / OCTAVE_BYTES;
  for (let near = max<u32>(1, k - 1); near <= min<u32>(OCTAVES - 2, k + 1); near++) settle(b, near);
}

/** Computes mean and standard deviation of an octave's ratios; the prior is uniform from 0 to 1. */
function settle(b: Backlog, k: u32): void {
  const q: usize = b.octaves + k * OCTAVE_BYTES;
  const below = q - OCTAVE_BYTES;
  const above = q + OCTAVE_BYTES;
  const n = load<f64>(q) + NEXT * (load<f64>(below) + load<f64>(above)) + 1;
  const mean = (load<f64>(q, 8) + NEXT * (load<f64>(below, 8) + load<f64>(above, 8)) + PRIOR) / n;
  const squares = (load<f64>(q, 16) + NEXT * (load<f64>(below, 16) + load<f64>(above, 16)) + 1.0 / 3) / n;
  const variance = max<f64>(0, squares - mean * mean);
  store<f64>(q, mean, 24);
  store<f64>(q, Math.sqrt(variance / n), 32);
  store<f64>(q, Math.sqrt(variance), 40);
}

/** Returns the address of the ratios for packets with this backlog, which `ratioIn`, `biasIn` and `errorIn` read. */
// @ts-ignore: decorator
@inline
export function octaveOf(b: Backlog, backlog: f64): usize {
  return b.octaves + min<u32>(OCTAVES - 2, 64 - <u32>clz(<u64>backlog)) * OCTAVE_BYTES;
}
/** The expected wait, the standard error of that, common to all packets, and the standard deviation of a packet; all relative to the backlog. */
// @ts-ignore: decorator
@inline
export function ratioIn(octave: usize): f64 {
  return load<f64>(octave, 24);
}
// @ts-ignore: decorator
@inline
export function biasIn(octave: usize): f64 {
  return load<f64>(octave, 32);
}
// @ts-ignore: decorator
@inline
export function errorIn(octave: usize): f64 {
  return load<f64>(octave, 40);
}
