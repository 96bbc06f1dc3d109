/**
 * Flows by a coarser key than the five-tuple. Packets are always counted by five-tuple, because only a five-tuple has one direction: the grouping in a report
 * must not change the measurement. Here the counted flows of one direction are merged by the report's key. Jitter and reordering of a group are those within
 * its five-tuples.
 */
import { LogHistogram } from "../base/math/log-histogram.ts";
import type { FlowKey, FlowKeySpec } from "../capture/flow/flow-key.ts";
import type { DelaySums, FlowResult } from "../match/flow-result.ts";
import type { ExactMatcher } from "../match/matcher.ts";
import { MEASURES, type Measure } from "./columns.ts";
import { type FlowChoice, type FlowOrder, idsOfWay } from "./flows.ts";
import { latencyOf, smallDelays } from "./latency.ts";
import type { FlowReport, FlowRows } from "./report.ts";
import { noMatchReason, settle, type Way } from "./segment.ts";

const KEY_WORDS = 10;
const IPV6 = 1 << 27;

interface Group {
  key: FlowKey;
  counts: Omit<FlowReport, "key" | "communityId" | "latency" | "reason" | "reordered">;
  reordered: number;
  delay: DelaySums | null;
  /** Sum of |difference of consecutive delays|, and number of these differences. */
  jitterNs: number;
  steps: number;
  histogram: LogHistogram;
}

/** Returns the groups of one direction, all at once: there are fewer of them than flows. */
export function groupFlows(
  matcher: ExactMatcher,
  way: Way,
  twoWay: boolean,
  key: FlowKeySpec,
  choice: FlowChoice,
): FlowRows {
  const groups = new Map<string, Group>();
  const mask = maskOf(key);
  const words = new Uint32Array(KEY_WORDS);
  for (const id of idsOfWay(matcher, way, twoWay)) {
    const found = matcher.keyWords(id);
    mask(found.words, found.at, words);
    const name = words.join();
    let group = groups.get(name);
    if (!group) {
      group = emptyGroup(key.describe(words), matcher.flows.baseNs(way.way === "forward" ? 1 : 2));
      groups.set(name, group);
    }
    addFlow(group, matcher.flow(id), matcher, way);
  }
  const reports = [...groups.values()].map((group) => reportOf(group, way));
  if (choice === "all") return order(reports, "packets");
  return order(reports, choice.sort).slice(0, choice.top);
}

function emptyGroup(key: FlowKey, baseNs: number): Group {
  const counts = { sent: 0, received: 0, matched: 0, lost: 0, appeared: 0, duplicates: 0, bytes: 0 };
  return {
    key,
    counts,
    reordered: 0,
    delay: null,
    jitterNs: 0,
    steps: 0,
    histogram: new LogHistogram(baseNs),
  };
}

function addFlow(group: Group, flow: FlowResult, matcher: ExactMatcher, { way, real }: Way): void {
  const forward = way === "forward";
  const { counts } = group;
  const settled = settle(flow, real, way);
  counts.sent += forward ? flow.sent : flow.received;
  counts.received += forward ? flow.received : flow.sent;
  counts.matched += flow.matched;
  counts.lost += settled.lost;
  counts.appeared += settled.appeared;
  counts.duplicates += settled.duplicates;
  counts.bytes += flow.bytes;
  group.reordered += flow.reordered;
  if (!flow.delay) return;
  if (flow.jitterNs !== null) {
    group.jitterNs += flow.jitterNs * flow.jitterSteps;
    group.steps += flow.jitterSteps;
  }
  if (flow.delay.count <= 3) for (const delayNs of smallDelays(flow.delay)) group.histogram.add(delayNs);
  else {
    const { buckets, counts: sizes } = matcher.flows.buckets(flow.id);
    for (let i = 0; i < buckets.length; i++) group.histogram.addBucket(buckets[i]!, sizes[i]!);
  }
  group.delay = group.delay ? joined(group.delay, flow.delay) : flow.delay;
}

/** Merges the sums of both (Chan, Golub and LeVeque 1983). */
function joined(a: DelaySums, b: DelaySums): DelaySums {
  const count = a.count + b.count;
  const apart = b.meanNs - a.meanNs;
  const squares =
    a.count * a.stdevNs ** 2 + b.count * b.stdevNs ** 2 + (apart * apart * a.count * b.count) / count;
  return {
    count,
    meanNs: a.meanNs + (apart * b.count) / count,
    stdevNs: Math.sqrt(squares / count),
    minNs: Math.min(a.minNs, b.minNs),
    maxNs: Math.max(a.maxNs, b.maxNs),
  };
}

function reportOf(group: Group, { way }: Way): FlowReport {
  const { sent, received } = group.counts;
  const jitterNs = group.steps > 0 ? group.jitterNs / group.steps : null;
  const latency = latencyOf(group.delay, group.histogram, jitterNs);
  const { bytes, ...counts } = group.counts;
  return {
    key: group.key,
    communityId: null,
    ...counts,
    reordered: way === "forward" ? group.reordered : null,
    bytes,
    latency,
    ...(latency ? {} : { reason: noMatchReason(sent, received, group.counts.matched) }),
  };
}

function order(reports: FlowReport[], by: FlowOrder): FlowReport[] {
  const measure: Measure = MEASURES[by];
  const value = (flow: FlowReport) => measure.value(flow) ?? Number.NEGATIVE_INFINITY;
  const compare = (a: number, b: number) => (a === b ? 0 : b - a);
  return reports.sort((a, b) => compare(value(a), value(b)));
}

/** Returns a function that masks a key's ten words: fields not in the key become 0. */
function maskOf(key: FlowKeySpec): (words: Uint32Array, at: number, out: Uint32Array) => void {
  const [meta4 = 0n, addr4 = 0n, meta6 = 0n, a = 0n, b = 0n, c = 0n, d = 0n] = key.maskWords();
  const halves = (...masks: bigint[]) =>
    Uint32Array.from(masks.flatMap((m) => [Number(m & 0xffff_ffffn), Number(m >> 32n)]));
  const four = halves(meta4, addr4, 0n, 0n, 0n);
  const six = halves(meta6, a, b, c, d);
  return (words, at, out) => {
    const mask = (words[at + 1]! & IPV6) !== 0 ? six : four;
    for (let i = 0; i < KEY_WORDS; i++) out[i] = words[at + i]! & mask[i]!;
  };
}
