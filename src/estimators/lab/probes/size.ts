/** Chooses the number of probes for a target error of the segment's mean, and states their cost. */
import { UsageError } from "../../../base/errors.ts";
import { formatBitRate, formatCount, significant } from "../../../base/quantity.ts";
import type { ParameterValues, SizeAnswer, SizeRequest } from "../../estimator.ts";
import { INDEPENDENCE_NOTE, refuseReliability, sampleError, samplesFor } from "../sample-size.ts";

/** A STAMP packet of 44 bytes in UDP, IPv4 and Ethernet. */
const PROBE_BYTES = 86;
const TAP_BYTES = 256;
const PAYLOAD_BYTES = 52;
/** Default rate of `hoptime reference`. */
const DEFAULT_PER_SECOND = 10;
const MAX_PER_SECOND = 100_000;

export function sizeProbes<P extends ParameterValues>(request: SizeRequest, defaults: P): SizeAnswer<P> {
  refuseReliability("probes", request.reliability);
  const seconds = request.epochNs / 1e9;
  const loss = request.loss.length > 0 ? request.loss : [0];
  const arriving = 1 - Math.max(...loss);
  const perSecond =
    request.error === null
      ? DEFAULT_PER_SECOND
      : samplesFor(request.variation, request.error) / arriving / seconds;
  if (!(perSecond <= MAX_PER_SECOND)) {
    throw new UsageError(
      "bad-parameter",
      `an error of ${significant(100 * (request.error ?? 0), 3)} % takes ${formatCount(perSecond)} probes per second`,
      "allow a larger error, or longer epochs (‘epoch’)",
    );
  }
  return {
    parameters: { ...defaults, ...request.fixed },
    memoryBytes: TAP_BYTES,
    payloadBytes: PAYLOAD_BYTES,
    bitsPerSecond: (8 * PAYLOAD_BYTES) / seconds,
    bitsPerPacket: (8 * PAYLOAD_BYTES) / request.packets,
    references: { every: null, perSecond, bitsPerSecond: 8 * PROBE_BYTES * perSecond },
    predictions: loss.map((rate) => {
      const used = perSecond * seconds * (1 - rate);
      const relativeError = sampleError(request.variation, used);
      return { quantity: "mean", loss: rate, relativeError, packetsUsed: used };
    }),
    notes: [
      `hoptime reference ‘rate ${Math.max(1, Math.ceil(perSecond))}’: ${formatBitRate(8 * PROBE_BYTES * perSecond)}`,
      INDEPENDENCE_NOTE,
      "probes are spaced in time; packets of bursts meet longer queues",
      ...(request.flowSize === null
        ? []
        : ["probes do not distinguish flows: the error is that of the segment's mean"]),
    ],
  };
}
