/** Asks records on another host about the packets of a capture. Only keys, times and sizes are sent there; the answers are named and grouped here. */
import { UsageError } from "../../base/errors.ts";
import { Kernels } from "../../base/kernels.ts";
import { formatCount } from "../../base/quantity.ts";
import { FlowKeySpec } from "../../capture/flow/flow-key.ts";
import { isRegularCapture } from "../../capture/source/capture-path.ts";
import type { PacketAnswer } from "./answer.ts";
import {
  type CapturedFacts,
  type CapturedPackets,
  type CapturedRows,
  joinPackets,
  offsetMiddle,
} from "./captured.ts";
import {
  decodeExactAnswers,
  encodeCapturedQuestion,
  FIRST_NS,
  LAST_NS,
  PIECE,
  splitPieces,
} from "./captured-wire.ts";
import { addCaptured, capturedNotes, composeAnswer } from "./compose.ts";
import { PacketGroups } from "./groups.ts";
import {
  checkPacketQuestion,
  DEFAULT_WORST,
  type PacketQuestion,
  parseGrouping,
  slackOf,
} from "./question.ts";
import { readCaptured } from "./read-captured.ts";
import type { AskedFacts, PacketRecords, PacketSettings } from "./serve.ts";
import { digestQuestionBytes } from "./wire.ts";

/** A host that holds records. */
export interface PacketServer {
  settings(records: PacketRecords): Promise<PacketSettings>;
  /** Sends a message of captured-wire.ts and returns the whole reply. */
  ask(records: Pick<PacketRecords, "point" | "segment">, message: Uint8Array): Promise<Uint8Array>;
  /** Largest message it accepts. */
  maxBytes: number;
}

export interface CaptureQuestion extends PacketQuestion {
  packets: { by: "capture"; file: string; filter?: string | undefined };
}

export async function askCapture(
  server: PacketServer,
  question: CaptureQuestion,
  kernels = new Kernels(),
): Promise<PacketAnswer> {
  checkPacketQuestion(question);
  const grouping = parseGrouping(question.group);
  const { point, segment, fromNs, toNs, packets } = question;
  const settings = await server.settings({ point, segment, fromNs, toNs });
  const groups = new PacketGroups(settings.key, grouping, question.worst ?? DEFAULT_WORST);
  const batches = readCaptured(
    kernels,
    {
      ...{ file: packets.file, filter: packets.filter, cover: settings.cover, inner: settings.inner },
      ...{ seed: BigInt(settings.seed), key: FlowKeySpec.parse(settings.key) },
    },
    settings.identity,
  );
  const rows = await keepRows(batches, server.maxBytes);
  const message = encodeCapturedQuestion({
    fromNs: fromNs ?? FIRST_NS,
    toNs: toNs ?? LAST_NS,
    slackNs: Number(slackOf(question)),
    findOffset: isRegularCapture(packets.file),
    packets: rows,
  });
  if (message.length > server.maxBytes) throw tooMany(server.maxBytes);
  const reply = await server.ask({ point: settings.point, segment: settings.segment }, message);
  const { records, captured } = readReply(reply, rows, groups);
  const notes = capturedNotes(captured, groups.total);
  return composeAnswer(question, groups, {
    facts: records,
    offsetNs: captured.offset ? Number(offsetMiddle(captured.offset).offsetNs) : 0,
    questionBytes: digestQuestionBytes(captured.asked),
    notes,
    withoutList: 0,
  });
}

/** Collects all packets; flows are few and are kept once each. */
async function keepRows(batches: AsyncIterable<CapturedRows>, maxBytes: number): Promise<CapturedRows> {
  const parts: CapturedPackets[] = [];
  const digests: BigUint64Array[] = [];
  const flowOf: Uint32Array[] = [];
  const flows: Uint32Array[] = [];
  const known = new Map<string, number>();
  let keyBytes = 0;
  for await (const batch of batches) {
    keyBytes += 8 * batch.count;
    if (keyBytes > maxBytes) throw tooMany(maxBytes);
    const { count, originNs, timeNs, keys, wireBytes } = batch;
    parts.push({ count, originNs, timeNs, keys, wireBytes });
    digests.push(batch.digests);
    flowOf.push(
      Uint32Array.from({ length: count }, (_, i) => {
        const words = batch.wordsAt(i);
        const name = words.join();
        const number = known.get(name) ?? flows.push(words) - 1;
        known.set(name, number);
        return number;
      }),
    );
  }
  const all = joinPackets(parts);
  const [digest, flow] = [new BigUint64Array(all.count), new Uint32Array(all.count)];
  let at = 0;
  for (const [i, part] of parts.entries()) {
    digest.set(digests[i] ?? [], at);
    flow.set(flowOf[i] ?? [], at);
    at += part.count;
  }
  return { ...all, digests: digest, wordsAt: (i) => flows[flow[i] ?? 0] ?? new Uint32Array(10) };
}

function tooMany(maxBytes: number): UsageError {
  return new UsageError(
    "bad-question",
    `the question about the packets of the capture is longer than ${formatCount(maxBytes)} bytes, which is the limit`,
    "choose packets with ‘filter’, or split the capture",
  );
}

/** Reads the reply, whose answers come in pieces, in the order of the packets. */
function readReply(
  reply: Uint8Array,
  rows: CapturedRows,
  groups: PacketGroups,
): { records: AskedFacts["records"]; captured: CapturedFacts } {
  let at = 0;
  for (const { type, bytes } of splitPieces(reply)) {
    if (type === PIECE.answers) {
      const answers = decodeExactAnswers(bytes);
      if (at + answers.count > rows.count) break;
      addCaptured(groups, rows, answers, at);
      at += answers.count;
    }
    if (type === PIECE.problem) throw problemOf(bytes);
    if (type !== PIECE.facts) continue;
    const { records, captured } = JSON.parse(new TextDecoder().decode(bytes)) as AskedFacts;
    if (!captured || at !== rows.count) break;
    const { offset } = captured;
    const read = offset && { ...offset, lowNs: BigInt(offset.lowNs), highNs: BigInt(offset.highNs) };
    return { records, captured: { ...captured, offset: read } };
  }
  throw new UsageError("no-records", "the answer about the packets is incomplete", "ask again");
}

/** An error that occurred after the answer had begun. */
function problemOf(bytes: Uint8Array): UsageError {
  const { message, hint } = JSON.parse(new TextDecoder().decode(bytes)) as { message: string; hint?: string };
  return new UsageError("not-supported", message, hint);
}
