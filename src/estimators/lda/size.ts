/**
 * Chooses a geometry for the expected traffic and predicts its accuracy. The effective sample S is that of sampling.ts. The mean's error is normal with
 * standard deviation variation/sqrt(S), less the gain from sampling a finite whole. The deviation's error follows from its spread (delays.ts) at the kurtosis
 * of a Weibull delay with that variation.
 */

import { UsageError } from "../../base/errors.ts";
import { lgamma } from "../../base/math/special.ts";
import { countOf, significant } from "../../base/quantity.ts";
import type { SizeAnswer, SizePrediction, SizeRequest } from "../estimator.ts";
import { completeLda, LDA_PARAMETERS, type LdaParameters } from "./parameters.ts";
import { payloadBytes } from "./payload.ts";
import { expectedSample, PRESET_LOSS } from "./sampling.ts";

/** Mean of |z| for a standard normal z. */
const MEAN_ABSOLUTE = Math.sqrt(2 / Math.PI);
const CELL_BYTES = 16;
const MAX_ROWS = 1 << 20;
const HALF_KURTOSIS = 16;

export function sizeLda(request: SizeRequest): SizeAnswer<LdaParameters> {
  const notes: string[] = [];
  const loss = request.loss.length > 0 ? request.loss : (PRESET_LOSS[2] ?? []);
  if (request.loss.length === 0)
    notes.push("loss rate not given: two banks, for 0.5 % and 10 %, as the paper recommends");
  const parameters = choose(request, loss);
  const predictions = loss.flatMap((rate) => predict(parameters, request, rate));
  const bytes = payloadBytes(parameters);
  const worst = Math.max(
    ...predictions.filter((p) => p.quantity === "mean").map((p) => p.relativeError ?? Infinity),
  );
  if (request.error !== null && worst > request.error) {
    notes.push(
      `the error at the highest loss is ${significant(100 * worst, 2)} %, above the wanted ${significant(100 * request.error, 3)} %`,
    );
  }
  return {
    parameters,
    memoryBytes: parameters.banks * parameters.rows * CELL_BYTES,
    payloadBytes: bytes,
    bitsPerSecond: (8 * bytes) / (request.epochNs / 1e9),
    bitsPerPacket: (8 * bytes) / request.packets,
    predictions,
    notes,
  };
}

function choose(request: SizeRequest, loss: readonly number[]): LdaParameters {
  const defaults = Object.fromEntries(LDA_PARAMETERS.map((s) => [s.name, s.default]));
  const withRows = (rows: number) =>
    completeLda({ ...defaults, ...request.fixed, rows, packets: request.packets, loss: [...loss] });
  if (request.memoryBytes !== null) {
    const rows = Math.floor(request.memoryBytes / CELL_BYTES / loss.length);
    if (rows < 2) {
      throw new UsageError(
        "bad-parameter",
        `${countOf(request.memoryBytes, "byte")}: too little memory for an LDA`,
        `two rows in each of ${loss.length} banks take ${2 * CELL_BYTES * loss.length} bytes`,
      );
    }
    return withRows(Math.min(rows, MAX_ROWS));
  }
  const { error } = request;
  if (error === null) return withRows((request.fixed["rows"] as number | undefined) ?? 0);
  const enough = (rows: number) =>
    loss.every((rate) => {
      const [mean] = predict(withRows(rows), request, rate);
      return (mean?.relativeError ?? Number.POSITIVE_INFINITY) <= error;
    });
  let high = 2;
  while (!enough(high)) {
    high *= 2;
    if (high > MAX_ROWS) {
      throw new UsageError(
        "bad-parameter",
        `no LDA of up to ${MAX_ROWS} rows per bank reaches an error of ${significant(100 * error, 3)} %`,
        "allow a larger error, or longer epochs",
      );
    }
  }
  let low = high / 2;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (enough(middle)) high = middle;
    else low = middle;
  }
  return withRows(high);
}

/** Returns the errors of mean and standard deviation at a loss rate. */
export function predict(parameters: LdaParameters, request: SizeRequest, loss: number): SizePrediction[] {
  const { sampling, rows } = parameters;
  const lost = request.packets * loss;
  const received = request.packets - lost;
  const sample = expectedSample(sampling, rows, received, lost);
  const none = (quantity: string): SizePrediction => ({
    quantity,
    loss,
    relativeError: null,
    packetsUsed: null,
  });
  // With fewer than two usable rows, most epochs would have no answer.
  const usable = sampling.reduce((n, p) => n + rows * usableShare(p, rows, received, lost), 0);
  if (usable < 2) return [none("mean"), none("standard deviation")];
  const whole = Math.max(0, 1 - sample / received);
  const mean = MEAN_ABSOLUTE * request.variation * Math.sqrt(whole / sample);
  return [
    { quantity: "mean", loss, relativeError: mean, packetsUsed: sample },
    {
      quantity: "standard deviation",
      loss,
      relativeError: deviationError(parameters, request, received, lost),
      packetsUsed: sample,
    },
  ];
}

/** Returns the share of a bank's rows that hold a packet and lose none. */
function usableShare(p: number, rows: number, received: number, lost: number): number {
  return Math.exp((-p * lost) / rows) * -Math.expm1((-p * received) / rows);
}

function deviationError(
  parameters: LdaParameters,
  request: SizeRequest,
  received: number,
  lost: number,
): number {
  const { sampling, rows } = parameters;
  const kurtosis = weibullKurtosis(request.variation);
  let weights = 0;
  let noise = 0;
  for (const p of sampling) {
    const usable = rows * usableShare(p, rows, received, lost);
    const n = Math.max(1, (p * received) / rows);
    const w = n / (n + HALF_KURTOSIS);
    weights += usable * w;
    noise += usable * w * w * (2 + kurtosis / n);
  }
  return (MEAN_ABSOLUTE / 2) * (Math.sqrt(noise) / weights);
}

/** Excess kurtosis of the Weibull distribution with this ratio of standard deviation to mean. */
export function weibullKurtosis(variation: number): number {
  const moment = (shape: number, k: number) => Math.exp(lgamma(1 + k / shape));
  const ratio = (shape: number) => Math.sqrt(moment(shape, 2) / moment(shape, 1) ** 2 - 1);
  // The ratio decreases as the shape grows.
  let low = 0.2;
  let high = 10;
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (ratio(middle) > variation) low = middle;
    else high = middle;
  }
  const [m1, m2, m3, m4] = [1, 2, 3, 4].map((k) => moment(low, k)) as [number, number, number, number];
  const variance = m2 - m1 * m1;
  return (m4 - 4 * m3 * m1 + 6 * m2 * m1 * m1 - 3 * m1 ** 4) / (variance * variance) - 3;
}
