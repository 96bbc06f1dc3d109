/**
 * IPFIX files (RFC 5655: IPFIX messages of RFC 7011, one after the other): flow records of any exporter. Templates are followed, fields not of interest are
 * skipped by their length, options data is left out. Biflows (RFC 5103) become two records. Reads big-endian, checks every length; what does not fit
 * is a FormatError with its offset.
 */
import { FormatError } from "../base/errors.ts";
import { formatIpv4, formatIpv6 } from "./address.ts";
import type { FlowRecord } from "./flow-records.ts";

const VERSION = 10;
const HEADER_BYTES = 16;
const TEMPLATE_SET = 2;
const OPTIONS_SET = 3;
const VARIABLE = 0xffff;
const ENTERPRISE = 0x8000;
/** Fields of the other direction (RFC 5103). */
const REVERSE = 29_305;

// Information elements (IANA).
const IE = {
  octets: [1, 85],
  packets: [2, 86],
  protocol: 4,
  tos: 5,
  sourcePort: 7,
  source4: 8,
  destinationPort: 11,
  destination4: 12,
  source6: 27,
  destination6: 28,
  vlan: 58,
  startSeconds: 150,
  endSeconds: 151,
  startMilliseconds: 152,
  endMilliseconds: 153,
  startMicroseconds: 154,
  endMicroseconds: 155,
  startNanoseconds: 156,
  endNanoseconds: 157,
} as const;

interface Field {
  element: number;
  length: number;
  reverse: boolean;
  /** Of another enterprise: only its length matters. */
  foreign: boolean;
}

interface Template {
  fields: Field[];
  options: boolean;
}

export function looksLikeIpfix(bytes: Uint8Array): boolean {
  return bytes.length >= HEADER_BYTES && bytes[0] === 0 && bytes[1] === VERSION;
}

export function readIpfix(bytes: Uint8Array, file: string): FlowRecord[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const records: FlowRecord[] = [];
  /** By observation domain and number: exporters share a file. */
  const templates = new Map<string, Template>();
  const bad = (at: number, message: string) => new FormatError("bad-record", file, at, message);
  for (let at = 0; at < bytes.length; ) {
    if (bytes.length - at < HEADER_BYTES)
      throw new FormatError("truncated", file, at, "an IPFIX header is cut");
    const version = view.getUint16(at);
    const length = view.getUint16(at + 2);
    if (version !== VERSION) throw bad(at, `an IPFIX message of version ${version}, not ${VERSION}`);
    if (length < HEADER_BYTES || at + length > bytes.length) {
      throw new FormatError(
        "truncated",
        file,
        at,
        `an IPFIX message of ${length} bytes, ${bytes.length - at} are left`,
      );
    }
    const domain = view.getUint32(at + 12);
    const end = at + length;
    let set = at + HEADER_BYTES;
    while (set < end) {
      if (end - set < 4) throw bad(set, "a set is cut");
      const id = view.getUint16(set);
      const setEnd = set + view.getUint16(set + 2);
      if (setEnd < set + 4 || setEnd > end) throw bad(set, "a set is longer than its message");
      if (id === TEMPLATE_SET || id === OPTIONS_SET) {
        readTemplates(view, set + 4, setEnd, id === OPTIONS_SET, bad, (number, template) => {
          if (template) templates.set(`${domain}:${number}`, template);
          else templates.delete(`${domain}:${number}`);
        });
      } else if (id >= 256) {
        const template = templates.get(`${domain}:${id}`);
        // Data ahead of its template cannot be read; RFC 7011 lets a collector leave it out.
        if (template && !template.options) readData(view, set + 4, setEnd, template, bad, records);
      }
      set = setEnd;
    }
    at = end;
  }
  return records;
}

type Bad = (at: number, message: string) => FormatError;

function readTemplates(
  view: DataView,
  from: number,
  to: number,
  options: boolean,
  bad: Bad,
  put: (number: number, template: Template | null) => void,
): void {
  let at = from;
  // What is left below a template's own header is padding.
  while (to - at >= 4) {
    const number = view.getUint16(at);
    const count = view.getUint16(at + 2);
    at += 4;
    if (number < 256) {
      if (number === 0) return;
      throw bad(at - 4, `a template of number ${number}`);
    }
    if (count === 0) {
      put(number, null);
      continue;
    }
    if (options) at += 2;
    const fields: Field[] = [];
    for (let i = 0; i < count; i++) {
      if (to - at < 4) throw bad(at, "a template is cut");
      const raw = view.getUint16(at);
      const length = view.getUint16(at + 2);
      at += 4;
      let enterprise = 0;
      if ((raw & ENTERPRISE) !== 0) {
        if (to - at < 4) throw bad(at, "a template is cut");
        enterprise = view.getUint32(at);
        at += 4;
      }
      const reverse = enterprise === REVERSE;
      fields.push({ element: raw & ~ENTERPRISE, length, reverse, foreign: enterprise !== 0 && !reverse });
    }
    put(number, { fields, options });
  }
}

