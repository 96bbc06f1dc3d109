/**
 * Trajectory sampling with timestamps (Duffield, Grossglauser; rli-ton section IV-B compares with it). Both points record time and label of packets with a
 * digest in a range; the difference of the times of one packet is its delay. Baseline: exact delays of few packets.
 *
 * Guarantee: a uniform sample of the packets that arrived. A flow's mean uses only its own samples, so most flows have none. Bounded: above `max` samples,
 * those with the largest hashes are dropped, the same at both points.
 */
import type { PacketBatch } from "../../../capture/batch.ts";
import { deviationWithPacketsInFlight, withPacketsInFlight } from "../../cells/edge.ts";
import {
  type EstimateInput,
  type Estimator,
  type EstimatorAnswer,
  type FlowEstimate,
  isNoAnswer,
  type KnownFlows,
  type NoAnswer,
  type ParameterValues,
  type SealedEpoch,
  type Tap,
  type TapContext,
} from "../../estimator.ts";
import { wideAt } from "../../flow-keys.ts";
import { defaultParameters } from "../../parameters.ts";
import { describeSamples, meanInterval, sumSamples, withoutOutliers } from "../sample-statistics.ts";
import {
  MAX_TIME_NS,
  NO_RECORD,
  PacketSampler,
  samplingFingerprint,
  samplingParameters,
} from "../sampling.ts";
import {
  boundSamples,
  decodeSamples,
  encodeSamples,
  mergeSamples,
  type Sample,
  type Samples,
} from "./payload.ts";

import { sizeTrajectory } from "./size.ts";

export interface TrajectoryParameters extends ParameterValues {
  rate: number;
  max: number;
}

/** Degrees of freedom that the variance within all flows lends to a single flow. */
const LENT = 4;

class TrajectoryTap implements Tap {
  readonly #sampler: PacketSampler;
  readonly #max: number;
  readonly #fingerprint: number;
  #samples: Sample[] = [];
  #cut: number | null = null;
  #packets = 0;
  #startNs = 0;
  readonly #limit: number;

  constructor({ seed }: TapContext, { rate, max }: TrajectoryParameters) {
    this.#sampler = new PacketSampler(seed, rate);
    this.#limit = this.#sampler.limit;
    this.#max = max;
    this.#fingerprint = samplingFingerprint(seed, `${rate}`);
  }

  get memoryBytes(): number {
    return 64 * (this.#samples.length + 64);
  }

  begin(epochStartNs: number): void {
    this.#startNs = epochStartNs;
  }

  update(batch: PacketBatch, from: number, to: number): void {
    const { digest, flowHash, timeNs } = batch;
    this.#sampler.each(batch, from, to, (i, hash) => {
      const at = Math.round(timeNs[i]!) - this.#startNs;
      if (!(Math.abs(at) < MAX_TIME_NS)) return;
      this.#samples.push({ hash, digest: wideAt(digest, i), flow: wideAt(flowHash, i), timeNs: at });
    });
    this.#packets += to - from;
    if (this.#samples.length > 1.5 * this.#max + 1024) this.#shed();
  }

