// The bounded flow table of RLI: which flows get an entry (sample and hold, sampled flows), and when they expire (rli-ton, section III-C: as in NetFlow).

import { Batch } from "../decode/batch";
import { rehash } from "../decode/digest";
import { FLOW_HEAD, flowRecord, Flows, flowsFind, flowsFree, flowsNew } from "../flows/flows";
import { BUFFERED, NO_FLOW, OWN_BYTES, RECORD, Rli } from "./state";

/** Removes flows not seen for a while; their records are kept for the payload. */
function expire(r: Rli, now: f64): void {
  const flows = changetype<Flows>(r.flows);
  let before = now - r.idle;
  if (r.held > 0) before = min(before, load<f64>(r.buffer));
  r.lastExpiry = now;
  const n = flows.count;
  const fresh = changetype<Flows>(flowsNew(OWN_BYTES));
  const map = heap.alloc(<usize>n * 4);
  for (let id: u32 = 0; id < n; id++) {
    const q = flowRecord(flows, id);
    if (load<f64>(q, FLOW_HEAD + 48) < before) {
      if (r.expiredCount == r.expiredRoom) {
        r.expiredRoom = max<u32>(1024, 2 * r.expiredRoom);
        const more = heap.alloc(r.expiredRoom * RECORD);
        if (r.expired != 0) {
          memory.copy(more, r.expired, r.expiredCount * RECORD);
          heap.free(r.expired);
        }
        r.expired = <u32>more;
      }
      memory.copy(r.expired + r.expiredCount * RECORD, q, RECORD);
      r.expiredCount++;
      continue;
    }
    const to = flowsFind(fresh, load<u64>(q), load<u64>(q, 8), load<u64>(q, 16), load<u64>(q, 24), load<u64>(q, 32), load<u64>(q, 40));
    memory.copy(flowRecord(fresh, to) + FLOW_HEAD, q + FLOW_HEAD, OWN_BYTES);
    store<u32>(map + (id << 2), to);
  }
  for (let i: u32 = 0; i < r.held; i++) {
    const e = r.buffer + i * BUFFERED;
    const id = load<u32>(e, 8);
    if (id != NO_FLOW) store<u32>(e, load<u32>(map + (id << 2)), 8);
  }
  heap.free(map);
  flowsFree(r.flows);
  r.flows = changetype<u32>(fresh);
}

/** Returns the flow of a new key if it is selected and there is room, otherwise -1. */
export function admit(r: Rli, batch: Batch, i: u32, time: f64, hash: u64, meta: u64, seed: u64): i32 {
  const o = i << 3;
  if (r.selection != 0) {
    const draw = r.selection == 1 ? load<u64>(batch.digest + o) : hash;
    if (<u32>(rehash(draw, seed) >> 32) > r.sampleBelow) {
      r.unselected++;
      return -1;
    }
  }
  if (changetype<Flows>(r.flows).count >= r.maxFlows) {
    if (r.idle > 0 && time - r.lastExpiry >= 0.25 * r.idle) expire(r, time);
    if (changetype<Flows>(r.flows).count >= r.maxFlows) {
      r.shed++;
      return -1;
    }
  }
  const flows = changetype<Flows>(r.flows);
  const id = flowsFind(
    flows, hash, meta, load<u64>(batch.addrA + o), load<u64>(batch.addrB + o), load<u64>(batch.addrC + o), load<u64>(batch.addrD + o),
  );
  store<u32>(flowRecord(flows, id) + FLOW_HEAD, r.serial++, 16);
  return <i32>id;
}
