/**
 * Parses the pcapng blocks that are not packets: section header, interface description, interface statistics. The kernel walks packet blocks; unknown blocks
 * are skipped by their length.
 */

export const BLOCK = { section: 0x0a0d0d0a, interface: 1, statistics: 5 } as const;

/** Returns the smallest valid length of a block: below it, its fixed fields do not fit. */
export function minBlockBytes(type: number): number {
  if (type === BLOCK.section) return 28;
  if (type === BLOCK.interface) return 20;
  return type === BLOCK.statistics ? 24 : 12;
}

export interface CaptureInterface {
  /** Number in the whole file; the numbering continues across sections. */
  index: number;
  name: string | null;
  description: string | null;
  link: number;
  snapLength: number;
  /** Timestamp unit as stated by the file, such as "1e-9 s" or "2^-32 s". */
  resolution: string;
  /** Packets dropped, from interface statistics; null if not reported. */
  dropped: number | null;
}

/** How the kernel turns ticks into ns: see kernels/decode/walk.ts, Interface. */
export interface TickRule {
  kind: 0 | 1 | 2;
  scale: bigint;
  offsetNs: bigint;
  /** Larger tick counts do not fit in 64 bits of ns (the year 2262). */
  maxTicks: bigint;
}

interface Option {
  code: number;
  at: number;
  length: number;
}

function* optionsOf(view: DataView, from: number, to: number, little: boolean): Generator<Option> {
  let p = from;
  while (p + 4 <= to) {
    const code = view.getUint16(p, little);
    const length = view.getUint16(p + 2, little);
    if (code === 0 || p + 4 + length > to) return;
    yield { code, at: p + 4, length };
    p += 4 + ((length + 3) & ~3);
  }
}

const TEXT_BYTES = 256;

/** Decodes text for people, cut to a line's length. */
function text(view: DataView, option: Option): string {
  const bytes = new Uint8Array(view.buffer, view.byteOffset + option.at, Math.min(option.length, TEXT_BYTES));
  return new TextDecoder().decode(bytes.slice()).replace(/\0.*/s, "");
}

const MAX_TIME_NS = 2n ** 63n - 1n;
const MAX_TICKS = 2n ** 64n - 1n;
const NS_PER_SECOND = 1_000_000_000n;

/** Returns the rule for an if_tsresol byte and an if_tsoffset: ticks of 10^-e s, or of 2^-e s if bit 7 is set. */
function tickRule(resolution: number, offsetSeconds: bigint): { ticks: TickRule; unit: string } {
  const exponent = resolution & 0x7f;
  const binary = (resolution & 0x80) !== 0;
  const offsetNs = offsetSeconds * NS_PER_SECOND;
  const roomNs = MAX_TIME_NS - offsetNs;
  const atMost = (ticks: bigint) => (ticks > MAX_TICKS ? MAX_TICKS : ticks);
  if (binary) {
    const maxTicks = atMost((roomNs / NS_PER_SECOND) << BigInt(exponent));
    return { ticks: { kind: 2, scale: BigInt(exponent), offsetNs, maxTicks }, unit: `2^-${exponent} s` };
  }
  if (exponent <= 9) {
    const scale = 10n ** BigInt(9 - exponent);
    return {
      ticks: { kind: 0, scale, offsetNs, maxTicks: atMost(roomNs / scale) },
      unit: `1e-${exponent} s`,
    };
  }
  // 10^19 still fits in 64 bits; from 10^-29 s on, 64 bits of ticks are less than a nanosecond.
  const scale = exponent <= 28 ? 10n ** BigInt(exponent - 9) : MAX_TICKS;
  return {
    ticks: { kind: 1, scale, offsetNs, maxTicks: atMost(roomNs * scale) },
    unit: `1e-${exponent} s`,
  };
}

/** Reads an interface description block (whole, in `view`). */
export function readInterface(
  view: DataView,
  little: boolean,
  index: number,
): { description: CaptureInterface; ticks: TickRule; warning: string | null } {
  let name: string | null = null;
  let described: string | null = null;
  let resolution = 6;
  let offsetSeconds = 0n;
  for (const option of optionsOf(view, 16, view.byteLength - 4, little)) {
    if (option.code === 2) name = text(view, option);
    else if (option.code === 3) described = text(view, option);
    else if (option.code === 9 && option.length >= 1) resolution = view.getUint8(option.at);
    else if (option.code === 14 && option.length === 8) offsetSeconds = view.getBigInt64(option.at, little);
  }
  let warning: string | null = null;
  // With an offset of more than 290 years either way, no time can be represented.
  if (offsetSeconds > MAX_TIME_NS / NS_PER_SECOND || offsetSeconds < -MAX_TIME_NS / NS_PER_SECOND) {
    warning = `interface ${index} states a time offset of ${offsetSeconds} s, which is ignored`;
    offsetSeconds = 0n;
  }
  const { ticks, unit } = tickRule(resolution, offsetSeconds);
  const coarse = (resolution & 0x80) !== 0 ? (resolution & 0x7f) === 0 : resolution < 3;
  const absurd = (resolution & 0x80) !== 0 ? (resolution & 0x7f) > 60 : resolution > 18;
  if (!warning && (coarse || absurd)) warning = `interface ${index} states a timestamp unit of ${unit}`;
  return {
    description: {
      index,
      name,
      description: described,
      link: view.getUint16(8, little),
      snapLength: view.getUint32(12, little),
      resolution: unit,
      dropped: null,
    },
    ticks,
    warning,
  };
}

/** Returns the drop counters of an interface statistics block: {interface (in its section), dropped}, or null if it has none. */
export function readStatistics(
  view: DataView,
  little: boolean,
): { interfaceId: number; dropped: number } | null {
  let dropped = 0;
  let known = false;
  for (const option of optionsOf(view, 20, view.byteLength - 4, little)) {
    // isb_ifdrop and isb_osdrop; all ones means unknown
    if ((option.code === 5 || option.code === 7) && option.length === 8) {
      const value = view.getBigUint64(option.at, little);
      if (value < 1n << 53n) {
        dropped += Number(value);
        known = true;
      }
    }
  }
  return known ? { interfaceId: view.getUint32(8, little), dropped } : null;
}
