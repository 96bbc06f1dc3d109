/** The words of a filter expression: splits text into tokens, holds the known names, and makes errors that point at a character. */

import { UsageError } from "../../base/errors.ts";
import { entryAt } from "../../base/lists.ts";
import { parseProtocol } from "../flow/flow-text.ts";
import type { FilterNumber } from "./expression.ts";

export interface Token {
  kind: "word" | "sign" | "end";
  /** As written. */
  text: string;
  /** Lower case, with `and`, `or`, `not` for their signs: what the grammar compares. */
  key: string;
  /** Index of its first character in the expression. */
  start: number;
}

const TOKEN = /\s*(?:(&&|\|\||!=|==|<=|>=|<<|>>|[()![\]/&|+<>=])|(\\?[A-Za-z0-9_.:-]+)|(\S)|$)/uy;
const SAME = new Map([
  ["&&", "and"],
  ["||", "or"],
  ["!", "not"],
  ["==", "="],
  ["length", "len"],
]);

/** Depth limit of trees, so that recursion cannot exhaust the stack. */
const MAX_DEPTH = 200;
/** Number of characters of an expression shown in a message. */
const LONGEST_SHOWN = 400;

/** The tokens of an expression and the parser's position. */
export class TokenCursor {
  readonly text: string;
  readonly #tokens: Token[];
  #next = 0;
  #open = 0;
  /** Index of the ")" of each "("; computed when first needed. */
  #closing: Map<number, number> | null = null;

  constructor(text: string) {
    this.text = text;
    this.#tokens = tokenize(text);
  }

