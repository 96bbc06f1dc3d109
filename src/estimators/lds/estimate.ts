/** From a sketch of delays to answers: the segment, then each flow by the requested decoder, or by the one with the smallest predicted error. */
import { type Background, backgroundVariance, fitBackground } from "../cells/background.ts";
import { delayAtCut, isClear } from "../cells/crossing.ts";
import {
  delayInFlight,
  type EdgeEvidence,
  flowsInFlight,
  LEANING_NOTE,
  leaning,
  withPacketsInFlight,
} from "../cells/edge.ts";
import type { Jitter } from "../cells/jitter.ts";
import { repeatedShare } from "../cells/salt.ts";
import {
  type EstimateInput,
  type EstimatorAnswer,
  type FlowEstimate,
  type Interval,
  isNoAnswer,
  type KnownFlows,
  type NoAnswer,
  type SegmentEstimate,
} from "../estimator.ts";
import { unansweredSegment } from "../unanswered.ts";
import { type Beliefs, propagateBeliefs } from "./belief.ts";
import { type CellEstimate, CellRules } from "./cell-rules.ts";
import { crowdedSpread } from "./crowded.ts";
import { type DelaySketch, delaysOf, differenceOf, type RowSummary } from "./difference.ts";
import { FlowCells } from "./flow-cells.ts";
import { meanOfFlows } from "./flow-mean.ts";
import { type FlowSet, layFlows, packetsSeen } from "./flow-set.ts";
import { ENOUGH_FREEDOM, measureJitter } from "./jitter.ts";
import { LossMiner, minedBytes, minedDeviation } from "./mined.ts";
import { type Decoder, expectedCells, geometryOf, type SketchParameters } from "./parameters.ts";
import { decodeCells } from "./payload.ts";
import { bestMean, interval, type RowMean, segmentInterval } from "./segment.ts";
import { describeStream, refuseStream } from "./stream-notes.ts";

export function estimateLds(input: EstimateInput<SketchParameters>): EstimatorAnswer {
  const { parameters, seed, sender, receiver } = input;
  const geometry = geometryOf(parameters);
  if (!sender || !receiver) {
    const end = sender ? "receiver" : "sender";
    return unanswered(input, { reason: "no-packets", text: `the sketch of the ${end} is missing` });
  }
  const expected = expectedCells(parameters, false, seed);
  const sketch = differenceOf(
    geometry,
    seed,
    decodeCells(sender.payload, expected, "sender's payload"),
    decodeCells(receiver.payload, expected, "receiver's payload"),
  );
  return estimateSketch(input, sketch);
}

export function estimateSds(input: EstimateInput<SketchParameters>): EstimatorAnswer {
  const { parameters, seed, receiver } = input;
  const geometry = geometryOf(parameters);
  if (!receiver) {
    return unanswered(input, { reason: "no-packets", text: "the sketch of the receiver is missing" });
  }
  const expected = expectedCells(parameters, true, seed);
  const cells = decodeCells(receiver.payload, expected, "receiver's payload");
  return estimateSketch(input, delaysOf(geometry, seed, cells));
}

function estimateSketch(input: EstimateInput<SketchParameters>, sketch: DelaySketch): EstimatorAnswer {
  const notes = describeStream(sketch);
  const refused = refuseStream(sketch);
  if (refused) {
    const answer = unanswered(input, refused);
    return { ...answer, segment: answer.segment && { ...answer.segment, notes }, notes };
  }
  const cells = usableCells(sketch);
  const background = backgroundOf(sketch, cells);
  const flows = input.flows
    ? estimateFlows(input, sketch, input.flows, { background, cells: cells.length }, notes)
    : null;
  const best = bestMean(sketch, input.receiver?.packets ?? 0, flows?.mean ?? null, input.confidence);
  const plain = edgeEvidence(input, sketch, background);
  const edge = best ? withDelayAtCut(plain, sketch, background, best, input.confidence) : plain;
  const segment = estimateSegment(input, sketch, edge, best, notes);
  const answers = flows && input.flows ? flowsInFlight(flows.flows, input.flows, segment.mean, edge) : [];
  return { segment, flows: answers, notes };
}

/** Crowded cells are alike, however much flows differ, so the spread of flows is then taken from the counts. */
function backgroundOf(sketch: DelaySketch, cells: Uint32Array): Background {
  const found = fitBackground({ cells, delaySumNs: sketch.delaySumNs, packets: sketch.received });
  const { betweenFlows } = crowdedSpread(sketch, found.meanNs);
  return { ...found, flowVariance: Math.max(found.flowVariance, betweenFlows) };
}

