/**
 * The contract of an estimator: table.ts lists objects of this type, and everything else (epochs, records, compare, observe, query, size,
 * evaluate) works with them. No caller knows an estimator by name. What only some estimators can do is a separate object (`flowList`,
 * `packets`, `sizing`, `tuning`), and a caller that needs it checks for that object only.
 *
 * A tap folds batches into a sketch at one point. At the end of an epoch it is sealed into a payload of bytes. Payloads of equal parameters
 * and seed merge: merge(seal(A), seal(B)) is bit-identical to seal(A and B). The payloads of one epoch at the two ends of a segment make
 * estimates. Estimators that know delays at the receiver (needs.delays) have no sender payload.
 *
 * Times inside a sketch are ns after the epoch's start, which is the same wall-clock instant at both ends.
 *
 * Past 400 lines: the contract is one file.
 */
import type { Kernels } from "../base/kernels.ts";
import type { LogHistogram } from "../base/math/log-histogram.ts";
import type { PacketBatch } from "../capture/batch.ts";
import type { KernelKept, KernelPart, KernelPlaces } from "../capture/ebpf/kernel-plan.ts";

export type Role = "sender" | "receiver";

/** A missing answer has a reason; it is never NaN or 0. */
export interface NoAnswer {
  reason:
    | "no-packets"
    | "no-usable-cells"
    | "too-much-noise"
    | "not-in-sketch"
    | "foreign-packets"
    | "overflow"
    | "partly-answered"
    | "not-supported";
  text: string;
}

/** A value with its interval at the requested confidence. */
export interface Interval {
  valueNs: number;
  lowNs: number;
  highNs: number;
  /** The part of value - low and high - value that does not average out over flows and epochs: an error common to all (a clock's), or a bound that each may reach. */
  common?: { lowNs: number; highNs: number };
  /**
   * For a flow: the share of the squared half widths (without the common part) that is the same error in every epoch, so that it does not average out over
   * the epochs of that flow. 1 if a flow has the same neighbours in all of them. Default: 0.
   */
  repeats?: number;
  /** For a standard deviation: the half width is a bound on the root mean square error of the delays, not an error that averages out. */
  bound?: boolean;
}

/** The answer for all packets of a segment in an epoch. */
export interface SegmentEstimate {
  mean: Interval | NoAnswer;
  stdev: Interval | NoAnswer;
  /** Packets at either end, as the taps counted them; null where an end has no tap. */
  sent: number | null;
  received: number | null;
  /** Lost packets: value and interval in packets where it is estimated, exact where counted; null where unknown. */
  lost: number | null;
  /** Packets that the mean is based on, and their share of those received. */
  packetsUsed: number;
  coverage: number;
  /**
   * The delay of packets in flight at an aligned cut, or that overtook a delimiter or were overtaken by it: no cell can be used for them (cells/edge.ts has the model). Only the
   * receiver's list has them, or an epoch that only the receiver has.
   */
  inFlight?: Interval;
  /** How much too low the mean is, approximately, because packets in flight when the epoch began are far slower than the others; its interval is extended upwards for it. */
  leansNs?: number;
  /** Packets behind the mean, if not all that were received have a delay: its weight among other epochs. */
  measured?: number;
  /** Sentences: foreign packets suspected, reordering over the edge, … */
  notes: string[];
}

export interface FlowEstimate {
  /** Index into the flows asked for. */
  flow: number;
  mean: Interval | NoAnswer;
  stdev: Interval | NoAnswer;
  /** As estimated from the sketch, or as known; null if neither. */
  packets: number | null;
  /** Packets behind the mean, if some that arrived have no delay: its weight among other epochs. */
  measured?: number;
  /** Hard bounds, if they are estimated and bounds are known. */
  packetBounds?: { low: number; high: number };
  /** Below 0: more packets arrived than were sent in the epoch, because some were in flight when it began. */
  lost: number | null;
  /** Lower bound of `lost`. Default: all of it. */
  lostLow?: number;
  /** As estimated by the sketch; missing if it does not estimate them, or if they are known. */
  bytes?: number;
  /** If the estimator keeps them: the value that this share of the flow's packets does not exceed. */
  quantiles?: { share: number; valueNs: number }[];
  /** The distribution behind them: epochs are combined by it. */
  delays?: LogHistogram;
}

