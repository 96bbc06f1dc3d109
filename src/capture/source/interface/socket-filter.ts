/**
 * The socket filter of a ring (classic BPF), which the kernel runs on each packet before copying it. It sets the snap length (shorter for the commonest
 * packets, so that less is copied), and applies the direction and as much of a filter expression as it can evaluate. It drops only packets that certainly do
 * not match. A packet that it cannot judge (tags in the frame, IPv6 extension headers, IPv4 options, questions about columns) passes, and the exact filter
 * (src/capture/filter/) decides. So both always agree, and the kernel's filter only saves work.
 *
 * Offsets count from the network header (SKF_NET_OFF), so the same program serves every kind of link. Only the test for plain packets reads the frame itself,
 * as the decoder does (kernels/decode/row-plain.ts).
 */
import type { FilterEnd, FilterExpression } from "../../filter/expression.ts";
import { PORT_PROTOCOLS } from "../../filter/expression.ts";

/** Bytes captured of a packet. A plain packet (Ethernet without a tag, IPv4 without options) needs only `plainBytes`. */
export interface Snap {
  bytes: number;
  plainBytes: number;
}

export interface SocketFilter {
  /** Instructions, struct sock_filter each: code u16, two jumps u8, value u32. */
  program: Uint8Array;
  /** Whether the kernel drops packets that do not match; otherwise all of them pass. */
  selective: boolean;
}

const LD_WORD = 0x20;
const LD_HALF = 0x28;
const LD_BYTE = 0x30;
const LD_LENGTH = 0x80;
const AND = 0x54;
const JUMP = 0x05;
const JEQ = 0x15;
const JGT = 0x25;
const JGE = 0x35;
const JSET = 0x45;
const RETURN = 0x06;
const NETWORK = 0xfff0_0000;
const ANCILLARY = 0xffff_f000;
const PROTOCOL = ANCILLARY + 0;
const PACKET_TYPE = ANCILLARY + 4;
const OUTGOING = 4;
const IPV4 = 0x0800;
/** Offsets in an Ethernet frame, and the first byte of an IPv4 header without options. */
const LINK_TYPE = 12;
const FIRST_OF_IP = 14;
const WITHOUT_OPTIONS = 0x45;
const IPV6 = 0x86dd;
/** IPv6 extension headers: this filter does not look behind them. */
const EXTENSIONS = [0, 43, 44, 51, 60, 135, 139, 140];
/** Shorter packets are not judged, because a load may miss: an Ethernet header, the IP header and ports. */
const MIN_V4 = 38;
const MIN_V6 = 58;
const MAX_INSTRUCTIONS = 240;

/** `wanted` null: every packet. */
export function socketFilter(
  wanted: FilterExpression | null,
  direction: "in" | "out" | "both",
  snap: Snap,
): SocketFilter {
  const selective = wanted !== null && constantOf(wanted, true) !== true;
  const full = assemble(selective ? wanted : null, direction, snap);
  // Jumps reach 255 instructions: a longer expression is left to the exact filter.
  if (full.length / 8 <= MAX_INSTRUCTIONS) return { program: full, selective };
  return { program: assemble(null, direction, snap), selective: false };
}

/**
 * Returns the value of an expression if it is the same for every packet, with `unknown` for terms that cannot be evaluated here; null if it depends on the
 * packet.
 */
function constantOf(expression: FilterExpression, unknown: boolean): boolean | null {
  switch (expression.kind) {
    case "all":
      return true;
    case "not": {
      const term = constantOf(expression.term, !unknown);
      return term === null ? null : !term;
    }
    case "and":
    case "or": {
      const ends = expression.kind === "or";
      const terms = expression.terms.map((term) => constantOf(term, unknown));
      if (terms.includes(ends)) return ends;
      return terms.includes(null) ? null : !ends;
    }
    case "vlan":
    case "compare":
      return unknown;
    default:
      return null;
  }
}

interface Instruction {
  code: number;
  k: number;
  yes?: Label;
  no?: Label;
}
class Label {
  at = -1;
}

function assemble(wanted: FilterExpression | null, direction: string, snap: Snap): Uint8Array {
  const code = new Assembly();
  if (direction !== "both") {
    const go = new Label();
    code.load(LD_WORD, PACKET_TYPE);
    const [yes, no] = direction === "out" ? [go, code.drop] : [code.drop, go];
    code.jump(JEQ, OUTGOING, yes, no);
    code.place(go);
  }
  if (wanted) {
    code.refuseToJudge();
    code.emit(wanted, code.accept, code.drop, true);
  }
  return code.finish(snap);
}

