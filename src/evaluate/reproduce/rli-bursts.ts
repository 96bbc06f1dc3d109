/** Delays of a queue over time: how long they stay above a level, and how well packets close in time predict a flow's delay (rli-ton, section II). */
import type { Kernels } from "../../base/kernels.ts";
import { FlowKeySpec } from "../../capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../../capture/reader.ts";
import type { Scenario } from "../../simulate/scenario.ts";
import { simulate } from "../../simulate/simulate.ts";

export interface DelayColumns {
  readonly count: number;
  readonly timeNs: Float64Array;
  readonly delayNs: Float64Array;
  /** Index of the packet's flow. */
  readonly flow: Uint32Array;
  readonly flows: number;
}

/** Returns the packets that arrived, in order of sending. */
export async function delayColumns(kernels: Kernels, scenario: Scenario): Promise<DelayColumns> {
  const mask = FlowKeySpec.parse().store(kernels);
  const numbers = new Map<bigint, number>();
  const times: number[] = [];
  const delays: number[] = [];
  const flows: number[] = [];
  for await (const batch of simulate(kernels, scenario).combined()) {
    kernels.call.keyFlows(batch.address, mask, DEFAULT_SEED);
    const hashes = kernels.u64.subarray(batch.column("flowHash") >>> 3);
    for (let i = 0; i < batch.count; i++) {
      const delay = batch.delayNs[i]!;
      if (Number.isNaN(delay)) continue;
      const hash = hashes[i]!;
      let flow = numbers.get(hash);
      if (flow === undefined) numbers.set(hash, (flow = numbers.size));
      times.push(batch.timeNs[i]!);
      delays.push(delay);
      flows.push(flow);
    }
  }
  kernels.free(mask);
  const [timeNs, delayNs] = [Float64Array.from(times), Float64Array.from(delays)];
  return { count: timeNs.length, timeNs, delayNs, flow: Uint32Array.from(flows), flows: numbers.size };
}

/** Returns the share of time within bursts of at least each duration; in a burst, every packet waited at least `levelNs`. */
export function burstShares(
  columns: DelayColumns,
  levelNs: number,
  durationsNs: readonly number[],
): number[] {
  const { count, timeNs, delayNs } = columns;
  const totals = durationsNs.map(() => 0);
  let began = -1;
  const end = (last: number) => {
    const length = timeNs[last]! - timeNs[began]!;
    for (const [i, duration] of durationsNs.entries()) if (length >= duration) totals[i]! += length;
    began = -1;
  };
  for (let i = 0; i < count; i++) {
    if (delayNs[i]! >= levelNs) began = began < 0 ? i : began;
    else if (began >= 0) end(i - 1);
  }
  if (began >= 0) end(count - 1);
  const whole = timeNs[count - 1]! - timeNs[0]!;
  return totals.map((total) => total / whole);
}

/** Returns the relative errors of flows whose delay is estimated from the packets of all other flows in the same time windows. */
export function localErrors(columns: DelayColumns, windowNs: number): Float64Array {
  const { count, timeNs, delayNs, flow, flows } = columns;
  const truth = new Float64Array(flows);
  const local = new Float64Array(flows);
  const own = new Map<number, { sum: number; packets: number }>();
  const packets = new Float64Array(flows);
  for (let from = 0; from < count; ) {
    const window = Math.floor(timeNs[from]! / windowNs);
    let [to, sum] = [from, 0];
    own.clear();
    for (; to < count && Math.floor(timeNs[to]! / windowNs) === window; to++) {
      const known = own.get(flow[to]!) ?? { sum: 0, packets: 0 };
      known.sum += delayNs[to]!;
      known.packets++;
      own.set(flow[to]!, known);
      sum += delayNs[to]!;
    }
    for (const [f, mine] of own) {
      const others = to - from - mine.packets;
      const mean = others > 0 ? (sum - mine.sum) / others : mine.sum / mine.packets;
      truth[f]! += mine.sum;
      local[f]! += mean * mine.packets;
      packets[f]! += mine.packets;
    }
    from = to;
  }
  return local.map((sum, f) => Math.abs(sum - truth[f]!) / truth[f]!);
}