/** Flows whose estimates are asked for, with what is known of them (a flow table at one end, NetFlow, the question). */
export interface KnownFlows {
  count: number;
  /** Flow hashes as [low, high] pairs of uint32. */
  hash: Uint32Array;
  /** Packets of each flow at the sender (or the end that counted); NaN where unknown. */
  packets: Float64Array;
  /** Packets of each flow at the receiver, if that end lists them too; with aligned cuts some of them were sent in the epoch before. */
  received?: Float64Array;
  bytes: Float64Array;
  /** Ten uint32 per flow for FlowKeySpec.describe. */
  keyWords: Uint32Array;
  /** The list contains every flow of the epoch (needed to separate a flow from its neighbours). */
  complete: boolean;
  /** 1 if an answer is wanted. Flows that only help to separate others need no answer to be kept. Default: all. */
  asked?: Uint8Array;
  /** If only the heaviest flows are listed: bounds of each flow's packets, bytes of the lower bound, and the maximum number of packets of a flow that is not listed. */
  heavy?: { floor: number; low: Float64Array; high: Float64Array; bytes: Float64Array };
}

export interface SealedEpoch {
  payload: Uint8Array;
  /** Packets the tap has seen in the epoch (all, sampled or not). */
  packets: number;
}

export interface EstimateInput<P> {
  parameters: P;
  seed: bigint;
  sender: SealedEpoch | null;
  receiver: SealedEpoch | null;
  flows: KnownFlows | null;
  /** e.g. 0.95 */
  confidence: number;
  /** Length of the epoch, ns. */
  epochNs: number;
  /** Epochs were cut by the clock while observation continued: packets in flight at the cut belong to the segment, although no cell can be used for them. */
  cutInFlight?: boolean;
  /** Epochs were cut at packets: others may have crossed the cut by overtaking them, and belong to the segment too. */
  cutByPackets?: boolean;
}

export interface EstimatorAnswer {
  segment: SegmentEstimate | null;
  flows: FlowEstimate[];
  notes: string[];
}

export interface Tap {
  readonly memoryBytes: number;
  /**
   * A new epoch begins at this time on the batches' axis (ns after the capture's origin). `originNs`: time 0 of that axis in ns since 1970, if
   * known, for taps that read wall-clock times in packets. `salt`: a number that both ends derive from the epoch, different for each epoch;
   * sketches of shared cells place flows by it, so that a flow does not have the same neighbours in every epoch. It is 0 (the default) if
   * neighbouring epochs may have to be merged, because only sketches with equal salt can be merged.
   */
  begin(epochStartNs: number, originNs?: bigint, salt?: bigint): void;
  /** Rows [from, to) of the batch belong to the epoch. */
  update(batch: PacketBatch, from: number, to: number): void;
  /** The sketch may not be able to hold another packet: the epoch should be cut here. */
  isFull?(): boolean;
  /** For an estimator whose tap can run in the kernel (`kernel`): adds what was counted there in the epoch. */
  take?(kept: KernelKept): void;
  /** The epoch's payload; the tap is empty afterwards. */
  seal(): SealedEpoch;
  free(): void;
}

export interface TapContext {
  kernels: Kernels;
  role: Role;
  /** Seed of the sketch's hashes; the same at both ends. */
  seed: bigint;
}

/** How a packet is identified in a question: by its digest, or by its flow and IP identification (which allows ranges). */
export type PacketIdentity = "digest" | "flow-ipid";

/** One row per packet asked for. */
export interface PacketAnswers {
  count: number;
  /** 0 No-Match, 1 Match, 2 Multi-Match: there are several candidates, and the most likely is given. */
  kind: Uint8Array;
  /** The answer, and hard bounds of the true delay if the packet was stored; NaN without an answer. */
  valueNs: Float64Array;
  lowNs: Float64Array;
  highNs: Float64Array;
  /** Variance of the delays of packets that get the same answer. */
  varianceNs2: Float64Array;
  /** How many packets those are: breaks ties between epochs. */
  groupPackets: Float64Array;
  /** The packets may belong to another flow that looks the same. */
  guess?: boolean;
}

/** Both ends included; 0 <= first <= last <= 65535. */
export interface IpidRange {
  first: number;
  last: number;
}

/** A flow of an epoch as a payload lists it. */
export interface ListedFlow {
  /** Ten uint32 for FlowKeySpec.describe. */
  keyWords: Uint32Array;
  packets: number;
  ranges: IpidRange[];
}

