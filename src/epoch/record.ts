/**
 * A record: one sealed epoch of one tap, in bytes; points send records instead of packets. All numbers are little-endian (docs/formats/record.md describes the
 * format for readers in other languages). Version 1; version 2 only if there are spans, version 3 only with the state of a live tap:
 *
 *    0        4        6     7     8           12            16            20   21    22      24
 *   +--------+--------+-----+-----+-----------+-------------+-------------+----+----+-------+
 *   | magic  |version |codec|flags| head (H)  | stored (P)  | unpacked    |mode|role|payload|
 *   |89 HPR  | u16    | u8  | u8  | u32       | u32         | u32         | u8 | u8 |version|
 *   +--------+--------+-----+-----+-----------+-------------+-------------+----+----+-------+
 *   24       32       40          48        56        64     72            80      84      88
 *   +--------+--------+-----------+---------+---------+------+-------------+-------+-------+
 *   | start  | end    | reference | startId | endId   | seed | fingerprint | cover | error |
 *   | i64 ns | i64 ns | i64 ns    | u64     | u64     | u64  | u64         | u32   | u32   |
 *   +--------+--------+-----------+---------+---------+------+-------------+-------+-------+
 *   error: of the delays given to the tap, two upper halves of float32 (src/estimators/delay-error.ts): of a packet's, then of the mean's; 0: exact
 *   88: varints: frames, packets, short, backward, dropped + 1 (0: unknown), reasons, then per reason its name and count
 *       texts (varint length, UTF-8): point, segment, estimator, parameters, key, filter, program, void
 *       versions 2 and 3: varint spans, then per span: first i64 ns, last i64 ns, varint packets
 *       version 3: state of the tap (tap-state.ts): u8 parts (1 clock, 2 effort), then the clock: u8 flags, u64 id, varints estimated and maximum error in ns;
 *       effort: varints CPU ns, queue
 *   H - 4: CRC-32C of bytes 0 .. H - 4, so that a head can be trusted without its payload
 *   H:     payload as stored, P bytes
 *   H + P: CRC-32C of everything before
 *
 * Any flipped bit or truncation is a FormatError with the offset. Equal measurements have equal bytes.
 *
 * More than 400 lines including the drawing: writing and reading of one layout stay together.
 */
import { constants, deflateSync, inflateSync } from "node:zlib";
import { ByteReader, ByteWriter, crc32c } from "../base/bytes.ts";
import { uncut } from "../base/ending.ts";
import { FormatError } from "../base/errors.ts";
import type { ClockState } from "../capture/source/clock-state.ts";
import { type DelayError, packDelayError, unpackDelayError } from "../delays/delay-error.ts";
import type { Role } from "../estimators/estimator.ts";
import {
  CRC_BYTES,
  checkSizes,
  expectChecksum,
  MAX_PAYLOAD_BYTES,
  mayUnpack,
  type RecordLayout,
} from "./record-layout.ts";
import { readSpans, type Span, writeSpans } from "./spans.ts";
import { readTapState, type TapEffort, writeTapState } from "./tap-state.ts";

const RECORD_VERSION = 3;
/** Without spans and state, also readable by older programs; and with spans alone. */
const PLAIN_VERSION = 1;
const SPANS_VERSION = 2;
const RECORD_MAGIC = 0x52504889; // 89 48 50 52 as bytes
export const FIXED_HEAD_BYTES = 88;
/** No head is nearly as large: more is damage, and is not read. */
const MAX_HEAD_BYTES = 1 << 20;
const CODECS = ["raw", "zlib"] as const;
const PACKING = { level: 6 };
/** A live tap shares its CPU with what it observes: a third of the time, for 6 % more bytes (LDS). */
const LIVE_PACKING = { strategy: constants.Z_HUFFMAN_ONLY };
const FLAG_VOID = 1;
const FLAG_CUT_HEAD = 2;
const FLAG_CUT_TAIL = 4;
const FLAG_INNER = 8;
const MODES = ["aligned", "control", "delimited"] as const;
const ROLES = ["none", "sender", "receiver"] as const;

export type CutMode = (typeof MODES)[number];
/** `none`: the tap serves as either end. */
export type RecordRole = Role | "none";

export interface EpochBounds {
  mode: CutMode;
  /** ns since 1970. Aligned: the cuts; control: from the messages; delimited: when this point saw its delimiters. */
  startNs: bigint;
  endNs: bigint;
  /** Origin of times in the sketch; the same instant at both ends. */
  referenceNs: bigint;
  /** Control: the messages' sequence number; delimited: the delimiters' digests, 0 at the start or end of observation; aligned: 0. */
  startId: bigint;
  endId: bigint;
  /** Observation began or ended within the epoch: packets of it may be missing here. */
  cutHead: boolean;
  cutTail: boolean;
}