class Assembly {
  readonly accept = new Label();
  readonly drop = new Label();
  readonly #instructions: Instruction[] = [];

  load(code: number, k: number): void {
    this.#instructions.push({ code, k });
  }
  /** Loads a byte, half-word or word relative to the network header. */
  network(code: number, offset: number): void {
    this.load(code, NETWORK + offset);
  }
  jump(code: number, k: number, yes: Label, no: Label): void {
    this.#instructions.push({ code, k, yes, no });
  }
  go(to: Label): void {
    this.#instructions.push({ code: JUMP, k: 0, yes: to });
  }
  place(label: Label): void {
    label.at = this.#instructions.length;
  }

  /** Accepts packets that do not look like IPv4 or IPv6, or are very short. */
  refuseToJudge(): void {
    const [v4, notV4, v6, judge] = [new Label(), new Label(), new Label(), new Label()];
    this.load(LD_WORD, PROTOCOL);
    this.jump(JEQ, IPV4, v4, notV4);
    this.place(notV4);
    this.jump(JEQ, IPV6, v6, this.accept);
    this.place(v4);
    this.load(LD_LENGTH, 0);
    this.jump(JGE, MIN_V4, judge, this.accept);
    this.place(v6);
    this.load(LD_LENGTH, 0);
    this.jump(JGE, MIN_V6, judge, this.accept);
    this.place(judge);
  }