function readData(
  view: DataView,
  from: number,
  to: number,
  { fields }: Template,
  bad: Bad,
  records: FlowRecord[],
): void {
  const least = fields.reduce((s, f) => s + (f.length === VARIABLE ? 1 : f.length), 0);
  if (least === 0) throw bad(from, "a template without fields");
  let at = from;
  while (to - at >= least) {
    const forward = new Map<number, number>();
    const backward = new Map<number, number>();
    const addresses = new Map<number, string>();
    for (const { element, length: fixed, reverse, foreign } of fields) {
      let length = fixed;
      if (length === VARIABLE) {
        if (to - at < 1) throw bad(at, "a field is cut");
        length = view.getUint8(at++);
        if (length === 255) {
          if (to - at < 2) throw bad(at, "a field is cut");
          length = view.getUint16(at);
          at += 2;
        }
      }
      if (to - at < length) throw bad(at, "a field is cut");
      if (!foreign) {
        const address = reverse ? null : addressOf(view, at, element, length);
        if (address !== null) addresses.set(element, address);
        else if (length <= 8)
          (reverse ? backward : forward).set(element, unsigned(view, at, length, element));
      }
      at += length;
    }
    records.push(...flowsOf(forward, backward, addresses));
  }
}

function flowsOf(
  forward: Map<number, number>,
  backward: Map<number, number>,
  addresses: Map<number, string>,
): FlowRecord[] {
  const pick = (from: Map<number, number>, elements: readonly number[]) =>
    elements.map((e) => from.get(e)).find((v) => v !== undefined) ?? null;
  const src = addresses.get(IE.source4) ?? addresses.get(IE.source6) ?? null;
  const dst = addresses.get(IE.destination4) ?? addresses.get(IE.destination6) ?? null;
  const packets = pick(forward, IE.packets);
  if (src === null || dst === null || packets === null) return [];
  const time = (names: readonly number[]) => pick(forward, names);
  const startNs = time([IE.startNanoseconds, IE.startMicroseconds, IE.startMilliseconds, IE.startSeconds]);
  const endNs = time([IE.endNanoseconds, IE.endMicroseconds, IE.endMilliseconds, IE.endSeconds]);
  const proto = forward.get(IE.protocol) ?? null;
  const sport = forward.get(IE.sourcePort) ?? null;
  const dport = forward.get(IE.destinationPort) ?? null;
  const tos = forward.get(IE.tos);
  const vlan = forward.get(IE.vlan);
  const extra = { ...(tos === undefined ? {} : { dscp: tos >> 2 }), ...(vlan === undefined ? {} : { vlan }) };
  const record: FlowRecord = {
    key: { src, dst, proto, sport, dport, ...extra },
    packets,
    bytes: pick(forward, IE.octets),
    startNs,
    endNs,
  };
  const back = pick(backward, IE.packets);
  if (back === null || back === 0) return packets > 0 ? [record] : [];
  const reversed: FlowRecord = {
    ...record,
    key: { ...record.key, src: dst, dst: src, sport: dport, dport: sport },
    packets: back,
    bytes: pick(backward, IE.octets),
  };
  return packets > 0 ? [record, reversed] : [reversed];
}

function addressOf(view: DataView, at: number, element: number, length: number): string | null {
  const word = (i: number) => view.getUint32(at + 4 * i);
  if ((element === IE.source4 || element === IE.destination4) && length === 4) return formatIpv4(word(0));
  if ((element === IE.source6 || element === IE.destination6) && length === 16) {
    return formatIpv6([word(0), word(1), word(2), word(3)]);
  }
  return null;
}

const NTP_TO_UNIX = 2_208_988_800;
/** Factor to ns of the plain time elements. */
const TIME_NS = new Map<number, number>([
  [IE.startSeconds, 1e9],
  [IE.endSeconds, 1e9],
  [IE.startMilliseconds, 1e6],
  [IE.endMilliseconds, 1e6],
]);

/** A number of up to eight bytes; times in ns since 1970. Exporters may shorten integers (RFC 7011, section 6.2). */
function unsigned(view: DataView, at: number, length: number, element: number): number {
  if (element >= IE.startMicroseconds && element <= IE.endNanoseconds && length === 8) {
    const seconds = view.getUint32(at) - NTP_TO_UNIX;
    return seconds * 1e9 + Math.round((view.getUint32(at + 4) / 2 ** 32) * 1e9);
  }
  let value = 0;
  for (let i = 0; i < length; i++) value = value * 256 + view.getUint8(at + i);
  return value * (TIME_NS.get(element) ?? 1);
}
