// RLI at the receiving point: interpolates delays of regular packets between reference packets and sums them per flow (rli-ton, section III-B2 and C, equations
// 1-4). A bounded buffer holds the packets since the last reference; when it is full, they are answered by the left reference alone, and counted. The
// interpolated value is a reference's delay without its own transmission time; each packet's own transmission is added, which is equation 1 for references of
// any size. references.ts places a packet on the line, answers.ts answers the packets, misses.ts measures the error.

import { backlogOf } from "./backlog";
import { Batch } from "../decode/batch";
import { FLOW_HEAD, flowRecord, Flows, flowsPeek } from "../flows/flows";
import { referenceDelay, References, referencesTurned, REGULAR } from "./references";
import { arrived, spill } from "./answers";
import { Gap, gapForget } from "./gap";
import { BUFFERED, NO_FLOW, Rli } from "./state";
import { admit } from "./table";

/** ns: timestamps may differ by this much because of jitter. */
const STAMP_JITTER: f64 = 1000;

/** Processes rows [from, to): references update the line, other packets wait for the next reference. */
export function rliUpdate(p: usize, b: usize, from: u32, to: u32, seed: u64): void {
  const r = changetype<Rli>(p);
  const batch = changetype<Batch>(b);
  const references = changetype<References>(r.references);
  const queue = changetype<Gap>(r.between).queue;
  const trains = changetype<Gap>(r.between).trains != 0;
  for (let i = from; i < to; i++) {
    const o = i << 3;
    const time = load<f64>(batch.time + o);
    const meta = load<u64>(batch.meta + o);
    const wire = load<u32>(batch.wireLength + (i << 2));
    const own = <f64>wire * r.nsPerByte;
    if (queue.have != 0 && time - queue.last + STAMP_JITTER < 0.5 * own) r.hurried++;
    let backlog: f64 = 0;
    if (trains) backlog = backlogOf(queue, time, own);
    else {
      queue.have = 1;
      queue.last = time;
    }
    r.bytesSince += <f64>wire;
    const delay = referenceDelay(references, batch, i, time, meta);
    if (delay != REGULAR) {
      if (delay != delay) continue;
      if (referencesTurned(references)) gapForget(changetype<Gap>(r.between));
      arrived(r, time, delay, wire, references.error, backlog);
      continue;
    }
    r.packets++;
    if (r.every != 0) {
      // This packet is both a reference and a packet of its flow: it is on the line, at its own delay.
      const known = load<f64>(batch.delay + o);
      if (known == known && ++r.since >= r.every) {
        r.since = 0;
        references.seen++;
        arrived(r, time, known, wire, 0, backlog);
      }
    }
    hold(r, batch, i, time, meta, wire, backlog, seed);
  }
}

/** Buffers a regular packet until the next reference. */
// @ts-ignore: decorator
@inline
function hold(r: Rli, batch: Batch, i: u32, time: f64, meta: u64, wire: u32, backlog: f64, seed: u64): void {
  const o = i << 3;
  const hash = load<u64>(batch.flowHash + o);
  let id = flowsPeek(changetype<Flows>(r.flows), batch, i, hash, meta);
  if (id < 0) id = admit(r, batch, i, time, hash, meta, seed);
  if (r.held == r.room) {
    if (changetype<Gap>(r.between).line.have != 0) r.spilled += r.held;
    spill(r);
  }
  if (id >= 0) store<f64>(flowRecord(changetype<Flows>(r.flows), <u32>id) + FLOW_HEAD, time, 48);
  const e = r.buffer + r.held * BUFFERED;
  store<f64>(e, time);
  store<u32>(e, id < 0 ? NO_FLOW : <u32>id, 8);
  store<u32>(e, wire, 12);
  store<f64>(e, backlog, 16);
  r.held++;
}

/** Ends the epoch: packets still waiting are answered by the left reference, or counted as unanswered. */
export function rliFinish(p: usize): void {
  spill(changetype<Rli>(p));
}
