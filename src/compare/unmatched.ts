/**
 * Common causes of packets without a partner that loss does not explain: translated addresses, delays beyond the window, flows on another path, a sampled
 * capture. Searched only if there are many; one sentence each, with the evidence.
 */
import type { Kernels } from "../base/kernels.ts";
import { formatCount } from "../base/quantity.ts";
import { formatDuration } from "../base/time.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { formatFlowKey } from "../capture/flow/flow-text.ts";
import { type CaptureOptions, CaptureReader } from "../capture/reader.ts";
import type { ExactMatcher } from "../match/matcher.ts";
import type { PassResult } from "./pass.ts";

/** Below this share of packets without a partner there is nothing to explain. */
const MIN_UNMATCHED = 0.02;
/** A sampled capture omits at least this share of the packets. */
const MIN_SAMPLED_OUT = 0.3;
const SAMPLE = 16_384;
/** Share of a sample that must agree. */
const MIN_AGREEING = 0.01;
const MIN_PAIRS = 20;

export interface UnmatchedInput {
  kernels: Kernels;
  files: { before: string; after: string };
  capture: CaptureOptions;
  result: PassResult;
  windowNs: number;
}

/** The causes as sentences, and which of them show that the loss is not real. */
export interface UnmatchedCauses {
  notes: string[];
  /** Why the loss of the forward direction is probably not real. */
  lossCause: string | null;
  /** Some packets take longer than the window, with others in between that do not. */
  beyondWindow: boolean;
}

export async function unmatchedCauses(input: UnmatchedInput): Promise<UnmatchedCauses> {
  const { result, capture } = input;
  const { matcher, before, after, rereadable, limited } = result;
  const { forward, reverse } = matcher.flows.survey(true);
  const matched = forward.matched + reverse.matched;
  const only = [forward.lost + reverse.lost, forward.appeared + reverse.appeared] as const;
  // In the reverse direction, a packet seen only at AFTER was lost.
  const [lost, appeared] = [forward.lost + reverse.appeared, forward.appeared + reverse.lost];
  const share = (n: number) => n / Math.max(1, n + matched);
  // If as many packets appear as are missing, something else explains both. Walking all flows takes time: done only if many are missing.
  const [sampledBefore, sampledAfter] =
    share(Math.max(only[0], only[1])) > MIN_SAMPLED_OUT ? sampled(matcher, [before, after]) : [[], []];
  const ofLoss = [
    ...(share(lost) > MIN_UNMATCHED && appeared < 0.1 * lost ? ways(matcher, "lost") : []),
    ...sampledAfter,
  ];
  const notes = [
    ...ofLoss,
    ...(share(appeared) > MIN_UNMATCHED && lost < 0.1 * appeared ? ways(matcher, "appeared") : []),
    ...sampledBefore,
  ];
  const causes = (more: string | null, beyondWindow = false): UnmatchedCauses => {
    const all = more === null ? notes : [...notes, more];
    return { notes: all, lossCause: ofLoss[0] ?? more, beyondWindow };
  };
  if (!rereadable || limited || share(only[0]) < MIN_UNMATCHED || share(only[1]) < MIN_UNMATCHED)
    return causes(null);
  const late = await beyondWindow(input);
  if (late !== null) return causes(late, true);
  return causes(capture.nat ? null : await translated(input, matched));
}

interface Sampled {
  timeNs: number;
  key: string;
}

