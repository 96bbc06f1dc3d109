/**
 * The flows of the table: text of a flow, sorting by a column, and the filter. Data stays in columns, so that 100,000 flows are sorted and filtered within a
 * few frames.
 *
 * A filter consists of words that all must match. `10.1.` or `udp` match the flow's text, `:443` a port, `1:abc…` the start of a Community ID (and nothing
 * else, because any short word occurs in some of them). Conditions are `loss>1%`, `p99>=5ms`, `sent>1000`, `bytes>10MB`, as in the command line's --fail-if. A
 * word after `!` or `not` must not match: `!udp`, `not :443`, `!p99>5ms`.
 */
import type { MeasureName } from "../../src/compare/columns.ts";
import { readCondition, SIGNS, type Sign } from "../../src/compare/condition-form.ts";
import type { CountField, LatencyField } from "../../src/compare/report.ts";
import type { FlowColumns, KeyField } from "../../src/present/html/page-data.ts";

const PROTOCOLS: Record<number, string> = {
  1: "ICMP",
  2: "IGMP",
  4: "IPIP",
  6: "TCP",
  17: "UDP",
  41: "IPv6",
  47: "GRE",
  50: "ESP",
  51: "AH",
  58: "ICMPv6",
  89: "OSPF",
  103: "PIM",
  112: "VRRP",
  132: "SCTP",
};

export const protocolName = (proto: number | null): string =>
  proto === null ? "" : (PROTOCOLS[proto] ?? `proto ${proto}`);

export type SortKey = "src" | "dst" | KeyField | CountField | LatencyField | "packets" | "loss" | "spread";

/** The page's column for each measure of a condition. */
const MEASURED: Record<MeasureName, SortKey> = {
  packets: "packets",
  sent: "sent",
  received: "received",
  matched: "matched",
  bytes: "bytes",
  lost: "lost",
  loss: "loss",
  appeared: "appeared",
  duplicates: "duplicates",
  reordered: "reordered",
  mean: "meanNs",
  stdev: "stdevNs",
  min: "minNs",
  p50: "p50Ns",
  p90: "p90Ns",
  p99: "p99Ns",
  "p99.9": "p999Ns",
  max: "maxNs",
  jitter: "jitterNs",
};
/** A space between number and unit is allowed, as on the command line. */
const APART = /([<>=]-?\d[\d.]*)\s+(%|ns|[uµμm]?s|m|min|h|d|[kmgt]?b)(?=\s|$)/g;

type Test = (row: number) => boolean;

export class FlowRows {
  readonly columns: FlowColumns;
  #ranks: Float64Array | null = null;
  #texts: string[] | null = null;
  readonly #derived = new Map<SortKey, (number | null)[]>();

  constructor(columns: FlowColumns) {
    this.columns = columns;
  }

