/**
 * Answers questions about packets that arrive over a network: bytes in, pieces of an answer out as they are found
 * (docs/formats/packet-question.md).
 */
import type { RecordArchive } from "../../archive/archive.ts";
import { UsageError } from "../../base/errors.ts";
import type { Kernels } from "../../base/kernels.ts";
import type { PacketIdentity } from "../../estimators/estimator.ts";
import { ESTIMATORS } from "../../estimators/table.ts";
import { type AskPacketsOptions, askWireFlows, lookupDigests } from "./ask.ts";
import { type CapturedFacts, CapturedLookup, slicePackets } from "./captured.ts";
import {
  CAPTURED_KIND,
  decodeCapturedQuestion,
  encodeExactAnswers,
  FIRST_NS,
  framePiece,
  LAST_NS,
  PIECE,
} from "./captured-wire.ts";
import { findClockOffset } from "./clock-offset.ts";
import { type EpochFacts, PacketEpochs } from "./epochs.ts";
import { PacketGroups } from "./groups.ts";
import type { PacketQuestion } from "./question.ts";
import { decodeQuestion, encodeAnswer, type WireGroup, type WireQuestion } from "./wire.ts";

/** Selects the records to ask. */
export type PacketRecords = Pick<PacketQuestion, "point" | "segment" | "fromNs" | "toNs">;

/** How packets must be read to be found in the records: format hoptime.packet-settings/1. */
export interface PacketSettings {
  format: "hoptime.packet-settings/1";
  point: string;
  segment: string;
  estimator: string;
  identity: PacketIdentity;
  cover: number;
  inner: boolean;
  /** A whole number below 2^64, as text. */
  seed: string;
  key: string;
}

/** Content of the last piece of a reply. */
export interface AskedFacts {
  records: EpochFacts;
  /** Only for a question about captured packets; the offset's bounds are text. */
  captured: (Omit<CapturedFacts, "offset"> & { offset: OffsetText | null }) | null;
}

export interface OffsetText {
  lowNs: string;
  highNs: string;
  agree: number;
  tried: number;
  asCaptured: number;
}

/** Packets per piece. */
const PIECE_PACKETS = 65_536;

type Serving = Required<Pick<AskPacketsOptions, "kernels">> & Pick<AskPacketsOptions, "table">;

export function packetSettings(
  archive: RecordArchive,
  records: PacketRecords,
  { kernels, table = ESTIMATORS }: Serving,
): PacketSettings {
  const epochs = new PacketEpochs(archive, kernels, table, { ...records, packets: { by: "listed" } });
  try {
    const { point, segment, estimator, cover, inner, seed, key } = epochs.head();
    const identity = epochs.identity();
    return {
      format: "hoptime.packet-settings/1",
      ...{ point, segment, estimator, identity, cover, inner, seed: `${seed}`, key },
    };
  } finally {
    epochs.free();
  }
}

/** Yields the framed pieces of the reply. Throws FormatError or UsageError before the first piece if the question is invalid. */
export function* servePackets(
  archive: RecordArchive,
  records: Pick<PacketRecords, "point" | "segment">,
  message: Uint8Array,
  serving: Serving,
): Generator<Uint8Array> {
  const captured = message[4] === CAPTURED_KIND ? decodeCapturedQuestion(message) : null;
  const question = captured ? null : decodeQuestion(message);
  const { fromNs, toNs } = captured ?? (question as WireQuestion);
  const { kernels, table = ESTIMATORS } = serving;
  if (fromNs >= toNs) throw new UsageError("bad-question", "the time asked for ends before it begins");
  const epochs = new PacketEpochs(archive, kernels, table, {
    ...records,
    packets: { by: "listed" },
    fromNs: fromNs === FIRST_NS ? undefined : fromNs,
    toNs: toNs === LAST_NS ? undefined : toNs,
  });
  try {
    epochs.head();
    let facts: AskedFacts["captured"] = null;
    if (captured) facts = yield* serveCaptured(epochs, captured);
    else if (question) yield framePiece(PIECE.answers, encodeAnswer(answerWire(kernels, epochs, question)));
    const asked: AskedFacts = { records: epochs.facts(), captured: facts };
    yield framePiece(PIECE.facts, new TextEncoder().encode(JSON.stringify(asked)));
  } finally {
    epochs.free();
  }
}

function* serveCaptured(
  epochs: PacketEpochs,
  { packets, slackNs, findOffset }: ReturnType<typeof decodeCapturedQuestion>,
): Generator<Uint8Array, AskedFacts["captured"]> {
  const identity = epochs.identity();
  const slack = BigInt(slackNs);
  const offset = findOffset ? findClockOffset(packets, epochs, identity, slack) : null;
  const lookup = new CapturedLookup(epochs, identity, { slackNs: slack, offset });
  for (let at = 0; at < packets.count; at += PIECE_PACKETS)
    yield framePiece(
      PIECE.answers,
      encodeExactAnswers(lookup.ask(slicePackets(packets, at, at + PIECE_PACKETS))),
    );
  const text = offset && { ...offset, lowNs: `${offset.lowNs}`, highNs: `${offset.highNs}` };
  return { ...lookup.facts, offset: text };
}

function answerWire(kernels: Kernels, epochs: PacketEpochs, { packets, values }: WireQuestion) {
  if (packets.kind === "flows") {
    if (values)
      throw new UsageError(
        "not-supported",
        "the packets of a flow are answered together",
        "ask for single packets by their digests",
      );
    return { groups: askWireFlows(kernels, epochs, packets.flows), values: null };
  }
  const { answers } = lookupDigests(epochs, packets.digests);
  const all = new PacketGroups(epochs.head().key, { kind: "all", length: 0, key: undefined }, 0);
  for (let i = 0; i < answers.count; i++) all.add(answers, i, { words: null, name: () => "", timeNs: 0n });
  const groups: WireGroup[] = all.results(undefined);
  const { kind, valueNs } = answers;
  return { groups, values: values ? { kind, valueNs: Float32Array.from(valueNs) } : null };
}
