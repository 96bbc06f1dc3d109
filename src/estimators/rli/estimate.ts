/** From RLI's sums to answers: equations 5 and 6, with what the references tell about the error. */
import { LogHistogram } from "../../base/log-histogram.ts";
import { studentQuantile } from "../../base/special.ts";
import type {
  EstimateInput,
  EstimatorAnswer,
  FlowEstimate,
  Interval,
  KnownFlows,
  NoAnswer,
  SegmentEstimate,
} from "../estimator.ts";
import type { RliParameters } from "./parameters.ts";
import { type Counters, decodeRli, type RliFlows, type RliSketch } from "./payload.ts";

const QUANTILES = [0.5, 0.9, 0.99];

export function estimateRli(input: EstimateInput<RliParameters>): EstimatorAnswer {
  const { receiver, parameters, seed, flows, confidence } = input;
  if (!receiver) return noRecord(flows);
  const sketch = decodeRli(receiver, parameters, seed);
  const notes = describeCounters(sketch.counters, parameters);
  return {
    segment: segment(sketch, confidence, notes),
    flows: flows ? flowAnswers(sketch, flows, confidence) : [],
    notes: [],
  };
}

function noRecord(flows: KnownFlows | null): EstimatorAnswer {
  const none: NoAnswer = { reason: "no-packets", text: "there is no record of the receiving point" };
  return {
    segment: { ...blank(none), sent: null, received: null, lost: null, notes: [] },
    flows: Array.from({ length: flows?.count ?? 0 }, (_, flow) => noFlow(flow, none)),
    notes: [],
  };
}

const blank = (none: NoAnswer) => ({ mean: none, stdev: none, packetsUsed: 0, coverage: 0 });
const noFlow = (flow: number, none: NoAnswer): FlowEstimate => ({
  flow,
  mean: none,
  stdev: none,
  packets: null,
  lost: null,
});

function segment(sketch: RliSketch, confidence: number, notes: string[]): SegmentEstimate {
  const { counters, total } = sketch;
  const { packets, answered } = counters;
  const ends = { sent: null, received: packets, lost: null, notes };
  if (answered === 0) return { ...blank(nothing(counters)), ...ends };
  const { mean, stdev } = answer({ ...total, packets: answered, gaps: counters.checked + 1 }, confidence);
  return { mean, stdev, ...ends, packetsUsed: answered, coverage: answered / packets };
}

function nothing({ packets, unanswered, seen }: Counters): NoAnswer {
  if (packets === 0) return { reason: "no-packets", text: "no regular packet was seen" };
  if (seen === 0 && unanswered > 0)
    return {
      reason: "no-usable-cells",
      text: "no reference packet was seen: delays are told between references",
    };
  return { reason: "not-in-sketch", text: "no packet of the flows that were kept lies beside a reference" };
}

interface Sums {
  packets: number;
  gaps: number;
  sum: bigint;
  squares: number;
  errors: number;
  misses: number;
}

/**
 * The mean errs by sqrt(errors) / n. The deviation of the true delays differs from that of the interpolated ones by no more than the root mean square of the
 * errors (the triangle inequality of the L2 norm).
 */
function answer({ packets, gaps, sum, squares, errors, misses }: Sums, confidence: number) {
  const z = quantileOf(gaps, confidence);
  const meanNs = Number(sum) / packets;
  const half = (z * Math.sqrt(errors)) / packets;
  const deviation = Math.sqrt(Math.max(0, squares / packets - meanNs * meanNs));
  const wander = z * Math.sqrt(misses / packets);
  const mean: Interval = { valueNs: meanNs, lowNs: meanNs - half, highNs: meanNs + half };
  const stdev: Interval = {
    valueNs: deviation,
    lowNs: Math.max(0, deviation - wander),
    highNs: deviation + wander,
  };
  return { mean, stdev };
}

/** Each gap's error is known from two misses and what their neighbourhood adds: about three degrees of freedom. */
const quantiles = new Map<string, number>();
function quantileOf(gaps: number, confidence: number): number {
  const freedom = Math.min(3 * gaps, 300);
  const name = `${freedom} ${confidence}`;
  let found = quantiles.get(name);
  if (found === undefined) {
    found = studentQuantile(0.5 + confidence / 2, freedom);
    quantiles.set(name, found);
  }
  return found;
}

function flowAnswers(sketch: RliSketch, asked: KnownFlows, confidence: number): FlowEstimate[] {
  const { flows, counters } = sketch;
  const places = new Map<number, number[]>();
  for (let i = 0; i < flows.count; i++) {
    const list = places.get(flows.hash[2 * i]!);
    if (list) list.push(i);
    else places.set(flows.hash[2 * i]!, [i]);
  }
  const out: FlowEstimate[] = [];
  for (let flow = 0; flow < asked.count; flow++) {
    const low = asked.hash[2 * flow]!;
    const high = asked.hash[2 * flow + 1]!;
    const at = places.get(low)?.find((i) => flows.hash[2 * i + 1] === high);
    out.push(at === undefined ? noFlow(flow, absent(counters)) : oneFlow(flow, flows, at, confidence));
  }
  return out;
}

function absent(counters: Counters): NoAnswer {
  if (counters.answered === 0) return nothing(counters);
  return {
    reason: "not-in-sketch",
    text:
      counters.unselected + counters.shed > 0
        ? "the flow was not selected, found no place in the table, or did not arrive"
        : "no regular packet of the flow arrived (references are not accounted for)",
  };
}

function oneFlow(flow: number, flows: RliFlows, i: number, confidence: number): FlowEstimate {
  const packets = flows.packets[i]!;
  const { mean, stdev } = answer(
    {
      packets,
      gaps: flows.gaps[i]!,
      sum: flows.sum[i]!,
      squares: flows.squares[i]!,
      errors: flows.errors[i]!,
      misses: flows.misses[i]!,
    },
    confidence,
  );
  const out: FlowEstimate = { flow, mean, stdev, packets, lost: null };
  if (flows.buckets) {
    const histogram = new LogHistogram();
    for (const [bucket, n] of flows.buckets[i]!) histogram.addBucket(bucket, n);
    out.quantiles = QUANTILES.map((share) => ({ share, valueNs: histogram.quantile(share)! }));
  }
  return out;
}

function describeCounters(c: Counters, { buffer }: RliParameters): string[] {
  const notes: string[] = [];
  const say = (n: number, text: string) => {
    if (n > 0) notes.push(text);
  };
  say(c.lost, `${c.lost} of ${c.seen + c.lost} references were lost: the gaps around them are wider`);
  say(c.duplicate, `${c.duplicate} references came twice; the second is not used`);
  say(c.reordered, `${c.reordered} references were overtaken by later ones and are not used`);
  say(
    c.forged,
    `${c.forged} packets on the references' port are not believed: cut, of another session, or with a time that cannot be`,
  );
  say(c.restarts, `the references' sender began anew ${c.restarts} times`);
  say(
    c.oneSided,
    `${c.oneSided} packets had a reference on one side only${c.spilled > 0 ? ` (${c.spilled} because more than ${buffer} waited for the next)` : ""}`,
  );
  say(c.unanswered, `${c.unanswered} packets had no reference on either side and are not answered for`);
  say(c.unselected, `${c.unselected} packets belong to flows that were not selected`);
  say(c.shed, `${c.shed} packets belong to flows that found no place in the table`);
  return notes;
}
