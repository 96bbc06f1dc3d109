/**
 * Reads flow records from a file: what NetFlow and IPFIX collectors keep. They supply the packets per flow that COLATE and LDS need if no flow table was
 * observed. Accepts exports, raw or captured (NetFlow v5 and v9, IPFIX: flow-exports.ts), and comma-separated text with a header line:
 * `src,dst,proto,sport,dport,packets,bytes` and the names that nfdump (-o csv, old and new) and others use for the same. Unknown columns are ignored; packets
 * are required.
 */
import { readFileSync, statSync } from "node:fs";
import { reasonOf } from "../base/directory.ts";
import { FormatError, UsageError } from "../base/errors.ts";
import { parseTime } from "../base/time.ts";
import { parseAddress } from "../capture/address.ts";
import type { FlowKey } from "../capture/flow/flow-key.ts";
import { parseProtocol } from "../capture/flow/flow-text.ts";
import { sniff } from "../capture/format/sniff.ts";
import { isGzip } from "../capture/source/gunzip.ts";
import {
  type ExportedFlows,
  looksLikeExports,
  MAX_FLOW_RECORDS,
  readCapturedExports,
  readExports,
  tooManyRecords,
} from "./flow-exports.ts";

export interface FlowRecord {
  key: FlowKey;
  packets: number;
  bytes: number | null;
  /** First and last packet, ns since 1970; null if unknown. */
  startNs: number | null;
  endNs: number | null;
}

type Column =
  | "src"
  | "dst"
  | "proto"
  | "sport"
  | "dport"
  | "packets"
  | "bytes"
  | "dscp"
  | "tos"
  | "vlan"
  | "start"
  | "end";

const NAMES: Record<Column, readonly string[]> = {
  src: ["src", "sa", "srcaddr", "src_ip", "srcip", "source"],
  dst: ["dst", "da", "dstaddr", "dst_ip", "dstip", "destination"],
  proto: ["proto", "pr", "protocol", "prot"],
  sport: ["sport", "sp", "srcport", "src_port"],
  dport: ["dport", "dp", "dstport", "dst_port"],
  packets: ["packets", "ipkt", "pkts", "dpkts", "in_packets", "inpackets"],
  bytes: ["bytes", "ibyt", "octets", "doctets", "in_bytes", "inbytes"],
  dscp: ["dscp"],
  tos: ["tos", "stos", "srctos"],
  vlan: ["vlan", "svln", "srcvlan"],
  start: ["start", "ts", "firstseen", "first"],
  end: ["end", "te", "lastseen", "last"],
};

/** Protocols whose second port field contains a type and code, not a port. */
const ICMP = new Set([1, 58]);

export async function readFlowRecords(path: string): Promise<FlowRecord[]> {
  return (await readFlowRecordFile(path)).records;
}

/** With notes about sampling and omitted records. */
export async function readFlowRecordFile(path: string): Promise<ExportedFlows> {
  let bytes: Uint8Array;
  try {
    if (statSync(path).size > MAX_FILE_BYTES) throw tooLarge(path, MAX_FILE_BYTES);
    bytes = readFileSync(path);
  } catch (cause) {
    if (cause instanceof FormatError) throw cause;
    const hint = "give NetFlow or IPFIX exports, a capture of them, or CSV with a header line";
    const { code, message } = cause as NodeJS.ErrnoException;
    const why = code === "ENOENT" ? "no such file" : `cannot be read: ${reasonOf(message)}`;
    throw new UsageError("no-such-file", `${path}: ${why}`, hint, { cause });
  }
  return await parseFlowRecordFile(bytes, path);
}

export async function parseFlowRecordFile(packed: Uint8Array, file: string): Promise<ExportedFlows> {
  if (packed.length === 0) throw new FormatError("empty", file, 0, "the file is empty");
  const bytes = isGzip(packed) ? unpack(packed, file) : packed;
  const { records, notes } = await readAny(bytes, file);
  for (const { key } of records) {
    if (key.proto === null || !ICMP.has(key.proto)) continue;
    key.sport = null;
    key.dport = null;
  }
  return { records, notes };
}

/** Size on disk, and unpacked: all of it is in memory while it is read. */
const MAX_FILE_BYTES = 2 ** 30;
const MAX_UNPACKED_BYTES = 2 ** 29;
/** Flow records compress to a fifth or a tenth. A file with a higher ratio than this is not a list of them. */
const MAX_RATIO = 50;
const ANY_RATIO_BYTES = 2 ** 24;

function unpack(packed: Uint8Array, file: string): Uint8Array {
  const byRatio = Math.max(ANY_RATIO_BYTES, MAX_RATIO * packed.length);
  const maxOutputLength = Math.min(MAX_UNPACKED_BYTES, byRatio);
  try {
    return process.getBuiltinModule("node:zlib").gunzipSync(packed, { maxOutputLength });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE")
      throw tooLarge(file, maxOutputLength);
    throw new FormatError("truncated", file, 0, "gzip data that is cut or damaged", { cause });
  }
}

function tooLarge(file: string, limit: number): FormatError {
  const what = `more than ${Math.round(limit / 2 ** 20)} MiB of flow records`;
  return new FormatError("bad-gzip", file, 0, `${what}: not read, split the file or aggregate the flows`);
}

