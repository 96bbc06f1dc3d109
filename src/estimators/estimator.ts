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

/** A missing answer carries a reason; it is never NaN or 0. */
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
  /**
   * The part of value - low and high - value that does not average out over flows and epochs: an error common to all (such as a clock's), or a bound that
   * each may reach.
   */
  common?: { lowNs: number; highNs: number };
  /**
   * For a flow: the share of the squared half widths (without the common part) that is the same error in every epoch and therefore does not average out
   * over the flow's epochs. 1 if the flow has the same neighbours in every epoch. Default: 0.
   */
  repeats?: number;
  /** For a standard deviation: the half width bounds the root mean square error of the delays; it is not an error that averages out. */
  bound?: boolean;
}

/** The answer for all packets of a segment in an epoch. */
export interface SegmentEstimate {
  mean: Interval | NoAnswer;
  stdev: Interval | NoAnswer;
  /** Packets at either end, as the taps counted them; null if that end has no tap. */
  sent: number | null;
  received: number | null;
  /** Lost packets. `lost` is exact if counted, an estimate if not; null if unknown. */
  lost: number | null;
  /** Packets that the mean is based on, and their share of the packets received. */
  packetsUsed: number;
  coverage: number;
  /**
   * The delay of packets in flight at an aligned cut, or of packets that overtook a delimiter or were overtaken by it. No usable cell holds them
   * (cells/edge.ts has the model). They are only in the receiver's list, or in an epoch that only the receiver has.
   */
  inFlight?: Interval;
  /**
   * How much too low the mean is, approximately, because packets in flight at the start of the epoch are far slower than the others. The interval is
   * extended upwards by it.
   */
  leansNs?: number;
  /** Packets behind the mean, if not all received packets have a delay. It is the weight of this epoch's mean among other epochs. */
  measured?: number;
  /** Complete sentences, such as a warning about foreign packets or about reordering at the epoch's edge. */
  notes: string[];
}

export interface FlowEstimate {
  /** Index into the flows asked for. */
  flow: number;
  mean: Interval | NoAnswer;
  stdev: Interval | NoAnswer;
  /** Estimated from the sketch, or known; null if neither. */
  packets: number | null;
  /** Packets behind the mean, if some that arrived have no delay. It is the weight of this epoch's mean among other epochs. */
  measured?: number;
  /** Hard bounds of an estimated number of packets, if bounds are known. */
  packetBounds?: { low: number; high: number };
  /** Negative: more packets arrived than were sent in the epoch, because some were in flight when it began. */
  lost: number | null;
  /** Lower bound of `lost`. Default: `lost` itself, which is then exact. */
  lostLow?: number;
  /** Estimated from the sketch; undefined if the sketch does not estimate bytes, or if they are known. */
  bytes?: number;
  /** Quantiles of the delay: `share` of the flow's packets have a delay of at most `valueNs`. Only if the estimator keeps them. */
  quantiles?: { share: number; valueNs: number }[];
  /** The distribution behind the quantiles, needed to combine epochs. */
  delays?: LogHistogram;
}

/** The flows to estimate, with what is known about them from a flow table at one end, NetFlow, or the question. */
export interface KnownFlows {
  count: number;
  /** Flow hashes as [low, high] pairs of uint32. */
  hash: Uint32Array;
  /** Packets of each flow at the sender (or at the end that counted them); NaN if unknown. */
  packets: Float64Array;
  /** Packets of each flow at the receiver, if that end lists them too. With aligned cuts, some of them were sent in the epoch before. */
  received?: Float64Array;
  bytes: Float64Array;
  /** Ten uint32 per flow, for FlowKeySpec.describe. */
  keyWords: Uint32Array;
  /** The list contains every flow of the epoch. Without that, a flow cannot be separated from its neighbours. */
  complete: boolean;
  /** 1 if an answer is wanted for the flow. Answers are dropped for flows that only help to separate others. Default: all flows. */
  asked?: Uint8Array;
  /**
   * Set if only the heaviest flows are listed: bounds of each flow's packets, the bytes of the lower bound, and the maximum number of packets of an
   * unlisted flow.
   */
  heavy?: { floor: number; low: Float64Array; high: Float64Array; bytes: Float64Array };
}

export interface SealedEpoch {
  payload: Uint8Array;
  /** All packets that the tap saw in the epoch, sampled or not. */
  packets: number;
}