/** Samples the packets of a capture with the smallest digests: the same packets at both points. */
async function sampleOf(
  { kernels, result }: UnmatchedInput,
  file: string,
  capture: CaptureOptions,
): Promise<{ kept: Map<string, Sampled[]>; limit: number }> {
  const key = FlowKeySpec.parse("5tuple");
  const reader = await CaptureReader.open(kernels, file, { ...capture, key, cover: result.plan.cover });
  let kept: { high: number; low: number; timeNs: number; key: string }[] = [];
  let limit = 0x1_0000_0000;
  try {
    while (await reader.next()) {
      const { digest, timeNs, count, meta, addrA, addrB, addrC, addrD } = reader.batch;
      const shift = Number((reader.originNs ?? 0n) - result.originNs);
      for (let i = 0; i < count; i++) {
        const high = digest[2 * i + 1] ?? 0;
        if (high >= limit) continue;
        const words = [meta, addrA, addrB, addrC, addrD].flatMap((c) => [c[2 * i] ?? 0, c[2 * i + 1] ?? 0]);
        const text = formatFlowKey(key.describe(words));
        kept.push({ high, low: digest[2 * i] ?? 0, timeNs: (timeNs[i] ?? 0) + shift, key: text });
      }
      while (kept.length > SAMPLE) {
        limit /= 2;
        kept = kept.filter((p) => p.high < limit);
      }
    }
  } finally {
    reader.close();
    reader.free();
  }
  const byDigest = new Map<string, Sampled[]>();
  for (const p of kept) {
    const name = `${p.high}:${p.low}`;
    byDigest.set(name, [...(byDigest.get(name) ?? []), p]);
  }
  return { kept: byDigest, limit };
}

/** Returns pairs of packets that occur once in each sample. */
async function common(
  input: UnmatchedInput,
  capture: CaptureOptions,
): Promise<{ pairs: [Sampled, Sampled][]; smaller: number }> {
  const a = await sampleOf(input, input.files.before, capture);
  const b = await sampleOf(input, input.files.after, capture);
  const limit = Math.min(a.limit, b.limit);
  const within = ({ kept }: typeof a) => [...kept].filter(([name]) => Number(name.split(":")[0]) < limit);
  const pairs: [Sampled, Sampled][] = [];
  const ofB = new Map(within(b));
  for (const [name, [first, ...more]] of within(a)) {
    const [other, ...others] = ofB.get(name) ?? [];
    if (first && other && more.length === 0 && others.length === 0) pairs.push([first, other]);
  }
  return { pairs, smaller: Math.min(within(a).length, ofB.size) };
}

/** Detects packets that take longer than the window, among others that do not: they are slow, and no clock was set. */
async function beyondWindow(input: UnmatchedInput): Promise<string | null> {
  const { result, windowNs, capture } = input;
  const { pairs, smaller } = await common(input, capture);
  const apart = ([a, b]: [Sampled, Sampled]) => b.timeNs - a.timeNs - result.plan.alignNs;
  const late = pairs.filter((pair) => Math.abs(apart(pair)) > windowNs);
  if (late.length < Math.max(MIN_PAIRS, MIN_AGREEING * smaller)) return null;
  // A clock step separates the packets in time: those before it are near, those after it far.
  const sorted = pairs
    .map((pair) => ({ at: pair[0].timeNs, far: Math.abs(apart(pair)) > windowNs }))
    .sort((x, y) => x.at - y.at);
  const changes = sorted.filter((p, i) => i > 0 && p.far !== sorted[i - 1]?.far).length;
  if (changes < Math.max(4, 0.1 * late.length)) return null;
  const longest = late.reduce((n, pair) => Math.max(n, Math.abs(apart(pair))), 0);
  const percent = ((100 * late.length) / Math.max(1, pairs.length)).toFixed(1);
  return `${percent} % of the packets in both captures have delays beyond the window of ${formatDuration(windowNs)} (up to ${formatDuration(longest)}): they count as lost and appeared; use a ‘window’ of ${formatDuration(2 * longest)}`;
}

/** Detects the same packets with other addresses. */
async function translated(input: UnmatchedInput, matched: number): Promise<string | null> {
  const { pairs, smaller } = await common(input, { ...input.capture, nat: true });
  const moved = pairs.filter(([a, b]) => a.key !== b.key);
  const { before, after } = input.result;
  const plain = matched / Math.max(1, Math.min(before.ipPackets, after.ipPackets));
  const share = pairs.length / Math.max(1, smaller);
  if (moved.length < MIN_PAIRS || share < plain + 0.2 * (1 - plain)) return null;
  const [[a, b]] = moved as [[Sampled, Sampled]];
  const percent = (n: number) => `${(100 * n).toFixed(0)} %`;
  return `addresses or ports are translated on the way (NAT): ${percent(share)} of the packets match without them, ${percent(plain)} with them, such as ${a.key} and ${b.key}; use ‘nat’`;
}