async function readAny(bytes: Uint8Array, file: string): Promise<ExportedFlows> {
  if (looksLikeExports(bytes)) return readExports(bytes, file);
  if (sniff(bytes).format !== null) return await readCapturedExports(bytes, file);
  return { records: readCsv(bytes, file), notes: [] };
}

function readCsv(bytes: Uint8Array, file: string): FlowRecord[] {
  const records: FlowRecord[] = [];
  let columns: Map<Column, number> | null = null;
  for (const { line, at } of linesOf(bytes, file)) {
    const cells = line.split(",").map((c) => c.trim().replace(/^"(.*)"$/, "$1"));
    const [first = ""] = cells;
    if (cells.length < 2 || first.startsWith("#")) {
      // nfdump ends its list with a summary.
      if (columns !== null && /^summary$/i.test(first)) break;
      continue;
    }
    if (columns === null) columns = header(cells, file, at);
    else {
      if (records.length === MAX_FLOW_RECORDS) throw tooManyRecords(file);
      records.push(record(cells, columns, file, at));
    }
  }
  if (columns === null) throw new FormatError("unknown-format", file, 0, "the header line is missing");
  return records;
}

/** No line of a list of flows is as long. */
const MAX_LINE_BYTES = 1 << 20;

/** Line by line: one string of everything, or all lines at once, would take many times the memory. */
function* linesOf(bytes: Uint8Array, file: string): Generator<{ line: string; at: number }> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  for (let at = 0; at < bytes.length; ) {
    const newline = bytes.indexOf(0x0a, at);
    const end = newline < 0 ? bytes.length : newline;
    if (end - at > MAX_LINE_BYTES)
      throw new FormatError("bad-record", file, at, `a line of ${end - at} bytes: not a list of flows`);
    let line: string;
    try {
      line = decoder.decode(bytes.subarray(at, end));
    } catch (cause) {
      throw new FormatError(
        "unknown-format",
        file,
        at,
        "neither NetFlow or IPFIX exports, a capture of them, nor text",
        { cause },
      );
    }
    yield { line, at };
    at = end + 1;
  }
}

function header(cells: readonly string[], file: string, at: number): Map<Column, number> {
  const columns = new Map<Column, number>();
  for (const [i, cell] of cells.entries()) {
    const name = cell.toLowerCase();
    for (const [column, names] of Object.entries(NAMES) as [Column, readonly string[]][]) {
      if (names.includes(name) && !columns.has(column)) columns.set(column, i);
    }
  }
  if (!columns.has("packets") || !columns.has("src") || !columns.has("dst")) {
    const message = `the header '${cells.slice(0, 8).join(",")}' lacks src, dst or packets`;
    throw new FormatError("bad-header", file, at, message);
  }
  return columns;
}

function record(
  cells: readonly string[],
  columns: Map<Column, number>,
  file: string,
  at: number,
): FlowRecord {
  const bad = (what: string, value: string) => new FormatError("bad-record", file, at, `${what} '${value}'`);
  const cell = (column: Column): string | null => {
    const i = columns.get(column);
    const value = i === undefined ? undefined : cells[i];
    return value === undefined || value === "" ? null : value;
  };
  const number = (column: Column): number | null => {
    const value = cell(column);
    if (value === null) return null;
    // nfdump writes ICMP's type and code as 3.1.
    const n = column === "dport" ? Math.floor(Number(value)) : Number(value);
    if (!Number.isFinite(n) || n < 0) throw bad(`${column} is not a number:`, value);
    return n;
  };
  const address = (column: "src" | "dst"): string => {
    const value = cell(column) ?? "";
    if (!parseAddress(value)) throw bad(`${column} is not an address:`, value);
    return value;
  };
  const proto = cell("proto");
  const protocol = proto === null ? null : parseProtocol(proto);
  if (proto !== null && protocol === null) throw bad("not a protocol:", proto);
  const packets = number("packets");
  if (packets === null) throw bad("no packets in", cells.join(","));
  const [dscp, tos, vlan] = [number("dscp"), number("tos"), number("vlan")];
  const key: FlowKey = {
    src: address("src"),
    dst: address("dst"),
    proto: protocol,
    sport: number("sport"),
    dport: number("dport"),
  };
  if (dscp !== null || tos !== null) key.dscp = dscp ?? (tos ?? 0) >> 2;
  if (vlan !== null && vlan > 0) key.vlan = vlan;
  return {
    key,
    packets,
    bytes: number("bytes"),
    startNs: instant(cell("start"), bad),
    endNs: instant(cell("end"), bad),
  };
}

/** A number of seconds, or a date and time; UTC without a zone (nfdump prints the machine's local time: run it with TZ=UTC). */
function instant(text: string | null, bad: (what: string, value: string) => FormatError): number | null {
  if (text === null) return null;
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1e9;
  const zoned = /([Zz]|[+-]\d\d:?\d\d)$/.test(text) ? text : `${text}Z`;
  try {
    return Number(parseTime(zoned));
  } catch {
    throw bad("not a time:", text);
  }
}
