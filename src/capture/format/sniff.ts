/** Detects the capture format from the first bytes of a stream, never from its name. */

export type CaptureFormat = "pcap" | "pcapng" | "erf";

export interface PcapHeader {
  swapped: boolean;
  nano: boolean;
  /** The "modified" (Kuznetzov) format has 24-byte record headers. */
  modified: boolean;
  snapLength: number;
  link: number;
  /** "2.4" since 1998. */
  version: string;
}

export type Sniffed =
  | { format: "pcap"; header: PcapHeader }
  | { format: "pcapng" }
  | { format: "erf" }
  | { format: null; reason: string };

const COMPRESSED: [number[], string][] = [
  [[0x28, 0xb5, 0x2f, 0xfd], "zstd"],
  [[0xfd, 0x37, 0x7a, 0x58], "xz"],
  [[0x42, 0x5a, 0x68], "bzip2"],
  [[0x04, 0x22, 0x4d, 0x18], "lz4"],
];

export const PCAP_HEADER_BYTES = 24;

export function sniff(bytes: Uint8Array): Sniffed {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 4)
    return { format: null, reason: `a file of ${bytes.length} bytes, too short for a capture` };
  const magic = view.getUint32(0, false);
  switch (magic) {
    case 0xa1b2c3d4:
    case 0xd4c3b2a1:
    case 0xa1b23c4d:
    case 0x4d3cb2a1:
    case 0xa1b2cd34:
    case 0x34cdb2a1:
      return pcap(view, magic);
    case 0x0a0d0d0a:
      return { format: "pcapng" };
  }
  for (const [prefix, name] of COMPRESSED) {
    if (prefix.every((b, i) => bytes[i] === b)) {
      return { format: null, reason: `${name}-compressed; decompress it first (gzip is read directly)` };
    }
  }
  if (view.getUint32(0, false) === 0x736e6f6f) {
    return { format: null, reason: "a snoop capture; convert it first (editcap -F nsecpcap IN OUT)" };
  }
  if (looksLikeErf(view)) return { format: "erf" };
  return {
    format: null,
    reason: "not a pcap, pcapng or ERF capture (convert it first, e.g. editcap -F pcapng IN OUT)",
  };
}

function pcap(view: DataView, magic: number): Sniffed {
  if (view.byteLength < PCAP_HEADER_BYTES) {
    return { format: null, reason: `a pcap file of only ${view.byteLength} bytes: its header of 24 is cut` };
  }
  // The magic is read big-endian: a match in this order means that the file's byte order is not the kernels' little-endian.
  const swapped = magic === 0xa1b2c3d4 || magic === 0xa1b23c4d || magic === 0xa1b2cd34;
  return {
    format: "pcap",
    header: {
      swapped,
      nano: magic === 0xa1b23c4d || magic === 0x4d3cb2a1,
      modified: magic === 0xa1b2cd34 || magic === 0x34cdb2a1,
      snapLength: view.getUint32(16, !swapped),
      // The upper bits hold the length of a frame check sequence.
      link: view.getUint32(20, !swapped) & 0xffff,
      version: `${view.getUint16(4, !swapped)}.${view.getUint16(6, !swapped)}`,
    },
  };
}

const ERF_TYPES_MAX = 48;

/** Number of plausible records in a row that make an ERF file, whatever follows them. */
const ERF_SURE = 4;

/** ERF has no magic number: accept a run of records with plausible types, lengths and times, as many as there are or enough to be sure. */
function looksLikeErf(view: DataView): boolean {
  const found = erfRecords(view);
  // A single record must be complete: a file of one truncated record could be anything.
  return found !== null && (found.records > 1 || (found.records === 1 && found.pos <= view.byteLength));
}

/** Returns whether more bytes cannot change the result. */
export function isDecided(bytes: Uint8Array): boolean {
  const { format } = sniff(bytes);
  if (format === "pcap" || format === "pcapng") return true;
  const found = erfRecords(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  return found === null || found.records === ERF_SURE;
}

/** Returns the number of plausible records from the start and where they end; null if one is not plausible. */
function erfRecords(view: DataView): { records: number; pos: number } | null {
  let pos = 0;
  let lastSeconds = -1;
  let records = 0;
  while (records < ERF_SURE && pos + 16 <= view.byteLength) {
    const seconds = view.getUint32(pos + 4, true);
    const type = view.getUint8(pos + 8) & 0x7f;
    const length = view.getUint16(pos + 10, false);
    const wire = view.getUint16(pos + 14, false);
    if (type === 0 || type > ERF_TYPES_MAX || length < 16 || (wire === 0 && type !== ERF_TYPES_MAX))
      return null;
    if (seconds < 0x1000_0000) return null;
    if (lastSeconds >= 0 && Math.abs(seconds - lastSeconds) > 86_400) return null;
    lastSeconds = seconds;
    pos += length;
    records++;
  }
  return { records, pos };
}