  seal(): SealedEpoch {
    this.#shed();
    const payload = encodeSamples({ fingerprint: this.#fingerprint, cut: this.#cut, list: this.#samples });
    const sealed = { payload, packets: this.#packets };
    this.#samples = [];
    this.#cut = null;
    this.#packets = 0;
    this.#sampler.limit = this.#limit;
    return sealed;
  }

  free(): void {
    this.#samples = [];
  }

  #shed(): void {
    const all = { fingerprint: this.#fingerprint, cut: this.#cut, list: this.#samples };
    const { cut, list } = boundSamples(all, this.#max);
    this.#samples = list;
    this.#cut = cut;
    if (cut !== null) this.#sampler.limit = cut;
  }
}

export interface TrajectoryDelay {
  flow: bigint;
  delayNs: number;
  sentNs: number;
}

/** Joins the samples of both ends by digest; equal digests are matched first in, first out. */
function joinSamples(sender: Samples, receiver: Samples): TrajectoryDelay[] {
  const limit = Math.min(sender.cut ?? Infinity, receiver.cut ?? Infinity);
  const sent = new Map<bigint, Sample[]>();
  for (const sample of [...sender.list].sort((a, b) => a.timeNs - b.timeNs)) {
    if (sample.hash >= limit) continue;
    const list = sent.get(sample.digest);
    if (list) list.push(sample);
    else sent.set(sample.digest, [sample]);
  }
  const out: TrajectoryDelay[] = [];
  for (const { hash, digest, flow, timeNs } of [...receiver.list].sort((a, b) => a.timeNs - b.timeNs)) {
    const first = hash < limit ? sent.get(digest)?.shift() : undefined;
    if (first) out.push({ flow, delayNs: timeNs - first.timeNs, sentNs: first.timeNs });
  }
  return out;
}

function estimate(input: EstimateInput<TrajectoryParameters>): EstimatorAnswer {
  const { sender, receiver, parameters, seed, flows, confidence } = input;
  const print = samplingFingerprint(seed, `${parameters.rate}`);
  const read = (end: SealedEpoch | null) => (end ? decodeSamples(end, print) : null);
  const ends = { sent: read(sender), received: read(receiver) };
  const none: NoAnswer =
    sender && receiver
      ? { reason: "no-usable-cells", text: "fewer than two sampled packets were seen at both points" }
      : NO_RECORD;
  const joined =
    ends.sent && ends.received
      ? withoutOutliers(joinSamples(ends.sent, ends.received), (j) => j.delayNs)
      : [];
  const delays = joined.map((j) => j.delayNs);
  const notes: string[] = [];
  if (ends.sent?.cut !== null || ends.received?.cut !== null) {
    if (ends.sent && ends.received)
      notes.push("more packets were sampled than kept: those with large hashes were shed");
  }
  const sums = sumSamples(delays);
  const { mean, stdev } = describeSamples(sums, confidence, none);
  // Sampled packets in flight at a cut are in no pair, and they are the slow ones.
  const edge = {
    cutInFlight: input.cutInFlight,
    cutByPackets: input.cutByPackets,
    appeared: (ends.received?.list.length ?? 0) - delays.length,
    missing: (ends.sent?.list.length ?? 0) - delays.length,
    received: ends.received?.list.length ?? 0,
    epochNs: input.epochNs,
    varianceNs2: sums.m2 / Math.max(1, sums.count - 1),
    confidence,
  };
  return {
    segment: {
      mean: isNoAnswer(mean) ? mean : withPacketsInFlight(mean, edge),
      stdev: deviationWithPacketsInFlight(stdev, mean, edge),
      sent: sender?.packets ?? null,
      received: receiver?.packets ?? null,
      lost: sender && receiver ? sender.packets - receiver.packets : null,
      packetsUsed: delays.length,
      coverage: receiver && receiver.packets > 0 ? delays.length / receiver.packets : 0,
      notes,
    },
    flows: flows ? flowAnswers(joined, flows, confidence, none) : [],
    notes: [],
  };
}

function flowAnswers(
  joined: readonly TrajectoryDelay[],
  flows: KnownFlows,
  confidence: number,
  none: NoAnswer,
): FlowEstimate[] {
  const byFlow = new Map<bigint, number[]>();
  for (const { flow, delayNs } of joined) {
    const list = byFlow.get(flow);
    if (list) list.push(delayNs);
    else byFlow.set(flow, [delayNs]);
  }
  let [within, freedom, levels] = [0, 0, 0];
  for (const list of byFlow.values()) {
    const { m2, mean, count } = sumSamples(list);
    within += m2;
    freedom += count - 1;
    levels += (count - 1) * mean * mean;
  }
  // Slow flows vary more, so the lent variance grows with the level.
  const perLevel = levels > 0 ? within / levels : 0;
  const all = sumSamples(joined.map((j) => j.delayNs));
  // If no flow has two samples, only the differences between flows are known.
  const lent = freedom > 0 ? within / freedom : all.count > 1 ? all.m2 / (all.count - 1) : null;
  const absent: NoAnswer =
    joined.length === 0
      ? none
      : { reason: "not-in-sketch", text: "no packet of the flow was sampled at both points" };
  return Array.from({ length: flows.count }, (_, flow): FlowEstimate => {
    const name = wideAt(flows.hash, flow);
    const list = byFlow.get(name);
    const packets = Number.isNaN(flows.packets[flow]!) ? null : flows.packets[flow]!;
    if (!list || lent === null) return { flow, mean: absent, stdev: absent, packets, lost: null };
    const sums = sumSamples(list);
    const usual = Math.max(lent, perLevel * sums.mean * sums.mean);
    const variance = (sums.m2 + LENT * usual) / (sums.count - 1 + LENT);
    const mean = meanInterval(sums.mean, variance, sums.count, sums.count - 1 + LENT, confidence);
    const few: NoAnswer = {
      reason: "too-much-noise",
      text: "a standard deviation needs two samples of the flow",
    };
    return { flow, mean, stdev: describeSamples(sums, confidence, few).stdev, packets, lost: null };
  });
}

const PARAMETERS = samplingParameters({
  default: 1_000_000,
  max: 1 << 26,
  help: "samples kept per epoch; with more, those with the largest hashes are shed",
});

export const trajectory: Estimator<TrajectoryParameters> = {
  name: "trajectory",
  version: 1,
  title: "trajectory sampling with timestamps",
  text: {
    answers:
      "Mean and standard deviation of the delay of sampled packets, for the segment and for flows with samples.",
    needs: "A tap at both points and synchronised clocks.",
    cost: "About 20 bytes per sampled packet and point.",
    example: "hoptime observe a.pcap ‘point A’ ‘estimators trajectory’ ‘trajectory rate=0.01’",
  },
  answers: ["segment", "flow"],
  needs: { sender: true, delays: false, flows: "names" },
  parameters: PARAMETERS,
  complete: (values) => values as TrajectoryParameters,
  createTap: (context, parameters) => new TrajectoryTap(context, parameters),
  merge(a, b, { max }) {
    const merged = mergeSamples(decodeSamples(a), decodeSamples(b), max);
    return { payload: encodeSamples(merged), packets: a.packets + b.packets };
  },
  rebase(sealed, earlierNs) {
    const { fingerprint, cut, list } = decodeSamples(sealed);
    const moved = list.map((s) => ({ ...s, timeNs: s.timeNs + earlierNs }));
    return { payload: encodeSamples({ fingerprint, cut, list: moved }), packets: sealed.packets };
  },
  estimate,
  sizing: {
    size: (request) => sizeTrajectory(request, defaultParameters(PARAMETERS) as TrajectoryParameters),
  },
};
