/**
 * Wire format of a question about captured packets, and of exact answers for single packets (docs/formats/packet-question.md). Little-endian.
 *
 *   question: "HPQ1" u32 | kind u8 = 2 | flags u8 (2: look for the offset of the capture's clock) | from i64 | to i64 | count varint |
 *             slack varint ns | origin i64 ns | u64 key per packet | per packet: zigzag ns since the one before, wire bytes varint
 *   answer:   "HPA1" u32 | flags u8 = 2 | distinct varint | per distinct answer: kind u8 (1 Match, 2 Multi-Match), value, low, high f64 ns,
 *             variance f64 ns² | packets varint | per packet: varint, 0 No-Match, else the number of its answer
 *
 * A reply over HTTP is a stream of pieces: type u8 | length u32 | bytes. Type 1: answers to the next packets of the question. Type 2, the last
 * piece: JSON, what was asked and what it cost. Type 3: JSON, the error that ended the answer.
 */
import { ByteReader, ByteWriter } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import type { PacketAnswers } from "../../estimators/estimator.ts";
import { emptyAnswers, MULTI_MATCH, NO_MATCH } from "../../estimators/packet-answers.ts";
import type { CapturedPackets } from "./captured.ts";

export const QUESTION_MAGIC = 0x3151_5048; // "HPQ1"
export const ANSWER_MAGIC = 0x3141_5048; // "HPA1"
export const CAPTURED_KIND = 2;
const EXACT_ANSWERS = 2;
const FIND_OFFSET = 2;
/** Key, one byte of time and one byte of size. */
const MIN_PACKET_BYTES = 10;
/** Unbounded: the ends of i64. */
export const FIRST_NS = -(2n ** 63n);
export const LAST_NS = 2n ** 63n - 1n;

export interface CapturedQuestion {
  fromNs: bigint;
  toNs: bigint;
  slackNs: number;
  findOffset: boolean;
  packets: CapturedPackets;
}

export function encodeCapturedQuestion(question: CapturedQuestion): Uint8Array {
  const { count, originNs, timeNs, keys, wireBytes } = question.packets;
  const out = new ByteWriter(64 + 14 * count);
  out.u32(QUESTION_MAGIC);
  out.u8(CAPTURED_KIND);
  out.u8(question.findOffset ? FIND_OFFSET : 0);
  out.i64(question.fromNs);
  out.i64(question.toNs);
  out.varint(count);
  out.varint(question.slackNs);
  out.i64(originNs);
  for (const key of keys) out.u64(key);
  let before = 0;
  for (let i = 0; i < count; i++) {
    out.zigzag(timeNs[i]! - before);
    out.varint(wireBytes[i]!);
    before = timeNs[i]!;
  }
  return out.finish();
}

export function decodeCapturedQuestion(bytes: Uint8Array): CapturedQuestion {
  const reader = new ByteReader(bytes, { file: "packet question" });
  const bad = (at: number, message: string) => new FormatError("bad-record", reader.file, at, message);
  if (reader.u32() !== QUESTION_MAGIC) throw bad(0, "not a question about packets, version 1");
  const kind = reader.u8();
  if (kind !== CAPTURED_KIND) throw bad(4, `kind ${kind} is not a question about captured packets`);
  const flags = reader.u8();
  if ((flags & ~FIND_OFFSET) !== 0) throw bad(5, `unknown flags ${flags}`);
  const [fromNs, toNs] = [reader.i64(), reader.i64()];
  const at = reader.offset;
  const count = reader.varint();
  const slackNs = reader.varint();
  const originNs = reader.i64();
  if (count * MIN_PACKET_BYTES > reader.remaining) throw bad(at, `${count} packets do not fit`);
  const keys = new BigUint64Array(count);
  for (let i = 0; i < count; i++) keys[i] = reader.u64();
  const timeNs = new Float64Array(count);
  const wireBytes = new Uint32Array(count);
  let before = 0;
  for (let i = 0; i < count; i++) {
    before += reader.zigzag();
    if (!Number.isSafeInteger(before)) throw bad(reader.offset, "a time out of all bounds");
    timeNs[i] = before;
    wireBytes[i] = reader.varint();
  }
  reader.expectEnd();
  const packets = { count, originNs, timeNs, keys, wireBytes };
  return { fromNs, toNs, slackNs, findOffset: (flags & FIND_OFFSET) !== 0, packets };
}

