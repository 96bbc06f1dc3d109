/**
 * Chooses a reference rate, a buffer and a flow table for the expected traffic, and predicts RLI's accuracy.
 *
 * The error of the line depends on how delays change between references, which no formula predicts. So the basis is a measurement: the median relative error of
 * flows of a size on the reference traffic (400 kpps, bursts, one link into one queue) for several reference rates and three utilisations (bench/rli.ts, part
 * `size`, prints and checks the table). Errors between its points are interpolated on logarithms; above 1,000 packets, a flow is no more accurate than at
 * 1,000.
 */

import { UsageError } from "../../base/errors.ts";
import { entryAt, required } from "../../base/lists.ts";
import { countOf, formatCount, significant } from "../../base/quantity.ts";
import { injectionRate } from "../../delays/injection-rate.ts";
import type { SizeAnswer, SizePrediction, SizeRequest } from "../estimator.ts";
import { defaultParameters } from "../parameters.ts";
import { completeRli, RLI_PARAMETERS, type RliParameters } from "./parameters.ts";

/** Packets per reference, and packets of a flow. */
export const SIZE_EVERY = [10, 30, 100, 300] as const;
export const SIZE_FLOWS = [1, 10, 100, 1000] as const;
/** Median relative error by utilisation, then by SIZE_EVERY, then by SIZE_FLOWS. */
export const SIZE_ERRORS: readonly { utilisation: number; errors: readonly (readonly number[])[] }[] = [
  {
    utilisation: 0.55,
    errors: [
      [0.311, 0.138, 0.048, 0.028],
      [0.406, 0.196, 0.082, 0.035],
      [0.47, 0.255, 0.118, 0.053],
      [0.513, 0.298, 0.184, 0.087],
    ],
  },
  {
    utilisation: 0.7,
    errors: [
      [0.242, 0.078, 0.0215, 0.0094],
      [0.367, 0.126, 0.038, 0.0125],
      [0.475, 0.204, 0.078, 0.025],
      [0.587, 0.318, 0.177, 0.061],
    ],
  },
  {
    utilisation: 0.88,
    errors: [
      [0.036, 0.0079, 0.0038, 0.0028],
      [0.073, 0.0144, 0.0047, 0.0019],
      [0.141, 0.03, 0.0097, 0.0027],
      [0.27, 0.074, 0.034, 0.009],
    ],
  },
];

const DEFAULT_FLOW = 100;
const FLOW_BYTES = 128;
/** The index has slots of 8 bytes; their number is a power of two, and at most half are used. */
const INDEX_BYTES = 8;
const BUFFERED_BYTES = 24;
/** Consecutive gaps that may be lost before packets are answered by one reference only. */
const SPARE_GAPS = 16;
const HEADER_BYTES = 150;
const PAYLOAD_FLOW_BYTES = 64;
/** A STAMP packet of 44 bytes in UDP, IPv4 and Ethernet. */
const REFERENCE_BYTES = 86;

export function sizeRli(request: SizeRequest): SizeAnswer<RliParameters> {
  if (request.reliability !== undefined && request.reliability !== null)
    throw new UsageError(
      "bad-parameter",
      "rli cannot be sized for a reliability: its measurements give medians",
      "give ‘error’, with ‘flow-size’",
    );
  const notes: string[] = [];
  const flowSize = request.flowSize ?? DEFAULT_FLOW;
  const every = request.error === null ? null : chooseEvery(request.error, flowSize);
  const parameters = choose(request, every ?? Math.max(...SIZE_EVERY), notes);
  const predictions = SIZE_ERRORS.map(({ utilisation }): SizePrediction => {
    const spacing = every ?? 1 / injectionRate(utilisation);
    return {
      quantity: `flows of ${formatCount(flowSize)} packets, median, link ${Math.round(100 * utilisation)} % full`,
      loss: 0,
      relativeError: predictError(utilisation, spacing, flowSize),
      packetsUsed: flowSize,
    };
  });
  const seconds = request.epochNs / 1e9;
  const perSecond = request.packets / seconds / (every ?? Math.min(...SIZE_EVERY));
  const references = { every, perSecond, bitsPerSecond: 8 * REFERENCE_BYTES * perSecond };
  notes.unshift(
    every === null
      ? `references paced by utilisation, one for 10 to 300 packets, at most ${formatCount(perSecond)} per second: hoptime reference ‘interface DEV’ ‘drain RATE’`
      : `one reference for ${every} packets: hoptime reference ‘rate ${Math.max(1, Math.ceil(perSecond))}’`,
    "basis: the reference traffic through one queue (bench/rli.ts, part size); the error is larger where delays change faster between references",
    "loss does not affect it: delays are of packets that arrive",
  );
  const flows = request.flows ?? parameters.max;
  const payloadBytes = Math.round(HEADER_BYTES + PAYLOAD_FLOW_BYTES * Math.min(flows, parameters.max));
  return {
    parameters,
    memoryBytes: memory(parameters),
    payloadBytes,
    bitsPerSecond: (8 * payloadBytes) / seconds,
    bitsPerPacket: (8 * payloadBytes) / request.packets,
    references,
    predictions,
    notes,
  };
}

