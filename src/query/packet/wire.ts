/**
 * Wire format of questions about packets and of their answers (docs/formats/packet-question.md; MAPLE, section 4: many digests in one message, or a
 * flow with chained ranges of IPIDs). Version 1, little-endian.
 *
 *   question: "HPQ1" u32 | kind u8 (0 digests, 1 flows) | flags u8 (1: values too) | from i64 | to i64 | count varint |
 *             kind 0: u64 per packet
 *             kind 1: per flow: key | ranges varint | per range: distance from the end of the one before varint, length - 1 varint
 *   key:      flags u8 (1 IPv6, 2 extended, 4 ports) | ports u32 | protocol u8 | [DSCP, VLAN u32] | addresses 8 or 32 bytes
 *   answer:   "HPA1" u32 | flags u8 | groups varint | per group: matched, multi, missing varint, and where any was found: mean, low, high, stdev f32 (ns)
 *             flags 1: packets varint | 2 bits each: 0 No-Match, 1 Match, 2 Multi-Match | f32 (ns) per answered packet
 */

import { ByteReader, ByteWriter } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import { required } from "../../base/lists.ts";
import { META_HIGH } from "../../capture/batch.ts";
import type { IpidRange } from "../../estimators/estimator.ts";
import { joinRanges } from "../../estimators/packet-keys.ts";
import { ANSWER_MAGIC, QUESTION_MAGIC } from "./captured-wire.ts";

const QUESTION_HEAD_BYTES = 4 + 1 + 1 + 8 + 8;

export interface AskedFlow {
  /** Ten uint32, the key layout of the kernels. */
  words: ArrayLike<number>;
  ranges: readonly IpidRange[];
}

export interface WireQuestion {
  fromNs: bigint;
  toNs: bigint;
  values: boolean;
  packets: { kind: "digests"; digests: BigUint64Array } | { kind: "flows"; flows: AskedFlow[] };
}

export interface WireGroup {
  matched: number;
  multi: number;
  missing: number;
  latency: { meanNs: number; lowNs: number; highNs: number; stdevNs: number } | null;
}

export interface WireAnswer {
  groups: WireGroup[];
  /** Kinds and delays of single packets, if requested; NaN for no answer. */
  values: { kind: Uint8Array; valueNs: Float32Array } | null;
}

export function encodeQuestion(question: WireQuestion): Uint8Array {
  const out = new ByteWriter();
  const { packets } = question;
  out.u32(QUESTION_MAGIC);
  out.u8(packets.kind === "digests" ? 0 : 1);
  out.u8(question.values ? 1 : 0);
  out.i64(question.fromNs);
  out.i64(question.toNs);
  if (packets.kind === "digests") {
    out.varint(packets.digests.length);
    for (const digest of packets.digests) out.u64(digest);
  } else {
    out.varint(packets.flows.length);
    for (const flow of packets.flows) writeFlow(out, flow);
  }
  return out.finish();
}

export function decodeQuestion(bytes: Uint8Array): WireQuestion {
  const reader = new ByteReader(bytes, { file: "packet question" });
  const bad = (at: number, message: string) => new FormatError("bad-record", reader.file, at, message);
  if (reader.u32() !== QUESTION_MAGIC) throw bad(0, "not a question about packets, version 1");
  const kind = reader.u8();
  if (kind > 1) throw bad(4, `there is no kind ${kind} of question`);
  const values = (reader.u8() & 1) !== 0;
  const [fromNs, toNs] = [reader.i64(), reader.i64()];
  const at = reader.offset;
  const count = reader.varint();
  // A flow takes at least 15 bytes and a digest 8, so a damaged count cannot claim more.
  if (count * (kind === 0 ? 8 : 15) > reader.remaining) throw bad(at, `${count} packets or flows do not fit`);
  let packets: WireQuestion["packets"];
  if (kind === 0)
    packets = { kind: "digests", digests: BigUint64Array.from({ length: count }, () => reader.u64()) };
  else packets = { kind: "flows", flows: Array.from({ length: count }, () => readFlow(reader)) };
  reader.expectEnd();
  return { fromNs, toNs, values, packets };
}

export function encodeAnswer({ groups, values }: WireAnswer): Uint8Array {
  const out = new ByteWriter();
  out.u32(ANSWER_MAGIC);
  out.u8(values ? 1 : 0);
  out.varint(groups.length);
  for (const { matched, multi, missing, latency } of groups) {
    for (const count of [matched, multi, missing]) out.varint(count);
    if (matched + multi === 0) continue;
    const { meanNs, lowNs, highNs, stdevNs } = required(latency, "the latency of a group with packets");
    for (const ns of [meanNs, lowNs, highNs, stdevNs]) writeF32(out, ns);
  }
  if (values) {
    const n = values.kind.length;
    out.varint(n);
    for (let i = 0; i < n; i += 4) {
      let byte = 0;
      for (let j = 0; j < 4 && i + j < n; j++) byte |= values.kind[i + j]! << (2 * j);
      out.u8(byte);
    }
    for (let i = 0; i < n; i++) if (values.kind[i] !== 0) writeF32(out, values.valueNs[i]!);
  }
  return out.finish();
}

