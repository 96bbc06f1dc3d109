/**
 * From MAPLE's payloads to answers. The segment's mean is the exact mean of all packets with a delay. A flow's packets are known by group, so its mean lies
 * between the means of the groups' smallest and largest delays. If the epoch had more packets than the capacity, the stored ones are a sample by digest, and
 * the interval also includes the sampling error.
 */
import { Kernels } from "../../base/kernels.ts";
import { studentQuantile } from "../../base/math/special.ts";
import { countOf, formatCount, significant } from "../../base/quantity.ts";
import type {
  FlowEstimate,
  Interval,
  KnownFlows,
  NoAnswer,
  PacketAnswers,
  SealedEpoch,
  SegmentEstimate,
} from "../estimator.ts";
import { KEY_WORDS } from "../flow-keys.ts";
import { NO_MATCH } from "../packet-answers.ts";
import { flowPacketKeys } from "../packet-keys.ts";
import type { EpochTotals } from "./epoch-buffer.ts";
import { MaplePayload } from "./lookup.ts";

/** Squares of longer delays are not stored exactly (kernels/maple/buffer.ts). */
const LONGEST_SQUARED_NS = 2 ** 32;
/** Weight of the epoch's variance in a sampled flow's variance, in packets. */
const PRIOR_PACKETS = 3;

/** The share of packets stored, and the variance of all packets. */
export interface Sample {
  share: number;
  /** All packets have a delay. */
  complete: boolean;
  varianceNs2: number;
}

export function sampleOf(totals: readonly EpochTotals[]): Sample {
  const stored = totals.reduce((n, t) => n + t.stored, 0);
  const shed = totals.reduce((n, t) => n + t.shed, 0);
  const { summed, sum, squares } = sumsOf(totals);
  return {
    share: stored === 0 ? 1 : stored / (stored + shed),
    complete: totals.every((t) => t.unknown === 0),
    varianceNs2: summed === 0 ? 0 : varianceOf(summed, sum, squares),
  };
}

/** Returns the sums of all parts without a base; integers, so that nothing cancels. */
function sumsOf(totals: readonly EpochTotals[]): { summed: number; sum: bigint; squares: bigint } {
  let summed = 0;
  let [sum, squares] = [0n, 0n];
  for (const t of totals) {
    const [n, base] = [BigInt(t.summed), BigInt(t.baseNs)];
    summed += t.summed;
    sum += t.sum + n * base;
    squares += t.squares + 2n * base * t.sum + n * base * base;
  }
  return { summed, sum, squares };
}

function varianceOf(summed: number, sum: bigint, squares: bigint): number {
  return Math.max(0, Number(BigInt(summed) * squares - sum * sum) / summed / summed);
}

export function estimateSegment(totals: readonly EpochTotals[]): SegmentEstimate {
  const count = (pick: (t: EpochTotals) => number) => totals.reduce((n, t) => n + pick(t), 0);
  const [seen, unknown, shed] = [count((t) => t.seen), count((t) => t.unknown), count((t) => t.shed)];
  const { summed, sum, squares } = sumsOf(totals);
  const notes: string[] = [];
  if (unknown > 0)
    notes.push(`${formatCount(unknown)} of ${countOf(seen, "packet")} have no delay and are not in the mean`);
  if (shed > 0) {
    const sampled = summed > count((t) => t.stored);
    const kept = significant((100 * (seen - unknown - shed)) / (seen - unknown), 3);
    notes.push(
      sampled
        ? `more packets than the capacity: a sample of ${kept} % is stored, flows are estimated from it, and other packets are not found`
        : `more packets than the capacity: the first ${kept} % of the epoch alone were measured (a record of an earlier version)`,
    );
  }
  const rest = { sent: null, received: seen, lost: null, packetsUsed: summed, notes };
  if (summed === 0) {
    const none: NoAnswer = { reason: "no-packets", text: "no packet with a known delay was seen" };
    return { ...rest, mean: none, stdev: none, coverage: 0 };
  }
  // Exact, except for rounding each delay to whole ns, and very large delays to double precision.
  const exact = (valueNs: number): Interval => {
    const half = Math.max(0.5, Math.abs(valueNs) * 2 ** -51);
    return { valueNs, lowNs: valueNs - half, highNs: valueNs + half };
  };
  const overflow: NoAnswer = { reason: "overflow", text: "delays above 4.29 s are not squared exactly" };
  const longest = Math.max(
    ...totals.map((t) => (t.summed === 0 ? 0 : Math.max(Math.abs(t.minNs), Math.abs(t.maxNs)))),
  );
  const whole = sum / BigInt(summed);
  return {
    ...rest,
    mean: exact(Number(whole) + Number(sum - whole * BigInt(summed)) / summed),
    stdev: longest >= LONGEST_SQUARED_NS ? overflow : exact(Math.sqrt(varianceOf(summed, sum, squares))),
    coverage: summed / seen,
    ...(summed === seen ? {} : { measured: summed }),
  };
}

