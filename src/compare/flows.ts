/** The flows of a report, made one by one on request: a capture may contain millions, and no list of all of them is needed. */
import type { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { communityId } from "../capture/flow/flow-text.ts";
import type { ExactMatcher } from "../match/matcher.ts";
import type { RowForm } from "../match/row-form.ts";
import { MEASURES, type Measure, type MeasureName } from "./columns.ts";
import { flowLatency } from "./latency.ts";
import { translatedKey } from "./nat.ts";
import type { FlowReport, FlowRows } from "./report.ts";
import { noMatchReason, settle, type Way } from "./segment.ts";

export type FlowOrder = MeasureName;
/** Measures by which the records are ordered without reading each of them. */
const QUICK = ["packets", "mean", "max", "lost", "bytes"] as const;
type QuickOrder = (typeof QUICK)[number];

/** Which flows, and in which order. */
export type FlowChoice = "all" | { top: number; sort: FlowOrder };

/** The flows of one direction, read from the matcher's records during iteration: valid until the matcher is freed. */
export class MatchedFlows implements FlowRows {
  readonly #ids: Uint32Array;
  readonly #make: (id: number) => FlowReport;
  readonly #matcher: ExactMatcher;
  readonly #way: Way;
  /** The kernels can write the keys as text. */
  readonly #plain: boolean;

  constructor(matcher: ExactMatcher, way: Way, twoWay: boolean, key: FlowKeySpec, choice: FlowChoice) {
    const named = key.isFiveTuple;
    this.#matcher = matcher;
    this.#way = way;
    this.#plain = key.isJustFiveTuple && !matcher.nat;
    this.#make = (id) => flowReport(id, way, key, named, matcher);
    this.#ids = Uint32Array.from(choose(matcher, way, twoWay, choice, this.#make));
  }

  get length(): number {
    return this.#ids.length;
  }

  *[Symbol.iterator](): Iterator<FlowReport> {
    this.#matcher.flows.settle(this.#ids);
    for (const id of this.#ids) yield this.#make(id);
  }

  texts(form: RowForm, row: (flow: FlowReport) => string): Iterable<string> | null {
    return this.#plain ? this.#texts(form, row) : null;
  }

  *#texts(form: RowForm, row: (flow: FlowReport) => string): Generator<string> {
    const of = { reverse: this.#way.way === "reverse", edgesLost: edgesLost(this.#way) };
    for (const piece of this.#matcher.flows.texts(this.#ids, form, of))
      yield typeof piece === "string" ? piece : row(this.#make(piece));
  }
}

/** Returns which unmatched packets at the captures' ends count as lost or appeared. */
function edgesLost({ real }: Way): Way["real"] {
  return {
    headBefore: !real.headBefore,
    tailBefore: !real.tailBefore,
    headAfter: !real.headAfter,
    tailAfter: !real.tailAfter,
  };
}

/** Returns the ids of all flows of one direction, in order of appearance. */
export function idsOfWay(matcher: ExactMatcher, way: Way, twoWay: boolean): Uint32Array {
  return Uint32Array.from(choose(matcher, way, twoWay, "all", unsorted)).sort();
}

/** Without sorting no flow is measured. */
const unsorted = (): never => {
  throw new Error("flows in order of appearance are not measured");
};

function choose(
  matcher: ExactMatcher,
  settings: Way,
  twoWay: boolean,
  wanted: FlowChoice,
  make: (id: number) => FlowReport,
): ArrayLike<number> {
  const { way } = settings;
  const edges = edgesLost(settings);
  const [sort, top] =
    wanted === "all" ? ["packets" as const, Number.POSITIVE_INFINITY] : [wanted.sort, wanted.top];
  const pick = (by: QuickOrder, maximum: number) =>
    matcher.flows.choose({ way: way === "forward" ? 1 : 2, twoWay, by, edgesLost: edges, top: maximum });
  const quick = QUICK.find((by) => by === sort);
  if (quick) return pick(quick, top);
  if (sort === "p99") return chooseByP99(matcher, (maximum) => pick("max", maximum), top);
  const { value }: Measure = MEASURES[sort];
  const ids = pick("packets", Number.POSITIVE_INFINITY);
  const values = Float64Array.from(ids, (id) => value(make(id)) ?? Number.NEGATIVE_INFINITY);
  const order = Uint32Array.from(ids, (_, i) => i).sort((a, b) => values[b]! - values[a]! || a - b);
  return order.subarray(0, Math.min(top, order.length)).map((i) => ids[i]!);
}

/** A flow's p99 is at most its maximum delay: examine the flows with the largest maxima, more and more, until no other flow can rank among the first. */
function chooseByP99(matcher: ExactMatcher, byMax: (maximum: number) => number[], top: number): number[] {
  if (top === 0) return [];
  for (let maximum = 4 * top; ; maximum *= 8) {
    const ids = byMax(maximum);
    matcher.flows.settle(Uint32Array.from(ids));
    const ranked = ids.map((id) => ({ id, p99Ns: p99Of(matcher, id) })).sort((a, b) => b.p99Ns - a.p99Ns);
    ranked.length = Math.min(ranked.length, top);
    const longestLeft = matcher.flow(ids.at(-1) ?? 0).delay?.maxNs ?? Number.NEGATIVE_INFINITY;
    if (ids.length < maximum || (ranked.at(-1)?.p99Ns ?? 0) > longestLeft) return ranked.map((f) => f.id);
  }
}

function p99Of(matcher: ExactMatcher, id: number): number {
  const { delay, jitterNs } = matcher.flow(id);
  if (!delay) return -Number.MAX_VALUE;
  return flowLatency(delay, jitterNs, () => matcher.flows.buckets(id)).p99Ns;
}

function flowReport(
  id: number,
  { way, real }: Way,
  key: FlowKeySpec,
  named: boolean,
  matcher: ExactMatcher,
): FlowReport {
  const flow = matcher.flow(id);
  const { words, at } = matcher.keyWords(id);
  const described = key.describe(words, at);
  const translated = translatedKey(matcher, id, key);
  const forward = way === "forward";
  const { lost, appeared, duplicates } = settle(flow, real, way);
  const latency = flow.delay && flowLatency(flow.delay, flow.jitterNs, () => matcher.flows.buckets(id));
  return {
    key: described,
    ...(translated ? { keyAfter: translated } : {}),
    communityId: named ? communityId(described) : null,
    sent: forward ? flow.sent : flow.received,
    received: forward ? flow.received : flow.sent,
    matched: flow.matched,
    lost,
    appeared,
    duplicates,
    reordered: forward ? flow.reordered : null,
    ...(flow.ambiguous > 0 ? { ambiguous: flow.ambiguous } : {}),
    bytes: flow.bytes,
    latency,
    ...(latency ? {} : { reason: noMatchReason(flow.sent, flow.received, flow.matched) }),
  };
}
