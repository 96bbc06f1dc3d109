// Effects on packets other than queues: delays from a distribution, loss, reordering; and the clocks of the points.

import { Batch } from "../decode/batch";
import { avalanche } from "../decode/digest";
import { exponential, normal, positive, RNG_BYTES, Rng, rngInit, uniform } from "./random";
import { rowFlowHash } from "./queue";
import { copyRow } from "./rows";

/** Creates a separate random stream for a stage; the TypeScript side holds it. */
export function simRngNew(seed: u64, stream: u64): usize {
  const p = heap.alloc(RNG_BYTES);
  rngInit(p, seed, stream);
  return p;
}
export function simUniform(r: usize): f64 {
  return uniform(changetype<Rng>(r));
}

export const CONSTANT: u32 = 0;
export const WEIBULL: u32 = 1; //     a scale, b shape: 1 - exp(-(x/a)^b)
export const PARETO: u32 = 2; //      a scale, b shape: 1 - (x/a)^-b
export const EXPONENTIAL: u32 = 3; // a mean
export const LOGNORMAL: u32 = 4; //   a median, b sigma
export const UNIFORM: u32 = 5; //     between a and b

// @ts-ignore: decorator
@inline
function draw(rng: Rng, kind: u32, a: f64, b: f64): f64 {
  switch (kind) {
    case WEIBULL:
      return a * Math.exp(Math.log(exponential(rng)) / b);
    case PARETO:
      return a * Math.exp(-Math.log(positive(rng)) / b);
    case EXPONENTIAL:
      return a * exponential(rng);
    case LOGNORMAL:
      return a * Math.exp(b * normal(rng));
    case UNIFORM:
      return a + (b - a) * uniform(rng);
    default:
      return a;
  }
}

/**
 * Adds independent delays, one per packet, in whole ns. `spaced` 1: each packet is sent only after the previous one has arrived (LDA paper, section IV), so
 * that nothing is reordered. Sending times move back, so such a stage must be the first. `last` points to two f64.
 */
export function simDelayRun(r: usize, b: usize, kind: u32, a: f64, shape: f64, spaced: u32, last: usize): void {
  const rng = changetype<Rng>(r);
  const batch = changetype<Batch>(b);
  const n = batch.count;
  for (let i: u32 = 0; i < n; i++) {
    const o = i << 3;
    const before = load<f64>(batch.delay + o);
    if (before != before) continue;
    const d = nearest<f64>(draw(rng, kind, a, shape));
    if (spaced != 0) {
      // `last` holds how far the schedule has slipped, then when the previous packet arrived.
      const slip = load<f64>(last);
      let time = load<f64>(batch.time + o) + slip;
      const arrived = load<f64>(last, 8);
      if (time <= arrived) {
        store<f64>(last, slip + (arrived + 1 - time));
        time = arrived + 1;
      }
      store<f64>(batch.time + o, time);
      store<f64>(last, time + d, 8);
    }
    store<f64>(batch.delay + o, before + d);
  }
}

/** Returns a standard normal variate determined by a 64-bit hash: a flow always gets the same one. */
function normalOf(hash: u64): f64 {
  // Box-Muller over the two halves of the hash.
  const u = <f64>((hash >> 32) + 1) * 2.3283064365386963e-10;
  const v = <f64>(<u32>avalanche(hash)) * 2.3283064365386963e-10;
  return Math.sqrt(-2 * Math.log(u)) * Math.cos(6.283185307179586 * v);
}

/**
 * Gives each flow its own latency (lognormal: median a, sigma b; or, with `modes` 1, a with probability `share`, otherwise b). Each packet's delay differs from
 * it by a lognormal factor of mean 1 and standard deviation `jitter`.
 */
