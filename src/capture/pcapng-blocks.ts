/**
 * The pcapng blocks that are not packets: section header, interface description, interface statistics. Packets are walked by
 * the kernel; everything unknown is skipped by its length.
 */

export const BLOCK = { section: 0x0a0d0d0a, interface: 1, statistics: 5 } as const;

export interface CaptureInterface {
  /** Number in the whole file (sections are counted through). */
  index: number;
  name: string | null;
  description: string | null;
  link: number;
  snapLength: number;
  /** Timestamp unit as the file says, e.g. "1e-9 s" or "2^-32 s". */
  resolution: string;
  /** Packets dropped as told by interface statistics; null where never told. */
  dropped: number | null;
}

/** How the kernel turns ticks into ns: see kernels/walk.ts, Interface. */
export interface TickRule {
  kind: 0 | 1 | 2;
  scale: bigint;
  offsetNs: bigint;
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

function text(view: DataView, option: Option): string {
  const bytes = new Uint8Array(view.buffer, view.byteOffset + option.at, option.length);
  return new TextDecoder().decode(bytes.slice()).replace(/\0+$/, "");
}

/** An interface description block (whole, in `view`). */
export function readInterface(
  view: DataView,
  little: boolean,
  index: number,
): { description: CaptureInterface; ticks: TickRule; warning: string | null } {
  const description: CaptureInterface = {
    index,
    name: null,
    description: null,
    link: view.getUint16(8, little),
    snapLength: view.getUint32(12, little),
    resolution: "1e-6 s",
    dropped: null,
  };
  let resolution = 6;
  let offsetSeconds = 0n;
  let warning: string | null = null;
  for (const option of optionsOf(view, 16, view.byteLength - 4, little)) {
    if (option.code === 2) description.name = text(view, option);
    else if (option.code === 3) description.description = text(view, option);
    else if (option.code === 9 && option.length >= 1) resolution = view.getUint8(option.at);
    else if (option.code === 14 && option.length === 8) offsetSeconds = view.getBigInt64(option.at, little);
  }
  const offsetNs = offsetSeconds * 1_000_000_000n;
  const exponent = resolution & 0x7f;
  let ticks: TickRule;
  if (resolution & 0x80) {
    ticks = { kind: 2, scale: BigInt(exponent), offsetNs };
    description.resolution = `2^-${exponent} s`;
  } else {
    description.resolution = `1e-${exponent} s`;
    if (exponent <= 9) ticks = { kind: 0, scale: 10n ** BigInt(9 - exponent), offsetNs };
    else if (exponent <= 27) ticks = { kind: 1, scale: 10n ** BigInt(exponent - 9), offsetNs };
    else {
      ticks = { kind: 0, scale: 1000n, offsetNs };
      warning = `interface ${index} claims a timestamp unit of 1e-${exponent} s, taken as microseconds`;
    }
  }
  return { description, ticks, warning };
}

/** Drop counters of an interface statistics block: {interface (in its section), dropped} or null when it tells none. */
export function readStatistics(view: DataView, little: boolean): { section: number; dropped: number } | null {
  let dropped = 0;
  let told = false;
  for (const option of optionsOf(view, 20, view.byteLength - 4, little)) {
    // isb_ifdrop and isb_osdrop; all ones means unknown
    if ((option.code === 5 || option.code === 7) && option.length === 8) {
      const value = view.getBigUint64(option.at, little);
      if (value < 1n << 53n) {
        dropped += Number(value);
        told = true;
      }
    }
  }
  return told ? { section: view.getUint32(8, little), dropped } : null;
}
