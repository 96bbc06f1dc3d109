/**
 * Chooses a geometry for the expected traffic (section 3, and prediction.ts): rows = -ln(epsilon) / k, rounded, four for the paper's 2 % of flows with large
 * collisions at k = 1. Under loss, four banks, with the lowest rate k / L for the largest flow's L lost packets. Columns from a target error, a memory budget,
 * or, as in the paper, half as many cells as flows (times k).
 */

import { UsageError } from "../../base/errors.ts";
import { countOf, formatCount } from "../../base/quantity.ts";
import { Random } from "../../base/random.ts";
import type {
  ParameterSpec,
  ParameterValues,
  SizeAnswer,
  SizePrediction,
  SizeRequest,
} from "../estimator.ts";
import { type FlowSizes, sizesFromCapture, sizesFromMean, survival } from "./flow-sizes.ts";
import { DEFAULT_KEYS, heavyKeysBytes } from "./heavy-keys.ts";
import {
  completeLds,
  completeSds,
  geometryOf,
  LDS_PARAMETERS,
  type LdsParameters,
  MAX_CELLS,
  MAX_COLUMNS,
  SDS_PARAMETERS,
  type SketchParameters,
} from "./parameters.ts";
import { SketchPrediction } from "./prediction.ts";
import { CELL_BYTES, ROW_BYTES, sketchBytes } from "./tap.ts";

/** A listed flow in a payload: its IPv4 key and counts. */
const KEY_BYTES = 30;

/** Flow sizes that represent the size classes in predictions. */
const CLASSES = [10, 100, 700, 2000, 10_000];
const DEFAULT_SIZE = 1000;
const MAX_LOAD = 40;
const MIN_COLUMNS = 16;
/** Standard deviation within a flow over that between flows, if only their total is known. */
const WITHIN = 1 / 3;

interface Kind<P extends SketchParameters> {
  specs: readonly ParameterSpec[];
  complete(values: ParameterValues): P;
  /** Loss spoils cells, because both ends keep a sketch. */
  lossy: boolean;
}

const LDS: Kind<LdsParameters> = { specs: LDS_PARAMETERS, complete: completeLds, lossy: true };
const SDS: Kind<SketchParameters> = { specs: SDS_PARAMETERS, complete: completeSds, lossy: false };

export function sizeLds(request: SizeRequest): SizeAnswer<LdsParameters> {
  return size(request, LDS);
}

export function sizeSds(request: SizeRequest): SizeAnswer<SketchParameters> {
  return size(request, SDS);
}

function size<P extends SketchParameters>(request: SizeRequest, kind: Kind<P>): SizeAnswer<P> {
  const notes: string[] = [];
  const flows = request.flowPackets?.length ?? request.flows;
  if (flows === null || !(flows >= 1)) {
    throw new UsageError(
      "bad-parameter",
      "a sketch of flows needs the number of flows per epoch",
      "give flows",
    );
  }
  const sizes = request.flowPackets
    ? sizesFromCapture(request.flowPackets)
    : sizesFromMean(request.packets, flows);
  const origin = request.flowPackets ? "fitted to the capture" : "from packets per flow";
  notes.push(
    `flow sizes: Pareto, shape ${sizes.shape.toPrecision(3)} (${origin}), largest ${formatCount(sizes.largest)} packets`,
  );
  const loss = request.loss.length > 0 && kind.lossy ? request.loss : [0];
  if (kind.lossy && request.loss.length === 0) notes.push("loss rate not given: sized for no loss, k = 1");
  const wanted: Wanted<P> = { request, kind, flows, sizes, loss };
  const parameters = choose(wanted);
  const predictions = loss.flatMap((rate) => {
    const prediction = predict(wanted, parameters, rate);
    const asked = request.flowSize ?? DEFAULT_SIZE;
    return [
      {
        quantity: `mean of flows of ${formatCount(asked)} packets`,
        ...lineOf(prediction, parameters, asked, rate),
      },
      ...CLASSES.filter((packets) => packets !== asked).map((packets) => ({
        quantity: `flows of ${formatCount(packets)} packets`,
        ...lineOf(prediction, parameters, packets, rate),
      })),
    ];
  });
  const x = 0.05 * (request.flowSize ?? DEFAULT_SIZE);
  const q = survival(sizes, flows, parameters, x);
  notes.push(
    `section 3: ${(100 * q).toFixed(1)} % of flows of ${formatCount(20 * x)} packets meet at most 5 % foreign ones in a cell`,
  );
  notes.push("errors are medians over flows of that size");
  const cells = parameters.rows * parameters.columns;
  const digestBits = Number((parameters as ParameterValues)["digest"] ?? 0);
  const bytes = Math.round(
    cells * predict(wanted, parameters, 0, 1).cellBytes(kind.lossy ? request.epochNs : 1e6, digestBits) +
      KEY_BYTES * Math.min(flows, parameters.keys) +
      32,
  );
  return {
    parameters,
    memoryBytes: sketchBytes(parameters),
    payloadBytes: bytes,
    bitsPerSecond: (8 * bytes) / (request.epochNs / 1e9),
    bitsPerPacket: (8 * bytes) / request.packets,
    predictions,
    notes,
  };
}

interface Wanted<P extends SketchParameters> {
  request: SizeRequest;
  kind: Kind<P>;
  flows: number;
  sizes: FlowSizes;
  loss: readonly number[];
}

