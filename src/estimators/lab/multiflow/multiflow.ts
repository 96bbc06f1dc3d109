/**
 * The multiflow estimator over sampled flow records (Lee, Duffield, Kompella, "Two samples are enough"; rli-ton section IV-B compares with it). Two points
 * sample the same packets and keep NetFlow-like records with the times of a flow's first and last sampled packet. If both points have the same first (last)
 * packet, their difference is a delay. `endpoint` averages a flow's own two delays; `multiflow` averages all delays of any flow between its first and last
 * packet.
 *
 * Baseline: it lends a flow the delays of others. Flows with two delays of their own show how much flows differ from those that lend to them: both delays then
 * differ in the same direction. Also, a flow sends in bursts: if consecutive delays are similar, its few bursts are not a representative sample of its time.
 * Intervals use the larger of the two variances, the same for all flows.
 */
import type { PacketBatch } from "../../../capture/batch.ts";
import type {
  EstimateInput,
  Estimator,
  EstimatorAnswer,
  FlowEstimate,
  KnownFlows,
  NoAnswer,
  ParameterSpec,
  ParameterValues,
  SealedEpoch,
  Tap,
  TapContext,
} from "../../estimator.ts";
import { wideAt } from "../../flow-keys.ts";
import { keepFlows } from "../../keep-flows.ts";
import { meanInterval, sumSamples, withoutOutliers } from "../sample-statistics.ts";
import {
  MAX_TIME_NS,
  NO_RECORD,
  PacketSampler,
  samplingFingerprint,
  samplingParameters,
} from "../sampling.ts";
import {
  addRecord,
  boundRecords,
  decodeRecords,
  encodeRecords,
  type FlowRecord,
  type FlowRecords,
  mergeRecords,
} from "./payload.ts";

export interface MultiflowParameters extends ParameterValues {
  rate: number;
  max: number;
  decoder: "multiflow" | "endpoint";
}

class MultiflowTap implements Tap {
  readonly #sampler: PacketSampler;
  readonly #max: number;
  #state: FlowRecords;
  #packets = 0;
  #startNs = 0;

  constructor({ seed }: TapContext, { rate, max }: MultiflowParameters) {
    this.#sampler = new PacketSampler(seed, rate);
    this.#max = max;
    this.#state = { fingerprint: samplingFingerprint(seed, `${rate}`), cut: null, records: new Map() };
  }

  get memoryBytes(): number {
    return 160 * (this.#state.records.size + 16);
  }

  begin(epochStartNs: number): void {
    this.#startNs = epochStartNs;
  }

  update(batch: PacketBatch, from: number, to: number): void {
    const { digest, flowHash, timeNs } = batch;
    const { records, cut } = this.#state;
    this.#sampler.each(batch, from, to, (i) => {
      const flow = wideAt(flowHash, i);
      if (cut !== null && flow >= cut) return;
      const at = Math.round(timeNs[i]!) - this.#startNs;
      if (!(Math.abs(at) < MAX_TIME_NS)) return;
      const timestamp = { timeNs: at, digest: wideAt(digest, i) };
      addRecord(records, flow, { packets: 1, first: timestamp, last: timestamp });
    });
    this.#packets += to - from;
    if (records.size > 1.5 * this.#max + 1024) this.#state = boundRecords(this.#state, this.#max);
  }

