/**
 * A scenario: what is sent, what lies between the sender and the receiver, and how the points see it. Plain data, so that it can be
 * printed, kept with results and read from a file; the injector is the one exception.
 */
import { FLAG } from "../capture/batch.ts";
import type { Injector, InjectorContext } from "./injector.ts";

export interface Scenario {
  /** Everything random follows from it (default 1). */
  seed?: number;
  traffic: Traffic;
  /** What packets pass from the point "sender" to the point "receiver", in order. */
  path: Hop[];
  /** Clocks of points by name; a point not named has a perfect one. */
  clocks?: Record<string, Clock>;
  /** Probes of our own that take part in everything the traffic does, merged in before the sender. */
  probes?: Probes;
  /** Makes the injector of a run: it sees every packet at the sender and may put one of its own ahead of it. */
  inject?: (context: InjectorContext) => Injector;
}

export type Traffic = SyntheticTraffic | PopulationTraffic | ReplayTraffic;

/** Heavy-tailed flows that send windows of packets once per round trip, over several links of line rate. */
export interface SyntheticTraffic {
  kind: "synthetic";
  ratePps: number;
  durationS: number;
  /** Stop after so many packets. */
  packets?: number;
  /** P(packets of a flow >= k) = k^-alpha: 1.1 gives 53 % flows of one packet. */
  alpha?: number;
  maxFlowPackets?: number;
  inputs?: number;
  lineRateBps?: number;
  rtt?: { medianMs?: number; sigma?: number; minMs?: number; maxMs?: number };
  /** Packets of a window follow each other at the flow's access rate, log-uniform between these. */
  access?: { minBps?: number; maxBps?: number };
  /** Windows start here and double per round trip up to the flow's cap, log-uniform between the two. */
  window?: { first?: number; capLow?: number; capHigh?: number };
  sizes?: Sizes;
  keys?: KeyPlan;
}

/** A fixed set of flows, each packet drawn from them by weight; no bursts. */
export interface PopulationTraffic {
  kind: "population";
  ratePps: number;
  /** When it begins (default 0); the duration counts from there. As cross traffic: a link that is overloaded for a while. */
  startS?: number;
  /** One of the two, or both: whichever ends first. */
  durationS?: number;
  packets?: number;
  flows?: number;
  arrivals?: "poisson" | "uniform";
  /** Weights of flows: Pareto between 1 and `weightMax`. */
  alpha?: number;
  weightMax?: number;
  sizes?: Sizes;
  keys?: KeyPlan;
}

/** A capture: arrival times, sizes and flows kept. */
export interface ReplayTraffic {
  kind: "replay";
  file: string;
  /** 0.5: in half the time. */
  timeScale?: number;
  /** Looped with fresh flow keys until then; left out: once. */
  durationS?: number;
}

/** Shares of packets of 1500 and 576 bytes, the others 40 or 52; `mixing`: packets that do not have their flow's typical size. */
export interface Sizes {
  share1500?: number;
  share576?: number;
  mixing?: number;
}

export interface KeyPlan {
  sources?: Prefix[];
  targets?: Prefix[];
  udpShare?: number;
  /** Traffic classes, per flow. */
  classes?: { dscp: number; share: number }[];
}
export interface Prefix {
  /** "10.1.0.0/16" */
  prefix: string;
  share?: number;
}

export type Hop = (QueueHop | ClassesHop | PathsHop | DelayHop | LossHop | ReorderHop) & {
  /** Name of an observation point behind this hop. */
  point?: string;
};

export interface QueueSpec {
  /** Drain rate: given, or found from the offered bytes (cross traffic included). */
  rateBps?: number;
  utilisation?: number;
  discipline?: "droptail" | "red";
  /** Packets, the one being sent included. */
  capacityPackets?: number;
  red?: RedSpec;
  propagationNs?: number;
}

export interface RedSpec {
  minTh?: number;
  maxTh?: number;
  weight?: number;
  maxP?: number;
}

export interface QueueHop extends QueueSpec {
  kind: "queue";
  /** Packets that queue with ours and then go elsewhere; of several, one after the other. */
  cross?: Traffic | Traffic[];
}

/** One link shared by classes of traffic, each with a queue: strict priority (first class first), or deficit round robin by weight. */
export interface ClassesHop {
  kind: "classes";
  scheduler: "strict" | "drr";
  rateBps?: number;
  utilisation?: number;
  /** A packet belongs to the first class that lists its DSCP, else to the last class. */
  classes: { dscp?: number[]; weight?: number; capacityPackets?: number }[];
  propagationNs?: number;
  cross?: Traffic;
}

/** Parallel queues: chosen by the flow (ECMP), or packet by packet (a switch fabric). */
export interface PathsHop {
  kind: "paths";
  choose: "flow" | "packet";
  paths: QueueSpec[];
}

export interface DelayHop {
  kind: "delay";
  model: DelayModel;
}

export type DelayModel =
  | { kind: "constant"; ns: number }
  /** P(X <= x) = 1 - exp(-(x / scale)^shape). `spaced`: a packet is sent after the one before has arrived (LDA paper, section IV). */
  | { kind: "weibull"; scaleNs: number; shape: number; spaced?: boolean }
  /** P(X <= x) = 1 - (x / scale)^-shape */
  | { kind: "pareto"; scaleNs: number; shape: number; spaced?: boolean }
  | { kind: "exponential"; meanNs: number; spaced?: boolean }
  | { kind: "lognormal"; medianNs: number; sigma: number; spaced?: boolean }
  | { kind: "uniform"; lowNs: number; highNs: number; spaced?: boolean }
  /** Each flow has a lognormal latency of its own; its packets depart from it by `jitter` (relative deviation). */
  | { kind: "per-flow"; medianNs?: number; sigma?: number; jitter?: number }
  /** Each flow has one of two latencies. */
  | { kind: "bimodal"; lowNs?: number; highNs?: number; shareLow?: number; jitter?: number };

export type LossHop =
  | { kind: "loss"; model: "uniform"; probability: number }
  /** Episodes in which everything is lost: so many packets long in the mean, so often that `probability` of all packets are lost. */
  | { kind: "loss"; model: "bursts"; probability: number; meanBurst: number };

/** With the probability, a packet is held up by up to `extentNs`: later ones overtake it. */
export interface ReorderHop {
  kind: "reorder";
  probability: number;
  extentNs: number;
}

/** timestamp = t + offset + skew t + normal jitter, cut to the resolution. */
export interface Clock {
  offsetNs?: number;
  skewPpm?: number;
  jitterNs?: number;
  resolutionNs?: number;
}

/** Active probes: UDP packets of one flow, to the port of STAMP. */
export interface Probes {
  ratePps: number;
  arrivals?: "poisson" | "uniform";
  wireLength?: number;
}

/** Bits of the flags column beside those of src/capture/batch.ts: our own packets among the traffic. */
export const SIMULATED_FLAG = { reference: FLAG.reference, probe: FLAG.probe } as const;

export const SENDER = "sender";
export const RECEIVER = "receiver";