function choose<P extends SketchParameters>(wanted: Wanted<P>): P {
  const { request, kind, flows, sizes, loss } = wanted;
  const defaults = Object.fromEntries(kind.specs.map((s) => [s.name, s.default]));
  const worst = Math.max(...loss);
  const k = (request.fixed["k"] as number | undefined) ?? (worst > 0 ? 5 : 1);
  const rows = (request.fixed["rows"] as number | undefined) ?? 4;
  const banks: ParameterValues =
    kind.lossy && worst > 0 ? { rates: ladder(rows, k, worst * sizes.largest) } : {};
  const keys = keysWithin(request.memoryBytes);
  const at = (columns: number): P =>
    kind.complete({ ...defaults, keys, k, rows, ...banks, columns: Math.max(columns, k), ...request.fixed });
  if (request.fixed["columns"] !== undefined) return at(0);
  const cellBytes = request.fixed["bytes"] === true ? CELL_BYTES + 8 : CELL_BYTES;
  if (request.memoryBytes !== null) {
    const columns = Math.min(
      maxColumns(rows),
      Math.floor(((request.memoryBytes - heavyKeysBytes(at(k).keys)) / rows - ROW_BYTES) / cellBytes),
    );
    if (columns < MIN_COLUMNS) {
      throw new UsageError(
        "bad-parameter",
        `${countOf(request.memoryBytes, "byte")}: too little memory for a sketch of flows`,
        `${rows} rows of ${MIN_COLUMNS} cells take ${formatCount(rows * MIN_COLUMNS * cellBytes)} bytes`,
      );
    }
    return at(columns);
  }
  if (request.error === null) return at(Math.ceil((flows * k) / (2 * rows)));
  return searchColumns(wanted, request.error, at);
}

/** Returns the usual number of flow keys, or fewer if they would take more than an eighth of the memory. */
function keysWithin(memoryBytes: number | null): number {
  let keys = DEFAULT_KEYS;
  while (keys > 0 && memoryBytes !== null && heavyKeysBytes(keys) > memoryBytes / 8) keys >>= 1;
  return keys;
}

/** Maximum columns of a row, also limited by the total cells of all rows. */
const maxColumns = (rows: number) => Math.min(MAX_COLUMNS, Math.floor(MAX_CELLS / rows));

/** Returns the fewest columns, to within an eighth, whose predicted error meets the target at every loss rate. */
function searchColumns<P extends SketchParameters>(
  wanted: Wanted<P>,
  error: number,
  at: (columns: number) => P,
): P {
  const { request, loss } = wanted;
  const packets = request.flowSize ?? DEFAULT_SIZE;
  const enough = (columns: number) => {
    const parameters = at(columns);
    return loss.every((rate) => {
      const line = lineOf(predict(wanted, parameters, rate), parameters, packets, rate);
      return line.relativeError !== null && line.relativeError <= error;
    });
  };
  const most = maxColumns(at(MIN_COLUMNS).rows);
  // More flows per cell than this do not pay off, and take long to draw.
  let high = Math.max(MIN_COLUMNS, Math.ceil((wanted.flows * at(1).k) / MAX_LOAD));
  while (!enough(high)) {
    high *= 2;
    if (high > most) {
      throw new UsageError(
        "bad-parameter",
        `no sketch of up to ${formatCount(most)} columns reaches an error of ${error} for flows of ${formatCount(packets)} packets`,
        "allow a larger error, or ask for larger flows",
      );
    }
  }
  let low = high >> 1;
  while (high - low > Math.max(1, high / 8)) {
    const middle = (low + high) >> 1;
    if (enough(middle)) high = middle;
    else low = middle;
  }
  return at(high);
}

/** Returns rates from 1 down to k over the losses of the largest flow, evenly spaced on a logarithmic scale. */
function ladder(rows: number, k: number, largestLoss: number): number[] {
  const lowest = Math.min(0.5, Math.max(1e-4, k / Math.max(1, largestLoss)));
  return Array.from({ length: rows }, (_, r) =>
    rows === 1 ? 1 : Number((lowest ** (r / (rows - 1))).toPrecision(2)),
  );
}

function predict<P extends SketchParameters>(
  { request, flows, sizes }: Wanted<P>,
  parameters: P,
  loss: number,
  rounds = 8,
): SketchPrediction {
  const flowVariance = request.variation ** 2;
  const packetVariance = flowVariance * WITHIN ** 2;
  const geometry = geometryOf(parameters);
  // Crowded cells are alike, so fewer of them are enough.
  const load = (flows * parameters.k) / parameters.columns;
  const pool = Math.round(Math.min(400, Math.max(80, 4000 / load)));
  const expectation = { geometry, flows, sizes, loss, flowVariance, packetVariance };
  return new SketchPrediction(expectation, new Random("lds size"), pool, rounds);
}

function lineOf(
  prediction: SketchPrediction,
  parameters: SketchParameters,
  packets: number,
  loss: number,
): Omit<SizePrediction, "quantity"> {
  const decoder = parameters.decoder === "smallest" || parameters.decoder === "alpha" ? "smallest" : "bp";
  const { median, unanswered } = prediction.flowError(packets, decoder);
  return {
    loss,
    relativeError: unanswered > 0.5 || Number.isNaN(median) ? null : median,
    packetsUsed: null,
  };
}
