/** Quantiles of a segment's delays over time, from packet records (maple) at its receiver: one question per step, sent as one request. */
import { post, request } from "../api/client.ts";
import type { SegmentName } from "../api/types.ts";
import type { PacketAnswer, PacketLatency } from "../parts/packet-groups.tsx";
import { nsText, type TimeRange } from "./time-range.ts";

export interface DistributionStep {
  startMs: number;
  packets: number;
  latency: PacketLatency | null;
  reason: string;
}

export interface Distribution {
  stepMs: number;
  steps: DistributionStep[];
}

const MOST_STEPS = 60;
/** Questions cover whole epochs, so steps are multiples of common epoch lengths. */
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400];

function distributionStep({ fromMs, toMs }: { fromMs: number; toMs: number }): number {
  const wanted = (toMs - fromMs) / 1000 / MOST_STEPS;
  return 1000 * (STEPS_S.find((s) => s >= wanted) ?? 86_400);
}

export async function askDistribution(
  { to, label }: SegmentName,
  range: TimeRange,
  signal: AbortSignal,
): Promise<Distribution> {
  const stepMs = distributionStep(range);
  const first = Math.floor(range.fromMs / stepMs) * stepMs;
  const starts: number[] = [];
  for (let at = first; at < range.toMs; at += stepMs) starts.push(at);
  const response = await request("/v1/packets", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      questions: starts.map((at) => ({
        ...{ group: "all", worst: 0, point: to, ...(label === "" ? {} : { segment: label }) },
        ...{ from: nsText(at), to: nsText(at + stepMs) },
      })),
    }),
    signal,
  });
  const lines = (await response.text()).split("\n").filter((line) => line !== "");
  const steps = lines.map((line, i) => stepOf(starts[i] ?? 0, JSON.parse(line)));
  return { stepMs, steps };
}

/** Returns an answer, or the reason why there is none. */
function stepOf(startMs: number, answer: Partial<PacketAnswer> & { message?: string }): DistributionStep {
  const [all] = answer.groups ?? [];
  return {
    startMs,
    packets: answer.packets ?? 0,
    latency: all?.latency ?? null,
    reason: answer.message ?? all?.reason ?? "no packets in the records of this time",
  };
}

export interface FlowTail {
  p99Ns: number;
  maxNs: number;
  packets: number;
}

/** Returns the p99 of flows, by name. */
export async function askTails(
  { to, label }: SegmentName,
  range: TimeRange,
  top: number,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, FlowTail>> {
  const answer = await post<PacketAnswer>(
    "/v1/packets",
    {
      ...{ group: "flow", top, worst: 0, point: to, ...(label === "" ? {} : { segment: label }) },
      ...{ from: nsText(range.fromMs), to: nsText(range.toMs) },
    },
    signal,
  );
  return new Map(
    answer.groups.flatMap(({ text, packets, latency }) =>
      latency ? [[text, { p99Ns: latency.p99Ns, maxNs: latency.maxNs, packets }] as const] : [],
    ),
  );
}