  /** Returns the next token, or one further ahead (-1: the previous one). The last token is "end". */
  peek(ahead = 0): Token {
    return entryAt(this.#tokens, Math.min(this.#next + ahead, this.#tokens.length - 1));
  }

  take(): Token {
    const token = this.peek();
    if (token.kind !== "end") this.#next++;
    return token;
  }

  /** Takes the next token if its key is this one. */
  takeIf(key: string): Token | null {
    return this.peek().kind !== "end" && this.peek().key === key ? this.take() : null;
  }

  /** Returns the token after the closing parenthesis of the one at the cursor; null if it is not closed. */
  behindParenthesis(): Token | null {
    this.#closing ??= closingOf(this.#tokens);
    const closing = this.#closing.get(this.#next);
    return closing === undefined ? null : this.peek(closing + 1 - this.#next);
  }

  /** Parses what is between the parenthesis at the cursor and its end. */
  inParenthesis<T>(atItsEnd: string, parse: () => T): T {
    this.limitDepth(++this.#open, this.take());
    const inside = parse();
    if (!this.takeIf(")")) throw this.expected(atItsEnd, this.peek());
    this.#open--;
    return inside;
  }

  limitDepth(depth: number, token: Token): void {
    if (depth > MAX_DEPTH) throw this.error(`nested more than ${MAX_DEPTH} deep`, token);
  }

  /** Returns the error "expected this, found that" at the token found. */
  expected(what: string, token: Token, why = ""): UsageError {
    const found = token.kind === "end" ? "the end" : `'${token.text}'`;
    return this.error(`expected ${what}, found ${found}${why && ` (${why})`}`, token);
  }

  error(what: string, token: Token): UsageError {
    return filterError(this.text, token.start, what);
  }
}

function closingOf(tokens: readonly Token[]): Map<number, number> {
  const closing = new Map<number, number>();
  const open: number[] = [];
  for (const [i, { key }] of tokens.entries()) {
    if (key === "(") open.push(i);
    if (key !== ")") continue;
    const at = open.pop();
    if (at !== undefined) closing.set(at, i);
  }
  return closing;
}

function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  TOKEN.lastIndex = 0;
  for (;;) {
    // Always matches: at the end with three empty groups.
    const [, sign, word, other] = TOKEN.exec(text) ?? [];
    const found = sign ?? word ?? other ?? "";
    const start = TOKEN.lastIndex - found.length;
    if (other !== undefined) throw filterError(text, start, `'${other}' has no meaning in a filter`);
    if (found === "") {
      tokens.push({ kind: "end", text: "", key: "", start: text.length });
      return tokens;
    }
    const lower = found.toLowerCase();
    tokens.push({ kind: sign ? "sign" : "word", text: found, key: SAME.get(lower) ?? lower, start });
  }
}

/** Returns an error that names the character (counted from 1) and shows it in the hint. */
function filterError(text: string, at: number, what: string): UsageError {
  const before = [...text.slice(0, at)].length;
  // Of a long expression, show only the part around the position.
  const from = text.length > LONGEST_SHOWN ? Math.max(0, at - LONGEST_SHOWN / 2) : 0;
  const shown = text.slice(from, from + LONGEST_SHOWN).replace(/\s/g, " ");
  const shift = [...text.slice(from, at)].length;
  return new UsageError(
    "bad-filter",
    `at character ${before + 1}: ${shortened(what)}`,
    `${shown}\n${" ".repeat(shift)}^`,
    { parameter: "filter", value: text },
  );
}

function shortened(what: string): string {
  return what.length > LONGEST_SHOWN ? `${what.slice(0, LONGEST_SHOWN)}…` : what;
}

/** Keywords of pcap-filter that the columns of a batch cannot answer, and why. */
export const REFUSED = new Map<string, string>(
  Object.entries({
    ...each("ether link wlan fddi tr ppp slip radio", "link-layer headers are not kept"),
    ...each("arp rarp", "only IP packets are measured, so there is nothing to choose; leave it out"),
    ...each("aarp atalk decnet iso clnp esis isis iso-esis stp ipx netbeui", "only IP packets are measured"),
    ...each("mpls", "MPLS labels are not kept; the other terms match the packet behind them"),
    ...each("pppoed pppoes", "PPPoE sessions are not kept; the other terms match the packet inside"),
    ...each("geneve vxlan", "tunnel headers are not kept; with ‘inner’ the filter sees the packet inside"),
    ...each("gateway", "it needs name look-ups and MAC addresses"),
    ...each("broadcast", "MAC addresses and netmasks are not kept; 'host' takes a broadcast address"),
    ...each("multicast", "MAC addresses are not kept; write 'ip multicast' or 'ip6 multicast'"),
    ...each(
      "ifindex ifname on rnr rulenum reason rset ruleset srnr subrulenum action",
      "it is known to live captures only",
    ),
    ...each("type subtype dir addr1 addr2 addr3 addr4 ra ta", "802.11 headers are not kept"),
    ...each(
      "vpi vci lane oamf4s oamf4e oamf4 oam metac bcc sc ilmic connectmsg metaconnect",
      "ATM headers are not kept",
    ),
    ...each("protochain", "'proto' follows IPv6 extension headers already"),
    ...each("byte", "packet bytes are not kept"),
  }),
);

function each(names: string, reason: string): Record<string, string> {
  return Object.fromEntries(names.split(" ").map((name) => [name, reason]));
}

/** Protocols that are a term by themselves: their number and the IP version they imply (null: both). */
export const PROTOCOL_TERMS = new Map<string, { version: 4 | 6 | null; proto: number }>(
  Object.entries({
    tcp: { version: null, proto: 6 },
    udp: { version: null, proto: 17 },
    sctp: { version: null, proto: 132 },
    icmp: { version: 4, proto: 1 },
    icmp6: { version: 6, proto: 58 },
    icmpv6: { version: 6, proto: 58 },
    igmp: { version: 4, proto: 2 },
    igrp: { version: 4, proto: 9 },
    pim: { version: null, proto: 103 },
    vrrp: { version: 4, proto: 112 },
    carp: { version: 4, proto: 112 },
    esp: { version: null, proto: 50 },
    ah: { version: null, proto: 51 },
  }),
);

/** IPv6 headers that the decoder skips to reach the next one: no row ever has them as its protocol. */
export const FOLLOWED_HEADERS = new Set([0, 43, 44, 51, 60, 140]);

const PROTOCOL_ALIASES = new Map(Object.entries({ icmpv6: 58, "ipv6-icmp": 58, ipencap: 4, igrp: 9 }));

/** Parses a protocol by name or number. pcap-filter requires a backslash before a name that is also a keyword; it is accepted here. */
export function protocolNumber(text: string): number | null {
  const name = text.replace(/^\\/, "").toLowerCase();
  const number = plainNumber(name);
  if (number !== null) return number <= 255 ? number : null;
  return PROTOCOL_ALIASES.get(name) ?? (/^[a-z]/.test(name) ? parseProtocol(name) : null);
}

const SERVICES = new Map<string, number>(
  Object.entries({
    "ftp-data": 20,
    ftp: 21,
    ssh: 22,
    telnet: 23,
    smtp: 25,
    domain: 53,
    bootps: 67,
    bootpc: 68,
    tftp: 69,
    http: 80,
    kerberos: 88,
    pop3: 110,
    sunrpc: 111,
    ntp: 123,
    imap2: 143,
    imap: 143,
    snmp: 161,
    "snmp-trap": 162,
    bgp: 179,
    ldap: 389,
    https: 443,
    syslog: 514,
    ldaps: 636,
    imaps: 993,
    pop3s: 995,
    mysql: 3306,
    postgresql: 5432,
    sip: 5060,
  }),
);

/** Parses a port by number or by one of a few names; the name says nothing about the protocol. */
export function portNumber(text: string): number | null {
  const number = plainNumber(text) ?? SERVICES.get(text.toLowerCase()) ?? null;
  return number !== null && number <= 65_535 ? number : null;
}

const DSCP_NAMES = new Map(Object.entries({ ef: 46, va: 44, le: 1, be: 0 }));

/** Parses a DSCP by number or by name: ef, va, le, be, cs0-cs7, af11-af43. */
export function dscpNumber(text: string): number | null {
  const name = text.toLowerCase();
  const known = DSCP_NAMES.get(name);
  if (known !== undefined) return known;
  const selector = /^cs([0-7])$/.exec(name);
  if (selector) return 8 * Number(selector[1]);
  const assured = /^af([1-4])([1-3])$/.exec(name);
  if (assured) return 8 * Number(assured[1]) + 2 * Number(assured[2]);
  const number = plainNumber(text);
  return number !== null && number <= 63 ? number : null;
}

/** Parses an unsigned 32-bit number, decimal or hexadecimal. Leading zeros are refused, because pcap-filter reads them as octal. */
export function plainNumber(text: string): number | null {
  if (!/^(?:0|[1-9]\d*|0x[0-9a-f]+)$/i.test(text)) return null;
  const number = Number(text);
  return number <= 0xffff_ffff ? number : null;
}

export const TCP_FLAGS = new Map<string, number>(
  Object.entries({
    "tcp-fin": 0x01,
    "tcp-syn": 0x02,
    "tcp-rst": 0x04,
    "tcp-push": 0x08,
    "tcp-ack": 0x10,
    "tcp-urg": 0x20,
    "tcp-ece": 0x40,
    "tcp-cwr": 0x80,
  }),
);

/** Header bytes whose content the columns hold. */
export const HEADER_NUMBERS = new Map<string, { number: FilterNumber; version: 4 | 6 | null }>(
  Object.entries({
    "tcp[tcpflags]": { number: "tcpflags", version: null },
    "tcp[13]": { number: "tcpflags", version: null },
    "ip[1]": { number: "tos", version: 4 },
    "ip[4:2]": { number: "ipid", version: 4 },
    "ip[8]": { number: "ttl", version: 4 },
    "ip[9]": { number: "proto", version: 4 },
    "ip6[7]": { number: "ttl", version: 6 },
  }),
);
