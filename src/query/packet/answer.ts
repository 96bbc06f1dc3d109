/**
 * The answer to a question about packets: format `hoptime.packet-answer/1` (docs/formats/answer.md). Every group says how many of its
 * packets were answered (Match), guessed (Multi-Match) and not found.
 */
import type { FlowKey } from "../../capture/flow/flow-key.ts";

export const PACKET_ANSWER_FORMAT = "hoptime.packet-answer/1";
/** Its name before 0.2, which answers about segments have too: those about packets have a `matched`. */
const FORMER_FORMAT = "hoptime.answer/1";

/** An answer about packets from its JSON, also as earlier versions named it; null where it is none. */
export function readPacketAnswer(json: unknown): PacketAnswer | null {
  const given = json as Partial<PacketAnswer> | null;
  const format: unknown = given?.format;
  if (format !== PACKET_ANSWER_FORMAT && format !== FORMER_FORMAT) return null;
  if (typeof given?.matched !== "number" || !Array.isArray(given.groups)) return null;
  return { ...(given as PacketAnswer), format: PACKET_ANSWER_FORMAT };
}

export interface PacketLatency {
  meanNs: number;
  /** The mean of the true delays lies within, if the packets found were stored. */
  lowNs: number;
  highNs: number;
  stdevNs: number;
  minNs: number;
  p50Ns: number;
  p90Ns: number;
  p99Ns: number;
  maxNs: number;
}

export interface WorstPacket {
  /** Digest, or flow and IPID. */
  packet: string;
  /** When the capture saw it, else the start of its epoch; ns since 1970. */
  timeNs: string;
  delayNs: number;
  lowNs: number;
  highNs: number;
  guess: boolean;
}

export interface PacketGroup {
  /** Null where a group is no flow key: all, or a packet asked by its digest. */
  key: FlowKey | null;
  text: string;
  packets: number;
  matched: number;
  multi: number;
  missing: number;
  /** Share of the packets that have an answer, and share of the answers that are guesses. */
  coverage: number;
  guesses: number;
  latency: PacketLatency | null;
  reason?: string;
  lowNs: number | null;
  highNs: number | null;
  worst: WorstPacket[];
}

export interface PacketAnswer {
  format: typeof PACKET_ANSWER_FORMAT;
  hoptime: string;
  question: Record<string, unknown>;
  points: { name: string; role: "receiver"; records: number; packets: number }[];
  epochs: {
    asked: number;
    firstNs: string | null;
    lastNs: string | null;
    /** Point's clock minus that of the capture asked about, where it was found to be another; else 0. */
    offsetNs: number;
    refused: { file: string; reason: string }[];
  };
  packets: number;
  matched: number;
  multi: number;
  missing: number;
  /** Of the compact form of question and answer (docs/formats/packet-question.md), and read from payloads. */
  bytes: { question: number; answer: number; read: number };
  groups: PacketGroup[];
  notes: string[];
}