export interface RecordCounters {
  /** Frames of the capture while the epoch was open, as far as its batches show. */
  frames: number;
  /** Packets in the sketch. */
  packets: number;
  /** Packets of these captured with fewer bytes than the digest covers, so that the other end may have another digest for them. */
  short: number;
  /** Packets of these timestamped before the epoch's start. */
  backward: number;
  /** Frames not used, by reason. */
  skipped: Record<string, number>;
  /** Packets that the capturing host reports as dropped; null if it does not report them. */
  dropped: number | null;
}

export interface RecordHead {
  point: string;
  role: RecordRole;
  /** Label of the segment or traffic class; "" if there is none. */
  segment: string;
  estimator: string;
  /** Version of the payload's layout. */
  payloadVersion: number;
  /** Canonical text of the parameters that shape the sketch. */
  parameters: string;
  /** The flow key, as written. */
  key: string;
  /** Bytes from the IP header on that digests cover. */
  cover: number;
  /** Whether packets inside tunnels were decoded. */
  inner: boolean;
  filter: string;
  seed: bigint;
  /** Hash of everything but the seed that must be equal at both ends (compatible.ts). */
  fingerprint: bigint;
  epoch: EpochBounds;
  counters: RecordCounters;
  /** Why the epoch cannot be used; null if it can. */
  void: string | null;
  /** The program that wrote it. */
  program: string;
  /** Error of the delays given to the tap; null if they are exact, or it needs none. */
  delayError: DelayError | null;
  /** For an epoch that was not observed completely: its parts in the sketch, by time. */
  spans?: readonly Span[];
  /** For a live tap: the clock that timestamped its packets, and the cost of observing. */
  clock?: ClockState;
  effort?: TapEffort;
}

export interface EpochRecord extends RecordHead {
  payload: Uint8Array;
}

export interface EncodeOptions {
  /** Never pack: parts of the payload are read in place. */
  raw?: boolean;
}

export function encodeRecord(record: EpochRecord, options: EncodeOptions = {}): Uint8Array {
  const { payload } = record;
  if (payload.length > MAX_PAYLOAD_BYTES) throw new RangeError(`a payload of ${payload.length} bytes`);
  const live = record.clock !== undefined || record.effort !== undefined;
  const packed =
    options.raw === true ? null : uncut(() => deflateSync(payload, live ? LIVE_PACKING : PACKING));
  // Pack only what readers will agree to unpack.
  const useful =
    packed !== null && packed.length < payload.length && mayUnpack(packed.length, payload.length);
  const spans = record.spans ?? [];
  const stored = useful ? packed : payload;
  const out = new ByteWriter(512 + stored.length);
  const { epoch, counters } = record;
  out.u32(RECORD_MAGIC);
  out.u16(live ? RECORD_VERSION : spans.length > 0 ? SPANS_VERSION : PLAIN_VERSION);
  out.u8(CODECS.indexOf(useful ? "zlib" : "raw"));
  out.u8(
    (record.void === null ? 0 : FLAG_VOID) |
      (epoch.cutHead ? FLAG_CUT_HEAD : 0) |
      (epoch.cutTail ? FLAG_CUT_TAIL : 0) |
      (record.inner ? FLAG_INNER : 0),
  );
  out.u32(0); // length of the head, written below
  out.u32(stored.length);
  out.u32(payload.length);
  out.u8(MODES.indexOf(epoch.mode));
  out.u8(ROLES.indexOf(record.role));
  out.u16(record.payloadVersion);
  out.i64(epoch.startNs);
  out.i64(epoch.endNs);
  out.i64(epoch.referenceNs);
  out.u64(epoch.startId);
  out.u64(epoch.endId);
  out.u64(record.seed);
  out.u64(record.fingerprint);
  out.u32(record.cover);
  out.u32(packDelayError(record.delayError));
  const count = (n: number) => out.varint(Math.min(n, Number.MAX_SAFE_INTEGER));
  count(counters.frames);
  count(counters.packets);
  count(counters.short);
  count(counters.backward);
  count(counters.dropped === null ? 0 : counters.dropped + 1);
  const reasons = Object.keys(counters.skipped).sort();
  out.varint(reasons.length);
  for (const reason of reasons) {
    out.utf8(reason);
    count(counters.skipped[reason] ?? 0);
  }
  for (const text of [record.point, record.segment, record.estimator, record.parameters]) out.utf8(text);
  for (const text of [record.key, record.filter, record.program, record.void ?? ""]) out.utf8(text);
  if (live || spans.length > 0) writeSpans(out, spans);
  if (live) writeTapState(out, record);
  out.patchU32(8, out.length + CRC_BYTES);
  out.u32(crc32c(out.view()));
  out.bytes(stored);
  out.u32(crc32c(out.view()));
  return out.finish();
}