  /** `unknown`: value of a question that cannot be answered here, chosen so that the packet passes in the end. */
  emit(expression: FilterExpression, yes: Label, no: Label, unknown: boolean): void {
    const open = unknown ? yes : no;
    switch (expression.kind) {
      case "all":
        this.go(yes);
        return;
      case "not":
        this.emit(expression.term, no, yes, !unknown);
        return;
      case "and":
      case "or":
        this.#join(expression, yes, no, unknown);
        return;
      case "version":
        this.#ofVersion(expression.version, yes, no);
        return;
      case "net":
        this.#net(expression, yes, no);
        return;
      case "proto":
        this.#perVersion(
          expression.version,
          () => this.#protoV4([expression.proto], yes, no),
          () => this.#protoV6([expression.proto], yes, no, open),
          no,
        );
        return;
      case "port":
        this.#perVersion(
          null,
          () => this.#portV4(expression, yes, no, open),
          () => this.#portV6(expression, yes, no, open),
          no,
        );
        return;
      case "fragment":
        this.#perVersion(
          expression.version,
          () => {
            this.network(LD_HALF, 6);
            this.jump(JSET, expression.later ? 0x1fff : 0x3fff, yes, no);
          },
          () => this.#protoV6([], yes, no, open),
          no,
        );
        return;
      case "direction":
        this.load(LD_WORD, PACKET_TYPE);
        if (expression.way === "outbound") this.jump(JEQ, OUTGOING, yes, no);
        else this.jump(JEQ, OUTGOING, no, yes);
        return;
      default:
        this.go(open);
    }
  }

  finish({ bytes, plainBytes }: Snap): Uint8Array {
    this.place(this.accept);
    if (plainBytes < bytes) this.#shorten(plainBytes);
    this.load(RETURN, bytes);
    this.place(this.drop);
    this.load(RETURN, 0);
    const out = Buffer.alloc(8 * this.#instructions.length);
    this.#instructions.forEach(({ code, k, yes, no }, i) => {
      out.writeUInt16LE(code, 8 * i);
      if (yes && !no) {
        out.writeUInt32LE(yes.at - i - 1, 8 * i + 4);
        return;
      }
      if (yes && no) {
        // Programs with longer jumps are not used.
        out.writeUInt8(Math.min(255, yes.at - i - 1), 8 * i + 2);
        out.writeUInt8(Math.min(255, no.at - i - 1), 8 * i + 3);
      }
      out.writeUInt32LE(k >>> 0, 8 * i + 4);
    });
    return out;
  }

  /** Returns the shorter length for a plain packet. Packets up to that length are captured whole anyway, and loads from them may miss. */
  #shorten(plainBytes: number): void {
    const [long, ipv4, plain, full] = [new Label(), new Label(), new Label(), new Label()];
    this.load(LD_LENGTH, 0);
    this.jump(JGT, plainBytes, long, full);
    this.place(long);
    this.load(LD_HALF, LINK_TYPE);
    this.jump(JEQ, IPV4, ipv4, full);
    this.place(ipv4);
    this.load(LD_BYTE, FIRST_OF_IP);
    this.jump(JEQ, WITHOUT_OPTIONS, plain, full);
    this.place(plain);
    this.load(RETURN, plainBytes);
    this.place(full);
  }

  #join(
    { kind, terms }: { kind: "and" | "or"; terms: readonly FilterExpression[] },
    yes: Label,
    no: Label,
    unknown: boolean,
  ): void {
    for (const [i, term] of terms.entries()) {
      if (i === terms.length - 1) {
        this.emit(term, yes, no, unknown);
        return;
      }
      const next = new Label();
      this.emit(term, kind === "and" ? next : yes, kind === "and" ? no : next, unknown);
      this.place(next);
    }
    this.go(kind === "and" ? yes : no);
  }

  #ofVersion(version: 4 | 6, yes: Label, no: Label): void {
    this.load(LD_WORD, PROTOCOL);
    this.jump(JEQ, version === 4 ? IPV4 : IPV6, yes, no);
  }

  #perVersion(version: 4 | 6 | null, v4: () => void, v6: () => void, no: Label): void {
    const [is4, is6] = [new Label(), new Label()];
    this.#ofVersion(4, version === 6 ? no : is4, version === 4 ? no : is6);
    if (version !== 6) {
      this.place(is4);
      v4();
    }
    if (version !== 4) {
      this.place(is6);
      v6();
    }
  }

  #atEnds(end: FilterEnd, yes: Label, no: Label, at: (which: "src" | "dst", yes: Label, no: Label) => void) {
    if (end === "src" || end === "dst") {
      at(end, yes, no);
      return;
    }
    const other = new Label();
    at("src", end === "both" ? other : yes, end === "both" ? no : other);
    this.place(other);
    at("dst", yes, no);
  }

  #net(
    { end, version, words, mask }: Extract<FilterExpression, { kind: "net" }>,
    yes: Label,
    no: Label,
  ): void {
    const is = new Label();
    this.#ofVersion(version, is, no);
    this.place(is);
    this.#atEnds(end, yes, no, (which, fits, fails) => {
      const start = version === 4 ? (which === "src" ? 12 : 16) : which === "src" ? 8 : 24;
      words.forEach((word, i) => {
        const bits = mask[i] ?? 0;
        if (bits === 0) return;
        const next = new Label();
        this.network(LD_WORD, start + 4 * i);
        this.load(AND, bits);
        this.jump(JEQ, (word & bits) >>> 0, next, fails);
        this.place(next);
      });
      this.go(fits);
    });
  }

  #isOneOf(values: readonly number[], yes: Label, no: Label): void {
    for (const value of values) {
      const next = new Label();
      this.jump(JEQ, value, yes, next);
      this.place(next);
    }
    this.go(no);
  }

  #protoV4(protos: readonly number[], yes: Label, no: Label): void {
    this.network(LD_BYTE, 9);
    this.#isOneOf(protos, yes, no);
  }

  /** Behind an extension header the protocol is not known. */
  #protoV6(protos: readonly number[], yes: Label, no: Label, open: Label): void {
    const other = new Label();
    this.network(LD_BYTE, 6);
    this.#isOneOf(
      protos.filter((p) => !EXTENSIONS.includes(p)),
      yes,
      other,
    );
    this.place(other);
    this.#isOneOf(EXTENSIONS, open, no);
  }

  #portV4(
    { end, proto, low, high }: Extract<FilterExpression, { kind: "port" }>,
    yes: Label,
    no: Label,
    open: Label,
  ): void {
    const [plain, whole, has] = [new Label(), new Label(), new Label()];
    this.network(LD_BYTE, 0);
    this.jump(JEQ, 0x45, plain, open);
    this.place(plain);
    this.network(LD_HALF, 6);
    this.jump(JSET, 0x1fff, open, whole);
    this.place(whole);
    this.#protoV4(proto === null ? PORT_PROTOCOLS : [proto], has, no);
    this.place(has);
    this.#ports(20, { end, low, high }, yes, no);
  }

  #portV6(
    { end, proto, low, high }: Extract<FilterExpression, { kind: "port" }>,
    yes: Label,
    no: Label,
    open: Label,
  ): void {
    const has = new Label();
    this.#protoV6(proto === null ? PORT_PROTOCOLS : [proto], has, no, open);
    this.place(has);
    this.#ports(40, { end, low, high }, yes, no);
  }

  #ports(at: number, range: { end: FilterEnd; low: number; high: number }, yes: Label, no: Label): void {
    this.#atEnds(range.end, yes, no, (which, fits, fails) => {
      const atLeast = new Label();
      this.network(LD_HALF, at + (which === "src" ? 0 : 2));
      this.jump(JGE, range.low, atLeast, fails);
      this.place(atLeast);
      this.jump(JGT, range.high, fails, fits);
    });
  }
}
