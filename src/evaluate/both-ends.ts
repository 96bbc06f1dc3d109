/** Runs a simulated segment past a tap at each end, as two points would see it, and collects the true delays. */

import type { Kernels } from "../base/kernels.ts";
import { entryAt } from "../base/lists.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../capture/reader.ts";
import type { Estimator, ParameterValues, SealedEpoch, Tap } from "../estimators/estimator.ts";
import type { Scenario } from "../simulate/scenario.ts";
import { simulate } from "../simulate/simulate.ts";

export interface EndsTruth {
  sent: number;
  received: number;
  meanNs: number;
  stdevNs: number;
  /** Fourth moment divided by the square of the second: central (3 for normal delays), and around 0. */
  kurtosis: number;
  kurtosisAroundZero: number;
}

export interface TapPair {
  estimator: Estimator;
  parameters: ParameterValues;
  seed: bigint;
}

export interface BothEnds {
  truth: EndsTruth;
  /** Mean delay by flow hash "high:low"; empty unless requested. */
  flowTruth: Map<string, number>;
  sealed: { sender: SealedEpoch; receiver: SealedEpoch }[];
}

/** Opens one tap per pair at each end; the epoch begins at 0. */
export function openTaps(kernels: Kernels, pairs: readonly TapPair[]): { senders: Tap[]; receivers: Tap[] } {
  const open = (role: "sender" | "receiver") =>
    pairs.map(({ estimator, parameters, seed }) => {
      const tap = estimator.createTap({ kernels, role, seed }, parameters);
      tap.begin(0);
      return tap;
    });
  return { senders: open("sender"), receivers: open("receiver") };
}

/** Runs the whole scenario as one epoch. Each batch passes the sender's taps as sent, then the receiver's taps without the lost packets. */
export async function runBothEnds(
  kernels: Kernels,
  scenario: Scenario,
  pairs: readonly TapPair[],
  withFlows = false,
): Promise<BothEnds> {
  const { senders, receivers } = openTaps(kernels, pairs);
  const truth = new DelayTruth();
  const sums = new Map<string, { sum: number; packets: number }>();
  const mask = FlowKeySpec.parse().store(kernels);
  for await (const batch of simulate(kernels, scenario).combined()) {
    kernels.call.keyFlows(batch.address, mask, DEFAULT_SEED);
    for (const tap of senders) tap.update(batch, 0, batch.count);
    truth.sent += batch.count;
    arrive(batch, truth);
    if (withFlows) addFlows(sums, batch);
    for (const tap of receivers) tap.update(batch, 0, batch.count);
  }
  const sealed = pairs.map((_, i) => ({
    sender: entryAt(senders, i).seal(),
    receiver: entryAt(receivers, i).seal(),
  }));
  for (const tap of [...senders, ...receivers]) tap.free();
  kernels.free(mask);
  const flowTruth = new Map([...sums].map(([name, { sum, packets }]) => [name, sum / packets]));
  return { truth: truth.result(), flowTruth, sealed };
}

function addFlows(sums: Map<string, { sum: number; packets: number }>, batch: PacketBatch): void {
  const { count, flowHash, delayNs } = batch;
  for (let i = 0; i < count; i++) {
    const name = `${flowHash[2 * i + 1]}:${flowHash[2 * i]}`;
    const flow = sums.get(name) ?? { sum: 0, packets: 0 };
    flow.sum += delayNs[i]!;
    flow.packets++;
    sums.set(name, flow);
  }
}

class DelayTruth {
  sent = 0;
  received = 0;
  #sum = 0;
  #squares = 0;
  #cubes = 0;
  #fourths = 0;

  add(delayNs: number): void {
    const square = delayNs * delayNs;
    this.received++;
    this.#sum += delayNs;
    this.#squares += square;
    this.#cubes += square * delayNs;
    this.#fourths += square * square;
  }

  result(): EndsTruth {
    const { sent, received } = this;
    const [mean, second, third, fourth] = [this.#sum, this.#squares, this.#cubes, this.#fourths].map(
      (sum) => sum / received,
    ) as [number, number, number, number];
    const variance = Math.max(0, second - mean * mean);
    const central = fourth - 4 * mean * third + 6 * mean * mean * second - 3 * mean ** 4;
    return {
      ...{ sent, received, meanNs: mean, stdevNs: Math.sqrt(variance) },
      ...{ kurtosis: central / variance ** 2, kurtosisAroundZero: fourth / second ** 2 },
    };
  }
}

/** Turns a batch as sent into the batch as received: removes lost rows and replaces send times by arrival times. */
export function arrive(batch: PacketBatch, truth?: { add(delayNs: number): void }): void {
  const { count, timeNs, delayNs } = batch;
  const select = batch.kernels.u8.subarray(batch.column("select"), batch.column("select") + count);
  let lost = 0;
  for (let i = 0; i < count; i++) {
    const delay = delayNs[i]!;
    const arrived = !Number.isNaN(delay);
    select[i] = arrived ? 1 : 0;
    if (arrived) {
      timeNs[i]! += delay;
      truth?.add(delay);
    } else lost++;
  }
  if (lost > 0) batch.compact();
}
