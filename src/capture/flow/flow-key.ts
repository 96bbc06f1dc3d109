/**
 * Defines how packets are grouped into flows. A key is a mask over the decoded fields: `5tuple` (default), `hosts`, `src`, `dst`, `src/24`, `dst/16`,
 * `prefix/24`, `ports`, `sport`, `dport`, `proto`, `dscp`, `vlan`, or several of them joined with commas. A prefix length N is for IPv4; IPv6 uses 2N (32 ->
 * 128), or the number after a second slash: `src/24/56`.
 */
import { UsageError } from "../../base/errors.ts";
import { batchConstants } from "../../base/kernel-layout.ts";
import type { Kernels } from "../../base/kernels.ts";
import { formatIpv4, formatIpv6 } from "../address.ts";
import { META_HIGH } from "../batch.ts";

const PORT_D = 0xffffn;
const PORT_S = 0xffff_0000n;
const PROTO = batchConstants.META_PROTO;
const DSCP = batchConstants.META_DSCP;
const VLAN = batchConstants.META_VLAN_ID | batchConstants.META_VLAN;
const IPV6 = batchConstants.META_IPV6;
const PORTS_VALID = batchConstants.META_PORTS;
const ALL64 = 0xffff_ffff_ffff_ffffn;

export interface FlowKey {
  src: string | null;
  dst: string | null;
  proto: number | null;
  sport: number | null;
  dport: number | null;
  dscp?: number;
  vlan?: number;
}

/** A key as the kernels hold it: meta, addrA..addrD as pairs [low, high] of uint32, ten words in all. */
export type KeyWords = ArrayLike<number>;

/** The masks of a key. IPv4: meta and addresses; IPv6: meta, then source and destination in two halves each. */
export type MaskWords = [
  meta4: bigint,
  addresses4: bigint,
  meta6: bigint,
  src: bigint,
  srcLow: bigint,
  dst: bigint,
  dstLow: bigint,
];

const NAMES = "5tuple, hosts, src, dst, src/N, dst/N, prefix/N, ports, sport, dport, proto, dscp, vlan";

export class FlowKeySpec {
  /** The key's text as the user wrote it. */
  readonly text: string;
  readonly #meta: bigint;
  readonly #src: [number, number] | null;
  readonly #dst: [number, number] | null;

  private constructor(
    text: string,
    meta: bigint,
    src: [number, number] | null,
    dst: [number, number] | null,
  ) {
    this.text = text;
    this.#meta = meta;
    this.#src = src;
    this.#dst = dst;
  }

  /** Parses a key. `parameter`: the name of the key's parameter, for messages. */
  static parse(text = "5tuple", parameter = "key"): FlowKeySpec {
    let meta = 0n;
    let src: [number, number] | null = null;
    let dst: [number, number] | null = null;
    for (const part of text.split(",").map((p) => p.trim())) {
      const [name, v4, v6, more] = part.split("/");
      if (more !== undefined) throw badKey(part, parameter);
      if (name === "src" || name === "dst" || name === "prefix" || name === "hosts") {
        const lengths =
          v4 === undefined && name !== "prefix"
            ? ([32, 128] as [number, number])
            : prefixLengths(part, v4, v6, parameter);
        if (name !== "dst") src = lengths;
        if (name !== "src") dst = lengths;
        continue;
      }
      if (v4 !== undefined) throw badKey(part, parameter);
      if (name === "5tuple") {
        meta |= PORT_D | PORT_S | PROTO | PORTS_VALID;
        src = [32, 128];
        dst = [32, 128];
      } else if (name === "ports") meta |= PORT_D | PORT_S | PORTS_VALID;
      else if (name === "sport") meta |= PORT_S | PORTS_VALID;
      else if (name === "dport") meta |= PORT_D | PORTS_VALID;
      else if (name === "proto") meta |= PROTO;
      else if (name === "dscp") meta |= DSCP;
      else if (name === "vlan") meta |= VLAN;
      else throw badKey(part, parameter);
    }
    if (src || dst) meta |= IPV6;
    return new FlowKeySpec(text, meta, src, dst);
  }

  /** Writes the mask to kernel memory for keyFlows; returns its address. */
  store(kernels: Kernels): number {
    const address = kernels.alloc(7 * 8);
    for (const [i, word] of this.maskWords().entries()) kernels.writeU64(address + 8 * i, word);
    return address;
  }