export interface EstimateInput<P> {
  parameters: P;
  seed: bigint;
  sender: SealedEpoch | null;
  receiver: SealedEpoch | null;
  flows: KnownFlows | null;
  /** For example 0.95. */
  confidence: number;
  /** Length of the epoch, ns. */
  epochNs: number;
  /** Epochs were cut by the clock while observation continued. Packets in flight at the cut belong to the segment, although no usable cell holds them. */
  cutInFlight?: boolean;
  /** Epochs were cut at packets (delimiters). Packets that crossed the cut by overtaking a delimiter belong to the segment too. */
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
   * A new epoch begins at this time on the batches' axis (ns after the capture's origin). `originNs`: time 0 of that axis in ns since 1970, if known;
   * needed by taps that read wall-clock times from packets. `salt`: a number that both ends derive from the epoch, different for each epoch. Sketches with
   * shared cells use it to place flows, so that a flow has different neighbours in every epoch. Only sketches with equal salt can be merged, so it is 0
   * (the default) if neighbouring epochs may have to be merged.
   */
  begin(epochStartNs: number, originNs?: bigint, salt?: bigint): void;
  /** Adds rows [from, to) of the batch to the epoch. */
  update(batch: PacketBatch, from: number, to: number): void;
  /** Returns true if the sketch may not be able to hold another packet: the epoch should be cut here. */
  isFull?(): boolean;
  /** For estimators whose tap can run in the kernel (`kernel`): adds what the kernel counted in the epoch. */
  take?(kept: KernelKept): void;
  /** Returns the epoch's payload and empties the tap. */
  seal(): SealedEpoch;
  free(): void;
}

export interface TapContext {
  kernels: Kernels;
  role: Role;
  /** Seed of the sketch's hashes; the same at both ends. */
  seed: bigint;
}

/** How a question identifies a packet: by its digest, or by its flow and IP identification (which allows ranges). */
export type PacketIdentity = "digest" | "flow-ipid";

/** One row per packet in the question. */
export interface PacketAnswers {
  count: number;
  /** 0 No-Match, 1 Match, 2 Multi-Match. Multi-Match: there are several candidates, and the most likely one is given. */
  kind: Uint8Array;
  /** The answer, and hard bounds of the true delay, which hold if the packet was stored. NaN without an answer. */
  valueNs: Float64Array;
  lowNs: Float64Array;
  highNs: Float64Array;
  /** Variance of the delays of all packets that get the same answer. */
  varianceNs2: Float64Array;
  /** Number of packets that get the same answer; breaks ties between epochs. */
  groupPackets: Float64Array;
  /** The packets may belong to another flow that looks the same. */
  guess?: boolean;
}

/** First and last IPID, both included; 0 <= first <= last <= 65535. */
export interface IpidRange {
  first: number;
  last: number;
}

/** A flow of an epoch, as a payload lists it. */
export interface ListedFlow {
  /** Ten uint32, for FlowKeySpec.describe. */
  keyWords: Uint32Array;
  packets: number;
  ranges: IpidRange[];
}

/** A sealed epoch that answers questions about single packets. */
export interface PacketLookup {
  /** Returns true if packets are stored under this identity. */
  has(identity: PacketIdentity): boolean;
  /** `wireBytes`: packet sizes, 0 if unknown. */
  lookup(identity: PacketIdentity, keys: BigUint64Array, wireBytes?: ArrayLike<number>): PacketAnswers;
  /** The delays of whole flows are stored, by the hash of the flow key. */
  readonly keepsFlows: boolean;
  /** Returns all packets of the flow with this hash, ordered by delay, or null if there are none. */
  flowPackets(hash: bigint): PacketAnswers | null;
  /** Returns every stored packet: one answer per group of packets with like delays; `groupPackets` is the size of the group. */
  everyPacket(): PacketAnswers;
  /** Flows are listed with the IPIDs of their packets. */
  readonly lists: boolean;
  /** Returns the flow with this key and hash (upper half), or null if it is not listed. */
  findFlow(hashHigh: number, keyWords: ArrayLike<number>): ListedFlow | null;
  flows(): Iterable<ListedFlow>;
  /** False positive rate: probability that a packet that did not pass this point gets an answer. */
  readonly absentAccepted: number;
  /** Share of the stored packets whose true delay lies within the stated bounds. Below 1 only for stores that overwrite or leave out packets. */
  readonly boundsHold: number;
  /** Bytes of the payload by purpose. */
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
  /** Times may be written as 10s and rates as 60mbit. A bare number is in ns or bit/s, as in records. */
  unit?: "ns" | "bit/s";
  /** Affects only how an answer is computed, not the sketch. It may differ between tap and question. */
  queryOnly?: boolean;
  /** Added after the first records were written. It is written only if it differs from the default, so that old records stay comparable. */
  isNew?: boolean;
  help: string;
}

