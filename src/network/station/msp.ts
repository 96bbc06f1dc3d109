/**
 * Measurement state packets (MPLANE, section VI): reports of an m-router or m-server to the monitoring station.
 *
 * Plain data here, and bytes for the wire (page: docs/formats/msp.md). An m-router reports its inner segments and the probed ones; an m-server only the probed
 * ones. Little endian, lengths and text as in base/bytes.ts:
 *
 *   magic "HMSP" | u8 version = 1 | u8 reporter: 0 m-router, 1 m-server | u32 sequence
 *   i64 epoch start, ns since 1970 | i64 epoch end | utf8 reporter | varint entries
 *   entry: u8 kind: 0 router, 1 link, 2 virtual link | u8 flags: 1 has delay, 2 has deviation
 *          utf8 from | utf8 to | varint packets | varint lost
 *          with 1: f64 mean, low, high (ns) | with 2: f64 standard deviation (ns)
 *   u32 CRC-32C of everything before
 *   version 2: 16 bytes HMAC-SHA-256 of everything before, truncated
 *
 * Version 2 is version 1 for holders of a shared key: a checksum finds damage, not forgery. A segment without an answer has no delay fields: absent, never
 * zero. Any damage is a FormatError.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { ByteReader, ByteWriter, crc32c } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import type { Segment } from "../plan/deployment.ts";

const MSP_VERSION = 1;
const SIGNED_MSP_VERSION = 2;
const SIGNATURE_BYTES = 16;
const MAGIC = [0x48, 0x4d, 0x53, 0x50];
const KINDS: readonly Segment["kind"][] = ["router", "link", "virtual-link"];
const HAS_DELAY = 1;
const HAS_DEVIATION = 2;

export interface MspEntry {
  readonly kind: Segment["kind"];
  readonly from: string;
  readonly to: string;
  readonly packets: number;
  readonly lost: number;
  readonly delay?: { readonly meanNs: number; readonly lowNs: number; readonly highNs: number };
  readonly stdevNs?: number;
}

export interface MeasurementStatePacket {
  readonly reporter: string;
  readonly reporterKind: "m-router" | "m-server";
  readonly sequence: number;
  /** Nanoseconds since 1970. */
  readonly epochStartNs: bigint;
  readonly epochEndNs: bigint;
  readonly entries: readonly MspEntry[];
}

/** `key`: version 2, authenticated with it. */
export function encodeMsp(packet: MeasurementStatePacket, key?: Uint8Array): Uint8Array {
  const out = new ByteWriter(64 + packet.entries.length * 80);
  for (const byte of MAGIC) out.u8(byte);
  out.u8(key ? SIGNED_MSP_VERSION : MSP_VERSION);
  out.u8(packet.reporterKind === "m-router" ? 0 : 1);
  out.u32(packet.sequence);
  out.i64(packet.epochStartNs);
  out.i64(packet.epochEndNs);
  out.utf8(packet.reporter);
  out.varint(packet.entries.length);
  for (const entry of packet.entries) {
    out.u8(KINDS.indexOf(entry.kind));
    out.u8((entry.delay ? HAS_DELAY : 0) | (entry.stdevNs === undefined ? 0 : HAS_DEVIATION));
    out.utf8(entry.from);
    out.utf8(entry.to);
    out.varint(entry.packets);
    out.varint(entry.lost);
    if (entry.delay)
      for (const ns of [entry.delay.meanNs, entry.delay.lowNs, entry.delay.highNs]) out.f64(ns);
    if (entry.stdevNs !== undefined) out.f64(entry.stdevNs);
  }
  out.u32(crc32c(out.view()));
  if (key) out.bytes(signature(out.view(), key));
  return out.finish();
}

function signature(bytes: Uint8Array, key: Uint8Array): Uint8Array {
  return createHmac("sha256", key).update(bytes).digest().subarray(0, SIGNATURE_BYTES);
}

/** Returns the packet without its verified signature. */
function verified(bytes: Uint8Array, file: string, key: Uint8Array): Uint8Array {
  const end = bytes.length - SIGNATURE_BYTES;
  if (bytes[4] !== SIGNED_MSP_VERSION || end < 9)
    throw new FormatError("bad-signature", file, 4, `version ${bytes[4]} is not authenticated`);
  if (!timingSafeEqual(signature(bytes.subarray(0, end), key), bytes.subarray(end)))
    throw new FormatError("bad-signature", file, end, "not authenticated by the key");
  return bytes.subarray(0, end);
}

/** `key`: only packets authenticated with it are read. */
export function decodeMsp(
  datagram: Uint8Array,
  file = "measurement state packet",
  key?: Uint8Array,
): MeasurementStatePacket {
  if (datagram.length < 5 || MAGIC.some((byte, i) => datagram[i] !== byte))
    throw new FormatError("bad-header", file, 0, "does not begin with HMSP");
  const bytes = key ? verified(datagram, file, key) : datagram;
  const version = datagram[4];
  const expected = key ? SIGNED_MSP_VERSION : MSP_VERSION;
  if (version !== expected)
    throw new FormatError(
      "bad-version",
      file,
      4,
      version === SIGNED_MSP_VERSION
        ? "is authenticated, and no key is known here"
        : `version ${version}; this program reads ${MSP_VERSION} and ${SIGNED_MSP_VERSION}`,
    );
  if (bytes.length < 9) throw new FormatError("truncated", file, bytes.length, "no room for a checksum");
  const end = bytes.length - 4;
  const stated = new ByteReader(bytes.subarray(end)).u32();
  if (crc32c(bytes.subarray(0, end)) !== stated)
    throw new FormatError("bad-checksum", file, end, "the checksum does not fit: damaged or cut");
  const body = new ByteReader(bytes.subarray(5, end), { file, baseOffset: 5 });
  const bad = (message: string) => new FormatError("bad-record", file, body.offset, message);
  const reporterKind = body.u8();
  if (reporterKind > 1) throw bad(`reporter kind ${reporterKind}`);
  const sequence = body.u32();
  const epochStartNs = body.i64();
  const epochEndNs = body.i64();
  if (epochEndNs < epochStartNs) throw bad("the epoch ends before it begins");
  const reporter = body.utf8();
  const count = body.varint();
  // An entry has at least six bytes: a larger count is false, and refused before memory is allocated for it.
  if (count > body.remaining / 6) throw bad(`${count} entries in ${body.remaining} bytes`);
  const entries: MspEntry[] = [];
  for (let i = 0; i < count; i++) {
    const kind = KINDS[body.u8()];
    if (kind === undefined) throw bad(`entry ${i} is of no known kind`);
    const flags = body.u8();
    if (flags > (HAS_DELAY | HAS_DEVIATION)) throw bad(`entry ${i} has unknown flags ${flags}`);
    const names = { from: body.utf8(), to: body.utf8() };
    const counts = { packets: body.varint(), lost: body.varint() };
    const finite = (): number => {
      const value = body.f64();
      if (!Number.isFinite(value)) throw bad(`entry ${i} holds a delay that is not a number`);
      return value;
    };
    const delay = flags & HAS_DELAY ? { meanNs: finite(), lowNs: finite(), highNs: finite() } : undefined;
    const stdevNs = flags & HAS_DEVIATION ? finite() : undefined;
    entries.push({
      kind,
      ...names,
      ...counts,
      ...(delay ? { delay } : {}),
      ...(stdevNs === undefined ? {} : { stdevNs }),
    });
  }
  body.expectEnd();
  return {
    reporter,
    reporterKind: reporterKind === 0 ? "m-router" : "m-server",
    sequence,
    epochStartNs,
    epochEndNs,
    entries,
  };
}