function edgeEvidence(
  { epochNs, cutInFlight, cutByPackets, confidence, receiver }: EstimateInput<SketchParameters>,
  sketch: DelaySketch,
  background: Background,
): EdgeEvidence {
  const most = (counts: readonly number[]) => (sketch.oneEnd ? 0 : Math.max(0, ...counts));
  return {
    ...{ cutInFlight, cutByPackets, epochNs, confidence },
    appeared: most(sketch.rows.map(appearedOf)),
    missing: most(sketch.rows.map((row) => row.missing)),
    received: receiver?.packets ?? 0,
    varianceNs2: backgroundVariance(background, 1),
  };
}

/** Returns the lost packets: all missing packets if nothing appeared, else what the cells show. */
function lostOf({ rows, geometry }: DelaySketch, missing: number): number | null {
  if (Math.max(0, ...rows.map((row) => row.appeared)) === 0) return missing;
  const full = rows.filter((row) => row.rate === 1 && !row.overflowed);
  return full.length > 0 && geometry.weights === "" ? Math.max(...full.map((row) => row.missing)) : null;
}

/** SDS only: packets whose delay is known. */
function withDelay({ rows }: DelaySketch): number {
  return Math.max(...rows.map(({ received, rate }) => (rate === 1 ? received : 0)));
}

/** Returns true if some received packets have no known delay: the epoch's mean does not include them. */
function someWithoutDelay(sketch: DelaySketch, received: number): boolean {
  return sketch.oneEnd && sketch.geometry.weights === "" && withDelay(sketch) < received;
}

/** In rows with full cells, a lost and an appeared packet cancel. Rows that sample show more of the appeared packets, if they show at least this many. */
const SHOWN = 4;

function appearedOf({ appeared, rate }: RowSummary): number {
  return appeared >= SHOWN ? appeared / rate : appeared;
}

/** Adds the delay at the cut. Not with weights: weighted packets count several times, so an excess of one is not one packet. */
function withDelayAtCut(
  edge: EdgeEvidence,
  sketch: DelaySketch,
  background: Background,
  mean: RowMean,
  confidence: number,
): EdgeEvidence {
  if (!edge.cutInFlight || sketch.geometry.weights !== "") return edge;
  const { highNs } = segmentInterval(mean, confidence);
  const { epochNs } = edge;
  const timesNs = sketch.late.flatMap(({ cell, sumNs }) => {
    const others = sketch.sent[cell]!;
    return isClear(backgroundVariance(background, others), highNs) ? [sumNs - others * mean.valueNs] : [];
  });
  return { ...edge, atCut: delayAtCut({ timesNs, epochNs, meanNs: highNs }) };
}

function estimateSegment(
  { sender, receiver, confidence, parameters }: EstimateInput<SketchParameters>,
  sketch: DelaySketch,
  edge: EdgeEvidence,
  best: RowMean | null,
  notes: string[],
): SegmentEstimate {
  const received = receiver?.packets ?? 0;
  const lost = sender ? lostOf(sketch, sender.packets - received) : null;
  const mean: Interval | NoAnswer =
    parameters.weights !== ""
      ? {
          reason: "not-supported",
          text: "weighted flows count more than others: the cells have no common mean",
        }
      : best
        ? withPacketsInFlight(segmentInterval(best, confidence), edge)
        : received === 0
          ? { reason: "no-packets", text: "no packet was received" }
          : { reason: "no-usable-cells", text: "no cell contains the same packets at both points" };
  const leans = isNoAnswer(mean) ? {} : leaning(mean, edge);
  if (leans.leansNs !== undefined) notes.push(LEANING_NOTE);
  return {
    mean,
    ...delayInFlight(mean, edge),
    ...leans,
    stdev: {
      reason: "not-supported",
      text: "standard deviation not measurable: cells group packets by flow; use lda for it",
    },
    sent: sender?.packets ?? null,
    received,
    lost,
    ...(best && someWithoutDelay(sketch, received) ? { measured: withDelay(sketch) } : {}),
    packetsUsed: parameters.weights === "" ? (best?.used ?? 0) : 0,
    coverage: parameters.weights === "" && received > 0 ? (best?.used ?? 0) / received : 0,
    notes,
  };
}

