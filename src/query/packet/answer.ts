/**
 * The answer to a question about packets: format `hoptime.packet-answer/1` (docs/formats/answer.md). Every group states how many of its packets
 * were answered (Match), guessed (Multi-Match) and not found.
 */
import type { FlowKey } from "../../capture/flow/flow-key.ts";

export const PACKET_ANSWER_FORMAT = "hoptime.packet-answer/1";
/** The format's name before 0.2. Answers about segments use it too; only those about packets have `matched`. */
const FORMER_FORMAT = "hoptime.answer/1";

/** Reads an answer about packets from JSON, also in the former format. Returns null if it is something else. */
export function readPacketAnswer(json: unknown): PacketAnswer | null {
  const given = json as Partial<PacketAnswer> | null;
  const format: unknown = given?.format;
  if (format !== PACKET_ANSWER_FORMAT && format !== FORMER_FORMAT) return null;
  if (typeof given?.matched !== "number" || !Array.isArray(given.groups)) return null;
  return { ...(given as PacketAnswer), format: PACKET_ANSWER_FORMAT };
}

export interface PacketLatency {
  meanNs: number;
  /** Bounds of the true mean, provided the packets found were really stored. */
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
  /** When the capture saw it; otherwise the start of its epoch. ns since 1970. */
  timeNs: string;
  delayNs: number;
  lowNs: number;
  highNs: number;
  guess: boolean;
}

export interface PacketGroup {
  /** Null if the group is not a flow key: all packets, or a packet asked for by digest. */
  key: FlowKey | null;
  text: string;
  packets: number;
  matched: number;
  multi: number;
  missing: number;
  /** Share of the packets that have an answer; share of the answers that are guesses. */
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
    /** The point's clock minus the capture's clock, if an offset was found; otherwise 0. */
    offsetNs: number;
    refused: { file: string; reason: string }[];
  };
  packets: number;
  matched: number;
  multi: number;
  missing: number;
  /** Size of question and answer in the wire format (docs/formats/packet-question.md), and bytes read from payloads. */
  bytes: { question: number; answer: number; read: number };
  groups: PacketGroup[];
  notes: string[];
}
