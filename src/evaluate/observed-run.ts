/**
 * Observes a simulated segment at both ends as `observe` does (cutting epochs, sealing taps, keeping records) and collects the true delays. Questions on these
 * records give what an operator would get for the same traffic.
 *
 * True delays are by the points' clocks: receive time at the receiver minus send time at the sender. No estimator can know more.
 */
import type { Kernels } from "../base/kernels.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { MemoryRecords } from "../collect/memory-records.ts";
import type { CutPlan } from "../epoch/cutter.ts";
import { findAmong, parseParameters } from "../estimators/parameters.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import { PointObserver, type TapPlan } from "../observe/observer.ts";
import { RECEIVER, type Scenario, SENDER, SIMULATED_FLAG } from "../simulate/scenario.ts";
import { simulate } from "../simulate/simulate.ts";
import { FlowTruthTable } from "../simulate/truth.ts";
import { readTruth, type SegmentTruth } from "./run-segment.ts";

export interface ObservedOptions {
  cut: CutPlan;
  /** Estimator names, with parameters that are not the defaults: `lds:rows=4,columns=4096`. */
  estimators: readonly string[];
  /** Seed of digests, flow hashes and sketches. */
  seed?: bigint;
}

export interface ObservedRun {
  records: MemoryRecords;
  truth: SegmentTruth;
  /** Packets of the traffic at the sender, without references and probes. */
  sent: number;
}

/** Time 0 of the simulation. */
const SIMULATED_ORIGIN_NS = 1_700_000_000_000_000_000n;
const COVER = 64;

export async function observeScenario(
  kernels: Kernels,
  scenario: Scenario,
  { cut, estimators, seed = 1n }: ObservedOptions,
): Promise<ObservedRun> {
  const key = FlowKeySpec.parse();
  const records = new MemoryRecords();
  const plans = estimators.map(tapPlan);
  const observer = (point: string, role: "sender" | "receiver", taps: readonly TapPlan[]) =>
    new PointObserver({
      kernels,
      point,
      role,
      taps,
      cut,
      seed,
      key: "5tuple",
      cover: COVER,
      delays: role === "receiver",
      onRecord: (record, options) => records.add(record, options),
    });
  const atSender = plans.filter((p) => p.estimator.needs.sender);
  const ends = new Map([[RECEIVER, observer(RECEIVER, "receiver", plans)]]);
  if (atSender.length > 0) ends.set(SENDER, observer(SENDER, "sender", atSender));
  const truth = new FlowTruthTable(kernels, { key, seed });
  const mask = key.store(kernels);
  let sent = 0;
  try {
    for await (const { point, batch } of simulate(kernels, scenario).observe([SENDER, RECEIVER])) {
      kernels.call.keyFlows(batch.address, mask, seed);
      if (point === SENDER) sent += regular(batch);
      else {
        apparentDelays(batch, scenario);
        truth.updateKeyed(batch);
      }
      ends.get(point)?.feed(batch, SIMULATED_ORIGIN_NS);
    }
    for (const end of ends.values()) end.finish();
    return { records, truth: readTruth(truth), sent };
  } finally {
    for (const end of ends.values()) end.free();
    truth.free();
    kernels.free(mask);
  }
}

export function tapPlan(text: string): TapPlan {
  const colon = text.indexOf(":");
  const estimator = findAmong(ESTIMATORS, colon < 0 ? text : text.slice(0, colon));
  return { estimator, parameters: parseParameters(estimator, colon < 0 ? "" : text.slice(colon + 1)) };
}

function regular({ flags, count }: PacketBatch): number {
  let n = 0;
  for (let i = 0; i < count; i++) if ((flags[i]! & SIMULATED_FLAG.reference) === 0) n++;
  return n;
}

/** Replaces the true delay by the delay that the two clocks show: constant offset and skew. Timestamp jitter is not included. */
function apparentDelays(batch: PacketBatch, { clocks }: Scenario): void {
  const [from, to] = [clocks?.[SENDER] ?? {}, clocks?.[RECEIVER] ?? {}];
  const { timeNs, delayNs, count } = batch;
  for (let i = 0; i < count; i++) {
    const arrival = (timeNs[i]! - (to.offsetNs ?? 0)) / (1 + 1e-6 * (to.skewPpm ?? 0));
    const sending = arrival - delayNs[i]!;
    const carriedNs = sending * (1 + 1e-6 * (from.skewPpm ?? 0)) + (from.offsetNs ?? 0);
    delayNs[i] = Math.round(timeNs[i]! - carriedNs);
  }
}