  seal(): SealedEpoch {
    const payload = encodeRecords(boundRecords(this.#state, this.#max));
    const sealed = { payload, packets: this.#packets };
    this.#state = { fingerprint: this.#state.fingerprint, cut: null, records: new Map() };
    this.#packets = 0;
    return sealed;
  }

  free(): void {
    this.#state.records.clear();
  }
}

/** Delays of packets that both points timestamped as first or last of a flow, ordered by sending time. */
class DelaySamples {
  readonly atNs: Float64Array;
  readonly delayNs: Float64Array;

  constructor(sender: FlowRecords, receiver: FlowRecords) {
    const found = new Map<bigint, { at: number; delay: number }>();
    for (const [flow, sent] of sender.records) {
      const got = receiver.records.get(flow);
      if (!got) continue;
      for (const end of ["first", "last"] as const) {
        if (sent[end].digest !== got[end].digest) continue;
        // A record with a single packet has one delay, not two.
        const { timeNs, digest } = sent[end];
        found.set(digest, { at: timeNs, delay: got[end].timeNs - timeNs });
      }
    }
    const order = withoutOutliers([...found.values()], (o) => o.delay).sort((a, b) => a.at - b.at);
    this.atNs = Float64Array.from(order, (o) => o.at);
    this.delayNs = Float64Array.from(order, (o) => o.delay);
  }

  /** Returns the index of the first sample sent at this time or later. */
  #from(timeNs: number): number {
    let [low, high] = [0, this.atNs.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.atNs[middle]! < timeNs) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Covariance of consecutive delays. */
  covarianceOfNeighbours(): number {
    const { delayNs } = this;
    const mean = delayNs.reduce((s, d) => s + d, 0) / delayNs.length;
    let sum = 0;
    for (let i = 1; i < delayNs.length; i++) sum += (delayNs[i]! - mean) * (delayNs[i - 1]! - mean);
    return sum / Math.max(1, delayNs.length - 1);
  }

  between(firstNs: number, lastNs: number): number[] {
    return Array.from(this.delayNs.subarray(this.#from(firstNs), this.#from(lastNs + 0.5)));
  }
}

function own(sent: FlowRecord, got: FlowRecord | undefined): number[] {
  if (!got) return [];
  const ends = (["first", "last"] as const).filter((e) => sent[e].digest === got[e].digest);
  const delays = ends.map((e) => got[e].timeNs - sent[e].timeNs);
  return sent.packets === 1 ? delays.slice(0, 1) : delays;
}

/** Degrees of freedom of Student's t distribution for the differences between flows. */
const TAILS = 4;

const LENT_DELAYS: NoAnswer = {
  reason: "not-supported",
  text: "the delays are those of other flows, or two of its own: how packets of the flow vary is not measurable",
};

/** Minimum number of flows with two delays of their own to estimate how much flows differ. */
const MIN_COUNT = 8;

/** Variance of a flow's mean around the mean of the others during its time: E[(own first - others)(own last - others)]. Null if too few flows show it. */
function varianceBetweenFlows(sent: FlowRecords, got: FlowRecords, samples: DelaySamples): number | null {
  let [sum, count] = [0, 0];
  for (const [flow, record] of sent.records) {
    const mine = own(record, got.records.get(flow));
    if (mine.length < 2) continue;
    const lent = samples.between(record.first.timeNs, record.last.timeNs);
    if (lent.length < 3) continue;
    const [first, last] = mine as [number, number];
    const others = (lent.reduce((s, d) => s + d, 0) - first - last) / (lent.length - 2);
    sum += (first - others) * (last - others);
    count++;
  }
  return count < MIN_COUNT ? null : Math.max(0, sum / count, samples.covarianceOfNeighbours());
}

function estimate(input: EstimateInput<MultiflowParameters>): EstimatorAnswer {
  const { sender, receiver, parameters, seed, flows, confidence } = input;
  const print = samplingFingerprint(seed, `${parameters.rate}`);
  const sent = sender ? decodeRecords(sender, print) : null;
  const got = receiver ? decodeRecords(receiver, print) : null;
  const samples = sent && got ? new DelaySamples(sent, got) : null;
  const all = sumSamples(samples ? Array.from(samples.delayNs) : []);
  const none: NoAnswer =
    samples === null
      ? NO_RECORD
      : {
          reason: "not-in-sketch",
          text: "no record of the flow has a first or last packet that both points saw",
        };
  const usual = all.count > 1 ? all.m2 / (all.count - 1) : null;
  const lending = parameters.decoder === "multiflow" && sent && got && samples;
  const between = (lending ? varianceBetweenFlows(sent, got, samples) : null) ?? usual ?? 0;
  const answerOf = ({ hash, packets: sizes }: KnownFlows, flow: number): FlowEstimate => {
    const name = wideAt(hash, flow);
    const packets = Number.isNaN(sizes[flow]!) ? null : sizes[flow]!;
    const record = sent?.records.get(name);
    const nothing = { flow, mean: none, stdev: none, packets, lost: null };
    if (!samples || !record || usual === null) return nothing;
    const delays =
      parameters.decoder === "endpoint"
        ? own(record, got?.records.get(name))
        : samples.between(record.first.timeNs, record.last.timeNs);
    if (delays.length === 0) return nothing;
    const sums = sumSamples(delays);
    const mine = own(record, got?.records.get(name)).length;
    // The flow's own delays are not lent.
    const lent = parameters.decoder === "endpoint" ? 0 : 1 - Math.min(1, mine / sums.count);
    const variance = (sums.m2 + usual) / sums.count + lent * lent * between * sums.count;
    // The differences between flows have heavier tails than a normal distribution.
    const ofOthers = lent * lent * between;
    const error = variance / sums.count;
    const mean = meanInterval(sums.mean, variance, sums.count, Math.min(TAILS, sums.count), confidence);
    return {
      flow,
      // The error of the lent delays is the same in every epoch.
      mean: { ...mean, repeats: error > 0 ? Math.min(1, ofOthers / error) : 1 },
      stdev: LENT_DELAYS,
      packets,
      lost: null,
    };
  };
  const answers = flows ? Array.from({ length: flows.count }, (_, flow) => answerOf(flows, flow)) : [];
  return { segment: null, flows: answers, notes: [] };
}

const PARAMETERS: readonly ParameterSpec[] = [
  ...samplingParameters({
    default: 262_144,
    max: 1 << 24,
    help: "flow records per epoch; with more, those with the largest hashes are shed",
  }),
  {
    name: "decoder",
    kind: "choice",
    choices: ["multiflow", "endpoint"],
    default: "multiflow",
    queryOnly: true,
    help: "delays averaged for a flow: all between its first and last packet, or its own two",
  },
];

export const multiflow: Estimator<MultiflowParameters> = {
  name: "multiflow",
  version: 1,
  title: "multiflow estimator over sampled flow records",
  text: {
    answers:
      "Mean delay of sampled flows, from the first and last packet of each and of the flows beside them.",
    needs: "A tap at both points, synchronised clocks, and names of flows.",
    cost: "About 40 bytes per sampled flow and point.",
    example: "hoptime observe a.pcap ‘point A’ ‘estimators multiflow’ ‘multiflow rate=0.01’",
  },
  answers: ["flow"],
  needs: { sender: true, delays: false, flows: "names" },
  parameters: PARAMETERS,
  complete: (values) => values as MultiflowParameters,
  createTap: (context, parameters) => new MultiflowTap(context, parameters),
  merge(a, b, { max }) {
    const merged = mergeRecords(decodeRecords(a), decodeRecords(b), max);
    return { payload: encodeRecords(merged), packets: a.packets + b.packets };
  },
  rebase(sealed, earlierNs) {
    const state = decodeRecords(sealed);
    const move = (timestamp: FlowRecord["first"]) => ({ ...timestamp, timeNs: timestamp.timeNs + earlierNs });
    for (const [flow, { packets, first, last }] of state.records)
      state.records.set(flow, { packets, first: move(first), last: move(last) });
    return { payload: encodeRecords(state), packets: sealed.packets };
  },
  estimate,
  tuning: { keepFlows: keepFlows(PARAMETERS, "max") },
};
