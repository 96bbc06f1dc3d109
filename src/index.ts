/** The public API: explicit named exports, nothing else re-exports. */
export { FormatError, UsageError } from "./base/errors.ts";
export { Kernels } from "./base/kernels.ts";
export { LogHistogram } from "./base/log-histogram.ts";
export { VERSION } from "./base/version.ts";
export { PacketBatch } from "./capture/batch.ts";
export { compileFilter, parseFilter } from "./capture/filter.ts";
export { type FlowKey, FlowKeySpec } from "./capture/flow-key.ts";
export { type FlowRecord, readFlowRecords } from "./capture/flow-records.ts";
export { communityId, formatFlowKey, parseFlowKey } from "./capture/flow-text.ts";
export {
  type CaptureOptions,
  CaptureReader,
  type CaptureStatistics,
  type RowFilter,
} from "./capture/reader.ts";
export { type CompareOptions, type Comparison, compareCaptures, openComparison } from "./collect/compare.ts";
export { compareCsvLines, formatCompareCsv } from "./collect/compare-csv.ts";
export type { EstimateReport, FlowClass, FlowEstimateReport } from "./collect/compare-estimate-report.ts";
export {
  compareWithEstimates,
  type EstimateOptions,
  type EstimatePlan,
} from "./collect/compare-estimates.ts";
export type {
  CaptureSummary,
  CompareReport,
  FlowReport,
  IntervalReport,
  Latency,
  SegmentReport,
} from "./collect/compare-report.ts";
export { formatCompare } from "./collect/compare-text.ts";
export { type InspectOptions, type InspectReport, inspectCapture } from "./collect/inspect.ts";
export { renderComparePage } from "./collect/report-page.ts";
export type {
  Estimator,
  EstimatorAnswer,
  FlowEstimate,
  KnownFlows,
  NoAnswer,
  PacketAnswers,
  PacketIdentity,
  PacketLookup,
  SealedEpoch,
  SegmentEstimate,
  SizeAnswer,
  SizePrediction,
  SizeRequest,
  Tap,
} from "./estimators/estimator.ts";
export { MaplePayload } from "./estimators/maple/lookup.ts";
export { formatParameters, parseParameters } from "./estimators/parameters.ts";
export { AdaptiveRate, type AdaptiveSettings, injectionRate } from "./estimators/rli/injection-rate.ts";
export {
  interpolateDelays,
  ReferenceDelays,
  type ReferenceDelaysOptions,
} from "./estimators/rli/reference-delays.ts";
export { decodeStamp, encodeStamp, type StampPacket } from "./estimators/rli/stamp.ts";
export { ESTIMATORS, findEstimator } from "./estimators/table.ts";
export { type FlowErrors, flowErrors } from "./evaluate/flow-errors.ts";
export { type Interference, measureInterference } from "./evaluate/interference.ts";
export { type Injection, referenceInjector } from "./evaluate/reference-injectors.ts";
export { type Contestant, runSegment, type SegmentRun, type SegmentTruth } from "./evaluate/run-segment.ts";
export { askPackets } from "./query/ask-packets.ts";
export type { PacketAnswer, PacketGroup, PacketLatency, WorstPacket } from "./query/packet-answer.ts";
export type { AskedPackets, PacketQuestion } from "./query/packet-question.ts";
export {
  decodeAnswer,
  decodeQuestion,
  encodeAnswer,
  encodeQuestion,
  type WireAnswer,
  type WireQuestion,
} from "./query/packet-wire.ts";
export { exportSimulation, type TruthFile } from "./simulate/export.ts";
export type { Injector, InjectorContext } from "./simulate/injector.ts";
export {
  independentFlows,
  referenceQueue,
  referenceTraffic,
  twoLatencies,
  weibullDelays,
} from "./simulate/presets.ts";
export {
  type Clock,
  type DelayModel,
  type Hop,
  type Scenario,
  SIMULATED_FLAG,
  type Traffic,
} from "./simulate/scenario.ts";
export {
  type Observation,
  type Offered,
  type PacketTruth,
  Simulation,
  simulate,
} from "./simulate/simulate.ts";
export { type FlowTruth, FlowTruthTable } from "./simulate/truth.ts";
export {
  type ReferenceOptions,
  type ReferenceSummary,
  sendReferences,
} from "./transport/reference-sender.ts";