  /** Returns the rank of each address; computed when first sorted by address, because it takes a while. */
  #rankOf(address: number): number {
    if (!this.#ranks) {
      const keys = this.columns.addresses.map(addressOrder);
      const order = new Uint32Array(keys.length).map((_, at) => at);
      order.sort((a, b) => (keys[a]! < keys[b]! ? -1 : keys[a]! > keys[b]! ? 1 : 0));
      this.#ranks = new Float64Array(order.length);
      for (let rank = 0; rank < order.length; rank++) this.#ranks[order[rank]!] = rank;
    }
    return this.#ranks[address]!;
  }

  address(row: number, side: "src" | "dst"): string {
    const at = this.columns[side][row] ?? null;
    const text = at === null ? "any" : this.columns.addresses[at]!;
    const port = this.columns.key[side === "src" ? "sport" : "dport"][row] ?? null;
    if (port === null) return text;
    return text.includes(":") && at !== null ? `[${text}]:${port}` : `${text}:${port}`;
  }

  reason(row: number): string {
    const at = this.columns.reason[row] ?? null;
    return at === null ? "" : this.columns.reasons[at]!;
  }

  /** Returns the values that a column sorts and filters by; null without an answer. */
  values(key: SortKey): (number | null)[] {
    const { count, latency, key: keys } = this.columns;
    if (key in count) return count[key as CountField];
    if (key in latency) return latency[key as LatencyField];
    if (key in keys && key !== "proto") return keys[key as KeyField];
    let made = this.#derived.get(key);
    if (!made) {
      made = Array.from({ length: this.columns.length }, (_, row) => this.#derive(key, row));
      this.#derived.set(key, made);
    }
    return made;
  }

  #derive(key: SortKey, row: number): number | null {
    const { count, latency, key: keys } = this.columns;
    if (key === "loss") {
      const could = count.matched[row]! + count.lost[row]!;
      return could > 0 ? count.lost[row]! / could : null;
    }
    if (key === "packets") return Math.max(count.sent[row]!, count.received[row]!);
    if (key === "spread") {
      const [low, high] = [latency.p50Ns[row] ?? null, latency.p99Ns[row] ?? null];
      return low === null || high === null ? null : high - low;
    }
    if (key === "src" || key === "dst") {
      const at = this.columns[key][row] ?? null;
      const port = keys[key === "src" ? "sport" : "dport"][row] ?? -1;
      return at === null ? null : this.#rankOf(at) * 65_537 + port + 1;
    }
    return keys.proto[row] ?? null;
  }

  /** Returns row numbers in order. Rows without an answer come last in either order. */
  sorted(rows: Uint32Array, key: SortKey, descending: boolean): Uint32Array {
    const values = this.values(key);
    const known = rows.filter((r) => values[r] !== null && values[r] !== undefined);
    const unknown = rows.filter((r) => values[r] === null || values[r] === undefined);
    known.sort(
      descending ? (a, b) => values[b]! - values[a]! || a - b : (a, b) => values[a]! - values[b]! || a - b,
    );
    const order = new Uint32Array(rows.length);
    order.set(known);
    order.set(unknown, known.length);
    return order;
  }

  /** Returns the matching row numbers, and the words of the filter that look like a condition but are not one. */
  matching(filter: string): { rows: Uint32Array; misread: string[] } {
    const misread: string[] = [];
    const words = filter
      .toLowerCase()
      .replace(/\s*(>=|<=|>|<|=)\s*/g, "$1")
      .replace(APART, "$1$2")
      .replace(/(^|\s)(?:not|!)\s+(?=\S)/g, "$1!")
      .split(/\s+/)
      .filter((word) => word !== "");
    const tests = words.map((written) => {
      // Negation: !udp and !p99>5ms.
      const negated = written.startsWith("!") && written.length > 1;
      const word = negated ? written.slice(1) : written;
      const condition = this.#condition(word);
      if (!condition && /[<>=]/.test(word)) misread.push(written);
      const test = condition ?? this.#contains(word);
      return negated ? (row: number) => !test(row) : test;
    });
    const all = new Uint32Array(this.columns.length).map((_, i) => i);
    return { rows: tests.length === 0 ? all : all.filter((row) => tests.every((t) => t(row))), misread };
  }

  #condition(word: string): Test | null {
    const about = readCondition(word.replace(/^p999(?=[<>=])/, "p99.9"));
    // Each row is a flow, so conditions about the whole reverse direction do not apply.
    if (about && about.about !== "reverse") {
      const values = this.values(MEASURED[about.measure]);
      const holds = SIGNS[about.sign];
      return (row) => {
        const value = values[row] ?? null;
        return value !== null && holds(value, about.limit);
      };
    }
    const [, name, sign, number] = /^(port|dscp|vlan)(>=|<=|>|<|=)(\d+)$/.exec(word) ?? [];
    if (name === undefined || sign === undefined) return null;
    const fields = name === "port" ? (["sport", "dport"] as const) : ([name as "dscp" | "vlan"] as const);
    const holds = SIGNS[sign as Sign];
    return (row) =>
      fields.some((field) => {
        const value = this.columns.key[field][row] ?? null;
        return value !== null && holds(value, Number(number));
      });
  }

  #contains(word: string): Test {
    const { key, communityId } = this.columns;
    if (/^:\d+$/.test(word)) {
      const port = Number(word.slice(1));
      return (row) => key.sport[row] === port || key.dport[row] === port;
    }
    if (/^1:.{6}/.test(word)) return (row) => communityId[row]?.toLowerCase().startsWith(word) ?? false;
    this.#texts ??= Array.from({ length: this.columns.length }, (_, row) => this.#text(row));
    const texts = this.#texts;
    return (row) => texts[row]!.includes(word);
  }

  #text(row: number): string {
    const { key } = this.columns;
    const parts = [this.address(row, "src"), this.address(row, "dst"), protocolName(key.proto[row] ?? null)];
    if (typeof key.vlan[row] === "number") parts.push(`vlan ${key.vlan[row]}`);
    if (typeof key.dscp[row] === "number") parts.push(`dscp ${key.dscp[row]}`);
    parts.push(this.reason(row));
    return parts.join(" ").toLowerCase();
  }
}

/** Returns a text that sorts addresses by number: 10.0.0.9 before 10.0.0.10, IPv4 before IPv6. */
function addressOrder(address: string): string {
  const [host = "", prefix = ""] = address.split("/");
  const tail = `/${prefix.padStart(3, "0")}`;
  if (/^\d+(\.\d+){3}$/.test(host)) {
    return `4${host
      .split(".")
      .map((part) => part.padStart(3, "0"))
      .join("")}${tail}`;
  }
  if (host.includes(":")) {
    const [head = "", rest] = host.toLowerCase().split("::");
    const left = head === "" ? [] : head.split(":");
    const right = rest === undefined || rest === "" ? [] : rest.split(":");
    const zeros =
      rest === undefined ? [] : new Array<string>(Math.max(0, 8 - left.length - right.length)).fill("0");
    return `6${[...left, ...zeros, ...right].map((part) => part.padStart(4, "0")).join("")}${tail}`;
  }
  return `9${address}`;
}