/** Stores yield few distinct delays, so each distinct answer is written once. */
export function encodeExactAnswers(answers: PacketAnswers): Uint8Array {
  const numbers = new Map<string, number>();
  const rows: number[] = [];
  const of = new Uint32Array(answers.count);
  const { kind, valueNs, lowNs, highNs, varianceNs2 } = answers;
  for (let i = 0; i < answers.count; i++) {
    if (kind[i] === NO_MATCH) continue;
    const name = `${kind[i]} ${valueNs[i]} ${lowNs[i]} ${highNs[i]} ${varianceNs2[i]}`;
    let number = numbers.get(name);
    if (number === undefined) {
      rows.push(i);
      number = rows.length;
      numbers.set(name, number);
    }
    of[i] = number;
  }
  const out = new ByteWriter(16 + 33 * rows.length + 2 * answers.count);
  out.u32(ANSWER_MAGIC);
  out.u8(EXACT_ANSWERS);
  out.varint(rows.length);
  for (const i of rows) {
    out.u8(kind[i]!);
    for (const ns of [valueNs[i]!, lowNs[i]!, highNs[i]!, varianceNs2[i]!]) out.f64(ns);
  }
  out.varint(answers.count);
  for (const number of of) out.varint(number);
  return out.finish();
}

/** Decodes answers. The group sizes behind them are not transmitted; they are no longer needed. */
export function decodeExactAnswers(bytes: Uint8Array): PacketAnswers {
  const reader = new ByteReader(bytes, { file: "packet answer" });
  const bad = (message: string) => new FormatError("bad-record", reader.file, reader.offset, message);
  if (reader.u32() !== ANSWER_MAGIC) throw bad("not an answer about packets, version 1");
  if (reader.u8() !== EXACT_ANSWERS) throw bad("not exact answers");
  const distinct = reader.varint();
  if (33 * distinct > reader.remaining) throw bad(`${distinct} answers do not fit`);
  const table = Array.from({ length: distinct }, () => {
    const kind = reader.u8();
    if (kind === NO_MATCH || kind > MULTI_MATCH) throw bad(`an answer of kind ${kind}`);
    return { kind, value: reader.f64(), low: reader.f64(), high: reader.f64(), variance: reader.f64() };
  });
  const count = reader.varint();
  if (count > reader.remaining) throw bad(`${count} packets do not fit`);
  const answers = emptyAnswers(count);
  for (let i = 0; i < count; i++) {
    const number = reader.varint();
    if (number === 0) continue;
    const found = table[number - 1];
    if (!found) throw bad(`there is no answer ${number}`);
    answers.kind[i] = found.kind;
    answers.valueNs[i] = found.value;
    answers.lowNs[i] = found.low;
    answers.highNs[i] = found.high;
    answers.varianceNs2[i] = found.variance;
  }
  reader.expectEnd();
  return answers;
}

export const PIECE = { answers: 1, facts: 2, problem: 3 } as const;
export interface Piece {
  type: number;
  bytes: Uint8Array;
}

export function framePiece(type: number, bytes: Uint8Array): Uint8Array {
  const out = new ByteWriter(5 + bytes.length);
  out.u8(type);
  out.u32(bytes.length);
  out.bytes(bytes);
  return out.finish();
}

export function* splitPieces(bytes: Uint8Array): Generator<Piece> {
  const reader = new ByteReader(bytes, { file: "packet answer" });
  while (reader.remaining > 0) {
    const type = reader.u8();
    yield { type, bytes: reader.bytes(reader.u32()) };
  }
}
