/** The public API: explicit named exports, nothing else re-exports. */

export { RecordArchive, type StoreResult } from "./archive/archive.ts";
export type { Listing, Selection } from "./archive/listing.ts";
export type { ArchiveEntry } from "./archive/names.ts";
export { type RetentionLimits, type RetentionResult, retain } from "./archive/retention.ts";
export type { MergeRecords, StoreItem, StoreOutcome } from "./archive/writer.ts";
export { type FormatCode, FormatError, type UsageCode, UsageError } from "./base/errors.ts";
export { Kernels, MemoryError } from "./base/kernels.ts";
export { LogHistogram } from "./base/math/log-histogram.ts";
export { VERSION } from "./base/version.ts";
export { PacketBatch } from "./capture/batch.ts";
export type { FilterExpression } from "./capture/filter/expression.ts";
export { type CompiledFilter, compileFilter, parseFilter } from "./capture/filter/filter.ts";
export { type FlowKey, FlowKeySpec } from "./capture/flow/flow-key.ts";
export { communityId, formatFlowKey, parseFlowKey } from "./capture/flow/flow-text.ts";
export type { CaptureInterface } from "./capture/format/pcapng-blocks.ts";
export {
  type CaptureOptions,
  CaptureReader,
  type CaptureStatistics,
  type RowFilter,
} from "./capture/reader.ts";
export {
  CaptureSource,
  type CaptureSourceOptions,
  followCapture,
  openCaptures,
} from "./capture/source/capture-source.ts";
export type { ClockState } from "./capture/source/clock-state.ts";
export type {
  InterfaceOptions,
  InterfaceSourceOptions,
} from "./capture/source/interface/interface-options.ts";
export { type InterfaceSource, openInterface } from "./capture/source/interface/interface-source.ts";
export { openLive } from "./capture/source/interface/live-source.ts";
export { PacedSource } from "./capture/source/paced-source.ts";
export { followFiles, type RotatingOptions } from "./capture/source/rotating-files.ts";
export type { CaptureTotals, Source, SourceBatch } from "./capture/source/source.ts";
export type { CorrectionMode } from "./clock/correction.ts";
export type { TimestampQuality } from "./clock/timestamp-quality.ts";
export { type ArchiveRecordsOptions, archiveRecords } from "./collect/archive-records.ts";
export { type CollectOptions, collect, type Dropped } from "./collect/collect.ts";
export {
  type Collected,
  type CollectedSegment,
  Collector,
  type CollectorOptions,
} from "./collect/collector.ts";
export type { EpochEstimate, EstimateEnd, Refusal } from "./collect/estimate.ts";
export { MemoryRecords } from "./collect/memory-records.ts";
export type { RecordPair, Unpaired } from "./collect/pair.ts";
export { type RecordHandle, receivedRecord } from "./collect/record-handle.ts";
export type { RecordStore } from "./collect/record-store.ts";
export type { DelayLimits } from "./collect/tracks.ts";
export { type CompareOptions, type Comparison, compareCaptures, openComparison } from "./compare/compare.ts";
export type { PacketErrors } from "./compare/delays.ts";
export type { EstimateReport, FlowClass, FlowEstimateReport } from "./compare/estimate-report.ts";
export {
  type CompareEstimateOptions,
  compareWithEstimates,
  type EstimatePlan,
} from "./compare/estimates.ts";
export type {
  CaptureSummary,
  CompareReport,
  FlowReport,
  HeatMap,
  IntervalReport,
  Latency,
  ReportView,
  SegmentReport,
  Translation,
} from "./compare/report.ts";
export type { DelayError } from "./delays/delay-error.ts";
export {
  type DelaySource,
  type DelaySourceCounts,
  delaysFromReferences,
  delaysFromSender,
  delaysFromSource,
} from "./delays/delay-source.ts";
export { AdaptiveRate, type AdaptiveSettings, injectionRate } from "./delays/injection-rate.ts";
export { type LivePair, type LivePairOptions, matchLive } from "./delays/live-sender.ts";
export type { PacketTimesOptions } from "./delays/packet-times.ts";
export {
  interpolateDelays,
  type OwnedBatch,
  type ReferenceDelayCounts,
  ReferenceDelays,
  type ReferenceDelaysOptions,
} from "./delays/reference-delays.ts";
export { ReferenceVerifier } from "./delays/reference-key.ts";
export {
  type ReferenceOptions,
  type ReferenceSummary,
  sendReferences,
} from "./delays/reference-sender.ts";
export type { SenderDelaysOptions } from "./delays/sender-delays.ts";
export { decodeStamp, encodeStamp, type StampPacket } from "./delays/stamp.ts";
export type { CutPlan } from "./epoch/cutter.ts";
export { identityText, type RecordIdentity, recordIdentity, tapText } from "./epoch/identity.ts";
export { mergeParts, mergeRecords } from "./epoch/merge.ts";
export {
  type CutMode,
  decodeHead,
  decodeRecord,
  type EncodeOptions,
  type EpochBounds,
  type EpochRecord,
  encodeRecord,
  type RecordCounters,
  type RecordHead,
  type RecordRole,
} from "./epoch/record.ts";
export type { RecordLayout } from "./epoch/record-layout.ts";
export type { Span } from "./epoch/spans.ts";
export type { TapEffort } from "./epoch/tap-state.ts";
export type {
  EstimateInput,
  Estimator,
  EstimatorAnswer,
  EstimatorText,
  FlowEstimate,
  FlowListing,
  Interval,
  IpidRange,
  KnownFlows,
  NoAnswer,
  PacketAnswers,
  PacketIdentity,
  PacketLookup,
  PacketStore,
  ParameterSpec,
  ParameterValues,
  Role,
  SealedEpoch,
  SegmentEstimate,
  SizeAnswer,
  SizePrediction,
  SizeRequest,
  Sizing,
  Tap,
  TapContext,
  Tuning,
} from "./estimators/estimator.ts";
export { MaplePayload } from "./estimators/maple/lookup.ts";
export { formatParameters, parseParameters } from "./estimators/parameters.ts";
export { ESTIMATORS, findEstimator } from "./estimators/table.ts";
export { type FlowErrors, flowErrors } from "./evaluate/flow-errors.ts";
export { type Interference, measureInterference } from "./evaluate/interference.ts";
export { type Injection, referenceInjector } from "./evaluate/reference-injectors.ts";
export { type Contestant, runSegment, type SegmentRun, type SegmentTruth } from "./evaluate/run-segment.ts";
export { type FlowRecord, readFlowRecords } from "./flow-records/flow-records.ts";
export { type InspectOptions, type InspectReport, inspectCapture } from "./inspect/inspect.ts";
export type { EndToEnd } from "./network/localise/end-to-end.ts";
export {
  type CapturedLocalisation,
  type LocaliseCapturesOptions,
  localiseCaptures,
} from "./network/localise/from-captures.ts";
export {
  type EpochPart,
  type Localisation,
  type LocalisedEpoch,
  type LocalisedSegment,
  type LocaliseOptions,
  localise,
} from "./network/localise/localise.ts";
export type { LocaliseEstimate, LossRate, SegmentLatency } from "./network/localise/segment-estimate.ts";
export type { SpikeOptions } from "./network/localise/spikes.ts";
export { LocaliseStream, type StreamCounters, type StreamOptions } from "./network/localise/stream.ts";
export type { LossSpike, Spike } from "./network/localise/verdicts.ts";
export { type DemandMatrix, parseDemands } from "./network/plan/demands.ts";
export {
  type Deployment,
  deployment,
  type MeasurementCost,
  measurementCost,
  type Segment,
  segmentsOf,
} from "./network/plan/deployment.ts";
export {
  type Plan,
  type PlanOptions,
  type PlanStep,
  planUpgrades,
  STRATEGIES,
  type Strategy,
} from "./network/plan/plan.ts";
export type { SegmentStatistics } from "./network/plan/uncut-paths.ts";
export { MonitoringStation, type StationOptions } from "./network/station/monitoring-station.ts";
export type { Host, Link, Router, Topology } from "./network/topology/topology.ts";
export { topologyConfig } from "./network/topology/topology-config.ts";
export { loadTopology, parseTopology, type TopologyOptions } from "./network/topology/topology-format.ts";
export { DirectorySink, type DirectorySinkOptions } from "./observe/directory-sink.ts";
export type { CutChoice, Lane, LaneOptions } from "./observe/lane.ts";
export { type ObserveOptions, type ObserveResult, observe } from "./observe/observe.ts";
export {
  type ObserveCapturesOptions,
  observeCaptures,
  type SenderCaptures,
} from "./observe/observe-captures.ts";
export {
  type ObservedInterface,
  type ObserveInterfacesOptions,
  observeInterfaces,
} from "./observe/observe-interfaces.ts";
export { type ObservationReport, type ObservePointOptions, observePoint } from "./observe/observe-point.ts";
export { type ObserverOptions, PointObserver, type TapPlan } from "./observe/observer.ts";
export type { RecordCounts } from "./observe/outbox.ts";
export { type LanePlan, planLanes, planTaps, type TapChoice } from "./observe/plan.ts";
export type { PutOutcome, RecordSink } from "./observe/record-sink.ts";
export {
  type WatchedFlow,
  type WatchedInterval,
  type WatchedLatency,
  type WatchOptions,
  watchPair,
} from "./observe/watch.ts";
export { compareCsvLines, formatCompareCsv } from "./present/csv/compare-csv.ts";
export { type LocalisationPageOptions, renderLocalisationHtml } from "./present/html/localise-html.ts";
export { renderPlanHtml } from "./present/html/plan-html.ts";
export { renderComparePage } from "./present/html/report-page.ts";
export { renderPlanSvg } from "./present/svg/plan-picture.ts";
export { formatCompare, type TextOptions } from "./present/text/compare-text.ts";
export {
  type PacketAnswer,
  type PacketGroup,
  type PacketLatency,
  readPacketAnswer,
  type WorstPacket,
} from "./query/packet/answer.ts";
export { type AskPacketsOptions, askPackets } from "./query/packet/ask.ts";
export type { AskedPackets, PacketQuestion } from "./query/packet/question.ts";
export {
  decodeAnswer,
  decodeQuestion,
  encodeAnswer,
  encodeQuestion,
  type WireAnswer,
  type WireQuestion,
} from "./query/packet/wire.ts";
export type {
  Answer,
  Answered,
  AnsweredPart,
  AnswerLatency,
  GroupAnswer,
  MissingEpoch,
  OverlappingEpochs,
  PointSummary,
  RefusedEpoch,
  SegmentAnswer,
  SeriesRow,
  WholeAnswer,
} from "./query/segment/answer.ts";
export { type AskOptions, askArchive } from "./query/segment/ask.ts";
export type { Question } from "./query/segment/question.ts";
export {
  type ExportOptions,
  exportSimulation,
  type TruthFile,
  type TruthFlow,
  type TruthTotals,
} from "./simulate/export.ts";
export type { Injector, InjectorContext } from "./simulate/injector.ts";
export {
  independentFlows,
  referenceQueue,
  referenceTraffic,
  twoLatencies,
  weibullDelays,
} from "./simulate/presets.ts";
export {
  type ClassesHop,
  type Clock,
  type DelayHop,
  type DelayModel,
  type Hop,
  type LossHop,
  type PathsHop,
  type PopulationTraffic,
  type QueueHop,
  type ReorderHop,
  type ReplayTraffic,
  type Scenario,
  SIMULATED_FLAG,
  type SyntheticTraffic,
  type Traffic,
} from "./simulate/scenario.ts";
export {
  type Observation,
  type Offered,
  type PacketTruth,
  type SimulateOptions,
  Simulation,
  simulate,
} from "./simulate/simulate.ts";
export { type SimulatedSourceOptions, simulatedSource } from "./simulate/simulated-source.ts";
export type { HopStatistics } from "./simulate/stage.ts";
export { type FlowTruth, FlowTruthTable } from "./simulate/truth.ts";
export type { Endpoint } from "./transport/http/collector-url.ts";
export { HttpSink, type HttpSinkCounts, type HttpSinkOptions } from "./transport/http/http-sink.ts";
