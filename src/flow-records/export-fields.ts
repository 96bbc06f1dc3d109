/**
 * Fields of exported flow records, shared by NetFlow v9 and IPFIX: both use the same numbers, and describe records by templates. A template is followed field
 * by field; unneeded fields are skipped by their length. A record becomes a flow, or two if it contains both directions (RFC 5103).
 */
import type { FormatError } from "../base/errors.ts";
import { formatIpv4, formatIpv6 } from "../capture/address.ts";
import type { FlowRecord } from "./flow-records.ts";

export type Bad = (at: number, message: string) => FormatError;

export interface Field {
  element: number;
  length: number;
  reverse: boolean;
  /** A vendor's field: only its length matters. */
  foreign: boolean;
}

export interface Template {
  fields: Field[];
  /** Describes the exporter, not flows. */
  options: boolean;
}

/** A field of this length states its own (RFC 7011, section 7). */
const VARIABLE = 0xffff;

// Information elements (IANA); the first 127 are also NetFlow v9's.
const IE = {
  octets: [1, 85, 23],
  packets: [2, 86, 24],
  protocol: 4,
  tos: 5,
  sourcePort: 7,
  source4: 8,
  destinationPort: 11,
  destination4: 12,
  lastSwitched: 21,
  firstSwitched: 22,
  source6: 27,
  destination6: 28,
  samplingInterval: [34, 50],
  vlan: 58,
  startSeconds: 150,
  endSeconds: 151,
  startMilliseconds: 152,
  endMilliseconds: 153,
  startMicroseconds: 154,
  endMicroseconds: 155,
  startNanoseconds: 156,
  endNanoseconds: 157,
  systemInit: 160,
  samplingPackets: 305,
  samplingSpace: 306,
} as const;

/** An exporter's clock of ms: its start, and its value in this message. */
export interface ExporterClock {
  bootNs: number;
  uptimeMs: number;
}

/** Converts a time of that clock, which wraps after 49.7 days: nothing is later than the message. */
export function wallNs({ bootNs, uptimeMs }: ExporterClock, ms: number): number {
  return bootNs + (ms > uptimeMs ? ms - 2 ** 32 : ms) * 1e6;
}

/** The values of a record, by element. */
interface Values {
  forward: Map<number, number>;
  backward: Map<number, number>;
  addresses: Map<number, string>;
}

export interface ExportedSet {
  flows: FlowRecord[];
  /** Records without addresses or packets. */
  incomplete: number;
  /** The records state sampling of one in this many packets. */
  sampling: number[];
}

/** Reads the records of a data set; `clock`: that of the message, if it has one. */
export function readDataSet(
  view: DataView,
  from: number,
  to: number,
  { fields, options }: Template,
  clock: ExporterClock | null,
  bad: Bad,
): ExportedSet {
  const minimum = fields.reduce((s, f) => s + (f.length === VARIABLE ? 1 : f.length), 0);
  if (minimum === 0) throw bad(from, "a template without fields");
  const out: ExportedSet = { flows: [], incomplete: 0, sampling: [] };
  // A rest shorter than a record is padding.
  for (let at = from; to - at >= minimum; ) {
    const { values, end } = readRecord(view, at, to, fields, bad);
    at = end;
    const rate = samplingOf(values.forward);
    if (rate > 1) out.sampling.push(rate);
    if (options) continue;
    const flows = flowsOf(values, clock);
    if (flows) out.flows.push(...flows);
    else out.incomplete++;
  }
  return out;
}

function readRecord(
  view: DataView,
  from: number,
  to: number,
  fields: readonly Field[],
  bad: Bad,
): { values: Values; end: number } {
  const values: Values = { forward: new Map(), backward: new Map(), addresses: new Map() };
  let at = from;
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
      if (address !== null) values.addresses.set(element, address);
      else if (length <= 8)
        (reverse ? values.backward : values.forward).set(element, unsigned(view, at, length, element));
    }
    at += length;
  }
  return { values, end: at };
}

function pick(from: Map<number, number>, elements: readonly number[]): number | null {
  return elements.map((e) => from.get(e)).find((v) => v !== undefined) ?? null;
}

/** Returns null if addresses or packets are unknown; flows with 0 packets are omitted. */
function flowsOf({ forward, backward, addresses }: Values, clock: ExporterClock | null): FlowRecord[] | null {
  const src = addresses.get(IE.source4) ?? addresses.get(IE.source6) ?? null;
  const dst = addresses.get(IE.destination4) ?? addresses.get(IE.destination6) ?? null;
  const packets = pick(forward, IE.packets);
  if (src === null || dst === null || packets === null) return null;
  const bootNs = forward.get(IE.systemInit);
  const uptime = (element: number) => {
    const ms = forward.get(element);
    if (ms === undefined) return null;
    return bootNs !== undefined ? bootNs + 1e6 * ms : clock && wallNs(clock, ms);
  };
  const startNs =
    pick(forward, [IE.startNanoseconds, IE.startMicroseconds, IE.startMilliseconds, IE.startSeconds]) ??
    uptime(IE.firstSwitched);
  const endNs =
    pick(forward, [IE.endNanoseconds, IE.endMicroseconds, IE.endMilliseconds, IE.endSeconds]) ??
    uptime(IE.lastSwitched);
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

function samplingOf(values: Map<number, number>): number {
  const [packets, space] = [values.get(IE.samplingPackets), values.get(IE.samplingSpace)];
  if (packets !== undefined && packets > 0 && space !== undefined) return (packets + space) / packets;
  return pick(values, IE.samplingInterval) ?? 1;
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
  [IE.systemInit, 1e6],
]);

/** Reads a number of up to eight bytes; times in ns since 1970. Exporters may shorten integers (RFC 7011, section 6.2). */
function unsigned(view: DataView, at: number, length: number, element: number): number {
  if (element >= IE.startMicroseconds && element <= IE.endNanoseconds && length === 8) {
    const seconds = view.getUint32(at) - NTP_TO_UNIX;
    return seconds * 1e9 + Math.round((view.getUint32(at + 4) / 2 ** 32) * 1e9);
  }
  let value = 0;
  for (let i = 0; i < length; i++) value = value * 256 + view.getUint8(at + i);
  return value * (TIME_NS.get(element) ?? 1);
}