/** Minimum number of packets of a flow for its absence to be significant. */
const ENOUGH_OF_FLOW = 10;

/** Detects flows that only one point saw, among flows that both saw: they take another path. `as`: what their packets count as. */
function ways(matcher: ExactMatcher, as: "lost" | "appeared"): string[] {
  let [there, between, packets] = [0, 0, 0];
  /** By the point that did not see them. */
  const missing: [number, number] = [0, 0];
  for (let id = 0; id < matcher.flowCount; id++) {
    const { sent, received, matched, lost, appeared, direction, linkLocal } = matcher.flow(id);
    // The point at which a flow was seen: where its packets are sent, or where they arrive.
    const atBefore = (direction !== 2) === (as === "lost");
    const [seen, alone] = atBefore ? [sent, lost] : [received, appeared];
    if (seen < ENOUGH_OF_FLOW || linkLocal > 0) continue;
    if (matched === 0 && alone > 0.9 * seen) {
      missing[atBefore ? 1 : 0]++;
      packets += alone;
    } else if (matched > 0.8 * seen) there++;
    else between++;
  }
  const all = missing[0] + missing[1];
  if (all < 3 || there < 3 || between > 0.1 * all) return [];
  const point = missing[0] > 0 && missing[1] > 0 ? "other" : missing[0] > 0 ? "first" : "second";
  return [
    `${formatCount(all)} flows (${formatCount(packets)} packets) are missing at the ${point} point while the other ${formatCount(there)} are present: the missing ones take another path (ECMP) or are filtered; their packets count as ${as}`,
  ];
}

interface Kept {
  kept: number;
  all: number;
}

/** Detects a point that has every n-th packet of every flow: notes on the first point, and on the second. */
function sampled(
  matcher: ExactMatcher,
  [before, after]: [PassResult["before"], PassResult["after"]],
): [string[], string[]] {
  const shares: [number[], number[]] = [[], []];
  const packets: [Kept, Kept] = [
    { kept: 0, all: 0 },
    { kept: 0, all: 0 },
  ];
  for (let id = 0; id < matcher.flowCount; id++) {
    const { sent, received, matched, lost, appeared } = matcher.flow(id);
    const note = (side: 0 | 1, all: number) => {
      shares[side].push(matched / all);
      packets[side].kept += matched;
      packets[side].all += all;
    };
    if (sent >= 50 && appeared === 0 && lost > 0.4 * sent) note(1, sent);
    if (received >= 50 && lost === 0 && appeared > 0.4 * received) note(0, received);
  }
  const noteOf = (side: 0 | 1): string[] => {
    const list = shares[side];
    if (list.length < 3) return [];
    const { kept, all } = packets[side];
    const mean = kept / all;
    const n = Math.round(1 / mean);
    // With sampling all flows have about the same share; loss takes more from some than from others.
    const spread = Math.sqrt(list.reduce((v, s) => v + (s - mean) ** 2, 0) / list.length);
    const byChance = Math.sqrt((mean * (1 - mean) * list.length) / all);
    if (kept < MIN_PAIRS || n < 2 || Math.abs(mean * n - 1) > 0.1) return [];
    if (spread > Math.max(0.35 * mean, 1.5 * byChance)) return [];
    const file = side === 1 ? after.file : before.file;
    return [
      `${file} contains about 1 in ${formatCount(n)} packets of every flow: it looks like a sampled capture, and the packets it left out are counted as ${side === 1 ? "lost" : "appeared"}`,
    ];
  };
  return [noteOf(0), noteOf(1)];
}