/** A sealed epoch that answers for single packets. */
export interface PacketLookup {
  /** Are packets kept under this identity? */
  has(identity: PacketIdentity): boolean;
  /** `wireBytes`: sizes of the packets, 0 where unknown. */
  lookup(identity: PacketIdentity, keys: BigUint64Array, wireBytes?: ArrayLike<number>): PacketAnswers;
  /** Delays of flows are kept by the hashes of their keys. */
  readonly keepsFlows: boolean;
  /** All packets of the flow with this hash, in the order of their delays; null where there are none. */
  flowPackets(hash: bigint): PacketAnswers | null;
  /** Every packet kept: one answer for those of a group of like delays, `groupPackets` of them. */
  everyPacket(): PacketAnswers;
  /** Flows are listed with the IPIDs of their packets. */
  readonly lists: boolean;
  /** The flow with this key and hash (upper half), null where it is not listed. */
  findFlow(hashHigh: number, keyWords: ArrayLike<number>): ListedFlow | null;
  flows(): Iterable<ListedFlow>;
  /** Probability that a packet which never came by is answered. */
  readonly absentAccepted: number;
  /** Share of the packets kept whose true delay lies within the stated bounds: 1 but for structures that overwrite packets or leave some out. */
  readonly boundsHold: number;
  /** Bytes of the payload by what they serve. */
  costs(): Record<string, number>;
  free(): void;
}

/** One parameter of an estimator, for options, help and docs. */
export interface ParameterSpec {
  name: string;
  kind: "integer" | "number" | "choice" | "list" | "flag" | "text";
  choices?: readonly string[];
  default: number | string | boolean | readonly number[];
  min?: number;
  max?: number;
  /** Times may be typed as 10s, rates as 60mbit; a bare number is ns or bit/s, which is what records hold. */
  unit?: "ns" | "bit/s";
  /** Changes only how an answer is computed, not the sketch: may differ between tap and question. */
  queryOnly?: boolean;
  /** Newer than records that are about: written only where it is not the default, so that those stay comparable. */
  isNew?: boolean;
  help: string;
}

export type ParameterValues = Record<string, number | string | boolean | readonly number[]>;

/** For `hoptime estimators NAME` and docs: one or two sentences each, whole and plain. */
export interface EstimatorText {
  /** What it answers. */
  answers: string;
  /** What must be there: clocks, which points, delays, lists. */
  needs: string;
  /** What it costs: per packet, per epoch, in memory. */
  cost: string;
  /** A command line, its options in typographic quotes as in hints: hoptime compare a.pcap b.pcap ‘estimators lda’. */
  example: string;
}

export interface Estimator<P extends ParameterValues = ParameterValues> {
  readonly name: string;
  /** Of the payload's layout, as it is written. */
  readonly version: number;
  /** Older layouts that are still read; left out: none. */
  readonly reads?: readonly number[];
  readonly title: string;
  readonly text: EstimatorText;
  /** What it can answer for. */
  readonly answers: readonly ("segment" | "flow" | "packet")[];
  readonly needs: {
    /** Both ends keep a tap. */
    sender: boolean;
    /** Rows must have their delay (exact match, references, simulation). */
    delays: boolean;
    /**
     * The list of flows of the epoch. "required": per-flow answers cannot be made without; "names": flows are answered by name, so somebody must
     * name them; "none": the payload names its own flows, or there are no per-flow answers.
     */
    flows: "required" | "names" | "none";
    /** Packets of our own that must cross the segment, and that it recognises among the others; left out: none. */
    injected?: "reference" | "probe";
  };
  /** With these parameters rows must have their delay, though in general they need not. */
  mayNeedDelays?(parameters: P): boolean;
  readonly parameters: readonly ParameterSpec[];
  /** The payload differs between the roles; else a tap of either role serves at both ends. */
  readonly roleMatters?: boolean;
  /** Checks relations between parameters and completes derived ones; UsageError where they cannot work. */
  complete(values: ParameterValues): P;
  createTap(context: TapContext, parameters: P): Tap;
  /** Union of two payloads made with equal parameters, seed and salt, at the same role. */
  merge(a: SealedEpoch, b: SealedEpoch, parameters: P): SealedEpoch;
  /** The same sketch with its times counted from `earlierNs` before: lets epochs cut by packets merge where their references differ. */
  rebase(sealed: SealedEpoch, earlierNs: number, parameters: P): SealedEpoch;
  estimate(input: EstimateInput<P>): EstimatorAnswer;
  readonly kernel?: KernelHalf<P>;
  readonly flowList?: FlowListing<P>;
  readonly packets?: PacketStore;
  readonly sizing?: Sizing<P>;
  readonly tuning?: Tuning<P>;
}

/** The updating half as a part of an eBPF program (datapath/observe.bpf.c): the tap takes what that kept, and seals the same payload. */
export interface KernelHalf<P extends ParameterValues = ParameterValues> {
  /** What the program has to know; or why these parameters cannot be kept there. */
  part(parameters: P, seed: bigint): KernelPart | string;
  /** Of sketches that place flows anew in each epoch. */
  places?(parameters: P, seed: bigint, salt: bigint): KernelPlaces;
}