/** Returns head and layout of one whole record with correct checksums: everything except the unpacked payload. */
export function verifyRecord(
  bytes: Uint8Array,
  source: { file?: string; offset?: number } = {},
): { head: RecordHead; layout: RecordLayout } {
  const file = source.file ?? "record";
  const offset = source.offset ?? 0;
  const { head, layout } = decodeHead(bytes, source);
  const { headBytes, storedBytes } = layout;
  const total = headBytes + storedBytes + CRC_BYTES;
  if (bytes.length < total) {
    const message = `the record is cut: ${bytes.length} of ${total} bytes are there`;
    throw new FormatError("truncated", file, offset + bytes.length, message);
  }
  if (bytes.length > total) {
    const message = `${bytes.length - total} bytes follow the record`;
    throw new FormatError("bad-record", file, offset + total, message);
  }
  const checked = bytes.subarray(0, total - CRC_BYTES);
  expectChecksum(bytes, total - CRC_BYTES, crc32c(checked), "record", file, offset);
  return { head, layout };
}

/** Decodes one whole record. `file` and `offset`: where the bytes were, for messages. */
export function decodeRecord(
  bytes: Uint8Array,
  source: { file?: string; offset?: number } = {},
): EpochRecord {
  const file = source.file ?? "record";
  const offset = source.offset ?? 0;
  const { head, layout } = verifyRecord(bytes, source);
  return { ...head, payload: payloadIn(bytes, layout, { file, offset }) };
}

/** Returns the payload of a verified record. */
export function payloadIn(
  bytes: Uint8Array,
  { headBytes, storedBytes, unpackedBytes, packed }: RecordLayout,
  { file, offset }: { file: string; offset: number },
): Uint8Array {
  const stored = bytes.subarray(headBytes, headBytes + storedBytes);
  // Not slice(): for a Buffer it shares the memory.
  if (!packed) return new Uint8Array(stored);
  const bad = (message: string, cause?: unknown) =>
    new FormatError("bad-record", file, offset + headBytes, message, { cause });
  let payload: Uint8Array;
  try {
    // One byte more than stated: a longer payload is detected without being unpacked completely.
    payload = uncut(() => inflateSync(stored, { maxOutputLength: unpackedBytes + 1 }));
  } catch (cause) {
    throw bad("the payload cannot be unpacked", cause);
  }
  if (payload.length !== unpackedBytes) {
    throw bad(`the payload unpacks to ${payload.length} bytes, not to ${unpackedBytes}`);
  }
  return new Uint8Array(payload.buffer, payload.byteOffset, payload.length);
}

/** Returns the length of the head as stated by the first bytes of a record; the rest may be missing. */
export function headLength(bytes: Uint8Array, source: { file?: string; offset?: number } = {}): number {
  const reader = new ByteReader(bytes, {
    file: source.file ?? "record",
    baseOffset: source.offset ?? 0,
  });
  const fail = (code: "unknown-format" | "bad-version" | "bad-header", at: number, message: string) =>
    new FormatError(code, reader.file, (source.offset ?? 0) + at, message);
  if (bytes.length === 0)
    throw new FormatError("empty", reader.file, source.offset ?? 0, "empty, not a record");
  if (reader.u32() !== RECORD_MAGIC) {
    throw fail("unknown-format", 0, "not a hoptime record (it does not start with 89 'HPR')");
  }
  const version = reader.u16();
  if (version < PLAIN_VERSION || version > RECORD_VERSION) {
    throw fail(
      "bad-version",
      4,
      `the record has format version ${version}; this program reads ${PLAIN_VERSION} to ${RECORD_VERSION}`,
    );
  }
  reader.skip(2);
  const length = reader.u32();
  if (length < FIXED_HEAD_BYTES + CRC_BYTES || length > MAX_HEAD_BYTES) {
    throw fail("bad-header", 8, `impossible length of the head: ${length}`);
  }
  return length;
}

