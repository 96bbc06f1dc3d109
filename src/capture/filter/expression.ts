/**
 * A filter as a tree, and its meaning for one packet. `matches` is the slow, obvious definition that the kernels of filters (src/capture/filter/filter.ts) are
 * tested against; code with a single packet or flow key calls it directly.
 *
 * One rule holds for every primitive: a question about something that the packet does not have (ports of a later fragment, TCP flags of a UDP packet, IPv6
 * network of an IPv4 packet) is false, whatever the comparison. `not` then makes it true, as in pcap-filter.
 */
import { UsageError } from "../../base/errors.ts";
import type { PacketBatch } from "../batch.ts";
import { FLAG, META_HIGH } from "../batch.ts";

/** Which end of a packet must match. */
export type FilterEnd = "src" | "dst" | "either" | "both";
export type Comparison = "=" | "!=" | "<" | "<=" | ">" | ">=";
/** Numbers that can be compared. `tos` is the DSCP at its position in the octet, with the ECN bits read as 0. */
export type FilterNumber = "len" | "ttl" | "dscp" | "tos" | "proto" | "ipid" | "tcpflags";

export type FilterExpression =
  /** The empty expression. */
  | { kind: "all" }
  | { kind: "and" | "or"; terms: readonly FilterExpression[] }
  | { kind: "not"; term: FilterExpression }
  | { kind: "version"; version: 4 | 6 }
  /** One word for IPv4, four for IPv6, most significant first. */
  | { kind: "net"; end: FilterEnd; version: 4 | 6; words: readonly number[]; mask: readonly number[] }
  /** `proto` null: TCP, UDP or SCTP. */
  | { kind: "port"; end: FilterEnd; proto: 6 | 17 | 132 | null; low: number; high: number }
  | { kind: "proto"; version: 4 | 6 | null; proto: number }
  /** The outermost tag; `id` null: any tag. */
  | { kind: "vlan"; id: number | null }
  | { kind: "fragment"; version: 4 | null; later: boolean }
  /** As stated by the capture. If it says nothing, the packet matches neither. */
  | { kind: "direction"; way: "inbound" | "outbound" }
  /** ((number >> shift) & mask) compared with a value, all unsigned 32-bit. */
  | {
      kind: "compare";
      number: FilterNumber;
      version: 4 | 6 | null;
      shift: number;
      mask: number;
      comparison: Comparison;
      value: number;
    };

/** The fields of one packet that a filter may ask for. Undefined: not known; asking for it is an error. */
export interface PacketFields {
  version: 4 | 6;
  /** One word for IPv4, four for IPv6, most significant first. */
  src?: readonly number[];
  dst?: readonly number[];
  proto?: number;
  /** Null if the packet has no port (other protocol, later fragment, not captured). */
  sport?: number | null;
  dport?: number | null;
  dscp?: number;
  /** Null if it is untagged. */
  vlan?: number | null;
  ttl?: number;
  tcpFlags?: number;
  wireLength?: number;
  ipid?: number;
  fragment?: boolean;
  laterFragment?: boolean;
  /** Null if the capture does not say. */
  direction?: "inbound" | "outbound" | null;
}

export const PORT_PROTOCOLS = [6, 17, 132] as const;

/** Returns whether a packet matches. Throws a UsageError if the expression asks for a field that is not given. */
export function matches(expression: FilterExpression, fields: PacketFields): boolean {
  switch (expression.kind) {
    case "all":
      return true;
    case "and":
      return expression.terms.every((term) => matches(term, fields));
    case "or":
      return expression.terms.some((term) => matches(term, fields));
    case "not":
      return !matches(expression.term, fields);
    case "version":
      return fields.version === expression.version;
    case "net": {
      if (fields.version !== expression.version) return false;
      const within = (address: readonly number[]) =>
        address.every((w, i) => ((w ^ expression.words[i]!) & expression.mask[i]!) === 0);
      return atEnds(
        expression.end,
        () => within(known(fields, "src")),
        () => within(known(fields, "dst")),
      );
    }
    case "port": {
      const proto = known(fields, "proto");
      const wanted: readonly number[] = expression.proto === null ? PORT_PROTOCOLS : [expression.proto];
      if (!wanted.includes(proto)) return false;
      const within = (port: number | null) =>
        port !== null && expression.low <= port && port <= expression.high;
      return atEnds(
        expression.end,
        () => within(known(fields, "sport")),
        () => within(known(fields, "dport")),
      );
    }
    case "proto":
      return ofVersion(expression.version, fields) && known(fields, "proto") === expression.proto;
    case "vlan": {
      const id = known(fields, "vlan");
      return expression.id === null ? id !== null : id === expression.id;
    }
    case "fragment":
      return (
        ofVersion(expression.version, fields) &&
        known(fields, expression.later ? "laterFragment" : "fragment")
      );
    case "direction":
      return known(fields, "direction") === expression.way;
    case "compare": {
      if (!ofVersion(expression.version, fields)) return false;
      const number = numberOf(expression.number, fields);
      if (number === null) return false;
      return compare(((number >>> expression.shift) & expression.mask) >>> 0, expression);
    }
  }
}