export type ParameterValues = Record<string, number | string | boolean | readonly number[]>;

/** For `hoptime estimators NAME` and the docs: one or two full sentences each. */
export interface EstimatorText {
  /** What it answers. */
  answers: string;
  /** What it requires: clocks, points, delays, lists. */
  needs: string;
  /** What it costs per packet, per epoch and in memory. */
  cost: string;
  /** A command line, with options in typographic quotes as in hints: hoptime compare a.pcap b.pcap ‘estimators lda’. */
  example: string;
}

export interface Estimator<P extends ParameterValues = ParameterValues> {
  readonly name: string;
  /** Version of the payload layout that is written. */
  readonly version: number;
  /** Older layout versions that can still be read. Default: none. */
  readonly reads?: readonly number[];
  readonly title: string;
  readonly text: EstimatorText;
  /** What it can answer for. */
  readonly answers: readonly ("segment" | "flow" | "packet")[];
  readonly needs: {
    /** Both ends need a tap. */
    sender: boolean;
    /** Each row must have a delay (from exact match, references or simulation). */
    delays: boolean;
    /**
     * Whether the list of the epoch's flows is needed. "required": per-flow answers are impossible without it. "names": flows are answered by name, so the
     * question must name them. "none": the payload names its own flows, or there are no per-flow answers.
     */
    flows: "required" | "names" | "none";
    /** Packets that hoptime sends across the segment, and that the estimator recognises among the others. Default: none. */
    injected?: "reference" | "probe";
  };
  /** Returns true if these parameters require a delay in each row, although the estimator in general does not. */
  mayNeedDelays?(parameters: P): boolean;
  readonly parameters: readonly ParameterSpec[];
  /** The payload differs between the roles. If not set, a tap of either role can be used at both ends. */
  readonly roleMatters?: boolean;
  /** Checks relations between parameters and fills in derived ones. Throws a UsageError for combinations that cannot work. */
  complete(values: ParameterValues): P;
  createTap(context: TapContext, parameters: P): Tap;
  /** Returns the union of two payloads with equal parameters, seed and salt, and the same role. */
  merge(a: SealedEpoch, b: SealedEpoch, parameters: P): SealedEpoch;
  /** Returns the same sketch with its times counted from `earlierNs` earlier. Epochs cut by packets need it to merge if their reference times differ. */
  rebase(sealed: SealedEpoch, earlierNs: number, parameters: P): SealedEpoch;
  estimate(input: EstimateInput<P>): EstimatorAnswer;
  readonly kernel?: KernelHalf<P>;
  readonly flowList?: FlowListing<P>;
  readonly packets?: PacketStore;
  readonly sizing?: Sizing<P>;
  readonly tuning?: Tuning<P>;
}

/** The updating half as part of an eBPF program (datapath/observe.bpf.c). The tap takes over what the program counted, and seals the same payload. */
export interface KernelHalf<P extends ParameterValues = ParameterValues> {
  /** Returns what the program needs to know, or the reason why it cannot keep these parameters. */
  part(parameters: P, seed: bigint): KernelPart | string;
  /** For sketches that place flows anew in each epoch. */
  places?(parameters: P, seed: bigint, salt: bigint): KernelPlaces;
}

/** Returns true if a tap with these parameters needs a delay in each row. */
export function needsDelays(estimator: Estimator, parameters: ParameterValues): boolean {
  return estimator.needs.delays || (estimator.mayNeedDelays?.(parameters) ?? false);
}

/** For estimators whose payloads list the flows of their epoch: the source of the KnownFlows that other estimators need. */
export interface FlowListing<P extends ParameterValues = ParameterValues> {
  /** The list is also kept at the sender, which sees every packet. False: only at the receiver, so flows that lost all their packets are missing. */
  readonly atSender: boolean;
  /** Only the heaviest flows are guaranteed to be listed, so the list cannot be used where every flow is needed. */
  readonly heavyOnly?: boolean;
  /** Returns null if this payload has no list. */
  read(sealed: SealedEpoch, parameters: P): KnownFlows | null;
}