/** Decodes the head alone; `bytes` may end anywhere after it. */
export function decodeHead(
  bytes: Uint8Array,
  source: { file?: string; offset?: number } = {},
): { head: RecordHead; layout: RecordLayout } {
  const file = source.file ?? "record";
  const offset = source.offset ?? 0;
  const headBytes = headLength(bytes, source);
  if (bytes.length < headBytes) {
    const message = `the record is cut within its head: ${bytes.length} of ${headBytes} bytes are there`;
    throw new FormatError("truncated", file, offset + bytes.length, message);
  }
  const end = headBytes - CRC_BYTES;
  expectChecksum(bytes, end, crc32c(bytes.subarray(0, end)), "head", file, offset);
  // From here on the bytes are as written: an error now is an error of the writer, and is refused all the same.
  const reader = new ByteReader(bytes.subarray(0, end), { file, baseOffset: offset });
  const version = new DataView(bytes.buffer, bytes.byteOffset).getUint16(4, true);
  const pick = <T>(list: readonly T[], what: string): T => {
    const at = reader.offset;
    const value = reader.u8();
    const found = list[value];
    if (found === undefined) throw new FormatError("bad-header", file, at, `unknown ${what} ${value}`);
    return found;
  };
  reader.skip(6);
  const packed = pick(CODECS, "payload codec") === "zlib";
  const flagsAt = reader.offset;
  const flags = reader.u8();
  if (flags > 15) throw new FormatError("bad-header", file, flagsAt, `unknown flags ${flags}`);
  reader.skip(4);
  const storedBytes = reader.u32();
  const unpackedBytes = reader.u32();
  const mode = pick(MODES, "epoch mode");
  const role = pick(ROLES, "role");
  const head = readFields(reader, { mode, role, flags, version });
  reader.expectEnd();
  const layout = { headBytes, storedBytes, unpackedBytes, packed };
  checkSizes(layout, file, offset);
  return { head, layout };
}

/** Reads the fields after the sizes, in the order of the bytes. */
function readFields(
  reader: ByteReader,
  { mode, role, flags, version }: { mode: CutMode; role: RecordRole; flags: number; version: number },
): RecordHead {
  const payloadVersion = reader.u16();
  const epoch: EpochBounds = {
    mode,
    startNs: reader.i64(),
    endNs: reader.i64(),
    referenceNs: reader.i64(),
    startId: reader.u64(),
    endId: reader.u64(),
    cutHead: (flags & FLAG_CUT_HEAD) !== 0,
    cutTail: (flags & FLAG_CUT_TAIL) !== 0,
  };
  const fixed = { seed: reader.u64(), fingerprint: reader.u64(), cover: reader.u32() };
  const errorAt = reader.offset;
  const delayError = unpackDelayError(reader.u32());
  if (delayError && !(isError(delayError.packetNs) && isError(delayError.meanNs)))
    throw new FormatError(
      "bad-header",
      reader.file,
      errorAt,
      "the error of the delays is not a number of ns",
    );
  const counters = readCounters(reader);
  const names = {
    point: reader.utf8(),
    segment: reader.utf8(),
    estimator: reader.utf8(),
    parameters: reader.utf8(),
    key: reader.utf8(),
    filter: reader.utf8(),
    program: reader.utf8(),
  };
  const reason = reader.utf8();
  return {
    ...names,
    ...fixed,
    role,
    payloadVersion,
    inner: (flags & FLAG_INNER) !== 0,
    epoch,
    counters,
    void: (flags & FLAG_VOID) !== 0 ? reason : null,
    delayError,
    ...readParts(reader, version),
  };
}

/** Reads what later versions have after the texts. */
function readParts(reader: ByteReader, version: number): Pick<RecordHead, "spans" | "clock" | "effort"> {
  if (version === PLAIN_VERSION) return {};
  const spans = readSpans(reader, version === SPANS_VERSION ? 1 : 0);
  const state = version === RECORD_VERSION ? readTapState(reader) : {};
  return { ...(spans.length > 0 ? { spans } : {}), ...state };
}

function readCounters(reader: ByteReader): RecordCounters {
  const [frames, packets] = [reader.varint(), reader.varint()];
  const [short, backward] = [reader.varint(), reader.varint()];
  const dropped = reader.varint();
  const skipped: Record<string, number> = {};
  for (let left = reader.varint(); left > 0; left--) {
    const reason = reader.utf8();
    skipped[reason] = reader.varint();
  }
  return { frames, packets, short, backward, skipped, dropped: dropped === 0 ? null : dropped - 1 };
}

function isError(ns: number): boolean {
  return ns >= 0 && !Object.is(ns, -0) && Number.isFinite(ns);
}
