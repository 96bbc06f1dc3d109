/**
 * Widens intervals by the error of the delays that the estimator was fed with; the estimator cannot know that error itself.
 *
 * A flow's packets may all lie in one gap, or arrive in the same pattern each time. The error is therefore assumed not to average out within a flow or over
 * its epochs (`Interval.common`). That is wide for long flows; `rli` itself knows the gaps of each flow and is narrower.
 */
import { normalQuantile } from "../base/math/special.ts";
import type { DelayError } from "../delays/delay-error.ts";
import {
  type EstimatorAnswer,
  type Interval,
  isNoAnswer,
  type NoAnswer,
  type PacketAnswers,
  type PacketLookup,
} from "./estimator.ts";

/** Returns the same answer with intervals widened by the error of the delays. */
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

function widen(interval: Interval | NoAnswer, byNs: number, lastingNs: number): Interval | NoAnswer {
  if (isNoAnswer(interval)) return interval;
  const { common } = interval;
  const out: Interval = { ...interval, lowNs: interval.lowNs - byNs, highNs: interval.highNs + byNs };
  if (lastingNs > 0 || common)
    out.common = { lowNs: (common?.lowNs ?? 0) + lastingNs, highNs: (common?.highNs ?? 0) + lastingNs };
  return out;
}

/** Standard deviations differ by at most the root mean square of the errors (triangle inequality of the L2 norm). */
function widenDeviation(interval: Interval | NoAnswer, byNs: number): Interval | NoAnswer {
  if (isNoAnswer(interval)) return interval;
  return { ...interval, lowNs: Math.max(0, interval.lowNs - byNs), highNs: interval.highNs + byNs };
}

/** Answers for single packets have no confidence of their own; 95 % is used. */
const PACKET_CONFIDENCE = 0.95;

/** Widens the answers for single packets in the same way. */
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
    everyPacket: () => widened(lookup.everyPacket()),
    lists: lookup.lists,
    findFlow: (hashHigh, keyWords) => lookup.findFlow(hashHigh, keyWords),
    flows: () => lookup.flows(),
    absentAccepted: lookup.absentAccepted,
    boundsHold: lookup.boundsHold,
    costs: () => lookup.costs(),
    free: () => lookup.free(),
  };
}