function estimateFlows(
  { parameters, confidence, sender, receiver }: EstimateInput<SketchParameters>,
  sketch: DelaySketch,
  known: KnownFlows,
  { background, cells: usable }: { background: Background; cells: number },
  notes: string[],
): { flows: FlowEstimate[]; mean: RowMean | null } {
  const flows = layFlows(sketch, known);
  const beliefs = believe(parameters, sketch, flows, background, notes);
  const jitter = beliefs ? beliefs.jitter : visibleJitter(sketch, flows, background);
  const packetVariance = jitter?.variance ?? beliefs?.packetVariance ?? background.flowVariance;
  const freedom = freedomOf(sketch, flows, jitter, Math.max(1, usable - 2));
  const cells = new FlowCells(sketch, flows);
  const rules = new CellRules(sketch, flows, cells, background, packetVariance, {
    known: beliefs?.priorVariance,
    most: beliefs ? undefined : widestPriors(sketch, flows, background),
  });
  const losses = sender ? new LossMiner(sketch, flows) : null;
  const decode = decoderOf(parameters, beliefs, rules);
  // A single cell says nothing about how packets vary, unless it holds all packets of the flow.
  const lone = (flow: number) => usable < 2 && packetsSeen(sketch, flows, flow) < flows.packets[flow]!;
  const partly = someWithoutDelay(sketch, receiver?.packets ?? 0);
  const answerFor = (flow: number): FlowEstimate => {
    const lost = losses?.lost(flow) ?? null;
    const packets = flows.known[flow] ? known.packets[flow]! : boundedPackets(flows, flow);
    if (!(flows.packets[flow]! > 0)) {
      const none: NoAnswer = { reason: "not-in-sketch", text: "no packet of the flow was counted" };
      const counted = flows.known[flow] ? packets : 0;
      return {
        flow,
        mean: none,
        stdev: none,
        packets: counted,
        ...(partly ? { measured: 0 } : {}),
        lost: null,
      };
    }
    const estimate = lone(flow) ? null : decode(flow);
    if (!estimate) {
      const none: NoAnswer = {
        reason: "no-usable-cells",
        text: lone(flow)
          ? "only one cell arrived whole: its mean has no error bar"
          : "every cell of the flow lost a packet, its own or a neighbour's",
      };
      return { flow, mean: none, stdev: none, packets, lost };
    }
    const repeats = repeatedShare(sketch.salt, estimate.variance, estimate.prior);
    const { meanNs: valueNs, variance } = estimate;
    const mean = interval({ valueNs, variance, freedom: freedom(flow, variance) }, confidence);
    const stdev = minedDeviation(sketch, flows, cells, flow, valueNs, background, confidence);
    const bytes = Number.isNaN(known.bytes[flow]!)
      ? (minedBytes(sketch, flows, flow) ?? scaledBytes(known, flow, packets))
      : null;
    return {
      ...{ flow, mean: { ...mean, repeats }, stdev, packets, lost },
      ...(partly ? { measured: flows.packets[flow]! } : {}),
      ...(bytes === null ? {} : { bytes }),
      ...(flows.known[flow] || !Number.isFinite(flows.atMost[flow]!)
        ? {}
        : { packetBounds: { low: flows.atLeast[flow]!, high: flows.atMost[flow]! } }),
    };
  };
  const estimates: FlowEstimate[] = [];
  let alone = false;
  for (let flow = 0; flow < flows.count; flow++) {
    alone ||= lone(flow);
    if (known.asked?.[flow] !== 0) estimates.push(answerFor(flow));
  }
  return {
    flows: estimates,
    mean: beliefs && flows.complete && !alone ? meanOfFlows(sketch, flows, beliefs) : null,
  };
}

/** Returns the variances of flows' means if it is unknown whether flows or packets differ: either may be the whole variance. */
function widestPriors(sketch: DelaySketch, flows: FlowSet, background: Background): Float64Array {
  const { betweenPackets } = crowdedSpread(sketch, background.meanNs);
  return flows.packets.map((packets, f) => {
    const least = Math.max(1, flows.atLeast[f]!, packets - 4 * Math.sqrt(flows.doubt[f]!));
    return Math.max(background.flowVariance, betweenPackets / least);
  });
}

/** Returns the jitter within the requested flows; null if they do not show it, and it is then assumed to be as large as the variance between flows. */
function visibleJitter(sketch: DelaySketch, flows: FlowSet, { flowVariance }: Background): Jitter | null {
  const jitter = measureJitter(sketch, flows);
  return jitter.total >= ENOUGH_FREEDOM && jitter.common < flowVariance ? jitter : null;
}