export function simFlowDelayRun(
  r: usize, b: usize, seed: u64, modes: u32, a: f64, second: f64, share: f64, jitter: f64,
): void {
  const rng = changetype<Rng>(r);
  const batch = changetype<Batch>(b);
  const n = batch.count;
  const sigma = Math.sqrt(Math.log(1 + jitter * jitter));
  const shift = -0.5 * sigma * sigma;
  for (let i: u32 = 0; i < n; i++) {
    const o = i << 3;
    const before = load<f64>(batch.delay + o);
    if (before != before) continue;
    const h = rowFlowHash(batch, i, seed);
    let d: f64;
    if (modes != 0) d = <f64>(h >> 11) * 1.1102230246251565e-16 < share ? a : second;
    else d = a * Math.exp(second * normalOf(h));
    if (jitter > 0) d *= Math.exp(sigma * normal(rng) + shift);
    store<f64>(batch.delay + o, before + nearest<f64>(d));
  }
}

/** Loses each packet with the same probability. Returns how many were lost. */
export function simLossUniform(r: usize, b: usize, probability: f64): u32 {
  const rng = changetype<Rng>(r);
  const batch = changetype<Batch>(b);
  let lost: u32 = 0;
  for (let i: u32 = 0; i < batch.count; i++) {
    const p = batch.delay + (i << 3);
    const d = load<f64>(p);
    if (d != d) continue;
    if (uniform(rng) < probability) {
      store<f64>(p, NaN);
      lost++;
    }
  }
  return lost;
}

/**
 * Loses packets in bursts (Gilbert): in the bad state every packet is lost. `state` points to the f64 state; `enter` and `leave` are the probabilities per
 * packet. Returns how many were lost.
 */
export function simLossBursts(r: usize, b: usize, state: usize, enter: f64, leave: f64): u32 {
  const rng = changetype<Rng>(r);
  const batch = changetype<Batch>(b);
  let bad = load<f64>(state) != 0;
  let lost: u32 = 0;
  for (let i: u32 = 0; i < batch.count; i++) {
    const p = batch.delay + (i << 3);
    const d = load<f64>(p);
    if (d != d) continue;
    const u = uniform(rng);
    bad = bad ? u >= leave : u < enter;
    if (bad) {
      store<f64>(p, NaN);
      lost++;
    }
  }
  store<f64>(state, bad ? 1 : 0);
  return lost;
}

/** Delays a packet with a given probability by up to `extent` ns, so that later ones overtake it. */
export function simReorder(r: usize, b: usize, probability: f64, extent: f64): u32 {
  const rng = changetype<Rng>(r);
  const batch = changetype<Batch>(b);
  let held: u32 = 0;
  for (let i: u32 = 0; i < batch.count; i++) {
    const p = batch.delay + (i << 3);
    const d = load<f64>(p);
    if (d != d) continue;
    if (uniform(rng) < probability) {
      store<f64>(p, d + Math.ceil(extent * positive(rng)));
      held++;
    }
  }
  return held;
}

/**
 * Returns to `out` what a point sees of a batch: the packets that arrived there, timestamped by its clock. `arrival` 0: time is the sending time and the delay
 * is not known yet; 1: time is the arrival and the delay is the true one. Returns how many rows of the batch were lost before.
 */
export function simObserve(
  b: usize, out: usize, arrival: u32, r: usize, offset: f64, skew: f64, jitter: f64, resolution: f64,
): u32 {
  const batch = changetype<Batch>(b);
  const to = changetype<Batch>(out);
  const n = batch.count;
  to.count = 0;
  let lost: u32 = 0;
  const perfect = offset == 0 && skew == 0 && jitter == 0 && resolution <= 1;
  for (let i: u32 = 0; i < n; i++) {
    const delay = load<f64>(batch.delay + (i << 3));
    if (delay != delay) {
      lost++;
      continue;
    }
    const j = to.count;
    copyRow(batch, i, to);
    let t = load<f64>(to.time + (j << 3));
    if (arrival != 0) t += delay;
    else store<f64>(to.delay + (j << 3), NaN);
    if (!perfect) {
      t += offset + skew * t;
      if (jitter > 0) t += jitter * normal(changetype<Rng>(r));
      t = resolution > 1 ? Math.floor(t / resolution) * resolution : nearest<f64>(t);
    }
    store<f64>(to.time + (j << 3), t);
  }
  return lost;
}