/** Answers for named flows: from the delays stored for them, or by finding their IPIDs in the store. */
export function estimateFlows(
  sealed: SealedEpoch,
  flows: KnownFlows,
  sample: Sample,
  confidence: number,
): FlowEstimate[] {
  // Lives as long as this call, and its memory with it.
  const kernels = new Kernels();
  const payload = MaplePayload.of(kernels, sealed.payload);
  const known = payload.lists || payload.keepsFlows;
  const out: FlowEstimate[] = [];
  for (let flow = 0; flow < flows.count; flow++) {
    const { packets, lists } = known ? packetsOf(kernels, payload, flows, flow) : { packets: 0, lists: [] };
    const pivotNs = lists.flatMap((l) => [...l.valueNs.subarray(0, 1)]).find(Number.isFinite) ?? 0;
    const sums = lists.map((l) => sumAnswers(l, pivotNs)).filter((s) => s.n > 0);
    if (sums.length > 0) {
      out.push(flowEstimate(flow, packets, { sums, pivotNs }, sample, confidence));
      continue;
    }
    const none = whyNone(known, packets);
    // If all packets with a delay are stored, this flow's packets had none.
    const unmeasured = known && packets === 0 && !sample.complete && sample.share === 1;
    out.push({
      ...{ flow, mean: none, stdev: none, packets: null, lost: null },
      ...(unmeasured ? { measured: 0 } : {}),
    });
  }
  payload.free();
  return out;
}

function whyNone(known: boolean, packets: number): NoAnswer {
  if (!known)
    return {
      reason: "not-supported",
      text: "the tap kept no flows (index=false): ask by digests or IPIDs",
    };
  return packets === 0
    ? { reason: "not-in-sketch", text: "no packet of the flow is listed" }
    : { reason: "no-usable-cells", text: "its packets have no IPID" };
}

/** Returns the answers for a flow's packets. Several lists: flows that look the same, one of which is the requested one. */
function packetsOf(
  kernels: Kernels,
  payload: MaplePayload,
  flows: KnownFlows,
  flow: number,
): { packets: number; lists: PacketAnswers[] } {
  const [low = 0, high = 0] = flows.hash.subarray(2 * flow, 2 * flow + 2);
  const hash = (BigInt(high) << 32n) | BigInt(low);
  const lists: PacketAnswers[] = [];
  let packets = 0;
  for (const part of payload.parts) {
    for (const answers of part.flowCandidates(hash)) {
      packets += answers.count;
      lists.push(answers);
    }
    const entry = part.index?.find(high, flows.keyWords, KEY_WORDS * flow);
    if (!entry) continue;
    packets += entry.packets;
    lists.push(part.lookup("flow-ipid", flowPacketKeys(kernels, hash, entry.ranges)));
  }
  return { packets, lists };
}

interface AnswerSums {
  n: number;
  value: number;
  low: number;
  high: number;
  squares: number;
  widths: number;
  /** The answers may be another flow's. */
  guess: boolean;
}

/** Sums relative to `pivotNs`, a nearby value, so that a clock offset does not cost precision. */
function sumAnswers(answers: PacketAnswers, pivotNs: number): AnswerSums {
  const guess = answers.guess === true;
  const sums: AnswerSums = { n: 0, value: 0, low: 0, high: 0, squares: 0, widths: 0, guess };
  for (let i = 0; i < answers.count; i++) {
    if (answers.kind[i] === NO_MATCH) continue;
    const value = answers.valueNs[i]! - pivotNs;
    const low = answers.lowNs[i]! - pivotNs;
    const high = answers.highNs[i]! - pivotNs;
    sums.n++;
    sums.value += value;
    sums.low += low;
    sums.high += high;
    sums.squares += value * value + answers.varianceNs2[i]!;
    sums.widths += (high - low) ** 2;
  }
  return sums;
}

function flowEstimate(
  flow: number,
  packets: number,
  { sums, pivotNs }: { sums: readonly AnswerSums[]; pivotNs: number },
  { share, varianceNs2, complete }: Sample,
  confidence: number,
): FlowEstimate {
  const all = (pick: (s: AnswerSums) => number) => sums.reduce((total, s) => total + pick(s), 0);
  const n = all((s) => s.n);
  const mean = all((s) => s.value) / n;
  const variance = Math.max(0, all((s) => s.squares) / n - mean * mean);
  const stdev = Math.sqrt(variance);
  // If flows look the same, any of them may be the requested one.
  const guess = sums.some((s) => s.guess);
  const low = guess ? Math.min(...sums.map((s) => s.low / s.n)) : all((s) => s.low) / n;
  const high = guess ? Math.max(...sums.map((s) => s.high / s.n)) : all((s) => s.high) / n;
  // Each delay is off by at most its group's width, so the standard deviation is off by at most the root mean square of the widths.
  const width = Math.sqrt(all((s) => s.widths) / n);
  const missed = samplingError(n, variance, share, varianceNs2, confidence);
  return {
    flow,
    mean: {
      valueNs: pivotNs + mean,
      lowNs: pivotNs + low - missed.meanNs,
      highNs: pivotNs + high + missed.meanNs,
      common: { lowNs: mean - low, highNs: high - mean },
    },
    stdev: {
      valueNs: stdev,
      lowNs: Math.max(0, stdev - width - missed.stdevNs),
      highNs: stdev + width + missed.stdevNs,
      bound: true,
    },
    packets: Math.round(packets / share),
    ...(complete ? {} : { measured: n / sums.length / share }),
    lost: null,
  };
}

/**
 * Returns by how much a flow's packets that were not stored may shift its mean and standard deviation. A few packets hardly show their own variance, so the
 * epoch's variance is added with the weight of three packets.
 */
function samplingError(n: number, variance: number, share: number, ofAll: number, confidence: number) {
  if (share >= 1) return { meanNs: 0, stdevNs: 0 };
  const freedom = n - 1 + PRIOR_PACKETS;
  const pooled = (n * variance + PRIOR_PACKETS * ofAll) / freedom;
  const t = studentQuantile((1 + confidence) / 2, freedom);
  const error = t * Math.sqrt(((1 - share) * pooled) / n);
  return { meanNs: error, stdevNs: error };
}
