/**
 * Parses filters by recursive descent. The grammar:
 *
 *   expression = term { ("and" | "or") term }          same precedence, from the left, as in pcap-filter
 *   term       = { "not" } ( "(" expression ")" | comparison | primitive | id )
 *   primitive  = [protocol] [direction] [type] id | protocol | "vlan" [N] | "less" N | "greater" N | ...
 *   id         = address, port or protocol, or a parenthesis of them; an id without words before it uses those of the last id
 *
 * A term without an id (`tcp`, `vlan 3`) ends this carrying over: `tcp or 80` is an error, as in pcap-filter.
 */
import { entryOf } from "../../base/lists.ts";
import { comparisonAhead, parseComparison } from "./compare.ts";
import type { FilterEnd, FilterExpression } from "./expression.ts";
import { parseNetwork } from "./network.ts";
import {
  dscpNumber,
  FOLLOWED_HEADERS,
  PROTOCOL_TERMS,
  plainNumber,
  portNumber,
  protocolNumber,
  REFUSED,
  type Token,
  TokenCursor,
} from "./text.ts";

/** The words before an id. */
export interface Qualifier {
  protocol: Token | null;
  end: FilterEnd;
  type: "host" | "net" | "port" | "portrange" | "proto" | null;
  /** The last of the words, which messages name. */
  last: Token;
  /** Carried over from an earlier term. */
  carried: boolean;
}

interface Term {
  expression: FilterExpression;
  depth: number;
}

const TYPES = ["host", "net", "port", "portrange", "proto"];
const HEAD_WORDS = [...TYPES, "src", "dst"];

export class FilterParser {
  readonly #cursor: TokenCursor;
  #carried: Qualifier | null = null;
  #lastVlan: Token | null = null;

  constructor(text: string) {
    this.#cursor = new TokenCursor(text);
  }

