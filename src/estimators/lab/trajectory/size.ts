/** Chooses the sampling rate for a target error of the segment's mean or of flows of a size, and states its cost. */
import { UsageError } from "../../../base/errors.ts";
import type { SizeAnswer, SizePrediction, SizeRequest } from "../../estimator.ts";
import { INDEPENDENCE_NOTE, refuseReliability, sampleError, samplesFor } from "../sample-size.ts";
import type { TrajectoryParameters } from "./trajectory.ts";

const SAMPLE_BYTES = 64;
const PAYLOAD_SAMPLE_BYTES = 26;
const HEADER_BYTES = 12;

export function sizeTrajectory(
  request: SizeRequest,
  defaults: TrajectoryParameters,
): SizeAnswer<TrajectoryParameters> {
  refuseReliability("trajectory", request.reliability);
  const loss = request.loss.length > 0 ? request.loss : [0];
  const arriving = 1 - Math.max(...loss);
  const rate = chooseRate(request, arriving, defaults.rate);
  const samples = rate * request.packets;
  const max = Math.ceil(Math.max(1024, 1.25 * samples));
  const payloadBytes = Math.round(HEADER_BYTES + PAYLOAD_SAMPLE_BYTES * samples);
  const predictions = loss.flatMap((lost): SizePrediction[] => {
    const line = (quantity: string, used: number): SizePrediction => ({
      ...{ quantity, loss: lost, relativeError: sampleError(request.variation, used), packetsUsed: used },
    });
    const { flowSize } = request;
    const mean = line("mean", samples * (1 - lost));
    if (flowSize === null) return [mean];
    return [mean, line(`mean of flows of ${flowSize} packets`, rate * flowSize * (1 - lost))];
  });
  const notes = [INDEPENDENCE_NOTE];
  if (request.flowSize !== null && rate * request.flowSize * arriving < 1)
    notes.push("most flows of that size have no sample, and no answer");
  return {
    parameters: { ...defaults, rate, max, ...request.fixed },
    memoryBytes: Math.round(SAMPLE_BYTES * (samples + 64)),
    payloadBytes,
    bitsPerSecond: (8 * payloadBytes) / (request.epochNs / 1e9),
    bitsPerPacket: (8 * payloadBytes) / request.packets,
    predictions,
    notes,
  };
}

function chooseRate(request: SizeRequest, arriving: number, usual: number): number {
  const { error, memoryBytes, packets, flowSize, fixed } = request;
  if (typeof fixed["rate"] === "number") return fixed["rate"];
  if (memoryBytes !== null) {
    const rate = Math.min(1, (memoryBytes / SAMPLE_BYTES - 64) / packets);
    if (!(rate > 0))
      throw new UsageError(
        "bad-parameter",
        `${memoryBytes} bytes are too few for samples`,
        `the minimum is ${65 * SAMPLE_BYTES}`,
      );
    return rate;
  }
  if (error === null) return usual;
  const rate = samplesFor(request.variation, error) / ((flowSize ?? packets) * arriving);
  if (rate > 1) {
    const of = flowSize === null ? "an epoch" : `a flow of ${flowSize} packets`;
    throw new UsageError(
      "bad-parameter",
      `even all packets of ${of} are too few for an error of ${error}`,
      "allow a larger error, or ask for larger flows (‘flow-size’) or longer epochs",
    );
  }
  return rate;
}
