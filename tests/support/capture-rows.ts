/** Reads a whole capture into plain objects, one per frame: slow and simple, for tests only. */
import { Kernels } from "../../src/base/kernels.ts";
import { formatIpv4, formatIpv6 } from "../../src/capture/address.ts";
import type { PacketBatch } from "../../src/capture/batch.ts";
import { type CaptureOptions, CaptureReader, type CaptureStatistics } from "../../src/capture/reader.ts";

export interface PlainRow {
  version: 4 | 6;
  src: string;
  dst: string;
  proto: number;
  sport: number | null;
  dport: number | null;
  dscp: number;
  vlan: number | null;
  ttl: number;
  tcpFlags: number;
  /** The bits of the flags column (src/capture/batch.ts, FLAG). */
  flags: number;
  ipid: number;
  wireLength: number;
  captured: number;
  iface: number;
  digest: bigint;
  timeNs: bigint;
}

export interface PlainFrame {
  /** The decoded row; if null, `reason` says why. */
  row: PlainRow | null;
  reason: string | null;
  timeNs: bigint | null;
  length: number | null;
}

export interface PlainCapture {
  frames: PlainFrame[];
  rows: PlainRow[];
  statistics: CaptureStatistics;
}

/** One instance for all; readers free their memory. */
const kernels = new Kernels();

function pair(column: Uint32Array, i: number): bigint {
  return (BigInt(column[2 * i + 1]!) << 32n) | BigInt(column[2 * i]!);
}

/** Returns row `i` of a batch. */
export function plainRow(batch: PacketBatch, originNs: bigint, i: number): PlainRow {
  const metaLow = batch.meta[2 * i]!;
  const metaHigh = batch.meta[2 * i + 1]!;
  const v6 = (metaHigh & (1 << 27)) !== 0;
  const ports = (metaHigh & (1 << 28)) !== 0;
  const words = (column: Uint32Array) => [column[2 * i + 1]!, column[2 * i]!];
  const flags = batch.flags[i]!;
  return {
    version: v6 ? 6 : 4,
    src: v6
      ? formatIpv6([...words(batch.addrA), ...words(batch.addrB)])
      : formatIpv4(batch.addrA[2 * i + 1]!),
    dst: v6 ? formatIpv6([...words(batch.addrC), ...words(batch.addrD)]) : formatIpv4(batch.addrA[2 * i]!),
    proto: metaHigh & 0xff,
    sport: ports ? metaLow >>> 16 : null,
    dport: ports ? metaLow & 0xffff : null,
    dscp: (metaHigh >>> 8) & 0x3f,
    vlan: (metaHigh & (1 << 26)) !== 0 ? (metaHigh >>> 14) & 0xfff : null,
    ttl: flags & 0xff,
    tcpFlags: (flags >>> 8) & 0xff,
    flags: flags & ~0xffff,
    ipid: batch.ipid[i]!,
    wireLength: batch.wireLength[i]!,
    captured: batch.captured[i]!,
    iface: batch.iface[i]!,
    digest: pair(batch.digest, i),
    timeNs: originNs + BigInt(batch.timeNs[i]!),
  };
}

/** Returns all rows, in batches of the reader's size (or `batchRows`). */
export async function readRows(path: string, options: CaptureOptions = {}): Promise<PlainCapture> {
  const reader = await CaptureReader.open(kernels, path, options);
  try {
    const rows: PlainRow[] = [];
    while (await reader.next())
      for (let i = 0; i < reader.batch.count; i++) rows.push(plainRow(reader.batch, reader.originNs!, i));
    return { frames: [], rows, statistics: reader.statistics() };
  } finally {
    reader.close();
    reader.free();
  }
}

/** Returns every frame in order, including those not decoded: batches of one row show after which frame a row came. */
export async function readFrames(path: string, options: CaptureOptions = {}): Promise<PlainCapture> {
  const reader = await CaptureReader.open(kernels, path, { ...options, batchRows: 1 });
  try {
    const frames: PlainFrame[] = [];
    const rows: PlainRow[] = [];
    let before: Record<string, number> = {};
    const catchUp = (upTo: number, skipped: Record<string, number>) => {
      // Reasons of the frames between two rows; their order is unknown.
      const reasons = Object.entries(skipped).flatMap(([reason, n]) =>
        new Array<string>(n - (before[reason] ?? 0)).fill(reason),
      );
      before = skipped;
      while (frames.length < upTo)
        frames.push({ row: null, reason: reasons.shift() ?? null, timeNs: null, length: null });
    };
    while (await reader.next()) {
      const { packets, skipped } = reader.statistics();
      catchUp(packets - 1, skipped);
      const row = plainRow(reader.batch, reader.originNs!, 0);
      rows.push(row);
      frames.push({ row, reason: null, timeNs: row.timeNs, length: row.wireLength });
    }
    const statistics = reader.statistics();
    catchUp(statistics.packets, statistics.skipped);
    return { frames, rows, statistics };
  } finally {
    reader.close();
    reader.free();
  }
}
