/**
 * How far off the delays are that an estimator was fed with, where they are not exact (RLI's interpolation): what its own intervals cannot know is added to them. An epoch has two
 * numbers: the root mean square error of a packet's delay, and of the mean over all its packets, in which gaps between references err independently.
 *
 * A flow's packets may lie in one gap, or come in the same way each time: nothing is taken to average out within a flow, nor over its epochs (`Interval.common`). That is wide for
 * long flows; `rli` itself knows the gaps of each flow and is narrower.
 */
import { normalQuantile } from "../base/special.ts";
import {
  type EstimatorAnswer,
  type Interval,
  isNoAnswer,
  type NoAnswer,
  type PacketAnswers,
  type PacketLookup,
} from "./estimator.ts";

/** Root mean square errors, ns. */
export interface DelayError {
  packetNs: number;
  meanNs: number;
}

/** What the errors of some packets add up to: squares; squares of the sums within gaps; and the sum of what errs alike in all. */
export interface DelayErrorSums {
  packets: number;
  squares: number;
  gapSquares: number;
  alike: number;
}

export const noDelayErrors = (): DelayErrorSums => ({ packets: 0, squares: 0, gapSquares: 0, alike: 0 });

export function addDelayErrors(to: DelayErrorSums, more: DelayErrorSums): void {
  to.packets += more.packets;
  to.squares += more.squares;
  to.gapSquares += more.gapSquares;
  to.alike += more.alike;
}

/** Null where no packet has a delay that may be off. */
export function delayErrorOf({ packets, squares, gapSquares, alike }: DelayErrorSums): DelayError | null {
  if (packets === 0) return null;
  return {
    packetNs: Math.sqrt(squares / packets),
    meanNs: Math.sqrt(gapSquares + alike * alike) / packets,
  };
}

/** Two epochs of one tap as one. */
export function mergeDelayErrors(
  a: { error: DelayError | null; packets: number },
  b: { error: DelayError | null; packets: number },
): DelayError | null {
  if (!a.error || !b.error) return a.error ?? b.error;
  const packets = Math.max(1, a.packets + b.packets);
  const [p, q] = [a.packets / packets, b.packets / packets];
  return {
    packetNs: Math.sqrt(p * a.error.packetNs ** 2 + q * b.error.packetNs ** 2),
    meanNs: Math.hypot(p * a.error.meanNs, q * b.error.meanNs),
  };
}

const scratch = new DataView(new ArrayBuffer(4));
/** The upper half of a float32, rounded up: within 0.8 %, never less. */
function half(valueNs: number): number {
  scratch.setFloat32(0, Math.max(0, Math.min(valueNs, 1e18)));
  const bits = scratch.getUint32(0);
  return (bits >>> 16) + ((bits & 0xffff) === 0 ? 0 : 1);
}
function whole(bits: number): number {
  scratch.setUint32(0, bits << 16);
  return scratch.getFloat32(0);
}

/** Both numbers in 32 bits, as records have them; 0: delays are exact, or there are none. */
export function packDelayError(error: DelayError | null): number {
  return error === null ? 0 : ((half(error.packetNs) << 16) | half(error.meanNs)) >>> 0;
}
export function unpackDelayError(bits: number): DelayError | null {
  return bits === 0 ? null : { packetNs: whole(bits >>> 16), meanNs: whole(bits & 0xffff) };
}

/** The same answer, with intervals that hold what the delays were off by. */
export function widenByDelayError(
  answer: EstimatorAnswer,
  error: DelayError | null,
  confidence: number,
): EstimatorAnswer {
  if (error === null) return answer;
  const z = normalQuantile((1 + confidence) / 2);
  const [packet, mean] = [z * error.packetNs, z * error.meanNs];
  const { segment } = answer;
  return {
    ...answer,
    segment: segment && {
      ...segment,
      mean: widen(segment.mean, mean, 0),
      stdev: widenDeviation(segment.stdev, packet),
    },
    flows: answer.flows.map((flow) => ({
      ...flow,
      mean: widen(flow.mean, packet, packet),
      stdev: widenDeviation(flow.stdev, packet),
    })),
  };
}

function widen(told: Interval | NoAnswer, byNs: number, lastingNs: number): Interval | NoAnswer {
  if (isNoAnswer(told)) return told;
  const { common } = told;
  const out: Interval = { ...told, lowNs: told.lowNs - byNs, highNs: told.highNs + byNs };
  if (lastingNs > 0 || common)
    out.common = { lowNs: (common?.lowNs ?? 0) + lastingNs, highNs: (common?.highNs ?? 0) + lastingNs };
  return out;
}

/** Deviations differ by no more than the root mean square of the errors (the triangle inequality of the L2 norm). */
function widenDeviation(told: Interval | NoAnswer, byNs: number): Interval | NoAnswer {
  if (isNoAnswer(told)) return told;
  return { ...told, lowNs: Math.max(0, told.lowNs - byNs), highNs: told.highNs + byNs };
}

/** What single packets are told has no confidence of its own: it is that of 95 %. */
const PACKET_CONFIDENCE = 0.95;

/** Answers for single packets, the same way. */
export function widenLookup(lookup: PacketLookup, error: DelayError | null): PacketLookup {
  if (error === null) return lookup;
  const by = normalQuantile((1 + PACKET_CONFIDENCE) / 2) * error.packetNs;
  const widened = (answers: PacketAnswers): PacketAnswers => ({
    ...answers,
    lowNs: answers.lowNs.map((x) => x - by),
    highNs: answers.highNs.map((x) => x + by),
  });
  return {
    has: (identity) => lookup.has(identity),
    lookup: (identity, keys, wireBytes) => widened(lookup.lookup(identity, keys, wireBytes)),
    keepsFlows: lookup.keepsFlows,
    flowPackets: (hash) => {
      const answers = lookup.flowPackets(hash);
      return answers && widened(answers);
    },
    lists: lookup.lists,
    findFlow: (hashHigh, keyWords) => lookup.findFlow(hashHigh, keyWords),
    flows: () => lookup.flows(),
    absentAccepted: lookup.absentAccepted,
    costs: () => lookup.costs(),
    free: () => lookup.free(),
  };
}
