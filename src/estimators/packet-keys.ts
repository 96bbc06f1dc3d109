/** Packets by flow and IP identification: the 64-bit key of each packet, and IPIDs as ranges. */
import type { Kernels } from "../base/kernels.ts";
import type { IpidRange } from "./estimator.ts";

/** Returns the key of the packet with this IPID in the flow with this hash. */
export function flowPacketKey(kernels: Kernels, flowHash: bigint, ipid: number): bigint {
  return BigInt.asUintN(64, kernels.call.flowPacketKey(flowHash, ipid & 0xffff) as bigint);
}

/** Returns the keys of all IPIDs in the ranges, in their order. */
export function flowPacketKeys(
  kernels: Kernels,
  flowHash: bigint,
  ranges: readonly IpidRange[],
): BigUint64Array {
  const count = ranges.reduce((n, r) => n + r.last - r.first + 1, 0);
  const at = kernels.alloc(Math.max(8, 8 * count));
  let done = 0;
  for (const { first, last } of ranges) {
    kernels.call.flowPacketKeys(flowHash, first, last - first + 1, at + 8 * done);
    done += last - first + 1;
  }
  const keys = kernels.u64.slice(at >>> 3, (at >>> 3) + count);
  kernels.free(at);
  return keys;
}

/** Returns the smallest list of ranges that holds exactly these IPIDs, ascending. */
export function ipidRanges(ipids: Iterable<number>): IpidRange[] {
  const sorted = Uint16Array.from(new Set(ipids)).sort();
  const ranges: IpidRange[] = [];
  for (const ipid of sorted) {
    const current = ranges.at(-1);
    if (current && current.last + 1 === ipid) current.last = ipid;
    else ranges.push({ first: ipid, last: ipid });
  }
  return ranges;
}

/** Merges ranges in any order into the smallest list with the same IPIDs, ascending. */
export function joinRanges(ranges: readonly IpidRange[]): IpidRange[] {
  const joined: IpidRange[] = [];
  for (const { first, last } of [...ranges].sort((a, b) => a.first - b.first)) {
    const before = joined.at(-1);
    if (before && first <= before.last + 1) before.last = Math.max(before.last, last);
    else joined.push({ first, last });
  }
  return joined;
}
