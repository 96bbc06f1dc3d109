/**
 * The segment of a race, simulated or from two captures, whose true delays are known. All contestants of a run see the same packets and are evaluated on the
 * same flows: all flows of which packets arrived, with or without an answer.
 */
import type { Estimator, Interval, ParameterValues } from "../../estimators/estimator.ts";

export interface RaceContestant {
  readonly estimator: Estimator;
  readonly parameters: ParameterValues;
}

/** A flow of which packets arrived, and a contestant's answer for it. */
export interface JudgedFlow {
  /** Packets that arrived. */
  readonly packets: number;
  readonly exactNs: number;
  /** Null: no answer. */
  readonly answer: Interval | null;
}

export interface ContestantResult {
  /** Size of the records of each end; 0 at an end without a tap. */
  readonly senderBytes: number;
  readonly receiverBytes: number;
  /** Bytes of packets that were injected for it. */
  readonly injectedBytes: number;
  /** Memory of one tap; the larger end. */
  readonly memoryBytes: number;
  /** CPU of one tap's updates. */
  readonly cpuNsPerPacket: number;
  /** It was given the list of flows, with their packet counts. */
  readonly usesList: boolean;
  /** The flows' means were computed from answers for single packets. */
  readonly byPackets: boolean;
  readonly segment: Interval | null;
  readonly flows: readonly JudgedFlow[];
}

export interface SegmentResult {
  /** Packets that arrived, without injected ones. */
  readonly packets: number;
  readonly flows: number;
  readonly meanNs: number;
  /** Largest absolute delay by the two clocks; null for a simulation. */
  readonly longestNs: number | null;
  /** Cost of a table of all flows at the sender: its memory and the size of its record. */
  readonly list: { readonly memoryBytes: number; readonly bytes: number };
  /** In the same order as the contestants. */
  readonly results: readonly ContestantResult[];
  readonly notes: readonly string[];
}

export interface ExpectedTraffic {
  readonly packets: number;
  readonly flows: number;
  readonly epochNs: number;
  readonly loss: readonly number[];
}

export interface RaceSegment {
  readonly name: string;
  expected(): Promise<ExpectedTraffic>;
  /** `sizesOnly`: measures only sizes and computes no estimates. */
  run(contestants: readonly RaceContestant[], sizesOnly?: boolean): Promise<SegmentResult>;
}
