// Counts packets and bytes per flow (src/estimators/flows/), over the table of flows.ts. Memory is bounded by hash: flows whose hash is not below `cut` are
// shed and only counted in total. Which flows stay depends on their hashes alone, not on the order of packets, so tables of parts of a stream merge into the
// table of the whole.
//
//   record of a flow: head of flows.ts, 48 bytes | packets u64 | bytes u64

import { Batch } from "../decode/batch";
import { FLOW_HEAD, Flows, flowRecord, flowsFind, flowsFree, flowsNew } from "./flows";

const OWNER: u32 = 16;

@unmanaged
class FlowCounts {
  flows: u32;
  limited: u32; // cut holds
  cut: u64;
  shedPackets: u64;
  shedBytes: u64;
}

export function flowCountsNew(): usize {
  const p = heap.alloc(offsetof<FlowCounts>());
  memory.fill(p, 0, offsetof<FlowCounts>());
  changetype<FlowCounts>(p).flows = <u32>flowsNew(OWNER);
  return p;
}

export function flowCountsFree(p: usize): void {
  flowsFree(changetype<FlowCounts>(p).flows);
  heap.free(p);
}

/** Returns the table of flows.ts, which flowsCount and flowsRecord read. */
export function flowCountsTable(p: usize): usize {
  return changetype<FlowCounts>(p).flows;
}
export function flowCountsShedPackets(p: usize): u64 {
  return changetype<FlowCounts>(p).shedPackets;
}
export function flowCountsShedBytes(p: usize): u64 {
  return changetype<FlowCounts>(p).shedBytes;
}

export function flowCountsUpdate(p: usize, b: usize, from: u32, to: u32): void {
  const counts = changetype<FlowCounts>(p);
  const batch = changetype<Batch>(b);
  const flows = changetype<Flows>(counts.flows);
  const limited = counts.limited != 0;
  const cut = counts.cut;
  // Touch first: independent loads overlap their cache misses, the dependent ones of the loop below do not.
  if (flows.indexMask > 16383) {
    let sum: u32 = 0;
    for (let i = from; i < to; i++) {
      const slot = load<u32>(flows.index + ((load<u32>(batch.flowHash + (i << 3)) & flows.indexMask) << 3));
      if (slot != 0) sum += load<u32>(flowRecord(flows, slot - 1));
    }
    flows.touched = sum;
  }
  for (let i = from; i < to; i++) {
    const o = i << 3;
    const hash = load<u64>(batch.flowHash + o);
    const bytes = <u64>load<u32>(batch.wireLength + (i << 2));
    if (limited && hash >= cut) {
      counts.shedPackets++;
      counts.shedBytes += bytes;
      continue;
    }
    const id = flowsFind(
      flows, hash, load<u64>(batch.meta + o), load<u64>(batch.addrA + o), load<u64>(batch.addrB + o), load<u64>(batch.addrC + o),
      load<u64>(batch.addrD + o),
    );
    const r = flowRecord(flows, id) + FLOW_HEAD;
    store<u64>(r, load<u64>(r) + 1);
    store<u64>(r, load<u64>(r, 8) + bytes, 8);
  }
}

/** Adds flows counted elsewhere (datapath/); per flow: meta, addrA to addrD, hash, packets, bytes, u64 each. */
export function flowCountsAdd(p: usize, from: usize, count: u32): void {
  const flows = changetype<Flows>(changetype<FlowCounts>(p).flows);
  const end = from + (<usize>count << 6);
  for (; from < end; from += 64) {
    const id = flowsFind(
      flows, load<u64>(from, 40), load<u64>(from), load<u64>(from, 8), load<u64>(from, 16), load<u64>(from, 24), load<u64>(from, 32),
    );
    const r = flowRecord(flows, id) + FLOW_HEAD;
    store<u64>(r, load<u64>(r) + load<u64>(from, 48));
    store<u64>(r, load<u64>(r, 8) + load<u64>(from, 56), 8);
  }
}

/** Adds packets and bytes of flows shed elsewhere. */
export function flowCountsAddShed(p: usize, packets: u64, bytes: u64): void {
  const counts = changetype<FlowCounts>(p);
  counts.shedPackets += packets;
  counts.shedBytes += bytes;
}

/** Sheds the flows whose hash is not below `cut`, now and in future. */
export function flowCountsShed(p: usize, cut: u64): void {
  const counts = changetype<FlowCounts>(p);
  const old = changetype<Flows>(counts.flows);
  const fresh = changetype<Flows>(flowsNew(OWNER));
  for (let id: u32 = 0; id < old.count; id++) {
    const r = flowRecord(old, id);
    const hash = load<u64>(r);
    const packets = load<u64>(r, FLOW_HEAD);
    const bytes = load<u64>(r, FLOW_HEAD + 8);
    if (hash >= cut) {
      counts.shedPackets += packets;
      counts.shedBytes += bytes;
      continue;
    }
    const to = flowRecord(
      fresh, flowsFind(fresh, hash, load<u64>(r, 8), load<u64>(r, 16), load<u64>(r, 24), load<u64>(r, 32), load<u64>(r, 40)),
    );
    store<u64>(to, packets, FLOW_HEAD);
    store<u64>(to, bytes, FLOW_HEAD + 8);
  }
  flowsFree(changetype<usize>(old));
  counts.flows = <u32>changetype<usize>(fresh);
  counts.limited = 1;
  counts.cut = cut;
}

/** Removes all flows and counts. */
export function flowCountsClear(p: usize): void {
  const counts = changetype<FlowCounts>(p);
  flowsFree(counts.flows);
  counts.flows = <u32>flowsNew(OWNER);
  counts.limited = 0;
  counts.cut = 0;
  counts.shedPackets = 0;
  counts.shedBytes = 0;
}