function atEnds(end: FilterEnd, src: () => boolean, dst: () => boolean): boolean {
  if (end === "src") return src();
  if (end === "dst") return dst();
  return end === "either" ? src() || dst() : src() && dst();
}

function ofVersion(version: 4 | 6 | null, fields: PacketFields): boolean {
  return version === null || version === fields.version;
}

/** Returns null if the packet has no such number. */
function numberOf(number: FilterNumber, fields: PacketFields): number | null {
  switch (number) {
    case "len":
      return known(fields, "wireLength");
    case "ttl":
      return known(fields, "ttl");
    case "dscp":
      return known(fields, "dscp");
    case "tos":
      return known(fields, "dscp") << 2;
    case "proto":
      return known(fields, "proto");
    case "ipid":
      return known(fields, "ipid");
    case "tcpflags":
      return known(fields, "proto") === 6 && known(fields, "sport") !== null
        ? known(fields, "tcpFlags")
        : null;
  }
}

function compare(x: number, { comparison, value }: { comparison: Comparison; value: number }): boolean {
  switch (comparison) {
    case "=":
      return x === value;
    case "!=":
      return x !== value;
    case "<":
      return x < value;
    case "<=":
      return x <= value;
    case ">":
      return x > value;
    case ">=":
      return x >= value;
  }
}

function known<K extends keyof PacketFields>(
  fields: PacketFields,
  name: K,
): Exclude<PacketFields[K], undefined> {
  const value = fields[name];
  if (value === undefined) {
    throw new UsageError("bad-filter", `it asks for '${name}', which is not known here`, undefined, {
      parameter: "filter",
    });
  }
  return value as Exclude<PacketFields[K], undefined>;
}

/** Returns the fields of one row of a batch whose key columns are not masked yet. */
export function rowFields(batch: PacketBatch, row: number): PacketFields {
  const low = batch.meta[2 * row]!;
  const high = batch.meta[2 * row + 1]!;
  const flags = batch.flags[row]!;
  const version = (high & META_HIGH.ipv6) !== 0 ? 6 : 4;
  const pair = (column: Uint32Array) => [column[2 * row + 1]!, column[2 * row]!];
  const [a, b, c, d] = [batch.addrA, batch.addrB, batch.addrC, batch.addrD].map(pair) as [
    number[],
    number[],
    number[],
    number[],
  ];
  const ports = (high & META_HIGH.ports) !== 0;
  return {
    version,
    src: version === 6 ? [...a, ...b] : [a[0]!],
    dst: version === 6 ? [...c, ...d] : [a[1]!],
    proto: high & 0xff,
    sport: ports ? low >>> 16 : null,
    dport: ports ? low & 0xffff : null,
    dscp: (high >>> 8) & 0x3f,
    vlan: (high & META_HIGH.vlan) !== 0 ? (high >>> 14) & 0xfff : null,
    ttl: flags & 0xff,
    tcpFlags: (flags >>> 8) & 0xff,
    wireLength: batch.wireLength[row]!,
    ipid: batch.ipid[row]!,
    fragment: (flags & FLAG.fragment) !== 0,
    laterFragment: (flags & FLAG.laterFragment) !== 0,
    direction: (flags & FLAG.inbound) !== 0 ? "inbound" : (flags & FLAG.outbound) !== 0 ? "outbound" : null,
  };
}
