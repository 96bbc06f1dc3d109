/**
 * Unmatched packets, read again from their captures with what shows what became of them on the way: TCP byte ranges, fragments,
 * options. Found again by time and flow; one that shares both with a packet that has a partner may be taken in its place, which changes nothing.
 */
import type { Kernels } from "../../base/kernels.ts";
import { FLAG, META_HIGH, type PacketBatch } from "../../capture/batch.ts";
import { type CaptureOptions, CaptureReader } from "../../capture/reader.ts";
import type { AlonePacket } from "../match-types.ts";
import type { ExactMatcher } from "../matcher.ts";

export interface LonePacket extends AlonePacket {
  proto: number;
  /** Bytes of the IP packet; and of its payload behind the TCP or UDP header (behind the IP header where it has none). */
  length: number;
  payload: number;
  /** IPv4 identification, and what else makes it one packet's: addresses and protocol. */
  identification: string;
  /** The number itself; null in IPv6. */
  ipid: number | null;
  fragment: { offset: number; more: boolean } | null;
  tcp: { sequence: number; flags: number; mss: number | null } | null;
}

export interface ResidueSource {
  file: string;
  capture: CaptureOptions;
  /** Added to the times of its rows to be on the matcher's axis. */
  shiftNs: (originNs: bigint) => number;
}

/** The lone packets of both captures, by side, in order of time. */
export async function collectLone(
  kernels: Kernels,
  matcher: ExactMatcher,
  sources: readonly [ResidueSource, ResidueSource],
): Promise<[LonePacket[], LonePacket[]]> {
  const wanted = [new Map<number, AlonePacket[]>(), new Map<number, AlonePacket[]>()] as const;
  for (const alone of matcher.alone()) {
    const { side, timeNs } = alone;
    const same = wanted[side].get(timeNs);
    if (same) same.push(alone);
    else wanted[side].set(timeNs, [alone]);
  }
  // Loss alone needs no second look: it takes packets of both to be two halves of something.
  if (wanted[0].size === 0 || wanted[1].size === 0) return [[], []];
  const read = (side: 0 | 1) => readLone(kernels, matcher, sources[side], wanted[side]);
  return [await read(0), await read(1)];
}

async function readLone(
  kernels: Kernels,
  matcher: ExactMatcher,
  source: ResidueSource,
  wanted: Map<number, AlonePacket[]>,
): Promise<LonePacket[]> {
  const found: LonePacket[] = [];
  if (wanted.size === 0) return found;
  const reader = await CaptureReader.open(kernels, source.file, source.capture);
  try {
    while (await reader.next()) {
      const { batch } = reader;
      const shiftNs = source.shiftNs(reader.originNs ?? 0n);
      const { timeNs, count } = batch;
      for (let row = 0; row < count; row++) {
        const at = (timeNs[row] ?? 0) + shiftNs;
        const same = wanted.get(at);
        if (!same) continue;
        const k = same.findIndex(({ flow }) => sameKey(matcher, flow, batch, row));
        const [alone] = k < 0 ? [] : same.splice(k, 1);
        if (!alone) continue;
        const packet = describe(batch, row, alone);
        if (packet) found.push(packet);
      }
    }
  } finally {
    reader.close();
    reader.free();
  }
  return found.sort((a, b) => a.timeNs - b.timeNs);
}

/** The row, whose key columns are masked, is of this flow. */
function sameKey(matcher: ExactMatcher, flow: number, batch: PacketBatch, row: number): boolean {
  const { words, at } = matcher.keyWords(flow);
  const columns = [batch.meta, batch.addrA, batch.addrB, batch.addrC, batch.addrD];
  const v6 = ((batch.meta[2 * row + 1] ?? 0) & META_HIGH.ipv6) !== 0;
  return columns
    .slice(0, v6 ? 5 : 2)
    .every((c, i) => c[2 * row] === words[at + 2 * i] && c[2 * row + 1] === words[at + 2 * i + 1]);
}

const TCP = 6;
const UDP = 17;
const MSS_OPTION = 2;

function describe(batch: PacketBatch, row: number, alone: AlonePacket): LonePacket | null {
  const start = batch.header[row] ?? 0;
  const captured = batch.captured[row] ?? 0;
  const flags = batch.flags[row] ?? 0;
  if (captured < 20) return null;
  const ip = new DataView(batch.kernels.memory.buffer, start, captured);
  const version = ip.getUint8(0) >> 4;
  const proto = (batch.meta[2 * row + 1] ?? 0) & 0xff;
  const later = (flags & FLAG.laterFragment) !== 0;
  const stated = version === 4 ? ip.getUint16(2) : ip.getUint16(4) + 40;
  // Segmentation offload leaves 0 where the length does not fit: what was on the wire says it, less the link header.
  const length =
    stated === 0 || stated === 40 ? Math.max(captured, (batch.wireLength[row] ?? 0) - 14) : stated;
  const header = version === 4 ? (ip.getUint8(0) & 15) << 2 : 40;
  const field = version === 4 ? ip.getUint16(6) : 0;
  const fragmented = (flags & FLAG.fragment) !== 0;
  const base = {
    ...alone,
    proto,
    length,
    identification:
      version === 4
        ? `${batch.addrA[2 * row]},${batch.addrA[2 * row + 1]},${proto},${ip.getUint16(4)}`
        : `6,${row}`,
    ipid: version === 4 ? ip.getUint16(4) : null,
    fragment:
      version === 4 && fragmented ? { offset: (field & 0x1fff) * 8, more: (field & 0x2000) !== 0 } : null,
  };
  const bare = { ...base, payload: length - header, tcp: null };
  if (later || fragmented) return bare;
  if (proto === UDP) return { ...bare, payload: length - header - 8 };
  // Extension headers of IPv6 are rare where segments are merged: those packets are left as they are.
  if (proto !== TCP || (version === 6 && ip.getUint8(6) !== TCP) || captured < header + 20) return bare;
  const dataOffset = (ip.getUint8(header + 12) >> 4) << 2;
  return {
    ...base,
    payload: Math.max(0, length - header - dataOffset),
    tcp: {
      sequence: ip.getUint32(header + 4),
      flags: ip.getUint8(header + 13),
      mss: mssOf(ip, header + 20, Math.min(captured, header + dataOffset)),
    },
  };
}

function mssOf(ip: DataView, from: number, to: number): number | null {
  for (let at = from; at + 1 < to; ) {
    const kind = ip.getUint8(at);
    if (kind === 0) return null;
    if (kind === 1) {
      at++;
      continue;
    }
    const size = ip.getUint8(at + 1);
    if (kind === MSS_OPTION && size === 4 && at + 4 <= to) return ip.getUint16(at + 2);
    if (size < 2) return null;
    at += size;
  }
  return null;
}
