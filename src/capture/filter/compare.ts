/**
 * Parses the comparisons of a filter: `len > 100`, `tcp[tcpflags] & (tcp-syn|tcp-ack) = tcp-syn`, `ip[1] & 0xfc = 0xb8`. One side is a number of the packet,
 * optionally masked and shifted; the other is a constant. Anything that the columns do not hold is an error: the ECN bits, DF, arbitrary header bytes.
 */
import type { Comparison, FilterExpression, FilterNumber } from "./expression.ts";
import { HEADER_NUMBERS, plainNumber, TCP_FLAGS, type Token, type TokenCursor } from "./text.ts";

/** A constant, or ((number >> shift) & mask). `offset` is IPv4's flags and fragment offset, of which the columns hold only little. */
type Value =
  | { constant: number }
  | { number: FilterNumber | "offset"; version: 4 | 6 | null; shift: number; mask: number; token: Token };

const COMPARISONS = new Set(["=", "!=", "<", "<=", ">", ">="]);
const MIRRORED: Record<Comparison, Comparison> = {
  "=": "=",
  "!=": "!=",
  "<": ">",
  "<=": ">=",
  ">": "<",
  ">=": "<=",
};
/** Precedence of the operators, as in pcap-filter. */
const OPERATORS = new Map([
  ["&", 1],
  ["|", 1],
  ["<<", 2],
  [">>", 2],
  ["+", 3],
]);
const WHOLE = 0xffff_ffff;
const NUMBERS: readonly string[] = ["len", "ttl", "dscp"];

/** Returns whether a comparison starts at the cursor. */
export function comparisonAhead(cursor: TokenCursor): boolean {
  const next = cursor.peek();
  if (next.key === "(") return isOperator(cursor.behindParenthesis());
  if (next.kind !== "word") return false;
  return next.key === "len" || cursor.peek(1).key === "[" || isOperator(cursor.peek(1));
}

function isOperator(token: Token | null): boolean {
  return token !== null && token.kind === "sign" && (COMPARISONS.has(token.key) || OPERATORS.has(token.key));
}

export function parseComparison(cursor: TokenCursor): FilterExpression {
  const first = cursor.peek();
  const left = parseValue(cursor, 1);
  const sign = cursor.take();
  if (!COMPARISONS.has(sign.key)) throw cursor.expected("a comparison (=, !=, <, <=, >, >=)", sign);
  const right = parseValue(cursor, 1);
  const comparison = sign.key as Comparison;
  if ("constant" in right && !("constant" in left)) return compare(cursor, left, comparison, right.constant);
  if ("constant" in left && !("constant" in right)) {
    return compare(cursor, right, MIRRORED[comparison], left.constant);
  }
  const what = "constant" in left ? "two constants" : "two numbers of the packet";
  throw cursor.error(`${what} cannot be compared; one side is a number of the packet, one a constant`, first);
}

function compare(
  cursor: TokenCursor,
  { number, version, shift, mask, token }: Exclude<Value, { constant: number }>,
  comparison: Comparison,
  value: number,
): FilterExpression {
  if (number === "offset") {
    const later = mask === 0x1fff;
    const zero = value === 0 && shift === 0 && (later || mask === 0x3fff);
    if (zero && (comparison === "!=" || comparison === ">")) return { kind: "fragment", version: 4, later };
    if (zero && comparison === "=") {
      const term: FilterExpression = { kind: "fragment", version: 4, later };
      return {
        kind: "and",
        terms: [
          { kind: "version", version: 4 },
          { kind: "not", term },
        ],
      };
    }
    throw cursor.error(
      "of 'ip[6:2]' it is only known whether '& 0x1fff' (later fragments) or '& 0x3fff' (all fragments) is 0",
      token,
    );
  }
  if (number === "tos" && ((mask << shift) & 3) !== 0) {
    throw cursor.error("the ECN bits are not kept; write 'ip[1] & 0xfc' or 'dscp'", token);
  }
  return { kind: "compare", number, version, shift, mask, comparison, value };
}

/** Parses operators of at least precedence `minimum`, left-associative. */
function parseValue(cursor: TokenCursor, minimum: number): Value {
  let left = parseOperand(cursor);
  for (;;) {
    const sign = cursor.peek();
    const tightness = sign.kind === "sign" ? OPERATORS.get(sign.key) : undefined;
    if (tightness === undefined || tightness < minimum) return left;
    cursor.take();
    left = combine(cursor, sign, left, parseValue(cursor, tightness + 1));
  }
}

function combine(cursor: TokenCursor, sign: Token, left: Value, right: Value): Value {
  if ("constant" in left && "constant" in right) {
    const result = calculate(sign.key, left.constant, right.constant);
    if (result > WHOLE) throw cursor.error("the constant does not fit into 32 bits", sign);
    return { constant: result };
  }
  if (!("constant" in left) && "constant" in right) {
    if (sign.key === "&") return { ...left, mask: (left.mask & right.constant) >>> 0 };
    if (sign.key === ">>" && left.shift + right.constant < 32) {
      const mask = left.mask >>> right.constant;
      return { ...left, shift: left.shift + right.constant, mask };
    }
  }
  if ("constant" in left && !("constant" in right) && sign.key === "&")
    return combine(cursor, sign, right, left);
  throw cursor.error(
    `'${sign.text}' is not understood here; a number of the packet can only be masked (& constant) and shifted (>> constant)`,
    sign,
  );
}

function calculate(sign: string, a: number, b: number): number {
  if (sign === "&") return (a & b) >>> 0;
  if (sign === "|") return (a | b) >>> 0;
  if (sign === "+") return a + b;
  return sign === "<<" ? a * 2 ** b : Math.floor(a / 2 ** b);
}

function parseOperand(cursor: TokenCursor): Value {
  if (cursor.peek().key === "(") return cursor.inParenthesis("')'", () => parseValue(cursor, 1));
  const token = cursor.take();
  if (token.kind === "word") {
    if (cursor.peek().key === "[") return parseHeaderNumber(cursor, token);
    const constant = plainNumber(token.text) ?? TCP_FLAGS.get(token.key);
    if (constant !== undefined) return { constant };
    if (NUMBERS.includes(token.key)) {
      return { number: token.key as FilterNumber, version: null, shift: 0, mask: WHOLE, token };
    }
  }
  throw cursor.expected("a number, 'len', 'ttl', 'dscp' or 'tcp[tcpflags]'", token);
}

function parseHeaderNumber(cursor: TokenCursor, token: Token): Value {
  cursor.take();
  let inside = "";
  while (cursor.peek().kind === "word") inside += cursor.take().key;
  if (!cursor.takeIf("]")) throw cursor.expected("a place in the header and ']'", cursor.peek());
  // `[n:1]` is the same as `[n]`.
  const place = `${token.key}[${inside.replace(/:1$/, "")}]`;
  const found = HEADER_NUMBERS.get(place);
  if (found) return { ...found, shift: 0, mask: WHOLE, token };
  if (place === "ip[6:2]") return { number: "offset", version: 4, shift: 0, mask: WHOLE, token };
  throw cursor.error(
    `'${place}' is not kept; of packet headers only ${[...HEADER_NUMBERS.keys()].join(", ")} and ip[6:2] can be asked`,
    token,
  );
}
