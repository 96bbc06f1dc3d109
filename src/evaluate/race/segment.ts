/**
 * What a race is run on: a segment whose truth is known, simulated or from two captures. All contestants of a run see the same packets, and are judged by the same flows:
 * those that arrived, whoever answers for them.
 */
import type { Estimator, Interval, ParameterValues } from "../../estimators/estimator.ts";

export interface RaceContestant {
  readonly estimator: Estimator;
  readonly parameters: ParameterValues;
}

/** A flow that arrived, and what a contestant answered for it. */
export interface JudgedFlow {
  /** That arrived. */
  readonly packets: number;
  readonly exactNs: number;
  /** Null: no answer. */
  readonly answer: Interval | null;
}

export interface ContestantResult {
  /** Of what each end wrote; 0 at an end without a tap. */
  readonly senderBytes: number;
  readonly receiverBytes: number;
  /** Of packets that were sent for it. */
  readonly injectedBytes: number;
  /** Of one tap, the larger end. */
  readonly memoryBytes: number;
  /** Of one tap's update. */
  readonly cpuNsPerPacket: number;
  /** It was given the list of flows, with their packets. */
  readonly usesList: boolean;
  /** Flows were asked for packet by packet, and averaged by whoever asks. */
  readonly byPackets: boolean;
  readonly segment: Interval | null;
  readonly flows: readonly JudgedFlow[];
}

export interface SegmentResult {
  /** That arrived, packets of our own left out. */
  readonly packets: number;
  readonly flows: number;
  readonly meanNs: number;
  /** The longest delay by the two clocks, of either sign; null where it is simulated. */
  readonly longestNs: number | null;
  /** A table of all flows at the sender: its memory, and what it writes. */
  readonly list: { readonly memoryBytes: number; readonly bytes: number };
  /** In the order of the contestants. */
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
  /** `sizesOnly`: nothing has to be estimated. */
  run(contestants: readonly RaceContestant[], sizesOnly?: boolean): Promise<SegmentResult>;
}