/** Interpolates between the points of the table, on logarithms of all three. */
export function predictError(utilisation: number, every: number, flowSize: number): number {
  const found = SIZE_ERRORS.find((row) => row.utilisation === utilisation);
  const { errors } = required(found, `a row of the table for ${utilisation}`);
  const [row, downward] = between(SIZE_EVERY, every);
  const [column, rightward] = between(SIZE_FLOWS, flowSize);
  const at = (r: number, c: number) => Math.log(entryAt(entryAt(errors, r), c));
  const along = (r: number) => at(r, column) * (1 - rightward) + at(r, column + 1) * rightward;
  return Math.exp(along(row) * (1 - downward) + along(row + 1) * downward);
}

/** Returns the point before a value, and its relative distance to the next point; values outside are clipped. */
function between(points: readonly number[], value: number): [number, number] {
  const bounded = Math.min(entryAt(points, -1), Math.max(points[0]!, value));
  const i = Math.min(
    points.length - 2,
    points.findLastIndex((p) => p <= bounded),
  );
  return [i, Math.log(bounded / points[i]!) / Math.log(points[i + 1]! / points[i]!)];
}

/** Returns the lowest reference rate that meets the error at every utilisation. */
function chooseEvery(error: number, flowSize: number): number {
  const worst = (every: number) =>
    Math.max(...SIZE_ERRORS.map(({ utilisation }) => predictError(utilisation, every, flowSize)));
  const [minimum, maximum] = [SIZE_EVERY[0], entryAt(SIZE_EVERY, -1)];
  if (worst(minimum) > error) {
    throw new UsageError(
      "bad-parameter",
      `even one reference per ${minimum} packets, the most that is sensible, gives flows of ${countOf(flowSize, "packet")} an error of ${significant(100 * worst(minimum), 2)} %`,
      "allow a larger error, ask for larger flows (‘flow-size’), or use lds",
    );
  }
  let every: number = maximum;
  while (worst(every) > error) every--;
  return every;
}

function choose(request: SizeRequest, every: number, notes: string[]): RliParameters {
  const defaults = defaultParameters(RLI_PARAMETERS);
  const buffer = bufferFor(every, request.memoryBytes);
  const wanted = request.flows === null ? null : Math.ceil(1.25 * request.flows);
  const sized = { ...defaults, buffer, ...(wanted === null ? {} : { max: wanted }), ...request.fixed };
  const parameters = completeRli(sized);
  if (request.flows === null) notes.push("number of flows not given: the table has its default size");
  if (parameters.drain === 0)
    notes.push("give the link's rate as drain=BIT/S: packets' own transmission is left out");
  if (request.memoryBytes === null || "max" in request.fixed) return parameters;
  let maximum = Math.floor((request.memoryBytes - BUFFERED_BYTES * parameters.buffer) / FLOW_BYTES);
  while (maximum > 0 && memory({ ...parameters, max: maximum }) > request.memoryBytes)
    maximum = Math.floor(0.98 * maximum);
  if (maximum < 1)
    throw new UsageError(
      "bad-parameter",
      `${countOf(request.memoryBytes, "byte")}: too little memory for an RLI`,
      `its buffer alone takes ${formatCount(BUFFERED_BYTES * parameters.buffer)} bytes`,
    );
  if (wanted !== null && request.flows !== null && maximum < wanted) {
    const share = significant(maximum / request.flows, 2);
    notes.push(
      `the table holds ${maximum} flows: sample them with select=flows,rate=${share}, or remove idle ones (idle=)`,
    );
  }
  return { ...parameters, max: wanted === null ? maximum : Math.min(maximum, wanted) };
}

/** With little memory, fewer consecutive gaps may be lost: a quarter of the memory is for waiting packets, but at least twice the packets of a gap. */
function bufferFor(every: number, memoryBytes: number | null): number {
  const wanted = 2 ** Math.ceil(Math.log2(SPARE_GAPS * every));
  if (memoryBytes === null) return wanted;
  const least = 2 ** Math.ceil(Math.log2(2 * every));
  const held = 2 ** Math.floor(Math.log2(Math.max(1, memoryBytes / 4 / BUFFERED_BYTES)));
  return Math.min(wanted, Math.max(least, held));
}

/** Memory with a full table. */
function memory({ buffer, max }: RliParameters): number {
  const slots = Math.max(4096, 2 ** Math.ceil(Math.log2(2 * max + 2)));
  return BUFFERED_BYTES * buffer + FLOW_BYTES * max + INDEX_BYTES * slots;
}