  parse(): FilterExpression {
    if (this.#cursor.peek().kind === "end") return { kind: "all" };
    const { expression } = this.#expression(() => this.#term());
    const rest = this.#cursor.peek();
    if (rest.kind !== "end") throw this.#cursor.expected("'and', 'or' or the end", rest);
    return expression;
  }

  #expression(parseTerm: () => Term): Term {
    let left = parseTerm();
    for (;;) {
      const start = this.#cursor.peek();
      const kind = start.key;
      if (kind !== "and" && kind !== "or") return left;
      const terms = [left.expression];
      let { depth } = left;
      while (this.#cursor.takeIf(kind)) {
        const right = parseTerm();
        if (kind === "and" && vlanTerms(right.expression) > 0 && terms.some((t) => vlanTerms(t) > 0)) {
          throw this.#cursor.error(
            "a second 'vlan' would ask for an inner tag; only the outermost tag is kept",
            this.#lastVlan ?? this.#cursor.peek(-1),
          );
        }
        terms.push(right.expression);
        depth = Math.max(depth, right.depth);
      }
      left = { expression: { kind, terms }, depth: depth + 1 };
      this.#cursor.limitDepth(left.depth, start);
    }
  }

  #term(): Term {
    return this.#negated(() => {
      const next = this.#cursor.peek();
      if (comparisonAhead(this.#cursor)) {
        this.#carried = null;
        return leaf(parseComparison(this.#cursor));
      }
      if (next.key === "(") return this.#parenthesis(() => this.#term());
      return this.#primitive();
    });
  }

  /** Parses an id, or several in a parenthesis. */
  #ids(qualifier: Qualifier): Term {
    return this.#negated(() => {
      if (this.#cursor.peek().key === "(") return this.#parenthesis(() => this.#ids(qualifier));
      return leaf(this.#id(qualifier));
    });
  }

  #negated(parse: () => Term): Term {
    let negative = false;
    while (this.#cursor.takeIf("not")) negative = !negative;
    const term = parse();
    return negative ? { expression: { kind: "not", term: term.expression }, depth: term.depth + 1 } : term;
  }

  #parenthesis(parseTerm: () => Term): Term {
    return this.#cursor.inParenthesis("'and', 'or' or ')'", () => this.#expression(parseTerm));
  }

  #primitive(): Term {
    const cursor = this.#cursor;
    const token = cursor.peek();
    if (token.kind !== "word") throw cursor.expected("a term such as 'host', 'net', 'port' or 'tcp'", token);
    const simple = this.#simple(token);
    if (simple) {
      this.#carried = null;
      return leaf(simple);
    }
    const refused = REFUSED.get(token.key);
    if (refused) throw cursor.error(`'${token.text}' cannot be answered: ${refused}`, token);
    const protocol =
      token.key === "ip" || token.key === "ip6" || PROTOCOL_TERMS.has(token.key) ? token : null;
    if (protocol) cursor.take();
    const next = cursor.peek();
    if (HEAD_WORDS.includes(next.key)) return this.#qualified(protocol);
    if (protocol) {
      this.#carried = null;
      return leaf(this.#protocolTerm(protocol));
    }
    if (this.#carried) return leaf(this.#id({ ...this.#carried, carried: true }));
    const advice =
      protocolNumber(token.text) !== null && plainNumber(token.text) === null
        ? `write 'proto ${token.text}'`
        : /^[\d:]/.test(token.text)
          ? "write 'host' or 'net' before an address, 'port' before a port"
          : "";
    throw cursor.expected("a term such as 'host', 'net', 'port' or 'tcp'", token, advice);
  }

  /** Parses terms that take no id. */
  #simple(token: Token): FilterExpression | null {
    const cursor = this.#cursor;
    switch (token.key) {
      case "vlan": {
        cursor.take();
        this.#lastVlan = token;
        const next = cursor.peek();
        if (next.kind !== "word" || !/^\d/.test(next.text)) return { kind: "vlan", id: null };
        return { kind: "vlan", id: this.#number(token, "a VLAN id (0 to 4095)", 4095) };
      }
      case "less":
      case "greater": {
        cursor.take();
        const value = this.#number(token, "a length in bytes", 0xffff_ffff);
        return comparison("len", token.key === "less" ? "<=" : ">=", value);
      }
      case "dscp": {
        cursor.take();
        const value = cursor.take();
        const dscp = value.kind === "word" ? dscpNumber(value.text) : null;
        if (dscp === null)
          throw cursor.expected("a DSCP (0 to 63, ef, cs0-cs7, af11-af43) after 'dscp'", value);
        return comparison("dscp", "=", dscp);
      }
      case "ttl":
        cursor.take();
        return comparison("ttl", "=", this.#number(token, "a TTL (0 to 255)", 255));
      case "inbound":
      case "outbound":
        cursor.take();
        return { kind: "direction", way: token.text === "inbound" ? "inbound" : "outbound" };
      case "fragment":
        cursor.take();
        return { kind: "fragment", version: null, later: cursor.takeIf("later") !== null };
      default:
        return null;
    }
  }

  #number(after: Token, what: string, maximum: number): number {
    const token = this.#cursor.take();
    const number = token.kind === "word" ? plainNumber(token.text) : null;
    if (number === null || number > maximum) {
      throw this.#cursor.expected(`${what} after '${after.text}'`, token);
    }
    return number;
  }

  /** Parses a protocol that stands alone. */
  #protocolTerm(token: Token): FilterExpression {
    const version = token.key === "ip" ? 4 : token.key === "ip6" ? 6 : null;
    if (version === null) {
      const term = entryOf(PROTOCOL_TERMS, token.key);
      this.#refuseFollowed(term.version, term.proto, token);
      return { kind: "proto", ...term };
    }
    if (this.#cursor.takeIf("multicast")) {
      // As in pcap-filter: everything from 224.0.0.0 up, including the limited broadcast.
      return version === 4
        ? { kind: "net", end: "dst", version, words: [0xe000_0000], mask: [0xe000_0000] }
        : { kind: "net", end: "dst", version, words: [0xff00_0000, 0, 0, 0], mask: [0xff00_0000, 0, 0, 0] };
    }
    const next = this.#cursor.peek();
    const refused = REFUSED.get(next.key);
    if (refused) throw this.#cursor.error(`'${next.text}' cannot be answered: ${refused}`, next);
    return { kind: "version", version };
  }

  /** Parses [protocol] [direction] [type] id, from the direction on. */
  #qualified(protocol: Token | null): Term {
    const cursor = this.#cursor;
    let last = cursor.peek();
    const end = this.#direction();
    if (end) last = cursor.peek(-1);
    let type: Qualifier["type"] = null;
    if (TYPES.includes(cursor.peek().key)) {
      last = cursor.take();
      type = last.key as Qualifier["type"];
    }
    const qualifier = { protocol, end: end ?? "either", type, last, carried: false };
    this.#checkWords(qualifier, end !== null);
    this.#carried = qualifier;
    return this.#ids(qualifier);
  }

  #direction(): FilterEnd | null {
    const cursor = this.#cursor;
    const first = cursor.peek().key;
    if (first !== "src" && first !== "dst") return null;
    cursor.take();
    const other = first === "src" ? "dst" : "src";
    const joint = cursor.peek().key;
    if ((joint !== "or" && joint !== "and") || cursor.peek(1).key !== other) return first;
    // No id stands between `src` and `dst`, so `src or dst` is one direction.
    cursor.take();
    cursor.take();
    return joint === "or" ? "either" : "both";
  }

  #checkWords({ protocol, type, last }: Qualifier, directed: boolean): void {
    const cursor = this.#cursor;
    const name = protocol?.key;
    const transport = name === "tcp" || name === "udp" || name === "sctp";
    const ip = name === "ip" || name === "ip6";
    if (type === "proto" && directed)
      throw cursor.error("'proto' has no direction; leave out 'src' or 'dst'", last);
    if (!protocol) return;
    if (type === "port" || type === "portrange") {
      if (transport) return;
      throw cursor.error(
        `'${type}' goes with tcp, udp or sctp; write '${protocol.text} and ${type} …'`,
        last,
      );
    }
    if (ip) return;
    if (type === null && transport) {
      throw cursor.expected(`'port' or 'portrange' after '${protocol.text} ${last.text}'`, cursor.peek());
    }
    throw cursor.error(
      `'${last.text}' does not go with '${protocol.text}'; write '${protocol.text} and ${last.text} …'`,
      last,
    );
  }

  #id(qualifier: Qualifier): FilterExpression {
    switch (qualifier.type) {
      case "port":
      case "portrange":
        return this.#port(qualifier, qualifier.type);
      case "proto": {
        const token = this.#cursor.take();
        const proto = token.kind === "word" ? protocolNumber(token.text) : null;
        if (proto === null) throw this.#expectedId("a protocol (name or 0 to 255)", qualifier, token);
        const version = versionOf(qualifier.protocol);
        this.#refuseFollowed(version, proto, token);
        return { kind: "proto", version, proto };
      }
      default:
        return parseNetwork(this.#cursor, qualifier, versionOf(qualifier.protocol), (what, token, why) =>
          this.#expectedId(what, qualifier, token, why),
        );
    }
  }

  #port(qualifier: Qualifier, type: "port" | "portrange"): FilterExpression {
    const token = this.#cursor.take();
    const text = token.kind === "word" ? token.text : "";
    const range = type === "portrange" ? /^(\w+)-(\w+)$/.exec(text) : null;
    const [, from = text, to = text] = range ?? [];
    const [a, b] = [portNumber(from), portNumber(to)];
    if (a === null || b === null) {
      const what = type === "port" ? "a port (0 to 65535)" : "a range of ports such as 8000-8080";
      throw this.#expectedId(what, qualifier, token);
    }
    const proto = qualifier.protocol
      ? (entryOf(PROTOCOL_TERMS, qualifier.protocol.key).proto as 6 | 17 | 132)
      : null;
    return { kind: "port", end: qualifier.end, proto, low: Math.min(a, b), high: Math.max(a, b) };
  }

  #expectedId(what: string, { last, carried }: Qualifier, token: Token, why?: string) {
    const where = carried ? ` ('${last.text}' is carried on)` : ` after '${last.text}'`;
    return this.#cursor.expected(what + where, token, why);
  }

  #refuseFollowed(version: 4 | 6 | null, proto: number, token: Token): void {
    if (version === 4 || !FOLLOWED_HEADERS.has(proto)) return;
    throw this.#cursor.error(
      `'${token.text}' cannot be answered for IPv6, where this header is passed over to the protocol behind it; ` +
        `for IPv4 write 'ip proto ${proto}'`,
      token,
    );
  }
}

function leaf(expression: FilterExpression): Term {
  return { expression, depth: 1 };
}

function versionOf(protocol: Token | null): 4 | 6 | null {
  return protocol?.key === "ip" ? 4 : protocol?.key === "ip6" ? 6 : null;
}

function comparison(
  number: "len" | "ttl" | "dscp",
  sign: "=" | "<=" | ">=",
  value: number,
): FilterExpression {
  return { kind: "compare", number, version: null, shift: 0, mask: 0xffff_ffff, comparison: sign, value };
}

/** Returns the number of tags that an expression requires at once. */
function vlanTerms(expression: FilterExpression): number {
  if (expression.kind === "vlan") return 1;
  if (expression.kind !== "and") return 0;
  return expression.terms.reduce((sum, term) => sum + vlanTerms(term), 0);
}