/** Returns true if the list also serves the sender's sketches. A list kept only at the receiver, or of heavy flows only, does not. */
export function listsAllFlows({ flowList }: Pick<Estimator, "flowList">): boolean {
  return flowList?.atSender === true && !flowList.heavyOnly;
}

/** For payloads that answer questions about single packets. Only the needed parts are read, in place: records store the payload uncompressed. */
export interface PacketStore {
  open(kernels: Kernels, read: (offset: number, length: number) => Uint8Array, bytes: number): PacketLookup;
}

/** Chooses a geometry for the expected traffic, and predicts its accuracy (`hoptime size`). */
export interface Sizing<P extends ParameterValues = ParameterValues> {
  /** Throws a UsageError if nothing can satisfy the request. */
  size(request: SizeRequest): SizeAnswer<P>;
}

/** Parameters that suit other traffic better, for callers that can run both and choose afterwards (compare). */
export interface Tuning<P extends ParameterValues = ParameterValues> {
  /** Returns parameters for traffic with few flows, or null if they would gain nothing. `given`: names of parameters set explicitly, which stay as they are. */
  forFewFlows?(parameters: P, given: ReadonlySet<string>): { parameters: P; maxFlows: number } | null;
  /** Returns parameters that keep this many flows, for callers that need not save memory. Parameters in `given` stay as they are. */
  keepFlows?(parameters: P, given: ReadonlySet<string>, flows: number): P;
}

/** Returns true if payloads of this layout version can be read. */
export function readsVersion(estimator: Pick<Estimator, "version" | "reads">, version: number): boolean {
  return version === estimator.version || (estimator.reads?.includes(version) ?? false);
}

/** What is known about the traffic, and the target: an error or a memory budget. Without either, the estimator's usual size is used. */
export interface SizeRequest {
  /** Packets per epoch at the sender. */
  packets: number;
  /** Flows per epoch; null if unknown. */
  flows: number | null;
  /** Packets of each flow of an epoch, if a capture was given. */
  flowPackets: Float64Array | null;
  /** Loss rates to be prepared for, 0 to 1, ascending; empty if unknown. */
  loss: readonly number[];
  /** Length of an epoch, ns. */
  epochNs: number;
  /** Standard deviation of the delays divided by their mean, as far as known (1 for exponential delays). */
  variation: number;
  /** Target for the mean relative error of the mean delay, of the segment or of a flow of `flowSize` packets. Null: no target. */
  error: number | null;
  flowSize: number | null;
  /** Target for the share of flows (of `flowSize`) with an error below `interval`. Undefined or null: no target. */
  reliability?: number | null;
  /** Relative error for which the reliability is reported (default 0.05). */
  interval?: number | null;
  /** Target for the false positive rate of packet stores: the probability that a packet that did not pass gets an answer. Undefined or null: no target. */
  absent?: number | null;
  /** Maximum bytes that one tap may hold. Null: no limit. */
  memoryBytes: number | null;
  /** Parameters set explicitly, which sizing does not change. */
  fixed: ParameterValues;
}

/** One line of a prediction: the accuracy of the geometry at a loss rate. */
export interface SizePrediction {
  /** What the error refers to: "mean", "deviation", "mean of flows of 1000 packets". */
  quantity: string;
  loss: number;
  /** Expected |estimate - truth| / truth; for flows, the median over flows of that size. Null if no answer is expected. */
  relativeError: number | null;
  /** Packets that the answer is expected to be based on. */
  packetsUsed: number | null;
  /** Share of such answers with a relative error below the request's interval, if measurable. */
  reliability?: number | null;
}

export interface SizeAnswer<P extends ParameterValues = ParameterValues> {
  parameters: P;
  memoryBytes: number;
  /** Bytes that a point sends per epoch. */
  payloadBytes: number;
  bitsPerSecond: number;
  bitsPerPacket: number;
  /** Reference packets to send: one per `every` packets (null: not paced by count), and their cost. */
  references?: { every: number | null; perSecond: number; bitsPerSecond: number };
  predictions: SizePrediction[];
  notes: string[];
}

export function isNoAnswer(value: Interval | NoAnswer): value is NoAnswer {
  return "reason" in value;
}