/**
 * Returns the degrees of freedom of an answer's variance (Satterthwaite): its jitter part has those of the jitter, the rest those of all cells. A flow that has
 * not shown its own jitter is assumed to have the mean jitter of the others, which is known from all of them.
 */
function freedomOf(
  sketch: DelaySketch,
  flows: FlowSet,
  jitter: Jitter | null,
  ofCells: number,
): (flow: number, variance: number) => number {
  if (!jitter || sketch.shares.every((share) => share === 1)) return () => ofCells;
  return (flow, variance) => {
    if (jitter.freedom[flow]! <= jitter.shared) return ofCells;
    const within = jitter.variance[flow]! / Math.max(1, packetsSeen(sketch, flows, flow));
    const part = variance > 0 ? Math.min(1, within / variance) : 0;
    return 1 / (part ** 2 / jitter.freedom[flow]! + (1 - part) ** 2 / ofCells);
  };
}

/** Bytes of a heavy flow whose first packets were not counted; these are assumed to have the size of the others. */
function scaledBytes({ heavy }: KnownFlows, flow: number, packets: number): number | null {
  const counted = heavy?.low[flow] ?? 0;
  return heavy && counted > 0 ? Math.round(((heavy.bytes[flow] ?? 0) * packets) / counted) : null;
}

/** Mined size of a flow: whole packets, at most what its cells hold. */
function boundedPackets(flows: FlowSet, flow: number): number {
  return Math.round(Math.min(flows.packets[flow]!, flows.atMost[flow]!));
}

function believe(
  { decoder, rounds }: SketchParameters,
  sketch: DelaySketch,
  flows: FlowSet,
  background: Background,
  notes: string[],
): Beliefs | null {
  // Guessed sizes also mislead neighbours, so unless explicitly requested, belief propagation needs known sizes.
  const wanted = decoder === "bp" || (decoder === "auto" && flows.known.every((known) => known === 1));
  if (!wanted || flows.count === 0) return null;
  const beliefs = propagateBeliefs(sketch, flows, background, rounds);
  if (beliefs.settled) return beliefs;
  notes.push(
    `belief propagation did not converge in ${beliefs.rounds} rounds: flows were decoded one by one (decoder background)`,
  );
  return null;
}

/** The smallest of several predictions is also the luckiest. Another decoder is chosen only if it is clearly better. */
const CLEARLY = 0.7;

type FlowDecoder = (flow: number) => CellEstimate | null;

function decoderOf(
  { decoder, alpha }: SketchParameters,
  beliefs: Beliefs | null,
  rules: CellRules,
): FlowDecoder {
  const believed: FlowDecoder = (flow) =>
    beliefs && !Number.isNaN(beliefs.variance[flow]!)
      ? {
          meanNs: beliefs.meanNs[flow]!,
          variance: beliefs.variance[flow]!,
          prior: beliefs.priorVariance[flow]!,
        }
      : null;
  const decoders: Record<Decoder, FlowDecoder> = {
    bp: beliefs ? believed : (flow) => rules.background(flow),
    background: (flow) => rules.background(flow),
    smallest: (flow) => rules.smallest(flow),
    alpha: (flow) => rules.alpha(flow, alpha),
    auto: (flow) => {
      let best = beliefs ? believed(flow) : null;
      // From one flow's cells alone it is unknown which of them hold its packets, so their predictions are not comparable.
      if (best && beliefs?.byCounts) return best;
      for (const other of [rules.background(flow), rules.smallest(flow)]) {
        if (other && (!best || other.variance < CLEARLY * best.variance)) best = other;
      }
      return best;
    },
  };
  return decoders[decoder];
}

function usableCells(sketch: DelaySketch): Uint32Array {
  const out = new Uint32Array(sketch.usable.length);
  let n = 0;
  for (let c = 0; c < out.length; c++) if (sketch.usable[c] === 1) out[n++] = c;
  return out.subarray(0, n);
}

function unanswered(input: EstimateInput<SketchParameters>, why: NoAnswer): EstimatorAnswer {
  const { flows } = input;
  return {
    segment: unansweredSegment(why, input, null, []),
    flows: Array.from(flows?.packets.subarray(0, flows.count) ?? [], (packets, flow) => ({
      ...{ flow, mean: why, stdev: why, lost: null },
      packets: Number.isNaN(packets) ? null : packets,
    })),
    notes: [],
  };
}