export function decodeAnswer(bytes: Uint8Array): WireAnswer {
  const reader = new ByteReader(bytes, { file: "packet answer" });
  const bad = (at: number, message: string) => new FormatError("bad-record", reader.file, at, message);
  if (reader.u32() !== ANSWER_MAGIC) throw bad(0, "not an answer about packets, version 1");
  const flags = reader.u8();
  const at = reader.offset;
  const count = reader.varint();
  if (3 * count > reader.remaining) throw bad(at, `${count} groups do not fit`);
  const groups = Array.from({ length: count }, (): WireGroup => {
    const [matched, multi, missing] = [reader.varint(), reader.varint(), reader.varint()];
    if (matched + multi === 0) return { matched, multi, missing, latency: null };
    const latency = {
      meanNs: readF32(reader),
      lowNs: readF32(reader),
      highNs: readF32(reader),
      stdevNs: readF32(reader),
    };
    return { matched, multi, missing, latency };
  });
  let values: WireAnswer["values"] = null;
  if ((flags & 1) !== 0) {
    const n = reader.varint();
    const packed = reader.bytes(Math.ceil(n / 4));
    const kind = Uint8Array.from({ length: n }, (_, i) => (packed[i >> 2]! >> (2 * (i & 3))) & 3);
    values = { kind, valueNs: Float32Array.from(kind, (k) => (k === 0 ? Number.NaN : readF32(reader))) };
  }
  reader.expectEnd();
  return { groups, values };
}

/** Returns the size of a question about `count` digests. */
export function digestQuestionBytes(count: number): number {
  return QUESTION_HEAD_BYTES + varintBytes(count) + 8 * count;
}

/** Returns the size of a question about flows; with `head` false, only the size of the flows. */
export function flowQuestionBytes(flows: readonly AskedFlow[], head = true): number {
  const out = new ByteWriter();
  for (const flow of flows) writeFlow(out, flow);
  return out.length + (head ? QUESTION_HEAD_BYTES + varintBytes(flows.length) : 0);
}

export function answerBytes(groups: readonly WireGroup[]): number {
  return encodeAnswer({ groups: [...groups], values: null }).length;
}

function varintBytes(value: number): number {
  let bytes = 1;
  for (; value >= 128; value = Math.floor(value / 128)) bytes++;
  return bytes;
}

function writeF32(out: ByteWriter, value: number): void {
  scratch.setFloat32(0, value, true);
  out.u32(scratch.getUint32(0, true));
}
function readF32(reader: ByteReader): number {
  scratch.setUint32(0, reader.u32(), true);
  return scratch.getFloat32(0, true);
}
const scratch = new DataView(new ArrayBuffer(4));

const { ipv6: IPV6, ports: PORTS } = META_HIGH;

function writeFlow(out: ByteWriter, { words, ranges }: AskedFlow): void {
  const high = words[1]!;
  const extended = (high & ~(IPV6 | PORTS)) >>> 8;
  const v6 = (high & IPV6) !== 0;
  out.u8((v6 ? 1 : 0) | (extended !== 0 ? 2 : 0) | ((high & PORTS) !== 0 ? 4 : 0));
  out.u32(words[0]!);
  out.u8(high & 0xff);
  if (extended !== 0) out.u32(extended);
  for (let i = 2; i < (v6 ? 10 : 4); i++) out.u32(words[i]!);
  const joined = joinRanges(ranges);
  out.varint(joined.length);
  let previous = 0;
  for (const { first, last } of joined) {
    out.varint(first - previous);
    out.varint(last - first);
    previous = last + 1;
  }
}

function readFlow(reader: ByteReader): AskedFlow {
  const flags = reader.u8();
  const words = new Uint32Array(10);
  words[0] = reader.u32();
  const proto = reader.u8();
  const extended = (flags & 2) !== 0 ? reader.u32() : 0;
  words[1] =
    (proto | (extended << 8) | ((flags & 1) !== 0 ? IPV6 : 0) | ((flags & 4) !== 0 ? PORTS : 0)) >>> 0;
  for (let i = 2; i < ((flags & 1) !== 0 ? 10 : 4); i++) words[i] = reader.u32();
  const ranges: IpidRange[] = [];
  let previous = 0;
  for (let left = reader.varint(); left > 0; left--) {
    const at = reader.offset;
    const first = previous + reader.varint();
    const last = first + reader.varint();
    if (last > 0xffff) throw new FormatError("bad-record", reader.file, at, `IPID ${last} is above 65535`);
    ranges.push({ first, last });
    previous = last + 1;
  }
  return { words, ranges };
}
