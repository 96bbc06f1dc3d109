/** A race over two captures of the same packets. The truth is their exact match. Estimators see what the two points would see; no packets are injected. */
import { UsageError } from "../../base/errors.ts";
import { entryAt } from "../../base/lists.ts";
import { formatDuration } from "../../base/time.ts";
import { formatFlowKey } from "../../capture/flow/flow-text.ts";
import { type CompareOptions, compareCaptures } from "../../compare/compare.ts";
import type { EstimateReport } from "../../compare/estimate-report.ts";
import { compareWithEstimates, type EstimatePlan } from "../../compare/estimates.ts";
import type { CompareReport } from "../../compare/report.ts";
import { type Estimator, type Interval, listsAllFlows } from "../../estimators/estimator.ts";
import { parseParameters } from "../../estimators/parameters.ts";
import { ESTIMATORS } from "../../estimators/table.ts";
import type { ContestantResult, JudgedFlow, RaceContestant, RaceSegment, SegmentResult } from "./segment.ts";
import { cpuPerRow, noCost, type TapCost, timed } from "./timed.ts";

export function capturedSegment(options: CompareOptions): RaceSegment {
  let exact: Promise<CompareReport> | null = null;
  const matched = () => (exact ??= compareCaptures({ ...options, flows: "all" }));
  return {
    name: `${options.before} to ${options.after}`,
    async expected() {
      const { before, segment, flows } = await matched();
      const { firstNs, lastNs } = before;
      const epochNs = firstNs === null || lastNs === null ? 1 : Number(BigInt(lastNs) - BigInt(firstNs));
      const loss = segment.lossRate !== null && segment.lossRate > 0 ? [segment.lossRate] : [];
      return { packets: Math.max(1, segment.sent), flows: Math.max(1, flows.length), epochNs, loss };
    },
    async run(contestants) {
      const report = await matched();
      requireDelays(options, report);
      return await runOver(options, report, contestants);
    },
  };
}

/** Errors are relative to delays, so there must be delays, and they must be above 0. */
function requireDelays({ before, after }: CompareOptions, { segment, notes }: CompareReport): void {
  const { latency, reason } = segment;
  if (!latency)
    throw new UsageError(
      "mismatch",
      `no packet of ${before} has a delay at ${after}: ${reason ?? "none is in both"}`,
      "hoptime compare says why",
    );
  if (latency.meanNs > 0) return;
  throw new UsageError(
    "mismatch",
    latency.meanNs === 0
      ? `all delays from ${before} to ${after} are 0${notes.some((n) => n.includes("same file")) ? ": they are the same file" : ""}`
      : `the mean delay from ${before} to ${after} is ${formatDuration(latency.meanNs)}, below 0`,
    "give the earlier point first; hoptime compare shows what is wrong with the clocks",
  );
}

async function runOver(
  options: CompareOptions,
  exact: CompareReport,
  contestants: readonly RaceContestant[],
): Promise<SegmentResult> {
  const costs = contestants.map(noCost);
  const plans = contestants.map(
    ({ estimator, parameters }, i): EstimatePlan => ({
      estimator: timed(estimator, entryAt(costs, i)),
      parameters,
      given: new Set(estimator.parameters.map((p) => p.name)),
    }),
  );
  const listing = ESTIMATORS.find(listsAllFlows);
  const listCost = noCost();
  if (listing)
    plans.push({
      estimator: timed(listing, listCost),
      parameters: parseParameters(listing),
      given: new Set<string>(),
    });
  const report = await compareWithEstimates({ ...options, flows: "all" }, { plans });
  const truth = truthOf(exact);
  const results = contestants.map(({ estimator }, i) => {
    const estimate = report.estimates?.[estimator.name] as EstimateReport | undefined;
    return resultOf(estimator, estimate, entryAt(costs, i), truth);
  });
  const matched = exact.segment.latency;
  return {
    ...{ packets: exact.segment.matched, flows: truth.size, meanNs: matched?.meanNs ?? Number.NaN },
    longestNs: matched ? Math.max(Math.abs(matched.minNs), Math.abs(matched.maxNs)) : null,
    list: {
      memoryBytes: listCost.memoryBytes,
      bytes: listing
        ? ((report.estimates?.[listing.name] as EstimateReport | undefined)?.senderBytes ?? 0)
        : 0,
    },
    results,
    notes: exact.notes,
  };
}

/** Returns the exact mean delays by flow. */
function truthOf({ flows }: CompareReport): Map<string, { packets: number; exactNs: number }> {
  return new Map(
    flows.flatMap(({ key, latency }) =>
      latency ? [[formatFlowKey(key), { packets: latency.count, exactNs: latency.meanNs }] as const] : [],
    ),
  );
}

function resultOf(
  { needs }: Estimator,
  estimate: EstimateReport | undefined,
  cost: TapCost,
  truth: ReturnType<typeof truthOf>,
): ContestantResult {
  const answers = new Map<string, Interval>();
  for (const { key, meanNs, lowNs, highNs } of estimate?.flows ?? [])
    if (meanNs !== null && lowNs !== null && highNs !== null)
      answers.set(formatFlowKey(key), { valueNs: meanNs, lowNs, highNs });
  const { meanNs = null, lowNs = null, highNs = null } = estimate ?? {};
  return {
    // If the estimator needs no tap at the sender, the one that compare opens does not count as its cost.
    ...{
      senderBytes: needs.sender ? (estimate?.senderBytes ?? 0) : 0,
      receiverBytes: estimate?.receiverBytes ?? 0,
    },
    injectedBytes: 0,
    memoryBytes: cost.memoryBytes,
    cpuNsPerPacket: cpuPerRow(cost),
    usesList: needs.flows !== "none",
    byPackets: false,
    segment: meanNs === null || lowNs === null || highNs === null ? null : { valueNs: meanNs, lowNs, highNs },
    flows: [...truth].map(([name, flow]): JudgedFlow => ({ ...flow, answer: answers.get(name) ?? null })),
  };
}
