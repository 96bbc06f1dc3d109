/** Flow keys as text: `tcp 10.0.0.1:443 > 10.0.0.9:51000`, and the Community ID v1 of other tools. */
import { UsageError } from "../../base/errors.ts";
import { sha1 } from "../../base/sha1.ts";
import { parseAddress, requireAddress } from "../address.ts";
import type { FlowKey } from "./flow-key.ts";

const PROTOCOLS: Record<number, string> = {
  1: "icmp",
  2: "igmp",
  4: "ipip",
  6: "tcp",
  17: "udp",
  33: "dccp",
  41: "ipv6",
  47: "gre",
  50: "esp",
  51: "ah",
  58: "icmp6",
  89: "ospf",
  103: "pim",
  112: "vrrp",
  132: "sctp",
  136: "udplite",
};
const NUMBERS = new Map(Object.entries(PROTOCOLS).map(([n, name]) => [name, Number(n)]));

export function protocolName(proto: number): string {
  return PROTOCOLS[proto] ?? `proto-${proto}`;
}

export function parseProtocol(text: string): number | null {
  const known = NUMBERS.get(text.toLowerCase());
  if (known !== undefined) return known;
  const number = /^(?:proto-)?(\d+)$/.exec(text);
  const n = number ? Number(number[1]) : Number.NaN;
  return Number.isInteger(n) && n <= 255 ? n : null;
}

export function formatFlowKey(key: FlowKey): string {
  const parts: string[] = [];
  if (key.proto !== null) parts.push(protocolName(key.proto));
  const end = (address: string | null, port: number | null) => {
    if (address === null) return port === null ? "*" : `*:${port}`;
    if (port === null) return address;
    return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
  };
  if (key.src !== null || key.dst !== null || key.sport !== null || key.dport !== null) {
    parts.push(`${end(key.src, key.sport)} > ${end(key.dst, key.dport)}`);
  }
  if (key.dscp !== undefined) parts.push(`dscp ${key.dscp}`);
  if (key.vlan !== undefined) parts.push(`vlan ${key.vlan}`);
  return parts.length > 0 ? parts.join(" ") : "all";
}

/** Returns `10.0.0.0/24` without its prefix length. */
export function withoutPrefix(network: string): string {
  return network.replace(/\/.*/s, "");
}

/** Parses what formatFlowKey writes for whole 5-tuples (`proto src:port > dst:port`, without ports if there are none). */
export function parseFlowKey(text: string): FlowKey {
  const match = /^\s*(?:(\S+)\s+)?(\S+)\s*>\s*(\S+)\s*$/.exec(text);
  if (!match) {
    throw new UsageError(
      "bad-key",
      `flow '${text}' is not understood`,
      "write it as 'tcp 10.0.0.1:443 > 10.0.0.9:51000'",
    );
  }
  const proto = match[1] === undefined ? null : parseProtocol(match[1]);
  if (match[1] !== undefined && proto === null) {
    throw new UsageError(
      "bad-key",
      `flow '${text}': '${match[1]}' is not a protocol`,
      "tcp, udp, icmp, … or its number",
    );
  }
  const end = (part: string): [string | null, number | null] => {
    if (part === "*") return [null, null];
    const bracketed = /^\[(.+)\](?::(\d+))?$/.exec(part);
    if (bracketed) return [bracketed[1] ?? "", bracketed[2] === undefined ? null : Number(bracketed[2])];
    if (parseAddress(part)) return [part, null];
    const colon = part.lastIndexOf(":");
    if (colon > 0 && /^\d+$/.test(part.slice(colon + 1))) {
      const address = part.slice(0, colon);
      return [address === "*" ? null : address, Number(part.slice(colon + 1))];
    }
    return [part, null];
  };
  const [, , source = "", destination = ""] = match;
  const [src, sport] = end(source);
  const [dst, dport] = end(destination);
  for (const port of [sport, dport]) {
    if (port !== null && port > 65_535)
      throw new UsageError("bad-key", `flow '${text}': port ${port} is above 65535`);
  }
  for (const address of [src, dst])
    if (address !== null) requireAddress(withoutPrefix(address), `flow '${text}'`);
  return { src, dst, proto, sport, dport };
}

/** ICMP types of requests and their replies: the reply's type takes the place of the other port (Community ID v1). */
const ICMP_PAIRS = new Map([
  [8, 0],
  [0, 8],
  [13, 14],
  [14, 13],
  [15, 16],
  [16, 15],
  [17, 18],
  [18, 17],
  [10, 9],
  [9, 10],
]);
const ICMP6_PAIRS = new Map([
  [128, 129],
  [129, 128],
  [130, 131],
  [131, 130],
  [133, 134],
  [134, 133],
  [135, 136],
  [136, 135],
  [139, 140],
  [140, 139],
  [144, 145],
  [145, 144],
]);

function addressBytes(text: string): Buffer {
  const { words } = requireAddress(text, "Community ID");
  const out = Buffer.alloc(words.length * 4);
  for (const [i, w] of words.entries()) out.writeUInt32BE(w, 4 * i);
  return out;
}

const SEED_0 = new Uint8Array(2);
/** Protocols whose ports are part of a Community ID; for all others only the addresses are. */
const PORT_PROTOCOLS = new Set([6, 17, 132]);

/**
 * Returns the Community ID v1 (seed 0) of a 5-tuple, or null for other keys. The ID of an ICMP flow includes the type and code of its messages, which a flow
 * key does not hold. Without `icmp` such a flow has no ID, because a wrong one would be worse.
 */
export function communityId(key: FlowKey, icmp?: { type: number; code: number }): string | null {
  const { src, dst, proto } = key;
  if (src === null || dst === null || proto === null || src.includes("/") || dst.includes("/")) return null;
  let a = addressBytes(src);
  let b = addressBytes(dst);
  const isIcmp = proto === 1 || proto === 58;
  if (isIcmp && !icmp) return null;
  let ports: [number, number] | null = null;
  if (PORT_PROTOCOLS.has(proto) && key.sport !== null && key.dport !== null) ports = [key.sport, key.dport];
  let ordered = false;
  if (isIcmp && icmp) {
    const pair = (proto === 1 ? ICMP_PAIRS : ICMP6_PAIRS).get(icmp.type);
    ports = [icmp.type, pair ?? icmp.code];
    // A message without a reply type is one-way, so its ends are not sorted.
    ordered = pair === undefined;
  }
  const compare = Buffer.compare(a, b);
  if (!ordered && (compare > 0 || (compare === 0 && ports !== null && ports[0] > ports[1]))) {
    [a, b] = [b, a];
    if (ports) ports = [ports[1], ports[0]];
  }
  const tail = Buffer.alloc(ports ? 6 : 2);
  tail[0] = proto;
  if (ports) {
    tail.writeUInt16BE(ports[0], 2);
    tail.writeUInt16BE(ports[1], 4);
  }
  return `1:${Buffer.from(sha1(Buffer.concat([SEED_0, a, b, tail]))).toString("base64")}`;
}
