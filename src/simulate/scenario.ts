/**
 * The type of a scenario: the traffic, the path from the sender to the receiver, and the clocks of the points. It is plain data that can be printed, stored
 * with results and read from a file, except for the injector.
 */
import { FLAG } from "../capture/batch.ts";
import type { Injector, InjectorContext } from "./injector.ts";

export interface Scenario {
  /** Seed of everything random (default 1). */
  seed?: number;
  traffic: Traffic;
  /** Hops between the points "sender" and "receiver", in order. */
  path: Hop[];
  /** Clocks by point; other points have a perfect clock. */
  clocks?: Record<string, Clock>;
  /** Active probes. They join the traffic before the sender and pass the same hops. */
  probes?: Probes;
  /** Creates the injector of a run. It sees every packet at the sender and may insert a packet of its own ahead of it. */
  inject?: (context: InjectorContext) => Injector;
}

export type Traffic = SyntheticTraffic | PopulationTraffic | ReplayTraffic;

/** Heavy-tailed flows that send one window of packets per round trip, over several links at line rate. */
export interface SyntheticTraffic {
  kind: "synthetic";
  ratePps: number;
  durationS: number;
  /** Maximum number of packets. */
  packets?: number;
  /** P(packets of a flow >= k) = k^-alpha: with 1.1, 53 % of the flows have one packet. */
  alpha?: number;
  maxFlowPackets?: number;
  inputs?: number;
  lineRateBps?: number;
  rtt?: { medianMs?: number; sigma?: number; minMs?: number; maxMs?: number };
  /** Access rate of a flow, which spaces the packets of a window: log-uniform between these limits. */
  access?: { minBps?: number; maxBps?: number };
  /** The first window has `first` packets; it doubles per round trip up to the flow's cap, log-uniform between the other two. */
  window?: { first?: number; capLow?: number; capHigh?: number };
  sizes?: Sizes;
  keys?: KeyPlan;
}

/** A fixed set of flows; the flow of each packet is drawn by weight. No bursts. */
export interface PopulationTraffic {
  kind: "population";
  ratePps: number;
  /** Start (default 0); the duration counts from there. As cross traffic, it can overload a link for a limited time. */
  startS?: number;
  /** At least one of the two; with both, the traffic stops at whichever is reached first. */
  durationS?: number;
  packets?: number;
  flows?: number;
  arrivals?: "poisson" | "uniform";
  /** Weights of the flows: Pareto between 1 and `weightMax`. */
  alpha?: number;
  weightMax?: number;
  sizes?: Sizes;
  keys?: KeyPlan;
}

/** Replay of a capture with its arrival times, lengths and flows. */
export interface ReplayTraffic {
  kind: "replay";
  file: string;
  /** 0.5 replays in half the time. */
  timeScale?: number;
  /** Repeats the capture with new flow keys until then; default: once. */
  durationS?: number;
}

/** Shares of packets of 1500 and 576 bytes; the others have 40 or 52. `mixing`: share of packets that do not have the typical length of their flow. */
export interface Sizes {
  share1500?: number;
  share576?: number;
  mixing?: number;
}

export interface KeyPlan {
  sources?: Prefix[];
  targets?: Prefix[];
  udpShare?: number;
  /** Traffic classes; all packets of a flow have the same class. */
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
  /** Drain rate: given, or derived from the utilisation and the offered bytes (including cross traffic). */
  rateBps?: number;
  utilisation?: number;
  discipline?: "droptail" | "red";
  /** Capacity in packets, including the one being sent. */
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
  /** Cross traffic: packets that share this queue and then leave the path; if several are given, one after the other. */
  cross?: Traffic | Traffic[];
}

/** One link shared by classes of traffic, each with a queue: strict priority (first class first), or deficit round robin by weight. */
export interface ClassesHop {
  kind: "classes";
  scheduler: "strict" | "drr";
  rateBps?: number;
  utilisation?: number;
  /** A packet belongs to the first class that lists its DSCP, otherwise to the last class. */
  classes: { dscp?: number[]; weight?: number; capacityPackets?: number }[];
  propagationNs?: number;
  cross?: Traffic;
}

/** Parallel queues. The path is chosen by flow (ECMP) or per packet (switch fabric). */
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
  /** P(X <= x) = 1 - exp(-(x / scale)^shape). `spaced`: a packet is sent only after the previous one has arrived (LDA paper, section IV). */
  | { kind: "weibull"; scaleNs: number; shape: number; spaced?: boolean }
  /** P(X <= x) = 1 - (x / scale)^-shape */
  | { kind: "pareto"; scaleNs: number; shape: number; spaced?: boolean }
  | { kind: "exponential"; meanNs: number; spaced?: boolean }
  | { kind: "lognormal"; medianNs: number; sigma: number; spaced?: boolean }
  | { kind: "uniform"; lowNs: number; highNs: number; spaced?: boolean }
  /** Each flow has its own lognormal delay; `jitter` is the relative deviation of its packets. */
  | { kind: "per-flow"; medianNs?: number; sigma?: number; jitter?: number }
  /** Each flow has one of two delays. */
  | { kind: "bimodal"; lowNs?: number; highNs?: number; shareLow?: number; jitter?: number };

export type LossHop =
  | { kind: "loss"; model: "uniform"; probability: number }
  /** Loss episodes in which every packet is lost: `meanBurst` packets long on average; `probability` is the share of all packets that are lost. */
  | { kind: "loss"; model: "bursts"; probability: number; meanBurst: number };

/** Delays a packet, with the given probability, by up to `extentNs` more, so that later packets overtake it. */
export interface ReorderHop {
  kind: "reorder";
  probability: number;
  extentNs: number;
}

/** timestamp = t + offset + skew t + normal jitter, truncated to the resolution. */
export interface Clock {
  offsetNs?: number;
  skewPpm?: number;
  jitterNs?: number;
  resolutionNs?: number;
}

/** Active probes: one flow of UDP packets to the STAMP port. */
export interface Probes {
  ratePps: number;
  arrivals?: "poisson" | "uniform";
  wireLength?: number;
}

/** Flags in addition to those of src/capture/batch.ts: own packets among the traffic. */
export const SIMULATED_FLAG = { reference: FLAG.reference, probe: FLAG.probe } as const;

export const SENDER = "sender";
export const RECEIVER = "receiver";