  /** Returns the mask words that keyFlows of kernels/decode/digest.ts reads. */
  maskWords(): MaskWords {
    const [s4, s6] = this.#src ?? [0, 0];
    const [d4, d6] = this.#dst ?? [0, 0];
    const high = (bits: number) => (bits === 0 ? 0n : (ALL64 << BigInt(64 - bits)) & ALL64);
    const mask32 = (bits: number) => (bits === 0 ? 0n : (0xffff_ffffn << BigInt(32 - bits)) & 0xffff_ffffn);
    const halves = (bits: number): [bigint, bigint] => [
      high(Math.min(bits, 64)),
      high(Math.max(0, bits - 64)),
    ];
    return [this.#meta, (mask32(s4) << 32n) | mask32(d4), this.#meta, ...halves(s6), ...halves(d6)];
  }

  /** Returns the words of a five-tuple with the fields that the key leaves out set to zero. */
  mask(words: KeyWords): Uint32Array {
    const [meta, addresses4, , ...addresses6] = this.maskWords();
    const v6 = ((words[1] ?? 0) & META_HIGH.ipv6) !== 0;
    const masks = [meta, ...(v6 ? addresses6 : [addresses4, 0n, 0n, 0n])];
    return Uint32Array.from(
      masks.flatMap((mask, i) => [
        ((words[2 * i] ?? 0) & Number(mask & 0xffff_ffffn)) >>> 0,
        ((words[2 * i + 1] ?? 0) & Number(mask >> 32n)) >>> 0,
      ]),
    );
  }

  /** Whether flows of this key have a Community ID. */
  get isFiveTuple(): boolean {
    const five = PORT_D | PORT_S | PROTO | PORTS_VALID;
    const whole = (lengths: [number, number] | null) =>
      lengths !== null && lengths[0] === 32 && lengths[1] === 128;
    return (this.#meta & five) === five && whole(this.#src) && whole(this.#dst);
  }

  /** Whether the key is the five-tuple and nothing else. */
  get isJustFiveTuple(): boolean {
    return this.isFiveTuple && (this.#meta & (DSCP | VLAN)) === 0n;
  }

  /** Returns whether one of the key's addresses never leaves its link (link-local, local multicast, unspecified). `words` as the kernels hold it, at `at`. */
  isLinkScoped(words: KeyWords, at = 0): boolean {
    const w = (i: number) => words[at + i] ?? 0;
    const v6 = (w(1) & META_HIGH.ipv6) !== 0;
    const scoped = (first: boolean): boolean => {
      if (!v6) {
        const word = first ? w(3) : w(2);
        return word >>> 16 === 0xa9fe || word >>> 8 === 0xe00000 || word === 0xffffffff || word === 0;
      }
      const [a, b, c, d] = first ? [w(3), w(2), w(5), w(4)] : [w(7), w(6), w(9), w(8)];
      return (
        a >>> 22 === 0xfe80 >>> 6 ||
        (a >>> 24 === 0xff && ((a >>> 16) & 15) <= 2) ||
        (a === 0 && b === 0 && c === 0 && d === 0)
      );
    };
    return (this.#src !== null && scoped(true)) || (this.#dst !== null && scoped(false));
  }

  /** Returns the key of a flow in readable form. `words` as the kernels hold it, at `at`. */
  describe(words: KeyWords, at = 0): FlowKey {
    const w = (i: number) => words[at + i] ?? 0;
    const [metaLow, metaHigh] = [w(0), w(1)];
    const v6 = (metaHigh & META_HIGH.ipv6) !== 0;
    const ports = (metaHigh & META_HIGH.ports) !== 0;
    const address = (bits: [number, number] | null, first: boolean): string | null => {
      if (!bits) return null;
      const text = v6
        ? formatIpv6(first ? [w(3), w(2), w(5), w(4)] : [w(7), w(6), w(9), w(8)])
        : formatIpv4(first ? w(3) : w(2));
      const length = v6 ? bits[1] : bits[0];
      return length === (v6 ? 128 : 32) ? text : `${text}/${length}`;
    };
    const key: FlowKey = {
      src: address(this.#src, true),
      dst: address(this.#dst, false),
      proto: (this.#meta & PROTO) !== 0n ? metaHigh & 0xff : null,
      sport: (this.#meta & PORT_S) !== 0n && ports ? metaLow >>> 16 : null,
      dport: (this.#meta & PORT_D) !== 0n && ports ? metaLow & 0xffff : null,
    };
    if ((this.#meta & DSCP) !== 0n) key.dscp = (metaHigh >>> 8) & 0x3f;
    if ((this.#meta & VLAN) !== 0n && (metaHigh & META_HIGH.vlan) !== 0) key.vlan = (metaHigh >>> 14) & 0xfff;
    return key;
  }
}

function badKey(part: string, parameter: string): UsageError {
  return new UsageError(
    "bad-key",
    `'${part}' is not a key field`,
    `use ${NAMES}, joined with commas; N is a length for IPv4, up to 32, and twice that for IPv6, or src/N/M`,
    { parameter, value: part },
  );
}

function prefixLengths(
  part: string,
  v4: string | undefined,
  v6: string | undefined,
  parameter: string,
): [number, number] {
  const length = (text: string | undefined, maximum: number): number => {
    if (text === undefined || !/^\d{1,3}$/.test(text) || Number(text) > maximum)
      throw badKey(part, parameter);
    return Number(text);
  };
  const n4 = length(v4, 32);
  return [n4, v6 === undefined ? (n4 === 32 ? 128 : 2 * n4) : length(v6, 128)];
}