/** Rows must have their delay for a tap with these parameters. */
export function needsDelays(estimator: Estimator, parameters: ParameterValues): boolean {
  return estimator.needs.delays || (estimator.mayNeedDelays?.(parameters) ?? false);
}

/** Payloads list the flows of their epoch: where other estimators' KnownFlows come from. */
export interface FlowListing<P extends ParameterValues = ParameterValues> {
  /** Kept at the sender too, which has seen every packet; false: at the receiver alone, where flows that were lost whole are missing. */
  readonly atSender: boolean;
  /** Only the heaviest flows are listed for certain: no list where every flow is needed. */
  readonly heavyOnly?: boolean;
  /** Null where this payload has no list. */
  read(sealed: SealedEpoch, parameters: P): KnownFlows | null;
}

/** A list for the sender's sketches too: one that is kept at the receiver alone, or of heavy flows only, is none. */
export function listsAllFlows({ flowList }: Pick<Estimator, "flowList">): boolean {
  return flowList?.atSender === true && !flowList.heavyOnly;
}

/** Payloads answer for single packets. Only the parts in need are read, in place: records keep the payload unpacked. */
export interface PacketStore {
  open(kernels: Kernels, read: (offset: number, length: number) => Uint8Array, bytes: number): PacketLookup;
}

/** A geometry for what is expected, and how well it will do (`hoptime size`). */
export interface Sizing<P extends ParameterValues = ParameterValues> {
  /** UsageError where nothing can satisfy the request. */
  size(request: SizeRequest): SizeAnswer<P>;
}

/** Other parameters suit other traffic better, for those who can run both and choose afterwards (compare). */
export interface Tuning<P extends ParameterValues = ParameterValues> {
  /** For few flows. `given`: names that were set on purpose, which stay. Null where nothing is to be gained. */
  forFewFlows?(parameters: P, given: ReadonlySet<string>): { parameters: P; maxFlows: number } | null;
  /** Parameters that keep so many flows, for where memory is no matter; those that were given on purpose stay. */
  keepFlows?(parameters: P, given: ReadonlySet<string>, flows: number): P;
}

/** Payloads of this layout can be used. */
export function readsVersion(estimator: Pick<Estimator, "version" | "reads">, version: number): boolean {
  return version === estimator.version || (estimator.reads?.includes(version) ?? false);
}

/** What is known of the traffic, and what is wanted: an error, or a memory budget; neither: the estimator's usual size. */
export interface SizeRequest {
  /** Packets per epoch at the sender. */
  packets: number;
  /** Flows per epoch; null where unknown. */
  flows: number | null;
  /** Packets of each flow of an epoch, where a capture was given. */
  flowPackets: Float64Array | null;
  /** Loss rates to be ready for, 0 to 1, in rising order; empty where unknown. */
  loss: readonly number[];
  /** Length of an epoch, ns. */
  epochNs: number;
  /** Deviation of the delays over their mean, as far as known (an exponential delay has 1). */
  variation: number;
  /** Wanted mean relative error of the mean delay: of the segment, or of a flow of `flowSize` packets; null: not asked. */
  error: number | null;
  flowSize: number | null;
  /** Wanted share of flows (of `flowSize`) whose error is below `interval`; left out or null: not asked. */
  reliability?: number | null;
  /** Relative error for which a reliability is reported (default 0.05). */
  interval?: number | null;
  /** Wanted probability that a packet which never came by is answered, for stores of packets; left out or null: not asked. */
  absent?: number | null;
  /** Bytes that one tap may hold; null: not asked. */
  memoryBytes: number | null;
  /** Parameters set by hand: what a size is not to change. */
  fixed: ParameterValues;
}

/** One line of a prediction: what the geometry does at a loss rate. */
export interface SizePrediction {
  /** What the error is of: "mean", "deviation", "mean of flows of 1000 packets". */
  quantity: string;
  loss: number;
  /** Expected |estimate - truth| / truth, of flows the median over flows of that size; null where no answer is expected. */
  relativeError: number | null;
  /** Packets the answer is expected to rest on. */
  packetsUsed: number | null;
  /** Share of such answers with a relative error below the request's interval, where it is measurable. */
  reliability?: number | null;
}

export interface SizeAnswer<P extends ParameterValues = ParameterValues> {
  parameters: P;
  memoryBytes: number;
  /** What a point sends per epoch. */
  payloadBytes: number;
  bitsPerSecond: number;
  bitsPerPacket: number;
  /** Packets of ours that are to be sent: one for so many packets (null: not by count), and what they cost. */
  references?: { every: number | null; perSecond: number; bitsPerSecond: number };
  predictions: SizePrediction[];
  notes: string[];
}

export function isNoAnswer(value: Interval | NoAnswer): value is NoAnswer {
  return "reason" in value;
}
